//! The clusters that this process has joined because files were opened together: kept for later files, until whoever
//! ends the process's part in them takes them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use svmio_transport::job::Job;

use crate::accounting;
use crate::cluster::Cluster;

/// This process's part in a cluster.
pub struct Part {
    /// The job of the cluster's processes.
    pub job: Job,
    /// The cluster.
    pub cluster: Arc<Cluster>,
}

impl Part {
    /// Leaves the cluster, when all of its processes do or are lost; they are served until then. Where it is asked for,
    /// what files have cost is [told](crate::accounting).
    ///
    /// # Errors
    /// As [`Job::finish`]. The cluster has been left all the same.
    pub fn leave(self) -> svmio_transport::Result<()> {
        accounting::forget_one_node();
        accounting::tell_own(&self.cluster);
        // The agent serves those who are not done yet while the job waits for them, and finds its fabric closed then.
        let finished = self.job.finish();
        accounting::tell_sum(&self.cluster);
        self.cluster.leave();
        finished
    }
}

/// In the order in which they were formed.
static PARTS: Mutex<Vec<Part>> = Mutex::new(Vec::new());

/// The cluster that this process joined last.
pub fn latest() -> Option<Arc<Cluster>> {
    parts().last().map(|part| Arc::clone(&part.cluster))
}

/// The cluster `id`, if this process takes part in it.
pub fn of(id: u64) -> Option<Arc<Cluster>> {
    parts().iter().map(|part| &part.cluster).find(|cluster| cluster.id() == id).map(Arc::clone)
}

/// Keeps a part until it is [taken](take_all).
pub fn keep(part: Part) -> Arc<Cluster> {
    let cluster = Arc::clone(&part.cluster);
    parts().push(part);
    cluster
}

/// Takes all parts, in the order in which their clusters were formed: for leaving them, which every member has to do in
/// this order.
pub fn take_all() -> Vec<Part> {
    std::mem::take(&mut *parts())
}

fn parts() -> MutexGuard<'static, Vec<Part>> {
    PARTS.lock().unwrap_or_else(PoisonError::into_inner)
}
