//! Settings in the environment: `SVMIO_FABRIC`, and `SVMIO_<SECTION>_<KEY>`.

use toml::Value;

use super::{Assignment, CONFIG, Origin, fields};
use crate::error::Result;

/// What each variable begins with.
const PREFIX: &str = "SVMIO_";

/// What the variables assign. Those of other prefixes, and of svmio's other parts, are not looked at; an empty one assigns
/// nothing.
pub(super) fn read(variables: impl IntoIterator<Item = (String, String)>) -> Result<Vec<Assignment>> {
    let mut assignments = Vec::new();
    for (variable, value) in variables.into_iter().filter(|(_, value)| !value.is_empty()) {
        let Some(name) = variable.strip_prefix(PREFIX).map(str::to_ascii_lowercase) else { continue };
        let Some((section, key)) = split(&name) else { continue };
        let origin = Origin::Environment { variable: variable.clone() };
        assignments.push(Assignment::new(section, key, Value::String(value), origin)?);
    }
    // The order of the environment is nobody's intention; errors are to be the same each time.
    assignments.sort_by_key(|assignment| (assignment.section, assignment.key));
    Ok(assignments)
}

/// Section and key, where the name begins with a section or is a key of none.
fn split(name: &str) -> Option<(&str, &str)> {
    for &(section, keys) in fields::all() {
        if section.is_empty() {
            if keys.contains(&name) {
                return Some(("", name));
            }
        } else if let Some(key) = name.strip_prefix(section).and_then(|rest| rest.strip_prefix('_')) {
            return Some((section, key));
        }
    }
    None
}

/// The names of the variables that this crate reads, but for those with which a launcher tells a process its place in
/// a job: [`job::VARIABLES`](crate::job::VARIABLES).
pub fn variables() -> impl Iterator<Item = String> {
    let name = |section: &str, key: &str| match section {
        "" => format!("{PREFIX}{}", key.to_ascii_uppercase()),
        section => format!("{PREFIX}{}_{}", section.to_ascii_uppercase(), key.to_ascii_uppercase()),
    };
    let keys = move |&(section, keys): &(&'static str, fields::Names)| {
        keys.iter().map(move |key| name(section, key))
    };
    std::iter::once(CONFIG.to_owned()).chain(fields::all().iter().flat_map(keys))
}

/// Whether [`Settings::load`](super::Settings::load) takes the variable for a setting, and refuses it where there is none
/// of that name.
#[must_use]
pub fn is_setting(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).map(str::to_ascii_lowercase);
    rest.is_some_and(|rest| split(&rest).is_some())
}

/// Whether it is one of [`variables`]. Sections and keys may be in lower case, too.
#[must_use]
pub fn has_variable(name: &str) -> bool {
    let is_key = |(section, key): (&str, &str)| {
        fields::all().iter().any(|(known, keys)| *known == section && keys.contains(&key))
    };
    let rest = name.strip_prefix(PREFIX).map(str::to_ascii_lowercase);
    name == CONFIG || rest.is_some_and(|rest| split(&rest).is_some_and(is_key))
}
