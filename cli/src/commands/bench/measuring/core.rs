//! A core for each process that is measured.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use svmio_transport::Fabric;

/// Keeps the calling thread on a core that no other process of the job is kept on, if there are enough: the scheduler
/// may have two that have rested on one core otherwise, for milliseconds, while another one is idle. The fabric's
/// threads, which were started before, go wherever they are put.
pub(super) fn keep(fabric: &Fabric) {
    // Where nobody tells, or it is not allowed, the scheduler's choice has to do.
    let all = sched_getaffinity(None).unwrap_or_default();
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core));
    let (rank, size) = (fabric.rank().0 as usize, fabric.size() as usize);
    if cores.clone().count() >= size
        && let Some(core) = cores.nth(rank)
    {
        let mut own = CpuSet::new();
        own.set(core);
        let _ = sched_setaffinity(None, &own);
    }
}
