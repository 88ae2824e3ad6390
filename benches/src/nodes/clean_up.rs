//! Removing what a benchmark made on the machine, however the benchmark ends.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, parent_id};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use svmio_tests::Hosts;

/// The argument that makes the benchmark's program a process that only removes.
const ARGUMENT: &str = "--remove-what-is-left";

/// What it is told by a benchmark that has removed its own.
const DONE: &str = "done";

/// A process that waits until this one has ended, be it killed, and then removes what is left of its hosts: daemons,
/// mounts and directories. Dropping it waits until that is done.
#[derive(Debug)]
pub(super) struct CleanUp(Child);

impl CleanUp {
    /// Starts it, before there is anything to be removed.
    pub(super) fn start() -> CleanUp {
        let own = std::env::current_exe().expect("a process has a path to its program");
        let mut command = Command::new(own);
        // Out of the terminal's reach: Ctrl-C is for this process alone. What it waits for is the end of its input.
        command.arg(ARGUMENT).stdin(Stdio::piped()).process_group(0);
        CleanUp(command.spawn().unwrap_or_else(|error| panic!("starting {command:?}: {error}")))
    }
}

impl Drop for CleanUp {
    fn drop(&mut self) {
        if let Some(mut input) = self.0.stdin.take() {
            // Where it has ended, there is nobody to tell.
            let _ = input.write_all(DONE.as_bytes());
        }
        let _ = self.0.wait();
    }
}

/// Where this process was started as a [`CleanUp`], does its work and returns true.
///
/// # Panics
/// Where something cannot be removed.
pub(super) fn is_done_here() -> bool {
    if std::env::args().nth(1).as_deref() != Some(ARGUMENT) {
        return false;
    }
    let other = parent_id();
    let mut told = String::new();
    if std::io::stdin().read_to_string(&mut told).is_ok() && told == DONE {
        return true;
    }
    until_forgotten(other);
    // Who makes hosts first removes what processes that are no more have left of theirs.
    drop(Hosts::new(1));
    true
}

/// Waits until a dead process is nowhere to be seen any more: what it left is taken for its own before.
fn until_forgotten(id: u32) {
    const LIMIT: Duration = Duration::from_secs(10);
    let process = format!("/proc/{id}");
    let since = Instant::now();
    while Path::new(&process).exists() && since.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(10));
    }
}
