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

/// Many ranks wait for each other in collective accesses. All together they take not much more of the cores than as
/// many that wait for nobody: where each keeps its core while it waits, they take 20 to 45 times as much, on two cores.
fn crowded_run(mpi: Mpi) {
    const TRIES: usize = 3;
    const TIMES: f64 = 10.0;
    let program = Program::c("collective_rounds", mpi);
    let cpu_seconds = |ranks: u32| -> f64 {
        let scratch = Scratch::new();
        let output = Job::new(&scratch, &program, ranks).argument("svm:/crowded").succeed();
        show(&format!("{mpi}: {output}"));
        let told = output.split(", ").find_map(|part| part.strip_suffix(" s of CPU time of all ranks"));
        told.unwrap_or_else(|| panic!("{output}")).parse().expect("it is a number")
    };
    let mut dear = Vec::new();
    // Other programs can make ranks wait for longer, and never for a shorter time.
    while dear.len() < TRIES {
        let (one, all) = (cpu_seconds(1), cpu_seconds(RANKS));
        if all < TIMES * f64::from(RANKS) * one {
            return;
        }
        dear.push((one, all));
    }
    panic!("{mpi}: seconds of CPU time of one rank, and of {RANKS}: {dear:?}");
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
