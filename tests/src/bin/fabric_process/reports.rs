//! What a process tells the test that started it.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::Value;
use svmio_tests::fabric_job::now;

/// How long the others may take to come to a meeting.
const PATIENCE: Duration = Duration::from_secs(100);

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

    /// Waits until all of a job of `size` have come to meeting `number`, by other means than the fabric.
    pub(crate) fn meet(&self, number: u32, size: u32) {
        let name = format!("met{number}");
        self.write(&name, "");
        let deadline = Instant::now() + PATIENCE;
        let is_missing = |rank: &u32| !self.directory.join(format!("{name}-{rank}")).exists();
        while let Some(rank) = (0..size).find(is_missing) {
            assert!(Instant::now() < deadline, "rank {rank} has not come to meeting {number}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whoever finds the file finds all of it.
    fn write(&self, name: &str, text: &str) {
        let path = self.directory.join(format!("{name}-{}", self.rank));
        let new = self.directory.join(format!(".{name}-{}", self.rank));
        let done = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
        done.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
