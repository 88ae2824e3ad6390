//! What a process tells the test that started it.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use svmio_tests::fabric_job::now;

/// The files of one process.
pub(crate) struct Reports {
    directory: PathBuf,
    rank: String,
}

impl Reports {
    pub(crate) fn new(directory: &str, rank: &str) -> Reports {
        Reports { directory: directory.into(), rank: rank.to_owned() }
    }

    /// Tells that this process is under way.
    pub(crate) fn ready(&self) {
        self.write("ready", &format!("{}\n", now()));
    }

    /// Tells what came of it.
    pub(crate) fn tell(&self, report: &Value) {
        self.write("report", &format!("{report}\n"));
    }

    /// Whoever finds the file finds all of it.
    fn write(&self, name: &str, text: &str) {
        let path = self.directory.join(format!("{name}-{}", self.rank));
        let new = self.directory.join(format!(".{name}-{}", self.rank));
        let done = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
        done.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
