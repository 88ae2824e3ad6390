//! What users have set for svmio in their environment: it is measured so, and what was measured is told apart by it.

use std::fmt;

/// Begins the names of svmio's variables.
const OWN: &str = "SVMIO_";

/// Of these, what begins the names of those by which benchmarks and tests are told something, and svmio nothing; and of
/// those that each job has of its own.
const OF_BENCHMARKS: [&str; 10] = [
    "FULL",
    "FIGURES",
    "INSTALLATION",
    "MPICH5",
    "OPENMPI5",
    "MODEL_",
    "TEST",
    "XTASK_",
    "STORE",
    "WATCHDOG_TIMEOUT",
];

/// The variables that set something of svmio, with their values, in the order of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Settings(Vec<(String, String)>);

impl Settings {
    /// Those of this process's environment.
    pub fn of_environment() -> Settings {
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Settings::among(std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))))
    }

    /// Those among some variables.
    pub fn among(variables: impl Iterator<Item = (String, String)>) -> Settings {
        let mut settings: Vec<_> = variables.filter(|(name, _)| is_setting(name)).collect();
        settings.sort();
        Settings(settings)
    }

    /// Whether svmio is as it comes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them as a part of a file's name.
    pub fn words(&self) -> String {
        let word = |(name, value): &(String, String)| {
            format!("{}={value}", name.trim_start_matches(OWN).to_lowercase().replace('_', "-"))
        };
        self.0.iter().map(word).collect::<Vec<_>>().join("-")
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told: Vec<String> = self.0.iter().map(|(name, value)| format!("`{name}={value}`")).collect();
        f.write_str(&told.join(", "))
    }
}

fn is_setting(name: &str) -> bool {
    let rest = name.strip_prefix(OWN);
    rest.is_some_and(|rest| !OF_BENCHMARKS.iter().any(|known| rest.starts_with(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Settings {
        Settings::among(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn what_is_set_for_svmio_is_told_in_one_order() {
        let settings = of(&[("SVMIO_OUTCOME", "shared"), ("SVMIO_IDLE_CORES", "never")]);
        assert_eq!(settings.words(), "idle-cores=never-outcome=shared");
        assert_eq!(settings.to_string(), "`SVMIO_IDLE_CORES=never`, `SVMIO_OUTCOME=shared`");
        assert_ne!(settings, of(&[("SVMIO_OUTCOME", "own"), ("SVMIO_IDLE_CORES", "never")]));
    }

    #[test]
    fn what_is_set_for_benchmarks_is_none_of_it() {
        assert!(
            of(&[("SVMIO_FIGURES", "figures"), ("SVMIO_INSTALLATION", "/svmio"), ("HOME", "/")]).is_empty()
        );
        assert!(
            of(&[("SVMIO_STORE", "/store"), ("SVMIO_TESTS_JOB", "1"), ("SVMIO_MPICH5", "venv")]).is_empty()
        );
    }
}
