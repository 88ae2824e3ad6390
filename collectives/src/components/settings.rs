//! What users set: a text, or variables of the environment.
//!
//! | item | meaning |
//! |---|---|
//! | `barrier=hardware` | that component for that function, whatever priorities say |
//! | `schedule.algorithm=tree:4` | a parameter of a component |
//! | `hardware.priority=90` | from 0 to 100, instead of what the component says |
//! | `-shared` | not that component |
//!
//! Items stand apart by blanks or semicolons, the last one of a kind holds. In the environment, `SVMIO_COMPONENTS` has
//! such a text; `SVMIO_COMPONENTS_BARRIER=hardware` and `SVMIO_COMPONENTS_SCHEDULE_ALGORITHM=tree:4` set one item each,
//! and go before it.

use super::error::{Error, Result};
use super::function::Function;
use super::{Components, HIGHEST_PRIORITY, basic};

/// The variable with the text, and what others begin with.
pub const VARIABLE: &str = "SVMIO_COMPONENTS";

/// Whether a variable is about components. What follows may be one that a program has added; who configures by the
/// environment is told of what is not known.
#[must_use]
pub fn is_variable(name: &str) -> bool {
    name.strip_prefix(VARIABLE).is_some_and(is_rest)
}

/// Whether this may follow [`VARIABLE`].
fn is_rest(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('_')
}

/// The parameter that each component has.
const PRIORITY: &str = "priority";

impl Components {
    /// Sets what `text` says, item by item, as in `barrier=schedule schedule.algorithm=tree:4 -hardware`.
    ///
    /// # Errors
    /// [`Error::Setting`] that tells what is unknown, and what is known.
    pub fn configure(&mut self, text: &str) -> Result<()> {
        let items = text.split(|apart: char| apart.is_whitespace() || apart == ';');
        items.filter(|item| !item.is_empty()).try_for_each(|item| self.apply(item))
    }

