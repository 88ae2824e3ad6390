//! The clusters that this process takes part in: [joined] when files are opened, left at the end of `MPI_Finalize`,
//! with what else was to be had until then.
//!
//! At its end, since a program's libraries may have something to do in it: HDF5 closes files that the program has left
//! open when an attribute of `MPI_COMM_SELF` goes. Nobody who leaves has to have MPI go on for others then.

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

/// Before MPI is finalized: gives back what this process has of MPI's. Files are still to be had, by MPI's own
/// collectives.
pub fn begin_finish() {
    circle::finish();
    progress::finish();
}

/// After MPI was finalized: leaves all clusters, in the order in which they were formed, and then all other jobs. Every
/// member does so. Each is served until all of its members have got here, or are lost. What goes wrong is logged: no
/// caller of `MPI_Finalize` could do anything about it.
pub fn finish() {
    leave_all();
    jobs::finish();
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
