//! Any schedule as a barrier over the fabric.
//!
//! ```text
//!   generation g:   for each step     write g into the flags at whom this member signals
//!                                     wait until its own flags, in its own memory, are at least g
//!                   x1tree's steps    count in by fetch-add; who is last goes on, the others wait for a resume word
//! ```
//!
//! Who signals and who awaits is worked out once. A flag is a number that only grows, with one writer and a cache line
//! to itself at the member that awaits it (B. Bierbaum and others, "Evaluation of Optimized Barrier Algorithms for SCI
//! Networks with Different MPI Implementations", section 4.2), so a signal is one remote write, a waiter polls local
//! memory, and nothing is reset. A signal may come a generation before it is awaited.

mod layout;
mod plan;

use svmio_transport::{Fabric, Rank, SegmentId};

use super::error::{Error, Result};
use super::ground::{Ground, Place as GroundPlace};
use super::joining;
use super::network::Fabrics;
use super::patience::Patience;
use crate::rank::Rank as Place;
use crate::schedule::Schedule;
use layout::Layout;
use plan::{Level, Planned};

/// A barrier of some processes, as one of them holds it. After an error it is of no more use.
#[derive(Debug)]
pub struct Barrier {
    planned: Vec<Planned>,
    generation: u64,
    patience: Patience,
    ground: Ground,
}

impl Barrier {
    /// Joins the barrier of `members` by `schedule`, whose ranks are places among them. All call this with the same ones
    /// in the same order, the same schedule, and an `id` that none of them uses for anything else. Returns when all have
    /// come.
    ///
    /// # Errors
    /// [`Error::Members`], also where the schedule is for another number of ranks; [`Error::NotJoined`] where another
    /// member fails; the fabric's. After one, `id` is not to be used again.
    pub fn join(fabric: &Fabric, members: &[Rank], id: SegmentId, schedule: &Schedule) -> Result<Self> {
        Self::join_across(&Fabrics::of_job(fabric), members, id, schedule)
    }

    /// The same where members on one node signal each other through their memory, and those of different nodes by the job's
    /// fabric: whatever the schedule, and best with one in which few ranks of a node signal others.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn join_across(
        fabrics: &Fabrics,
        members: &[Rank],
        id: SegmentId,
        schedule: &Schedule,
    ) -> Result<Self> {
        joining::attempt(fabrics, id, || Self::join_all(fabrics, members, id, schedule))
    }

    fn join_all(fabrics: &Fabrics, members: &[Rank], id: SegmentId, schedule: &Schedule) -> Result<Self> {
        if schedule.ranks() as usize != members.len() {
            let problem = format!("{} members, but a schedule for {}", members.len(), schedule.ranks());
            return Err(Error::Members { id, problem });
        }
        // By messages, a count would cost a round trip where a signal costs half of one.
        let layout = Layout::new(schedule, fabrics.count(members));
        let own = joining::place_of(fabrics.job().rank(), members, id)?;
        let planned = plan::plan(schedule, layout, Place(own as u32));
        let reached = plan::reached(&planned);
        let ground = Ground::join(fabrics, members, id, layout.length(), |place| reached.contains(&place))?;
        let patience = ground.patience();
        Ok(Self { planned, generation: 0, patience, ground })
    }

    /// How many members there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.ground.size()
    }

    /// Has `meanwhile` called again and again while this member waits for others, as
    /// [`Group::do_meanwhile`](super::Group::do_meanwhile) has it.
    pub fn do_meanwhile(&mut self, meanwhile: fn()) {
        self.ground.do_meanwhile(meanwhile);
    }

    /// Has all whom this member signals hear that it will not come any more. What is awaited of counters, nobody hears.
    pub(super) fn refuse(&self) {
        for planned in &self.planned {
            let (Planned::Signals { signal: told, .. } | Planned::Counting { resumed: told, .. }) = planned;
            // Who cannot be reached is lost, or has left itself.
            let _ = self.ground.signal(told, REFUSED);
        }
    }

    /// Returns when all members have come, if the schedule [is a barrier](Schedule::is_barrier).
    ///
    /// # Errors
    /// The fabric's, for a lost member.
    pub fn wait(&mut self) -> Result<()> {
        self.generation += 1;
        let Self { planned, generation, patience, ground } = self;
        planned.iter().try_for_each(|planned| match planned {
            Planned::Signals { signal, awaited } => {
                ground.signal(signal, *generation)?;
                ground.await_flags(awaited, *generation, patience)?;
                check_refusals(ground, awaited)
            }
            Planned::Counting { levels, resumed, own } => {
                if comes_last(ground, levels)? {
                    ground.signal(resumed, *generation)
                } else {
                    ground.await_flags(&[*own], *generation, patience)?;
                    check_refusals(ground, &[*own])
                }
            }
        })
    }
}

/// What a member signals that will not come any more: later than all generations.
const REFUSED: u64 = u64::MAX;

/// That none of those who have signalled these flags has refused to come.
fn check_refusals(ground: &Ground, flags: &[GroundPlace]) -> Result<()> {
    match ground.first_at_least(flags, REFUSED) {
        Some(member) => Err(Error::Refused { member, reason: "it has left the group".to_owned() }),
        None => Ok(()),
    }
}

/// Counts in, level by level; tells whether this member is the last of all.
fn comes_last(ground: &Ground, levels: &[Level]) -> Result<bool> {
    let mut acting = Place(ground.own() as u32);
    for level in levels {
        let Some(counter) = level.counter_of(acting) else { continue };
        // Each generation counts up by as many as take part: the last one is known by the number alone.
        let before = ground.count(counter.place)?;
        if !(before + 1).is_multiple_of(counter.participants) {
            return Ok(false);
        }
        acting = counter.head;
    }
    Ok(true)
}
