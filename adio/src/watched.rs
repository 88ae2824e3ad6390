//! MPI's collectives among ranks of a cluster, which are given up when one of these is lost.
//!
//! MPI itself waits for a rank on a host that is cut off as long as TCP does, or for ever. The cluster's processes
//! notice within the time that `watchdog.timeout` says who is lost, and so this rank looks at what they know while it
//! waits.

use std::ffi::c_int;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use svmio_svm::{Error, Result};

use crate::abi::{Abi, Comm};
use crate::calls::{Begun, Mpi};
use crate::failure::Failure;
use crate::venue::Company;

/// How long a rank that waits only gives its core away: most of what it waits for comes within this.
const YIELDING: Duration = Duration::from_micros(500);
/// Which part of the time that it has waited already it then sleeps before it looks again, at least and at most: what
/// it waits for is late by that much, and the ranks that it waits for have the cores meanwhile.
const PART: u32 = 16;
const SHORTEST_NAP: Duration = Duration::from_micros(50);
const LONGEST_NAP: Duration = Duration::from_millis(1);

/// Whom the ranks of a communicator look out for.
pub(crate) struct Watch(Arc<Company>);

impl Watch {
    pub(crate) fn new(company: Arc<Company>) -> Watch {
        Watch(company)
    }

    /// As [`Means::maxima`](svmio_svm::team::Means::maxima).
    pub(crate) fn maxima<A: Abi>(&self, mpi: &Mpi<A>, comm: Comm<A>, numbers: &mut [i64]) -> Result<()> {
        self.await_result(mpi, numbers, |numbers| mpi.begin_maxima(comm, numbers))
    }

    /// As [`Means::broadcast`](svmio_svm::team::Means::broadcast).
    pub(crate) fn broadcast<A: Abi>(
        &self,
        mpi: &Mpi<A>,
        comm: Comm<A>,
        root: usize,
        bytes: &mut [u8],
    ) -> Result<()> {
        self.await_result(mpi, bytes, |bytes| mpi.begin_broadcast(comm, root as c_int, bytes))
    }

    /// As [`Means::all_gather`](svmio_svm::team::Means::all_gather).
    pub(crate) fn all_gather<A: Abi>(
        &self,
        mpi: &Mpi<A>,
        comm: Comm<A>,
        own: &[u8],
        all: &mut [u8],
    ) -> Result<()> {
        self.await_result(mpi, all, |_| mpi.begin_all_gather(comm, own))
    }

    /// Whether nobody is lost. Who is, is so for good: where one collective was given up, none is begun any more, so
    /// that no rank takes a later one for that of another rank.
    fn check(&self) -> Result<()> {
        self.0.check()
    }

    fn await_result<A: Abi, T: Copy>(
        &self,
        mpi: &Mpi<A>,
        data: &mut [T],
        begin: impl FnOnce(&[T]) -> std::result::Result<Begun<A, T>, Failure>,
    ) -> Result<()> {
        self.check()?;
        // MPI, too, may fail because somebody is lost, and does not say who.
        let disunited = |failure: Failure| {
            self.check().err().unwrap_or_else(|| Error::Disunited { problem: failure.message })
        };
        let mut begun = begin(data).map_err(disunited)?;
        let started = Instant::now();
        while !begun.test(mpi).map_err(disunited)? {
            let waited = started.elapsed();
            if waited < YIELDING {
                thread::yield_now();
            } else {
                self.check()?;
                thread::sleep((waited / PART).clamp(SHORTEST_NAP, LONGEST_NAP));
            }
        }
        if let Some(result) = begun.result() {
            data.copy_from_slice(result);
        }
        Ok(())
    }
}
