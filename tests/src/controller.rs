//! A controller of hardware barriers, emulated by the tool.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::installation::Installation;

/// `svmio barrier controller`, until it is dropped.
#[derive(Debug)]
pub struct Controller {
    process: Child,
    directory: TempDir,
}

impl Controller {
    /// Starts one, and returns when barriers can be had of it.
    ///
    /// # Panics
    /// Where it does not start.
    pub fn start() -> Controller {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let mut process = Command::new(Installation::get().tool())
            .args(["barrier", "controller"])
            .arg(directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the tool can be started");
        let mut line = String::new();
        let output = process.stdout.as_mut().expect("its output is a pipe");
        BufReader::new(output).read_line(&mut line).expect("its output can be read");
        assert!(line.starts_with("a controller with"), "it says: {line:?}");
        Controller { process, directory }
    }

    /// What it is as `hardware.device`.
    pub fn device(&self) -> String {
        format!("emulated:{}", self.directory.path().display())
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // Only one that was waited for is gone, and it was not.
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}
