//! A communicator as the means by which a job's processes meet: [`Exchange`] over MPI.

use svmio_transport::job::Exchange;
use svmio_transport::{Error, Rank};

use crate::abi::{Abi, Comm};
use crate::calls::Mpi;

/// The ranks of a communicator.
pub(crate) struct CommunicatorExchange<'m, A: Abi> {
    mpi: &'m Mpi<A>,
    comm: Comm<A>,
}

impl<'m, A: Abi> CommunicatorExchange<'m, A> {
    pub(crate) fn new(mpi: &'m Mpi<A>, comm: Comm<A>) -> CommunicatorExchange<'m, A> {
        CommunicatorExchange { mpi, comm }
    }
}

impl<A: Abi> Exchange for CommunicatorExchange<'_, A> {
    fn rank(&self) -> Rank {
        Rank(self.mpi.rank(self.comm).unsigned_abs())
    }

    fn size(&self) -> u32 {
        self.mpi.size(self.comm).unsigned_abs()
    }

    fn all_gather(&mut self, ours: &[u8]) -> svmio_transport::Result<Vec<Vec<u8>>> {
        let all = self.mpi.all_gather(self.comm, ours);
        all.map_err(|failure| Error::StartUp { problem: failure.message })
    }
}
