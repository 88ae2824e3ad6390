//! Ranks that wait leave the cores to others.

use std::io::Write;

use svmio_tests::{Job, Mpi, Program, Reports, Scratch};

const RANKS: u32 = 8;

/// Seven ranks wait one and a half seconds for a lock.
fn waiting_for_a_lock(mpi: Mpi) {
    const HELD_MS: i64 = 1500;
    const MOST_CPU_US: i64 = 50_000;
    let program = Program::c("lock_holder", mpi);
    let scratch = Scratch::new();
    let reports = Reports::new(&scratch, "reports");
    let job = Job::new(&scratch, &program, RANKS).argument("svm:/held").argument("contiguous");
    job.argument(reports.path()).argument(HELD_MS.to_string()).succeed();
    for (rank, lines) in reports.read(RANKS).iter().enumerate().skip(1) {
        let number = |what: &str| -> i64 {
            let line = lines.iter().find(|line| line.what == what).expect("each waiter reports it");
            line.result.parse().expect("it is a number")
        };
        let (waited_ms, cpu_us) = (number("waited ms"), number("CPU us"));
        show(&format!("{mpi}, rank {rank}: waited {waited_ms} ms with {cpu_us} us of CPU time\n"));
        assert!(waited_ms >= HELD_MS, "{mpi}, rank {rank} did not wait: {waited_ms} ms");
        assert!(cpu_us < MOST_CPU_US, "{mpi}, rank {rank}: {cpu_us} us of CPU time in {waited_ms} ms");
    }
}

/// What a whole run of many ranks takes.
fn crowded_run(mpi: Mpi) {
    let program = Program::c("collective_rounds", mpi);
    let scratch = Scratch::new();
    let output = Job::new(&scratch, &program, RANKS).argument("svm:/crowded").succeed();
    assert!(output.contains("CPU time of all ranks"), "{output}");
    show(&format!("{mpi}: {output}"));
}

/// Prints what was measured also where the test succeeds, when `print!` is captured.
fn show(text: &str) {
    std::io::stdout().write_all(text.as_bytes()).expect("standard output can be written to");
}

// One after the other: what is measured is CPU time on cores that these ranks have for themselves.
#[test]
fn idle_ranks() {
    for mpi in Mpi::DEBIAN {
        waiting_for_a_lock(mpi);
        crowded_run(mpi);
    }
}
