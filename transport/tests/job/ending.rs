//! Signals that end a job, and launchers that end.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::company::{self, Company};

const OURS: (&str, &str) = ("SVMIO_WATCHDOG_SIGNALS", "true");

#[test]
fn a_signal_to_one_ends_all_by_the_same_signal() {
    for (receiver, signal, name) in
        [(3, Signal::TERM, "SIGTERM"), (0, Signal::INT, "SIGINT"), (1, Signal::HUP, "SIGHUP")]
    {
        let mut company = Company::start(4, &[OURS, ("SVMIO_WATCHDOG_GRACE", "3s")]);
        company.signal(receiver, signal.as_raw());
        for answer in company.all("ending") {
            let expected = format!("the job is ending: rank {receiver} on node host{receiver} got {name}");
            assert_eq!(answer, expected);
        }
        // They do not leave by themselves, so they are ended.
        let since = Instant::now();
        for status in company.running.wait().unwrap() {
            assert_eq!(status.signal(), Some(signal.as_raw()), "{status:?}");
        }
        assert!(since.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn who_leaves_within_the_grace_time_ends_as_it_likes() {
    let mut company = Company::start(3, &[OURS, ("SVMIO_WATCHDOG_GRACE", "20s")]);
    company.signal(1, Signal::TERM.as_raw());
    company.all("ending");
    for answer in company.all("finish") {
        assert!(answer.starts_with("the job is ending: rank 1 on node host1 got SIGTERM"), "{answer}");
    }
    let running = company.hang_up();
    for status in running.wait().unwrap() {
        assert_eq!(status.code(), Some(0), "{status:?}");
    }
}

#[test]
fn a_second_signal_ends_a_process_at_once() {
    let mut company = Company::start(2, &[OURS, ("SVMIO_WATCHDOG_GRACE", "60s")]);
    company.signal(1, Signal::INT.as_raw());
    company.all("ending");
    company.signal(1, Signal::TERM.as_raw());
    let status = company.running.wait_for(svmio_transport::Rank(1)).unwrap();
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{status:?}");
}

#[test]
fn after_its_job_a_process_takes_signals_as_before() {
    let mut company = Company::start(2, &[OURS]);
    assert_eq!(company.all("finish"), ["finished", "finished"]);
    company.signal(0, Signal::TERM.as_raw());
    let status = company.running.wait_for(svmio_transport::Rank(0)).unwrap();
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{status:?}");
}

#[test]
fn in_somebodys_program_signals_are_left_to_it() {
    let mut company = Company::start(3, &[]);
    company.signal(1, Signal::TERM.as_raw());
    for answer in company.some(&[0, 2], "losses 1") {
        assert!(answer.contains("rank 1 on node host1 is lost: its control connection"), "{answer}");
    }
    let status = company.running.wait_for(svmio_transport::Rank(1)).unwrap();
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    assert_eq!(company.some(&[0, 2], "finish"), ["finished", "finished"]);
}

#[test]
fn the_processes_end_with_their_launcher() {
    let company = Company::start(2, &[]);
    let pids = company.running.pids();
    drop(company);
    for pid in pids {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
    // A launcher that is killed takes them with it as well.
    let (launcher, listener, _directory) = company::launcher(1, &[]);
    let mut outer = launcher.environment(company::INNER, "2").spawn().unwrap();
    let mut lines = company::answer_calls(2, &listener);
    outer.kill(svmio_transport::Rank(0)).unwrap();
    for line in &mut lines {
        assert_eq!(line.answer(), None);
    }
}