    /// Sets what the environment says, and tells whether it says anything.
    ///
    /// # Errors
    /// [`Error::Setting`], as for [`configure`](Self::configure).
    pub fn configure_from_environment(&mut self) -> Result<bool> {
        let known = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        };
        self.configure_from(std::env::vars_os().filter_map(known))
    }

    /// Sets what these variables say, and tells whether they say anything. Those that are not about components are not
    /// looked at, nor are empty ones, which count as none.
    ///
    /// # Errors
    /// [`Error::Setting`], as for [`configure`](Self::configure).
    pub fn configure_from(&mut self, variables: impl IntoIterator<Item = (String, String)>) -> Result<bool> {
        let ours = |(name, value): (String, String)| {
            let rest = name.strip_prefix(VARIABLE)?;
            (is_rest(rest) && !value.is_empty()).then(|| (rest.to_owned(), value))
        };
        let mut variables: Vec<(String, String)> = variables.into_iter().filter_map(ours).collect();
        // The text first, which the others go before; and errors are to be the same each time.
        variables.sort();
        variables.iter().try_for_each(|(rest, value)| match rest.strip_prefix('_') {
            None => self.configure(value),
            Some(rest) => self.assign_variable(&rest.to_ascii_lowercase(), value),
        })?;
        Ok(!variables.is_empty())
    }

    fn assign_variable(&mut self, name: &str, value: &str) -> Result<()> {
        let variable = || format!("{VARIABLE}_{}={value}", name.to_ascii_uppercase());
        if let Some(function) = Function::named(name) {
            return self.request(function, value, &variable());
        }
        match name.split_once('_') {
            Some((component, parameter)) => self.assign(component, parameter, value, &variable()),
            None => Err(self.unknown(name, &variable())),
        }
    }

    fn apply(&mut self, item: &str) -> Result<()> {
        if let Some(name) = item.strip_prefix('-') {
            return self.exclude(name, item);
        }
        let Some((place, value)) = item.split_once('=') else {
            let problem = "it is none of FUNCTION=COMPONENT, COMPONENT.PARAMETER=VALUE and -COMPONENT";
            return Err(Error::Setting { item: item.into(), problem: problem.into() });
        };
        match place.split_once('.') {
            Some((component, parameter)) => self.assign(component, parameter, value, item),
            None => match Function::named(place) {
                Some(function) => self.request(function, value, item),
                None => Err(self.unknown(place, item)),
            },
        }
    }

    fn request(&mut self, function: Function, component: &str, item: &str) -> Result<()> {
        let number = self.position(component).ok_or_else(|| self.unknown_component(component, item))?;
        let functions = self.entries[number].component.functions();
        if !functions.contains(function) {
            let problem = format!("{component} does not offer {function} but {functions}");
            return Err(Error::Setting { item: item.into(), problem });
        }
        self.requested.insert(function, number);
        Ok(())
    }

    fn exclude(&mut self, name: &str, item: &str) -> Result<()> {
        let number = self.position(name).ok_or_else(|| self.unknown_component(name, item))?;
        if name == basic::NAME {
            let problem = "what no other component offers falls to the basic one, so it has to stay";
            return Err(Error::Setting { item: item.into(), problem: problem.into() });
        }
        self.entries[number].is_excluded = true;
        Ok(())
    }

    fn assign(&mut self, component: &str, parameter: &str, value: &str, item: &str) -> Result<()> {
        let number = self.position(component).ok_or_else(|| self.unknown_component(component, item))?;
        let entry = &mut self.entries[number];
        let wrong = |problem: String| Error::Setting { item: item.into(), problem };
        if parameter == PRIORITY {
            let priority = value.parse().ok().filter(|&priority| priority <= HIGHEST_PRIORITY);
            let problem = || wrong(format!("{value:?} is no priority, from 0 to {HIGHEST_PRIORITY}"));
            entry.priority = Some(priority.ok_or_else(problem)?);
            entry.assigned.insert(PRIORITY, value.into());
            return Ok(());
        }
        let parameters = entry.component.parameters();
        let Some(known) = parameters.iter().find(|known| known.name == parameter) else {
            let names: Vec<&str> =
                std::iter::once(PRIORITY).chain(parameters.iter().map(|known| known.name)).collect();
            let problem = format!("{component} has no parameter {parameter:?}; it has {}", names.join(", "));
            return Err(wrong(problem));
        };
        entry.component.set(parameter, value).map_err(wrong)?;
        if !known.is_local {
            entry.assigned.insert(known.name, value.into());
        }
        Ok(())
    }

    fn unknown(&self, name: &str, item: &str) -> Error {
        let functions: Vec<&str> = Function::ALL.iter().map(|function| function.name()).collect();
        let problem = format!(
            "{name:?} is neither a function nor a component; functions are {}, components {}",
            functions.join(", "),
            self.names().join(", ")
        );
        Error::Setting { item: item.into(), problem }
    }

    fn unknown_component(&self, name: &str, item: &str) -> Error {
        let problem = format!("no component is called {name:?}; there are {}", self.names().join(", "));
        Error::Setting { item: item.into(), problem }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Components, Error};
    use crate::components::Function;

    fn refused(text: &str) -> String {
        match Components::standard().configure(text) {
            Err(Error::Setting { item, problem }) => {
                assert!(text.contains(&item), "{item}");
                problem
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn what_is_unknown_is_told_with_what_is_known() {
        for (text, known) in [
            ("barrier=hardwear", &["hardwear", "hardware, shared, network, schedule, tuned, basic"][..]),
            ("-shred", &["shred", "shared"]),
            ("bariere=basic", &["bariere", "barrier", "reduce_scatter", "shared"]),
            ("schedule.algoritm=tree:4", &["algoritm", "priority, algorithm"]),
            ("schedule.algorithm=ring", &["ring", "dissemination"]),
            ("shared.slot=many", &["many", "bytes"]),
            ("shared.priority=101", &["101", "0 to 100"]),
            ("allreduce=schedule", &["allreduce", "schedule does not offer allreduce but barrier"]),
            ("network.bcast=bruck", &["bruck", "auto, binomial, pipelined, scatter-allgather"]),
            ("network.segment=0", &["\"0\"", "from 1 on"]),
            ("hardware.limit=soon", &["soon", "milliseconds"]),
            ("tuned.every=0", &["from 1 on"]),
            ("tuned.share=half", &["half", "number"]),
            ("hardware.device=lpt1", &["lpt1", "emulated:DIRECTORY", "ppdev:", "port:"]),
            ("-basic", &["has to stay"]),
            ("barrier", &["FUNCTION=COMPONENT"]),
        ] {
            let problem = refused(text);
            for word in known {
                assert!(problem.contains(word), "{text}: {problem}");
            }
        }
    }

    #[test]
    fn variables_go_before_the_text() {
        let mut components = Components::standard();
        let variables = [
            ("SVMIO_COMPONENTS_BARRIER", "basic"),
            ("SVMIO_COMPONENTS", "barrier=shared;reduce_scatter=shared\n -schedule shared.slot=128"),
            ("SVMIO_COMPONENTS_REDUCE_SCATTER", "basic"),
            ("SVMIO_COMPONENTS_SHARED_REDUCED_ALONE", "0"),
            ("SVMIO_COMPONENTS_BCAST", ""),
            ("SVMIO_COMPONENTSX", "nonsense"),
            ("SVMIO_FABRIC", "shm"),
        ];
        components.configure_from(variables.map(|(name, value)| (name.into(), value.into()))).unwrap();
        let basic = components.position("basic");
        assert_eq!(components.requested.get(&Function::Barrier).copied(), basic);
        assert_eq!(components.requested.get(&Function::ReduceScatter).copied(), basic);
        let shared = &components.entries[components.position("shared").unwrap()];
        let assigned: Vec<_> = shared.assigned.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(assigned, [("reduced_alone", "0"), ("slot", "128")]);
        assert!(components.entries[components.position("schedule").unwrap()].is_excluded);
    }

    #[test]
    fn empty_variables_say_nothing() {
        for name in ["SVMIO_COMPONENTS", "SVMIO_COMPONENTS_BARRIER", "SVMIO_COMPONENTS_SHARED_SLOT"] {
            let says = Components::standard().configure_from([(name.into(), String::new())]);
            assert!(matches!(says, Ok(false)), "{name}: {says:?}");
        }
    }

    #[test]
    fn a_wrong_variable_is_named() {
        for (name, part) in [
            ("SVMIO_COMPONENTS_HARDWEAR_PRIORITY", "no component is called \"hardwear\""),
            ("SVMIO_COMPONENTS_SHARED_SLOTT", "no parameter \"slott\""),
            ("SVMIO_COMPONENTS_SPEED", "neither a function nor a component"),
        ] {
            let error = Components::standard().configure_from([(name.into(), "3".into())]).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(name) && text.contains(part), "{text}");
        }
    }
}
