//! The jobs that this process takes part in: formed with groups, kept until `MPI_Finalize`, each with fabrics that
//! later groups of its members use, too.

use std::cmp::Reverse;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use svmio_collectives::executor::Fabrics;
use svmio_transport::job::Job;
use svmio_transport::spawn_service_thread;

/// In how many jobs a process takes part: each has threads and files of its own until `MPI_Finalize`, and a program may
/// make communicators without end of which none is within another.
const MOST: usize = 16;

/// Between two looks whether all have left.
const PAUSE: Duration = Duration::from_micros(100);

/// By what a job's processes reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All by shared memory.
    Memory,
    /// Those of one node by shared memory, others over a network.
    Network,
}

/// What a job is known by to all of its members, and this one's rank in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) id: u64,
    pub(crate) rank: u32,
    pub(crate) reach: Reach,
}

struct Part {
    known: Known,
    job: Job,
    fabrics: Fabrics,
}

/// In the order in which they were formed.
static PARTS: Mutex<Vec<Part>> = Mutex::new(Vec::new());

/// Those of the most processes, which most communicators are within; of such of equally many, the latest first.
pub(crate) fn largest<const N: usize>() -> [Option<Known>; N] {
    let parts = parts();
    let mut largest: Vec<&Part> = parts.iter().rev().collect();
    largest.sort_by_key(|part| Reverse(part.job.size()));
    std::array::from_fn(|at| largest.get(at).map(|part| part.known))
}

/// Whether this process can take part in one more.
pub(crate) fn has_room() -> bool {
    parts().len() < MOST
}

/// By what the processes of job `id` reach each other.
pub(crate) fn fabrics(id: u64) -> Option<Fabrics> {
    parts().iter().find(|part| part.known.id == id).map(|part| part.fabrics.clone())
}

/// Keeps a job until [`finish`].
pub(crate) fn keep(id: u64, job: Job, fabrics: Fabrics, reach: Reach) {
    let known = Known { id, rank: job.rank().0, reach };
    parts().push(Part { known, job, fabrics });
}

/// Leaves all of them, when all members do; calls `meanwhile` again and again until then. What goes wrong is logged: no
/// caller of `MPI_Finalize` could do anything about it.
pub(crate) fn finish(meanwhile: impl Fn()) {
    // Not under the mutex, which nobody shall find locked for as long as the others take.
    let mut parts = std::mem::take(&mut *parts());
    if parts.is_empty() {
        return;
    }
    // The same order in all processes: each waits for the members of one job at a time.
    parts.sort_unstable_by_key(|part| part.known.id);
    let finish = move || {
        // The fabrics go after it: a member that is slower may still use this one's memory.
        for Part { job, fabrics: _fabrics, .. } in parts {
            let size = job.size();
            if let Err(error) = job.finish() {
                tracing::error!("leaving the {size} processes of a group of collectives: {error}");
            }
        }
    };
    match spawn_service_thread("svmio-coll-end", finish) {
        Ok(finishing) => {
            while !finishing.is_finished() {
                meanwhile();
                std::thread::sleep(PAUSE);
            }
        }
        // The jobs are gone with the thread that was to finish them, and the others take this process for lost.
        Err(error) => tracing::error!("leaving the groups of collectives: {error}"),
    }
}

fn parts() -> MutexGuard<'static, Vec<Part>> {
    PARTS.lock().unwrap_or_else(PoisonError::into_inner)
}
