//! Processes that die or hang, and who learns of it.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use svmio_transport::Rank;

use crate::company::Company;

/// Hung processes are noticed after this long. Less would be no good on a machine that lets processes wait for their
/// turn as long as a second.
const TIMEOUT: (&str, &str) = ("SVMIO_WATCHDOG_TIMEOUT", "3s");

/// With it, only the end of a connection can tell.
const PATIENT: (&str, &str) = ("SVMIO_WATCHDOG_TIMEOUT", "60s");

/// Kills `victims` at the same moment; all survivors name all of them and can finish.
fn kill(size: u32, victims: &[u32]) {
    let mut company = Company::start(size, &[PATIENT]);
    let survivors = company.but(victims);
    let since = Instant::now();
    victims.iter().for_each(|victim| company.signal(*victim, Signal::KILL.as_raw()));
    let answers = company.some(&survivors, &format!("losses {}", victims.len()));
    // Far less than the watchdog's timeout: the end of a connection tells at once.
    assert!(since.elapsed() < Duration::from_secs(20), "{victims:?}: {:?}", since.elapsed());
    for answer in answers {
        assert_eq!(answer.split("; ").count(), victims.len(), "{victims:?}: {answer}");
        for victim in victims {
            assert!(answer.contains(&format!("rank {victim} on node host{victim} is lost: ")), "{answer}");
        }
    }
    for answer in company.some(&survivors, "finish") {
        assert_eq!(answer, "finished", "{victims:?}");
    }
}

#[test]
fn a_killed_member_is_named_at_once() {
    kill(4, &[2]);
}

#[test]
fn a_killed_master_is_named_at_once() {
    kill(4, &[0]);
}

#[test]
fn several_may_die_at_the_same_moment() {
    kill(5, &[0, 1]);
    kill(5, &[1, 0, 3]);
    kill(4, &[3, 2, 1]);
    kill(3, &[0, 1]);
}

#[test]
fn who_dies_during_the_start_is_named() {
    let mut company = Company::launch(3, &[("SVMIO_START_LIMIT", "2s")]);
    company.tell(&[0, 1], "start");
    company.signal(1, Signal::KILL.as_raw());
    // It had come already, or had not yet.
    let answer = company.answers(&[0]).remove(0);
    assert!(answer.contains("rank 1 on node host1") || answer.contains("1 of 3 came"), "{answer}");
}

#[test]
fn some_die_at_random() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..15 {
        let mut ranks: Vec<u32> = (0..6).collect();
        random.shuffle(&mut ranks);
        kill(6, &ranks[..random.usize(1..6)]);
    }
}

#[test]
fn a_successor_that_dies_is_succeeded() {
    let mut company = Company::start(4, &[PATIENT]);
    for (number, victim) in [0, 1, 2].into_iter().enumerate() {
        company.signal(victim, Signal::KILL.as_raw());
        let survivors: Vec<_> = (victim + 1..4).collect();
        for answer in company.some(&survivors, &format!("losses {}", number + 1)) {
            assert_eq!(answer.split("; ").count(), number + 1, "{answer}");
        }
    }
    assert_eq!(company.some(&[3], "finish"), ["finished"]);
}

/// Stops `victim`; the others notice that it hangs; when it goes on, it learns that it has been given up.
fn stop(victim: u32) {
    let mut company = Company::start(4, &[TIMEOUT]);
    let survivors = company.but(&[victim]);
    let since = Instant::now();
    company.signal(victim, Signal::STOP.as_raw());
    for answer in company.some(&survivors, "losses 1") {
        let expected = format!("rank {victim} on node host{victim} is lost: no heartbeat for 3s");
        assert_eq!(answer, expected);
    }
    assert!(since.elapsed() < Duration::from_secs(20));
    company.signal(victim, Signal::CONT.as_raw());
    let answer = company.some(&[victim], "ending").remove(0);
    assert!(answer.contains("took this process for lost: no heartbeat for 3s"), "{answer}");
    let answer = company.some(&[victim], "finish").remove(0);
    assert!(answer.contains("the job is ending"), "{answer}");
    for answer in company.some(&survivors, "finish") {
        assert_eq!(answer, "finished");
    }
}

#[test]
fn a_stopped_member_is_lost_and_learns_it() {
    stop(2);
}

#[test]
fn a_stopped_master_is_lost_and_learns_it() {
    stop(0);
}

#[test]
fn a_stopped_successor_does_not_keep_the_others() {
    let mut company = Company::start(4, &[TIMEOUT]);
    company.signal(1, Signal::STOP.as_raw());
    company.signal(0, Signal::KILL.as_raw());
    for answer in company.some(&[2, 3], "losses 2") {
        assert!(answer.contains("rank 0 on") && answer.contains("rank 1 on"), "{answer}");
    }
    company.signal(1, Signal::CONT.as_raw());
    let answer = company.some(&[1], "ending").remove(0);
    assert!(answer.contains("took this process for lost"), "{answer}");
    assert_eq!(company.some(&[2, 3], "finish"), ["finished", "finished"]);
}

#[test]
fn a_short_stop_does_no_harm() {
    let mut company = Company::start(3, &[PATIENT]);
    for rank in [0, 1] {
        company.signal(rank, Signal::STOP.as_raw());
        company.signal(rank, Signal::CONT.as_raw());
    }
    assert_eq!(company.all("finish"), ["finished", "finished", "finished"]);
}

#[test]
fn who_dies_while_it_waits_for_the_others_to_finish_is_lost_to_them() {
    for victim in [2, 0] {
        let mut company = Company::start(3, &[PATIENT]);
        let survivors = company.but(&[victim]);
        company.await_within_finish(victim);
        company.signal(victim, Signal::KILL.as_raw());
        let expected = format!("rank {victim} on node host{victim} is lost: its control connection");
        for answer in company.some(&survivors, "losses 1") {
            assert!(answer.starts_with(&expected), "{answer}");
        }
        assert_eq!(company.some(&survivors, "finish"), ["finished", "finished"]);
        assert_eq!(company.running.wait_for(Rank(victim)).unwrap().signal(), Some(Signal::KILL.as_raw()));
    }
}
