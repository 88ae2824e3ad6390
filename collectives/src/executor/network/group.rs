//! A group of processes that reach each other by messages.

use std::sync::Arc;

use svmio_transport::message::Messenger;
use svmio_transport::{Fabric, Rank, SegmentId};

use super::costs::{Choices, MessageCosts, Model};
use super::fabrics::Fabrics;
use crate::algorithm::Algorithm;
use crate::executor::barrier::Barrier;
use crate::executor::error::{Error, Result};
use crate::executor::joining;
use crate::schedule::Schedule;

/// How often a message goes to and fro when costs are measured, and of how many bytes the long one is.
const ROUNDS: u32 = 8;
const LONG: usize = 32 << 10;

/// What a [`NetworkGroup`] goes by, the same for all members.
#[derive(Debug, Clone)]
pub struct NetworkSettings {
    /// What messages cost.
    pub costs: MessageCosts,
    /// Which algorithms are taken, whatever they cost.
    pub choices: Choices,
    /// How its barrier goes; none for dissemination.
    pub barrier: Option<Schedule>,
    /// Bytes of a segment of what goes from member to member: large against what a message costs without its bytes, and small
    /// enough that a message waits at its receiver and not at its sender.
    pub segment: usize,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self { costs: MessageCosts::default(), choices: Choices::default(), barrier: None, segment: 32 << 10 }
    }
}

/// A group of processes, as one of its members holds it, that tell each other everything by messages.
///
/// All members do the same operations in the same order. After an error the group is of no more use. A member that is given
/// wrong arguments leaves it: each of the others ends in the same operation, or in one that follows, with an error, and so
/// does whatever is called from then on. That closes its messenger, also for other groups that use it. What is different
/// from a [`Group`](crate::executor::Group) is only how it is done.
#[derive(Debug)]
pub struct NetworkGroup {
    pub(super) messenger: Arc<Messenger>,
    pub(super) members: Vec<Rank>,
    pub(super) own: usize,
    pub(super) settings: NetworkSettings,
    pub(super) barrier: Barrier,
    /// What every call ends with, once one has failed.
    pub(super) refused: Option<Box<Error>>,
    fabric: Fabric,
}

impl NetworkGroup {
    /// Joins the group of `members`, which all call this with the same ones in the same order, the same settings and an
    /// `id` that none of them uses for anything else. Barriers go over `fabrics`, all else by `messenger`, which other
    /// groups may use, too, as long as the same thread does.
    ///
    /// # Errors
    /// [`Error::Members`]; [`Error::NotJoined`] where another member fails; the fabric's. After one, `id` is not to be used
    /// again.
    pub fn join(
        fabrics: &Fabrics,
        messenger: &Arc<Messenger>,
        members: &[Rank],
        id: SegmentId,
        settings: NetworkSettings,
    ) -> Result<Self> {
        joining::attempt(fabrics, id, || Self::join_all(fabrics, messenger, members, id, settings))
    }

    fn join_all(
        fabrics: &Fabrics,
        messenger: &Arc<Messenger>,
        members: &[Rank],
        id: SegmentId,
        settings: NetworkSettings,
    ) -> Result<Self> {
        let own = joining::place_of(fabrics.job().rank(), members, id)?;
        let misfit = |problem: &dyn std::fmt::Display| Error::Members { id, problem: problem.to_string() };
        let schedule = match &settings.barrier {
            Some(schedule) => schedule.clone(),
            None => {
                Algorithm::Dissemination.schedule(members.len() as u32).map_err(|problem| misfit(&problem))?
            }
        };
        if settings.segment == 0 {
            return Err(misfit(&"segments without bytes"));
        }
        let barrier = Barrier::join_across(fabrics, members, id, &schedule)?;
        let (messenger, fabric) = (Arc::clone(messenger), fabrics.job().clone());
        Ok(Self { messenger, members: members.to_vec(), own, settings, barrier, refused: None, fabric })
    }

    /// How many members there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// This member's number in the group.
    #[must_use]
    pub fn member(&self) -> usize {
        self.own
    }

    /// Has `meanwhile` called again and again while this member waits for others, in its messenger, too, as
    /// [`Group::do_meanwhile`](crate::executor::Group::do_meanwhile) has it.
    pub fn do_meanwhile(&mut self, meanwhile: fn()) {
        self.barrier.do_meanwhile(meanwhile);
        self.messenger.do_meanwhile(meanwhile);
    }

    /// Returns when all members have come.
    ///
    /// # Errors
    /// The fabric's, for a lost member.
    pub fn barrier(&mut self) -> Result<()> {
        self.attempt(|group| group.barrier.wait())
    }

    /// Measures what messages cost, between the first member and the last, and goes by that from now on. To be called by
    /// all.
    ///
    /// # Errors
    /// The fabric's.
    pub fn measure_costs(&mut self) -> Result<MessageCosts> {
        self.attempt(|group| {
            let mut told = [0; 2 * size_of::<f64>()];
            let last = group.size() - 1;
            if last > 0 && (group.own == 0 || group.own == last) {
                let times = [
                    group.half_round_trip(last - group.own, 0)?,
                    group.half_round_trip(last - group.own, LONG)?,
                ];
                for (bytes, time) in told.chunks_exact_mut(size_of::<f64>()).zip(times) {
                    bytes.copy_from_slice(&time.to_ne_bytes());
                }
            }
            group.bcast(0, &mut told)?;
            let time = |at: usize| f64::from_ne_bytes(std::array::from_fn(|byte| told[8 * at + byte]));
            let (short, long) = (time(0), time(1));
            if last > 0 {
                group.settings.costs.latency = short;
                group.settings.costs.per_byte = ((long - short) / LONG as f64).max(0.0);
            }
            Ok(group.settings.costs)
        })
    }

    /// Nanoseconds that a message takes: the median of some.
    fn half_round_trip(&self, with: usize, bytes: usize) -> Result<f64> {
        let mut buffer = vec![0; bytes];
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let begun = self.fabric.now();
            if self.own == 0 {
                self.send(with, &buffer)?;
                self.receive(with, &mut buffer)?;
            } else {
                self.receive(with, &mut buffer)?;
                self.send(with, &buffer)?;
            }
            times.push(self.fabric.now().since(begun).as_secs_f64() * 1e9 / 2.0);
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }

    pub(super) fn model(&self) -> Model {
        Model { costs: self.settings.costs, members: self.size(), segment: self.settings.segment }
    }
}
