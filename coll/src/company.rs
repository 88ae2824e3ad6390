//! The members of a group over several nodes, as the job knows them, and what is behind their errors.

use std::sync::Arc;
use std::time::{Duration, Instant};

use svmio_collectives::executor::Error;
use svmio_transport::{Error as FabricError, Membership, Rank};

/// How long it may take until all have heard of a loss that one of them has heard of, and how often that is looked at.
const HEARSAY: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(1);

/// Members on several nodes, by their ranks in a job.
#[derive(Debug)]
pub(crate) struct Company {
    membership: Arc<Membership>,
    ranks: Vec<Rank>,
}

impl Company {
    pub(crate) fn new(membership: Arc<Membership>, ranks: Vec<Rank>) -> Self {
        Self { membership, ranks }
    }

    /// How many there are.
    pub(crate) fn size(&self) -> usize {
        self.ranks.len()
    }

    /// What is behind an error: where a member has left, the loss of another one that it has heard of first.
    #[cold]
    pub(crate) fn explained(&self, error: Error) -> Error {
        if !matches!(error, Error::Fabric(FabricError::NoMessenger { .. }) | Error::Refused { .. }) {
            return error;
        }
        let until = Instant::now() + HEARSAY;
        loop {
            let loss = self.ranks.iter().find_map(|&rank| self.membership.check(rank).err());
            match loss {
                Some(loss) => return loss.into(),
                None if Instant::now() >= until => return error,
                None => std::thread::sleep(PAUSE),
            }
        }
    }
}
