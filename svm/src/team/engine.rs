//! Members telling each other things by svmio's own engine of collectives: within shared memory, or over a network.

use std::sync::{Mutex, PoisonError};

use svmio_collectives::executor::{self, Elementwise, Group, GroupSettings, NetworkSettings, TwoLevelGroup};
use svmio_transport::{Rank, SegmentId};

use crate::error::{Error, Result};

use super::Means;
use super::reach::{Reach, failed};

/// Bytes of a slot of a group: most of what is told fits into a cache line, and longer texts go in pieces.
const SLOT: usize = 4096;

/// A member's part in what the engine does for a team.
///
/// After an error it is of no more use, and all that is asked of it fails for that reason.
pub struct Engine {
    seat: Mutex<Seat>,
}

enum Seat {
    /// All members share memory.
    Memory(Box<Group>),
    /// They do not.
    Network(Box<TwoLevelGroup>),
    /// There was something, until this.
    Failed(String),
}

impl Engine {
    /// How many numbers of segments an engine takes.
    pub const SEGMENTS: u32 = 3;

    /// Joins the engine of `members`, ranks in the job of `reach`, which all call this with the same ones in the same
    /// order. The `id`, and as many that follow it as [`SEGMENTS`](Self::SEGMENTS) says, none of them uses for anything
    /// else. `meanwhile` is called again and again while this member waits for others.
    ///
    /// # Errors
    /// [`Error::Disunited`] where they do not come together within 30 s, or one is lost.
    pub fn join(reach: &Reach, members: &[Rank], id: SegmentId, meanwhile: Option<fn()>) -> Result<Engine> {
        let within = GroupSettings { slot: SLOT, ..GroupSettings::default() };
        let seat = match (&reach.messenger, reach.fabrics.mapped()) {
            (_, Some(fabric)) if reach.is_memory(members) => {
                let group = Group::join(fabric, members, id, within);
                let mut group = group.map_err(|error| failed(&error))?;
                if let Some(meanwhile) = meanwhile {
                    group.do_meanwhile(meanwhile);
                }
                Seat::Memory(Box::new(group))
            }
            (Some(messenger), _) => {
                let settings = NetworkSettings::default();
                let group = TwoLevelGroup::join(&reach.fabrics, messenger, members, id, within, settings);
                let mut group = group.map_err(|error| failed(&error))?;
                if let Some(meanwhile) = meanwhile {
                    group.do_meanwhile(meanwhile);
                }
                Seat::Network(Box::new(group))
            }
            (None, _) => {
                let problem = "the members reach each other neither by memory nor by messages";
                return Err(Error::Disunited { problem: problem.into() });
            }
        };
        Ok(Engine { seat: Mutex::new(seat) })
    }

    /// Has the group do something; `work` is the same for either kind.
    fn run(
        &self,
        bytes: &mut [u8],
        in_memory: impl FnOnce(&mut Group, &mut [u8]) -> executor::Result<()>,
        over_network: impl FnOnce(&mut TwoLevelGroup, &mut [u8]) -> executor::Result<()>,
    ) -> Result<()> {
        let mut seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = match &mut *seat {
            Seat::Memory(group) => in_memory(group, bytes).map_err(|error| error.to_string()),
            Seat::Network(group) => over_network(group, bytes).map_err(|error| error.to_string()),
            Seat::Failed(problem) => Err(problem.clone()),
        };
        outcome.map_err(|problem| {
            // The others hear of it where this member's part in the group ends.
            *seat = Seat::Failed(problem.clone());
            Error::Disunited { problem }
        })
    }
}

impl Means for Engine {
    fn maxima(&self, numbers: &mut [i64]) -> Result<()> {
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        self.run(
            &mut bytes,
            |group, bytes| group.allreduce(bytes, &Elementwise::commutative(i64::max)),
            |group, bytes| group.allreduce(bytes, &Elementwise::commutative(i64::max)),
        )?;
        for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(size_of::<i64>())) {
            *number = i64::from_ne_bytes(std::array::from_fn(|at| bytes[at]));
        }
        Ok(())
    }

    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        self.run(bytes, |group, bytes| group.bcast(root, bytes), |group, bytes| group.bcast(root, bytes))
    }

    fn all_gather(&self, own: &[u8], all: &mut [u8]) -> Result<()> {
        self.run(all, |group, all| group.allgather(own, all), |group, all| group.allgather(own, all))
    }

    fn gather(&self, root: usize, own: &[u8], all: &mut [u8]) -> Result<()> {
        self.run(all, |group, all| group.gather(root, own, all), |group, all| group.gather(root, own, all))
    }
}
