//! A group of processes that reach each other by messages.

use std::sync::Arc;

use svmio_transport::message::{MessageSettings, Messenger};
use svmio_transport::{Rank, SegmentId};

use super::barrier::Barriers;
use super::choices::Choices;
use super::costs::Model;
use super::fabrics::Fabrics;
use super::over_fabric::OverFabric;
use super::point_to_point::PointToPoint;
use crate::algorithm::Algorithm;
use crate::collective::MessageCosts;
use crate::executor::arguments::check_member;
use crate::executor::barrier::Barrier;
use crate::executor::error::{Error, Result};
use crate::executor::joining;
use crate::schedule::Schedule;

/// What a [`NetworkGroup`] goes by, the same for all members.
#[derive(Debug, Clone)]
pub struct NetworkSettings {
    /// What messages cost, until that is [learned](NetworkGroup::learn_costs).
    pub costs: MessageCosts,
    /// Which algorithms are taken, whatever they cost.
    pub choices: Choices,
    /// How its barrier goes; none for dissemination.
    pub barrier: Option<Schedule>,
    /// Bytes of a segment of what goes from member to member: large against what a message costs without its bytes, and
    /// small enough that a message waits at its receiver and not at its sender.
    pub segment: usize,
    /// Of a group on two levels: how many bytes the first member of a node keeps for others at most. With so many, one
    /// message more or less matters little.
    pub held: usize,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        let (costs, choices) = (MessageCosts::default(), Choices::default());
        Self { costs, choices, barrier: None, segment: 32 << 10, held: 4 << 20 }
    }
}

impl NetworkSettings {
    /// How messages go best that are only of groups, whose members are in calls while these are under way. What `told`
    /// has otherwise than the default holds.
    #[must_use]
    pub fn messages(told: MessageSettings) -> MessageSettings {
        let default = MessageSettings::default();
        let unless_told = |told: u32, default: u32, here: u32| if told == default { here } else { told };
        MessageSettings {
            asynchronous: false,
            // Over a network an eager buffer costs a round trip more, and a copy next to nothing: gather of 1 KiB from
            // 4 hosts 60 and 20 µs, alltoall 170 and 120.
            short_packet: unless_told(told.short_packet, default.short_packet, 8 << 10),
            ring: unless_told(told.ring, default.ring, 128 << 10),
            // Who exchanges something waits for it, as who sends does: an allreduce of 16 KiB on 4 hosts takes 400 µs, by
            // rendezvous 650.
            rendezvous_threshold: unless_told(
                told.rendezvous_threshold,
                default.rendezvous_threshold,
                told.eager_buffer,
            ),
            ..told
        }
    }

    /// How a barrier of so many members goes.
    ///
    /// # Errors
    /// What is wrong with the settings.
    fn schedule(&self, members: usize) -> Result<Schedule, String> {
        if self.segment == 0 {
            return Err("segments without bytes".to_owned());
        }
        let Some(schedule) = &self.barrier else {
            return Algorithm::Dissemination.schedule(members as u32).map_err(|problem| problem.to_string());
        };
        match schedule.ranks() as usize {
            ranks if ranks == members => Ok(schedule.clone()),
            ranks => Err(format!("{members} members, but a schedule for {ranks}")),
        }
    }
}

/// A group of processes, as one of its members holds it, that tell each other everything by messages.
///
/// All members do the same operations in the same order. After an error the group is of no more use. A member that is
/// given wrong arguments leaves it: each of the others ends in the same operation, or in one that follows, with an
/// error, and so does whatever is called from then on. That closes its messenger, also for other groups that use it.
/// What is different from a [`Group`](crate::executor::Group) is only how it is done.
///
/// It is [joined](Self::join) over the fabric, or made [over](Self::over) what a host library has for messages: then it
/// is up to that how the others hear of a member that leaves.
#[derive(Debug)]
pub struct NetworkGroup {
    pub(super) messages: Box<dyn PointToPoint>,
    size: usize,
    pub(super) own: usize,
    pub(super) settings: NetworkSettings,
    pub(super) barrier: Barriers,
    /// What every call ends with, once one has failed.
    pub(super) refused: Option<Box<Error>>,
    /// Of whose loss all members hear by themselves: the members', and that of others of whom these may wait meanwhile.
    pub(super) watched: Vec<Rank>,
}

impl NetworkGroup {
    /// Joins the group of `members`, which all call this with the same ones in the same order, the same settings and an
    /// `id` that none of them uses for anything else. Barriers go over `fabrics`, all else by `messenger`, which other
    /// groups may use, too, as long as the same thread does. It is to [watch](Messenger::watch) the members: one that
    /// has left because of a loss is no loss itself, and whoever waits for it has to hear of that one.
    ///
    /// # Errors
    /// [`Error::Members`]; [`Error::NotJoined`] where another member fails; the fabric's. After one, `id` is not to be
    /// used again.
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
        let schedule = settings.schedule(members.len()).map_err(|problem| Error::Members { id, problem })?;
        let barrier = Barriers::Flags(Box::new(Barrier::join_across(fabrics, members, id, &schedule)?));
        let (messenger, fabric) = (Arc::clone(messenger), fabrics.job().clone());
        let messages = OverFabric { messenger, ranks: members.to_vec(), own, fabric };
        Ok(Self { watched: members.to_vec(), ..Self::of(Box::new(messages), settings, barrier) })
    }

    /// The group of the members that a host library has messages between: barriers, and all else, go by these. All
    /// members call this with the same settings; nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Settings`], also where the barrier's schedule is for another number of ranks; [`Error::NoSuchMember`]
    /// where this one is none.
    pub fn over(messages: impl PointToPoint + 'static, settings: NetworkSettings) -> Result<Self> {
        let (size, own) = (messages.members(), messages.member());
        check_member(own, size)?;
        let schedule = settings.schedule(size).map_err(|problem| Error::Settings { problem })?;
        let barrier = Barriers::by_messages(&schedule, own);
        Ok(Self::of(Box::new(messages), settings, barrier))
    }

    fn of(messages: Box<dyn PointToPoint>, settings: NetworkSettings, barrier: Barriers) -> Self {
        let (size, own) = (messages.members(), messages.member());
        Self { messages, size, own, settings, barrier, refused: None, watched: Vec::new() }
    }

    /// Takes all members to hear by themselves of the loss of one of `ranks`, too.
    pub(super) fn watch(&mut self, ranks: &[Rank]) {
        self.watched.extend(ranks);
    }

    /// How many members there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// This member's number in the group.
    #[must_use]
    pub fn member(&self) -> usize {
        self.own
    }

    /// Has `meanwhile` called again and again while this member waits for others, in its messenger, too, as
    /// [`Group::do_meanwhile`](crate::executor::Group::do_meanwhile) has it; over a host library's messages as
    /// [`PointToPoint::do_meanwhile`] says.
    pub fn do_meanwhile(&mut self, meanwhile: fn()) {
        self.barrier.do_meanwhile(meanwhile);
        self.messages.do_meanwhile(meanwhile);
    }

    /// Returns when all members have come.
    ///
    /// # Errors
    /// The fabric's, for a lost member.
    pub fn barrier(&mut self) -> Result<()> {
        self.attempt(|group| group.barrier.wait(&*group.messages))
    }

    pub(super) fn model(&self) -> Model {
        Model { costs: self.settings.costs, members: self.size(), segment: self.settings.segment }
    }
}
