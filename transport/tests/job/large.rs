//! Many processes.

use std::time::{Duration, Instant};

use svmio_transport::job::WatchdogSettings;

use crate::company::Company;

/// How long it takes until 64 processes are there and answer; and until they are a job.
fn start() -> (Duration, Duration) {
    let since = Instant::now();
    let mut company = Company::launch(64, &[]);
    for answer in company.all("nothing") {
        assert_eq!(answer, "no job");
    }
    let launched = since.elapsed();
    for answer in company.all("start") {
        assert_eq!(answer, "up");
    }
    let started = since.elapsed();
    for answer in company.all("finish") {
        assert_eq!(answer, "finished");
    }
    (launched, started)
}

#[test]
fn sixty_four_processes_are_up_in_two_seconds() {
    // What else runs on the machine may disturb an attempt, and then processes are late without a job, too.
    let is_soon = |(launched, started): (Duration, Duration)| {
        println!("64 processes answer after {launched:?}, and are a job after {started:?}");
        started < Duration::from_secs(2).max(10 * launched)
    };
    assert!((0..3).map(|_| start()).any(is_soon));
}

#[test]
fn idle_processes_use_no_processor() {
    // By default, which sets how often heartbeats come.
    let timeout = format!("{:?}", WatchdogSettings::default().timeout);
    let mut company = Company::start(16, &[("SVMIO_WATCHDOG_TIMEOUT", &timeout)]);
    // This is what is measured, not what is waited for.
    let time = Duration::from_secs(5);
    let mut used_meanwhile = || {
        let mut total =
            || -> u64 { company.all("processor").iter().map(|answer| answer.parse::<u64>().unwrap()).sum() };
        let before = total();
        std::thread::sleep(time);
        Duration::from_micros(total() - before)
    };
    // Where much else runs they wake late, and look after each other: what polls does so in every attempt, and takes
    // twenty times as much even if only once in a millisecond. Heartbeats of a debug build take a third of this.
    let is_little = |used: &Duration| {
        println!("16 idle processes used {used:?} in {time:?}");
        *used < time / 40
    };
    assert!((0..3).map(|_| used_meanwhile()).any(|used| is_little(&used)));
    company.all("finish");
}
