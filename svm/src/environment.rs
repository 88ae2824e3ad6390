//! Variables that are called like svmio's, and are none.
//!
//! A setting whose name is mistyped does nothing, which nobody may notice for long: so it is told, with the name that
//! was probably meant. All parts of svmio share one environment, and each is passed the others' variables: so here is
//! known what any of them reads. Those of the layers below are theirs to tell; what parts above this crate read stands
//! in a table. The fabric's settings are nothing to warn of: whoever reads them refuses one that there is not.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use svmio_collectives::components;
use svmio_transport::{job, settings};

use crate::spelling;

/// What svmio's variables begin with.
const PREFIX: &str = "SVMIO_";

/// Whom a variable concerns: who tells of those that are mistyped is to tell of his own, as the same process may have
/// more than one library of svmio's, and start others with theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concern {
    /// Whoever opens files; also what resembles nothing.
    Files,
    /// The adapters that do MPI's collectives.
    Collectives,
    /// The tool.
    Tool,
}

/// What this crate reads.
const OWN: [&str; 12] = [
    "SVMIO_CACHE_CAPACITY",
    "SVMIO_CACHE_PAGE",
    "SVMIO_HOSTS_TIMEOUT",
    "SVMIO_IDLE_CORES",
    "SVMIO_LARGE_PAGES",
    "SVMIO_MAPPINGS",
    "SVMIO_PROGRAM",
    "SVMIO_RSH",
    "SVMIO_SERVERS",
    "SVMIO_SPARE",
    "SVMIO_STATS",
    "SVMIO_STORE",
];

/// What is read above this crate.
const ABOVE: [(Concern, &str); 17] = [
    (Concern::Files, "SVMIO_CLAIM"),
    (Concern::Files, "SVMIO_LOG"),
    (Concern::Files, "SVMIO_MEET"),
    (Concern::Files, "SVMIO_OUTCOME"),
    (Concern::Files, "SVMIO_PLACEMENT"),
    (Concern::Files, "SVMIO_SEGMENT_SIZE"),
    (Concern::Files, "SVMIO_VISIBILITY"),
    (Concern::Files, "SVMIO_YIELD"),
    (Concern::Collectives, "SVMIO_COLLECTIVES"),
    (Concern::Collectives, "SVMIO_COLLECTIVES_AFTER"),
    (Concern::Collectives, "SVMIO_COLLECTIVES_DEVICES"),
    (Concern::Collectives, "SVMIO_COLLECTIVES_NODES"),
    (Concern::Collectives, "SVMIO_COLLECTIVES_NONBLOCKING"),
    (Concern::Collectives, "SVMIO_COLLECTIVES_OFF"),
    (Concern::Collectives, "SVMIO_COLLECTIVES_OVER"),
    (Concern::Tool, "SVMIO_LIBDIR"),
    (Concern::Tool, "SVMIO_STORES"),
];

/// What tests and benchmarks read, which are handed on by the programs that they start.
const TESTS: [&str; 5] =
    ["SVMIO_FIGURES", "SVMIO_FULL", "SVMIO_INSTALLATION", "SVMIO_MPICH5", "SVMIO_OPENMPI5"];

/// What other variables of tests begin with.
const TESTS_BEGINNINGS: [&str; 4] = ["SVMIO_MODEL_", "SVMIO_TEST_", "SVMIO_TESTS_", "SVMIO_XTASK_"];

/// Whether some part of svmio reads the variable.
#[must_use]
pub fn is_known(name: &str) -> bool {
    OWN.contains(&name)
        || ABOVE.iter().any(|(_, known)| *known == name)
        || job::VARIABLES.contains(&name)
        || settings::has_variable(name)
        || components::is_variable(name)
        || TESTS.contains(&name)
        || TESTS_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// A variable that no part of svmio reads.
#[derive(Debug)]
struct Unknown {
    name: String,
    nearest: Option<String>,
    concern: Concern,
    is_told: AtomicBool,
}

impl Unknown {
    fn new(name: String) -> Unknown {
        let settings: Vec<String> = settings::variables().collect();
        let of_files = OWN.iter().chain(&job::VARIABLES).copied().chain(settings.iter().map(String::as_str));
        let known = of_files.map(|known| (Concern::Files, known)).chain(ABOVE);
        let known: Vec<_> = known.chain([(Concern::Collectives, components::VARIABLE)]).collect();
        let rest = |name: &str| name.strip_prefix(PREFIX).unwrap_or(name).to_ascii_uppercase();
        let rests: Vec<String> = known.iter().map(|(_, known)| rest(known)).collect();
        let nearest = spelling::nearest(&rest(&name), rests.iter().map(String::as_str));
        let meant = nearest.and_then(|nearest| known.iter().find(|(_, known)| rest(known) == nearest));
        let concern = meant.map_or(Concern::Files, |(concern, _)| *concern);
        let nearest = meant.map(|(_, known)| (*known).to_owned());
        Unknown { name, nearest, concern, is_told: AtomicBool::new(false) }
    }

    /// Warns of it, for the first time only.
    fn tell(&self) {
        // Relaxed: nothing else is told by it.
        if self.is_told.swap(true, Ordering::Relaxed) {
            return;
        }
        let Unknown { name, .. } = self;
        let suggestion = spelling::suggestion(self.nearest.as_deref());
        tracing::warn!("{name} is ignored: svmio has no variable of that name{suggestion}");
    }
}

/// Which of these variables are called like svmio's, and are none, in the order of their names.
fn unknown_among(names: impl IntoIterator<Item = String>) -> Vec<Unknown> {
    let nobodys = |name: &String| name.starts_with(PREFIX) && !is_known(name) && !settings::is_setting(name);
    let mut unknown: Vec<Unknown> = names.into_iter().filter(nobodys).map(Unknown::new).collect();
    unknown.sort_by(|one, other| one.name.cmp(&other.name));
    unknown
}

static UNKNOWN: LazyLock<Vec<Unknown>> =
    LazyLock::new(|| unknown_among(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())));

