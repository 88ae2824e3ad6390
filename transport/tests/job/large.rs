//! Many processes.

use std::time::{Duration, Instant};

use crate::company::Company;

/// How long it takes until 64 processes are a job.
fn start() -> Duration {
    let since = Instant::now();
    let mut company = Company::launch(64, &[]);
    for answer in company.all("start") {
        assert_eq!(answer, "up");
    }
    let started = since.elapsed();
    for answer in company.all("finish") {
        assert_eq!(answer, "finished");
    }
    started
}

#[test]
fn sixty_four_processes_are_up_in_two_seconds() {
    // What else runs on the machine may disturb one attempt.
    let started = (0..3).map(|_| start()).min().unwrap();
    println!("64 processes are a job after {started:?}");
    assert!(started < Duration::from_secs(2), "{started:?}");
}

#[test]
fn idle_processes_use_no_processor() {
    let mut company = Company::start(16, &[]);
    let total =
        |answers: Vec<String>| answers.iter().map(|answer| answer.parse::<u64>().unwrap()).sum::<u64>();
    let before = total(company.all("processor"));
    // This is what is measured, not what is waited for.
    let time = Duration::from_secs(5);
    std::thread::sleep(time);
    let used = Duration::from_micros(total(company.all("processor")) - before);
    println!("16 idle processes used {used:?} in {time:?}");
    assert!(used < time / 100, "{used:?}");
    company.all("finish");
}
