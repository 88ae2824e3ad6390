//! The jobs of one node's processes that this process takes part in: formed for those who have files open together
//! again and again, kept until `MPI_Finalize`, each with a fabric over shared memory that later ones of its members
//! use, too.

use std::sync::{Mutex, MutexGuard, PoisonError};

use svmio_svm::team::Reach;
use svmio_transport::job::Job;

/// This process's part in a job.
pub(crate) struct Part {
    /// What the job is known by to all of its members.
    pub(crate) id: u64,
    pub(crate) job: Job,
    pub(crate) reach: Reach,
}

/// In the order in which they were formed.
static PARTS: Mutex<Vec<Part>> = Mutex::new(Vec::new());

/// The latest ones, the very latest first: what they are known by, and this process's rank.
pub(crate) fn latest<const N: usize>() -> [Option<(u64, u32)>; N] {
    let parts = parts();
    std::array::from_fn(|at| {
        let part = &parts[parts.len().checked_sub(at + 1)?];
        Some((part.id, part.job.rank().0))
    })
}

/// By what the processes of job `id` reach each other.
pub(crate) fn reach(id: u64) -> Option<Reach> {
    parts().iter().find(|part| part.id == id).map(|part| part.reach.clone())
}

/// Keeps a job until [`finish`].
pub(crate) fn keep(part: Part) {
    parts().push(part);
}

/// Leaves all of them, when all members do. What goes wrong is logged: no caller of `MPI_Finalize` could do anything
/// about it.
pub(crate) fn finish() {
    // Not under the mutex, which nobody shall find locked for as long as the others take.
    let mut parts = std::mem::take(&mut *parts());
    // The same order in all processes: each waits for the members of one job at a time.
    parts.sort_unstable_by_key(|part| part.id);
    for Part { job, .. } in parts {
        let size = job.size();
        if let Err(error) = job.finish() {
            tracing::error!("leaving the {size} processes that had files open together: {error}");
        }
    }
}

fn parts() -> MutexGuard<'static, Vec<Part>> {
    PARTS.lock().unwrap_or_else(PoisonError::into_inner)
}
