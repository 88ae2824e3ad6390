//! `svmio run` as a process: exit status, signals, standard input.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::setting::{FAMILIES, Family, starting_ranks, stdout_of, svmio_run};

#[test]
fn the_exit_status_is_that_of_mpiexec() {
    let directory = tempfile::tempdir().unwrap();
    for family in FAMILIES {
        let program = family.compile("exit_code", directory.path());
        for code in ["0", "3"] {
            let status = svmio_run().args(["-n", "2", "--"]).arg(&program).arg(code).output().unwrap().status;
            assert_eq!(status.code(), Some(code.parse().unwrap()), "{family:?}");
        }
        let launcher = format!("mpiexec.{}", family.directory());
        let plain = starting_ranks(launcher).args(["-n", "2"]).arg(&program).arg("kill").output().unwrap();
        assert!(!plain.status.success());
        let ours = svmio_run().args(["-n", "2", "--"]).arg(&program).arg("kill").output().unwrap();
        assert_eq!(ours.status, plain.status, "{family:?}");
    }
}

/// A job of `await_signal` whose ranks all wait; ended at the latest when it is dropped.
struct WaitingJob {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl WaitingJob {
    fn start(family: Family, rank_count: usize, signal_name: &str, directory: &Path) -> WaitingJob {
        let mut process = svmio_run()
            .args(["-n", &rank_count.to_string(), "--"])
            .arg(family.compile("await_signal", directory))
            .arg(signal_name)
            .arg(directory.join("caught"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut job = WaitingJob { process, output };
        for _ in 0..rank_count {
            let mut line = String::new();
            job.output.read_line(&mut line).unwrap();
            assert_eq!(line, "waiting\n", "{family:?}");
        }
        job
    }

    /// Sends the signal to the process that was started as `svmio run`, and waits for the job's end.
    fn end_by(mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
        std::io::copy(&mut self.output, &mut std::io::sink()).unwrap();
        self.process.wait().unwrap()
    }
}

impl Drop for WaitingJob {
    fn drop(&mut self) {
        // An error means that it has ended already, and been waited for.
        if self.process.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
            let _ = self.process.wait();
        }
    }
}

#[test]
fn signals_reach_the_ranks() {
    for family in FAMILIES {
        for (name, signal) in [("TERM", Signal::TERM), ("USR1", Signal::USR1)] {
            let directory = tempfile::tempdir().unwrap();
            let caught = directory.path().join("caught");
            fs::create_dir(&caught).unwrap();
            let status = WaitingJob::start(family, 2, name, directory.path()).end_by(signal);
            assert_eq!(fs::read_dir(&caught).unwrap().count(), 2, "{family:?} {name}: {status}");
        }
    }
}

#[test]
fn a_signal_that_ends_mpiexec_is_seen_by_the_caller() {
    let directory = tempfile::tempdir().unwrap();
    let status = WaitingJob::start(Family::Mpich, 1, "TERM", directory.path()).end_by(Signal::KILL);
    assert_eq!(status.signal(), Some(9));
}

#[test]
fn standard_input_is_inherited() {
    for (family, launcher) in [("mpich", "mpiexec.mpich"), ("openmpi", "mpiexec.openmpi")] {
        let directory = tempfile::tempdir().unwrap();
        let input = directory.path().join("input");
        fs::write(&input, "line of input\n").unwrap();
        let printed = stdout_of(
            svmio_run()
                .args(["--mpi", family, "--mpiexec", launcher, "-n", "1", "--", "cat"])
                .stdin(fs::File::open(input).unwrap()),
        );
        assert_eq!(printed, "line of input\n", "{family}");
    }
}
