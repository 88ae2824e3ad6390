//! A group of processes that collectives are to be chosen for.

use std::sync::Arc;

use svmio_transport::message::Messenger;
use svmio_transport::{Fabric, Rank, SegmentId};

use super::error::Result;
use crate::executor;

use crate::executor::Fabrics;

/// How many segments of its own each team has.
pub(super) const SEGMENTS: u32 = 2048;

/// A group of processes, as one of its members sees it. Clones are the same.
#[derive(Debug, Clone)]
pub struct Team {
    fabrics: Fabrics,
    members: Arc<[Rank]>,
    own: usize,
    id: SegmentId,
    messenger: Arc<Messenger>,
}

impl Team {
    /// The team of `members`, of which this process is one; all have the same ones in the same order.
    ///
    /// The team exports segments of the space of `id`, those from 2048 times its number on, so many of them: for nobody
    /// else's use. Messages of the basic functions go through `messenger`, which may be that of other teams, too, as
    /// long as the functions of all of them are called one after the other; where a member withdraws from one of them,
    /// or cannot do its part, it may be closed.
    ///
    /// # Errors
    /// [`executor::Error::Members`] where this process is no member, or one is there twice.
    pub fn new(fabric: &Fabric, members: &[Rank], id: SegmentId, messenger: Arc<Messenger>) -> Result<Self> {
        Self::across(&Fabrics::of_job(fabric), members, id, messenger)
    }

    /// The same where members on one node reach each other through its memory, too.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn across(
        fabrics: &Fabrics,
        members: &[Rank],
        id: SegmentId,
        messenger: Arc<Messenger>,
    ) -> Result<Self> {
        let own = executor::place_of(fabrics.job().rank(), members, id)?;
        Ok(Self { fabrics: fabrics.clone(), members: members.into(), own, id, messenger })
    }

    /// The job's fabric, which all members are on.
    #[must_use]
    pub fn fabric(&self) -> &Fabric {
        self.fabrics.job()
    }

    /// That, and the memory of this member's node.
    #[must_use]
    pub fn fabrics(&self) -> &Fabrics {
        &self.fabrics
    }

    /// The members.
    #[must_use]
    pub fn members(&self) -> &[Rank] {
        &self.members
    }

    /// How many members there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// This member's number.
    #[must_use]
    pub fn own(&self) -> usize {
        self.own
    }

    /// The node of a member.
    #[must_use]
    pub fn node(&self, member: usize) -> &str {
        self.fabric().membership().node(self.members[member])
    }

    /// What the members send messages by.
    #[must_use]
    pub fn messenger(&self) -> &Arc<Messenger> {
        &self.messenger
    }

    /// That no member is lost.
    ///
    /// # Errors
    /// The fabric's.
    pub fn check(&self) -> Result<()> {
        let membership = self.fabric().membership();
        Ok(self.members.iter().try_for_each(|&member| membership.check(member))?)
    }

    /// The id of one of the team's segments, which are numbered up to 2047.
    #[must_use]
    pub fn segment(&self, number: u32) -> SegmentId {
        SegmentId::new(self.id.space, self.id.number.wrapping_mul(SEGMENTS).wrapping_add(number % SEGMENTS))
    }
}