/// Looks for mistyped variables, so that [`tell`] need not.
pub fn look() {
    LazyLock::force(&UNKNOWN);
}

/// Warns of the variables that concern one of these and are not known, of each once in a process. Of a job's processes
/// one should call it.
pub fn tell(concerns: &[Concern]) {
    UNKNOWN.iter().filter(|unknown| concerns.contains(&unknown.concern)).for_each(Unknown::tell);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use svmio_transport::settings::Settings;

    use super::*;
    use crate::warnings::told_by;

    fn among(names: &[&str]) -> Vec<Unknown> {
        unknown_among(names.iter().map(|name| (*name).to_owned()))
    }

    #[test]
    fn what_is_mistyped_is_told_once_with_what_was_meant() {
        for (name, nearest, concern) in [
            ("SVMIO_STAT", Some("SVMIO_STATS"), Concern::Files),
            ("SVMIO_stats", Some("SVMIO_STATS"), Concern::Files),
            ("SVMIO_FABRICS", Some("SVMIO_FABRIC"), Concern::Files),
            ("SVMIO_OFFI_SILENCE", Some("SVMIO_OFI_SILENCE"), Concern::Files),
            ("SVMIO_JOB_MATSER", Some("SVMIO_JOB_MASTER"), Concern::Files),
            ("SVMIO_CLAMI", Some("SVMIO_CLAIM"), Concern::Files),
            ("SVMIO_COLLECTIVE_OFF", Some("SVMIO_COLLECTIVES_OFF"), Concern::Collectives),
            ("SVMIO_COMPONENT", Some("SVMIO_COMPONENTS"), Concern::Collectives),
            ("SVMIO_RHS", Some("SVMIO_RSH"), Concern::Files),
            ("SVMIO_LIB_DIR", Some("SVMIO_LIBDIR"), Concern::Tool),
            ("SVMIO_ROOT", None, Concern::Files),
            ("SVMIO_", None, Concern::Files),
        ] {
            let unknown = among(&[name]);
            let [unknown] = &unknown[..] else { panic!("{name} is taken for known") };
            assert_eq!((unknown.nearest.as_deref(), unknown.concern), (nearest, concern), "{name}");
            let told = told_by(|| {
                unknown.tell();
                unknown.tell();
            });
            let meant = nearest.map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"));
            assert_eq!(told, [format!("{name} is ignored: svmio has no variable of that name{meant}")]);
        }
    }

    #[test]
    fn a_setting_that_there_is_not_is_left_to_whoever_refuses_it() {
        let mistyped = ["SVMIO_START_LIMITS", "SVMIO_ofi_silent"];
        assert!(among(&mistyped).is_empty(), "{:?}", among(&mistyped));
        for name in mistyped {
            let refused = Settings::from_sources(None, [(name.to_owned(), "3".to_owned())]);
            assert!(refused.unwrap_err().to_string().contains(name), "{name}");
        }
    }

    #[test]
    fn what_any_part_reads_is_known() {
        let names = [
            "SVMIO_STORE",
            "SVMIO_CONFIG",
            "SVMIO_FABRIC",
            "SVMIO_MESSAGES_EAGER_BUFFER",
            "SVMIO_Watchdog_Timeout",
            "SVMIO_JOB_LISTENER",
            "SVMIO_NODE",
            "SVMIO_COMPONENTS",
            "SVMIO_COMPONENTS_MINE_SPEED",
            "SVMIO_COLLECTIVES_OVER",
            "SVMIO_LIBDIR",
            "SVMIO_FULL",
            "SVMIO_TESTS_JOB",
            "OTHER_STAT",
        ];
        assert!(among(&names).is_empty(), "{:?}", among(&names));
        let settings: Vec<String> = settings::variables().collect();
        assert!(settings.iter().any(|name| name == "SVMIO_OFI_SILENCE"), "{settings:?}");
        assert!(settings.iter().all(|name| is_known(name)), "{settings:?}");
    }
}
