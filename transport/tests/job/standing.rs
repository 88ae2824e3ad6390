//! Processes that stand still, and are not to be lost by it.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::company::Company;

/// Longer than a peer's answer is waited for that may not stand still.
const LONG: Duration = Duration::from_secs(36);

/// A message goes to rank 1, which stands still, and to which rank 0 is not connected yet. What comes of it, where the
/// processes go on after a long time in which `others` stood still, too.
fn connect_to_one_that_stands_still(others: &[u32], settings: &[(&str, &str)]) {
    let mut company = Company::start(2, settings);
    company.signal(1, Signal::STOP.as_raw());
    if others.is_empty() {
        company.tell(&[0], "send 1");
    } else {
        // Until it waits for an answer.
        company.await_within(0, "send 1", libc::SYS_ppoll);
    }
    others.iter().for_each(|rank| company.signal(*rank, Signal::STOP.as_raw()));
    thread::sleep(LONG);
    others.iter().for_each(|rank| company.signal(*rank, Signal::CONT.as_raw()));
    company.signal(1, Signal::CONT.as_raw());
    company.tell(&[1], "receive 0");
    assert_eq!(company.answers(&[0, 1]), ["done", "done"], "{others:?} {settings:?}");
    assert_eq!(company.all("finish"), ["finished", "finished"]);
}

#[test]
fn who_may_stand_still_is_waited_for_by_who_connects_to_it() {
    let patient = ("SVMIO_WATCHDOG_TIMEOUT", "1h");
    let ofi = [patient, ("SVMIO_FABRIC", "ofi"), ("SVMIO_OFI_ANSWER_SECONDS", "3600")];
    thread::scope(|scope| {
        scope.spawn(|| connect_to_one_that_stands_still(&[], &[patient]));
        scope.spawn(|| connect_to_one_that_stands_still(&[], &ofi));
    });
}

/// As by Ctrl-Z.
#[test]
fn the_time_in_which_a_whole_job_stands_still_counts_for_nobody() {
    connect_to_one_that_stands_still(&[0], &[("SVMIO_WATCHDOG_TIMEOUT", "20s")]);
}
