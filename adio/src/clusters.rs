//! The clusters that this process takes part in: [joined] when files are opened, left by `MPI_Finalize`, with what else
//! was to be had until then.

use svmio_svm::team::Reach;
use svmio_svm::{accounting, joined, spare};

use crate::{circle, jobs, progress};

/// Whether the processes of cluster `id` share memory, all with all: the same on all of them.
pub(crate) fn share_memory(id: u64) -> bool {
    joined::of(id).is_some_and(|cluster| cluster.shares_memory())
}

/// By what teams of the processes of cluster `id` reach each other.
pub(crate) fn reach(id: u64) -> Option<Reach> {
    joined::of(id)?.reach().ok()
}

/// Leaves all clusters, in the order in which they were formed, and then all other jobs: every member does so. Each is
/// served until all of its members have got here, or are lost; MPI goes on meanwhile. What goes wrong is logged: no
/// caller of `MPI_Finalize` could do anything about it.
pub fn finish() {
    circle::finish();
    let leaving = || {
        leave_all();
        jobs::finish();
    };
    if progress::advancing_while(leaving).is_none() {
        tracing::error!("leaving those who had files open together: there can be no thread");
    }
    progress::finish();
    spare::leave();
}

fn leave_all() {
    for part in joined::take_all() {
        let size = part.cluster.size();
        if let Err(error) = part.leave() {
            tracing::error!("leaving a cluster of {size}: {error}");
        }
    }
    accounting::tell_of_one_node();
}
