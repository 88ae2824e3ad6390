//! The jobs that this process takes part in: formed with groups, kept until `MPI_Finalize`, each with a fabric over
//! shared memory that later groups of its members use, too.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use svmio_transport::Fabric;
use svmio_transport::job::{Job, spawn_service_thread};

/// Between two looks whether all have left.
const PAUSE: Duration = Duration::from_micros(100);

struct Part {
    id: u64,
    job: Job,
}

/// In the order in which they were formed.
static PARTS: Mutex<Vec<Part>> = Mutex::new(Vec::new());

/// The latest ones, the very latest first: what they are known by to all of their members, and this one's rank.
pub(crate) fn latest<const N: usize>() -> [Option<(u64, u32)>; N] {
    let parts = parts();
    std::array::from_fn(|at| {
        let part = &parts[parts.len().checked_sub(at + 1)?];
        Some((part.id, part.job.rank().0))
    })
}

/// The fabric of job `id`.
pub(crate) fn fabric(id: u64) -> Option<Fabric> {
    parts().iter().find(|part| part.id == id).map(|part| part.job.fabric().clone())
}

/// Keeps a job until [`finish`].
pub(crate) fn keep(id: u64, job: Job) {
    parts().push(Part { id, job });
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
    parts.sort_unstable_by_key(|part| part.id);
    let finish = move || {
        for Part { job, .. } in parts {
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
