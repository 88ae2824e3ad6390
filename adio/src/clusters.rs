//! The clusters that this process takes part in: formed when files are opened, kept until `MPI_Finalize`.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use svmio_svm::Cluster;
use svmio_svm::team::Reach;
use svmio_transport::job::Job;

use crate::{circle, jobs, progress};

/// This process's part in a cluster.
pub(crate) struct Part {
    pub(crate) job: Job,
    pub(crate) cluster: Arc<Cluster>,
}

/// In the order in which they were formed.
static PARTS: Mutex<Vec<Part>> = Mutex::new(Vec::new());

/// The cluster that this process joined last.
pub(crate) fn latest() -> Option<Arc<Cluster>> {
    parts().last().map(|part| Arc::clone(&part.cluster))
}

/// The cluster `id`, if this process takes part in it.
pub(crate) fn of(id: u64) -> Option<Arc<Cluster>> {
    parts().iter().map(|part| &part.cluster).find(|cluster| cluster.id() == id).map(Arc::clone)
}

/// Whether the processes of cluster `id` share memory, all with all: the same on all of them.
pub(crate) fn share_memory(id: u64) -> bool {
    of(id).is_some_and(|cluster| cluster.shares_memory())
}

/// By what teams of the processes of cluster `id` reach each other.
pub(crate) fn reach(id: u64) -> Option<Reach> {
    of(id)?.reach().ok()
}

/// Keeps `part` until [`finish`].
pub(crate) fn keep(part: Part) -> Arc<Cluster> {
    let cluster = Arc::clone(&part.cluster);
    parts().push(part);
    cluster
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
}

fn leave_all() {
    // Not under the mutex, which nobody shall find locked for as long as the others take.
    let parts = std::mem::take(&mut *parts());
    let tells = std::env::var_os("SVMIO_STATS").is_some_and(|value| !value.is_empty() && value != "0");
    for Part { job, cluster } in parts {
        if tells {
            let (rank, node) = (cluster.rank(), &cluster.nodes()[cluster.own_node().0 as usize]);
            // In one piece: all ranks write at the same time.
            let line = format!("svmio: rank {rank} on node {node}: {}\n", cluster.statistics());
            // There is nobody else to tell.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
        // The agent serves those who are not done yet while the job waits for them, and finds its fabric closed then.
        if let Err(error) = job.finish() {
            tracing::error!("leaving a cluster of {}: {error}", cluster.size());
        }
        cluster.leave();
    }
}

fn parts() -> MutexGuard<'static, Vec<Part>> {
    PARTS.lock().unwrap_or_else(PoisonError::into_inner)
}
