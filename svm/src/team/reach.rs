//! By what the processes of a job reach each other, for the engines of all their teams.

use std::sync::Arc;

use svmio_collectives::executor::Fabrics;
use svmio_transport::message::{MessageSettings, Messenger, Mode, Port};
use svmio_transport::{Fabric, Rank, SegmentId};

use crate::error::{Error, Result};

/// The port on which teams that share no memory tell each other things. Agents have the two before it.
const PORT: Port = Port::new(3).expect("there are more ports");

/// By what a job's processes reach each other: shared memory, or messages between nodes and shared memory within each.
#[derive(Clone)]
pub struct Reach {
    pub(super) fabrics: Fabrics,
    /// None where all share memory.
    pub(super) messenger: Option<Arc<Messenger>>,
}

impl Reach {
    /// Over the fabric of a job, all of whose processes call this once, with an `id` that nothing else uses. Buffers
    /// for messages are as `messages` says.
    ///
    /// # Errors
    /// [`Error::Fabric`].
    pub fn of(fabric: &Fabric, id: SegmentId, messages: &MessageSettings) -> Result<Reach> {
        let fabrics = Fabrics::join(fabric, id).map_err(|error| failed(&error))?;
        let share = fabrics.mapped().is_some()
            && fabric.membership().ranks().all(|rank| fabrics.are_near(fabric.rank(), rank));
        if share {
            return Ok(Reach { fabrics, messenger: None });
        }
        let messenger = Messenger::open(fabric, PORT, &for_calls(messages));
        let messenger = messenger.map_err(|error| failed(&error.into()))?;
        messenger.watch(&fabric.membership().ranks().collect::<Vec<_>>());
        Ok(Reach { fabrics, messenger: Some(Arc::new(messenger)) })
    }

    /// Whether all of `members` share memory with this process: the same for all of them.
    pub fn is_memory(&self, members: &[Rank]) -> bool {
        self.fabrics.mapped().is_some()
            && members.iter().all(|&rank| self.fabrics.are_near(self.fabrics.job().rank(), rank))
    }
}

/// All are in a call while messages are under way, most of which have a few bytes.
fn for_calls(told: &MessageSettings) -> MessageSettings {
    MessageSettings { asynchronous: false, mode: Mode::Automatic, ..told.clone() }
}

pub(super) fn failed(error: &svmio_collectives::executor::Error) -> Error {
    Error::Disunited { problem: error.to_string() }
}
