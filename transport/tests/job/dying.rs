//! Processes that die or hang, and who learns of it.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use svmio_transport::Rank;

use crate::company::Company;

const TIMEOUT: &str = "SVMIO_WATCHDOG_TIMEOUT";

/// Hung processes are noticed after this long. A machine that lets processes wait for their turn for longer than the
/// first has others lost, too, and then the second is tried: what goes wrong in itself does so with each.
const TIMEOUTS: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(15)];

/// With it, only the end of a connection can tell.
const PATIENT: (&str, &str) = (TIMEOUT, "60s");

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

/// Stops `victim`. Whether the others notice that it hangs, and it learns, when it goes on, that it has been given up.
fn is_told_that_it_hung(victim: u32, timeout: Duration) -> bool {
    let mut company = Company::start(4, &[(TIMEOUT, &format!("{timeout:?}"))]);
    let survivors = company.but(&[victim]);
    let since = Instant::now();
    company.signal(victim, Signal::STOP.as_raw());
    let reason = format!("no heartbeat for {timeout:?}");
    let expected = format!("rank {victim} on node host{victim} is lost: {reason}");
    let losses = company.some(&survivors, "losses 1");
    let took = since.elapsed();
    company.signal(victim, Signal::CONT.as_raw());
    let ending = company.some(&[victim], "ending").remove(0);
    let its_end = company.some(&[victim], "finish").remove(0);
    let ends = company.some(&survivors, "finish");
    println!("{losses:?} after {took:?}; {ending}; {its_end}; {ends:?}");
    took < timeout + Duration::from_secs(17)
        && losses.iter().all(|loss| *loss == expected)
        && ending.contains(&format!("took this process for lost: {reason}"))
        && its_end.contains("the job is ending")
        && ends.iter().all(|end| end == "finished")
}

#[test]
fn a_stopped_member_is_lost_and_learns_it() {
    assert!(TIMEOUTS.into_iter().any(|timeout| is_told_that_it_hung(2, timeout)));
}

#[test]
fn a_stopped_master_is_lost_and_learns_it() {
    assert!(TIMEOUTS.into_iter().any(|timeout| is_told_that_it_hung(0, timeout)));
}

/// Stops the master's whole machine, with a process beside it, until the others have given the master up. Whether that
/// one alone learns that it is lost, and all others can finish: also the one beside it, which follows it until then.
fn is_lost_alone_though_one_follows(timeout: Duration) -> bool {
    let mut company = Company::start(4, &[(TIMEOUT, &format!("{timeout:?}"))]);
    company.signal(1, Signal::STOP.as_raw());
    company.signal(0, Signal::STOP.as_raw());
    let losses = company.some(&[2, 3], "losses 1");
    company.signal(0, Signal::CONT.as_raw());
    let ending = company.some(&[0], "ending").remove(0);
    company.signal(1, Signal::CONT.as_raw());
    let its_end = company.some(&[0], "finish").remove(0);
    let ends = company.some(&[1, 2, 3], "finish");
    println!("{losses:?}; {ending}; {its_end}; {ends:?}");
    losses.iter().all(|losses| losses.starts_with("rank 0 on node host0 is lost: no heartbeat for "))
        && ending.contains("took this process for lost")
        && its_end.contains("the job is ending")
        && ends.iter().all(|end| end == "finished")
}

#[test]
fn a_lost_master_does_not_end_the_job_of_those_that_follow_it() {
    assert!(TIMEOUTS.into_iter().any(is_lost_alone_though_one_follows));
}

/// Stops the successor of a killed master. Whether the others learn of both, and it of that, and they can finish.
fn are_kept_by_no_successor(timeout: Duration) -> bool {
    let mut company = Company::start(4, &[(TIMEOUT, &format!("{timeout:?}"))]);
    company.signal(1, Signal::STOP.as_raw());
    company.signal(0, Signal::KILL.as_raw());
    let losses = company.some(&[2, 3], "losses 2");
    company.signal(1, Signal::CONT.as_raw());
    let ending = company.some(&[1], "ending").remove(0);
    let ends = company.some(&[2, 3], "finish");
    println!("{losses:?}; {ending}; {ends:?}");
    losses.iter().all(|losses| losses.contains("rank 0 on") && losses.contains("rank 1 on"))
        && ending.contains("took this process for lost")
        && ends.iter().all(|end| end == "finished")
}

#[test]
fn a_stopped_successor_does_not_keep_the_others() {
    assert!(TIMEOUTS.into_iter().any(are_kept_by_no_successor));
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
