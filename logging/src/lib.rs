//! What svmio tells besides errors: to standard error, as much as `SVMIO_LOG` asks for.
//!
//! Crates tell by `tracing`, and whoever brings them into a process starts this: the tool, the preload libraries, the
//! library for C. A program with a subscriber of its own gets the events itself.
//!
//! ```text
//! start ── SVMIO_LOG ──► chosen ──► Targets ──► one layer that writes lines
//! ```
//!
//! ```
//! svmio_logging::start();
//! tracing::warn!("a thing to know"); // " WARN a thing to know"
//! ```

use std::sync::Once;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The variable that says how much is told.
const VARIABLE: &str = "SVMIO_LOG";

/// What the names of svmio's crates, and so of its modules, begin with.
const OURS: &str = "svmio";

/// Starts logging, once in a process. `SVMIO_LOG` is `error`, `warn` (the default), `info`, `debug`, `trace`, `off`, or
/// such for single modules, as `svmio_svm=debug,svmio_transport=error`; of the others warnings are told then. What
/// makes no sense there is told, and counts as `warn`.
pub fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let asked = std::env::var_os(VARIABLE).unwrap_or_default();
        let (filter, problem) = match chosen(&asked.to_string_lossy()) {
            Ok(filter) => (filter, None),
            Err(problem) => (default(), Some(problem)),
        };
        let format = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
        // Where standard error cannot be written to, as after the end of a terminal, telling that would panic.
        let format = format.log_internal_errors(false);
        let format = format.with_ansi(false).without_time().with_target(false);
        // Fails where the program has a subscriber of its own: that one gets the events then.
        let _ = tracing_subscriber::registry().with(filter).with(format).try_init();
        if let Some(problem) = problem {
            tracing::warn!("{VARIABLE}={}: {problem}; warnings are told", asked.to_string_lossy());
        }
    });
}

/// Why a value of the variable makes no sense.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("'{0}' is neither error, warn, info, debug, trace or off, nor MODULE=LEVEL")]
    Level(String),
    #[error("'{0}' is no module of svmio's: those begin with {OURS}, as svmio_svm or svmio_transport")]
    Module(String),
}

/// What is told where nobody asks for something else.
fn default() -> Targets {
    Targets::new().with_default(LevelFilter::WARN)
}

/// The filter that `asked` asks for.
fn chosen(asked: &str) -> Result<Targets, Problem> {
    let mut filter = default();
    for word in asked.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let (module, level) = match word.split_once('=') {
            Some((module, level)) => (Some(module.trim()), level.trim()),
            None => (None, word),
        };
        let level: LevelFilter = level.parse().map_err(|_| Problem::Level(word.to_owned()))?;
        filter = match module {
            None => filter.with_default(level),
            Some(module) if module.starts_with(OURS) => filter.with_target(module, level),
            Some(module) => return Err(Problem::Module(module.to_owned())),
        };
    }
    Ok(filter)
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::filter::LevelFilter;

    use super::{Problem, chosen, default};

    #[test]
    fn a_level_counts_for_all_modules_and_one_of_a_module_for_that() {
        assert_eq!(chosen("").unwrap(), default());
        assert_eq!(chosen(" Info ").unwrap(), default().with_default(LevelFilter::INFO));
        let expected = default().with_target("svmio_svm::cache", LevelFilter::TRACE);
        assert_eq!(chosen("svmio_svm::cache=trace,").unwrap(), expected);
        let expected = expected.with_default(LevelFilter::OFF);
        assert_eq!(chosen("off, svmio_svm::cache = trace").unwrap(), expected);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let level = |word: &str| Err(Problem::Level(word.to_owned()));
        assert_eq!(chosen("wran"), level("wran"));
        assert_eq!(chosen("info,svmio_svm=loud"), level("svmio_svm=loud"));
        assert_eq!(chosen("svmio_svm"), level("svmio_svm"));
        assert_eq!(chosen("smvio_svm=debug"), Err(Problem::Module("smvio_svm".to_owned())));
    }
}
