//! Collectives of processes that share a machine's memory.
//!
//! ```text
//!   op n of a member:  room      all have finished with op n − CARDS        (almost always known already)
//!                      publish   words into the card, more into the slot; then the number, which closes both
//!                      await     the others' numbers: polling, giving the core away, sleeping
//!                      take      straight out of their cards and slots
//!                      finish    nothing of op n is read any more
//! ```
//!
//! In a barrier and a small allreduce, which are *meetings*, there is room always.
//!
//! One exchange of this kind is a barrier, an allreduce, an allgather or an alltoall of small data: each member takes
//! from all others, so on a crowded machine each has to run but once per operation. Longer data goes in several
//! operations, one after the other, which overlap as far as there are slots. Where only one side has to be waited for
//! (bcast, gather, scatter, reduce, scan) the others are gone before that, as the root of the Cray X1's broadcast is
//! (J. Nicholson and T. Goozen, "Cray X1 MPI Implementation", section 4); not where long data is copied directly.

mod direct;
mod in_place;
mod moving;
mod prefix;
mod progress;
mod reducing;
mod refusing;
mod settings;
mod starting;
mod two_ways;
mod varying;
mod waiting;

use std::sync::Arc;

use svmio_transport::{
    Atomics, Fabric, LocalSegment, Rank, RemoteSegment, SegmentId, SharedMemory, Subscription,
};

use super::board::{Awaited, Board, CARDS, Card, CardRow, Deed, Line, Notices, Places, Turn, WORDS, Whom};
use super::cores::{self, Cores};
use super::coroutine::Pause;
use super::error::{Error, Result};
use super::joining::{self, Joined};
use super::network::Fabrics;
use super::operation::Elementwise;
use super::patience::{Patience, ranks_here};
use super::slots::{Lane, Layout, Memories};
use progress::Progress;
use two_ways::Ways;

pub(super) use direct::kept_after_errors;
pub use progress::Request;
pub use settings::GroupSettings;
pub use starting::LentMemory;

/// Bytes that go with a flag.
const CARD_BYTES: usize = 8 * WORDS;

/// A group of processes on one machine, as one of its members holds it.
///
/// All members do the same operations in the same order. A member that is given wrong arguments tells the others: each
/// ends in the same operation, or in one that follows, with [`Error::Refused`], and so does whatever is called from
/// then on. Operations that are waited for and those in the background end apart. After an error the group is of no
/// more use, and the buffers of the operation that failed are to stay as they are: a member that has not noticed yet
/// may copy from and to them.
#[derive(Debug)]
pub struct Group {
    board: Board<Arc<Memories>>,
    memories: Arc<Memories>,
    members: Vec<Rank>,
    /// What every call ends with, once a member has refused one.
    refused: Option<Box<Error>>,
    /// Whose loss ends this member's waits: the members', and that of others of whom these may wait meanwhile.
    watched: Vec<Rank>,
    own: usize,
    /// The last operation.
    number: u64,
    /// That of the last meeting.
    turn: Turn,
    /// Up to which operation all are known to have finished.
    known_finished: u64,
    /// Whether something was published that a sleeper may await.
    owes_rousing: bool,
    patience: Patience,
    /// What is done while this member waits.
    meanwhile: Option<fn()>,
    settings: GroupSettings,
    /// Whether all members can copy from and to each other's private memory.
    copies_directly: bool,
    /// What two members know of how to copy what all get.
    ways: Ways,
    /// Where operations stop that would have to wait, in a group that carries them out in the background.
    pause: Option<Pause>,
    /// What carries out operations in the background, once there was one; or why nothing does.
    progress: Option<Result<Progress, Box<Error>>>,
    fabric: Fabric,
    segments: Arc<Segments>,
}

/// The members' memory, in use as long as the group, in the background too.
#[derive(Debug)]
struct Segments {
    // Wakes this member when a peer is lost.
    _subscription: Subscription,
    _remote: Vec<Option<RemoteSegment>>,
    _local: LocalSegment,
}

impl Group {
    /// Joins the group of `members`, which all call this with the same ones in the same order, the same settings and an
    /// `id` that none of them uses for anything else. Returns when all have come.
    ///
    /// # Errors
    /// [`Error::NotMapped`] where the fabric maps no memory; [`Error::Members`]; [`Error::NotJoined`] where another
    /// member fails; the fabric's. After one, `id` is not to be used again.
    pub fn join(fabric: &Fabric, members: &[Rank], id: SegmentId, settings: GroupSettings) -> Result<Self> {
        joining::attempt(&Fabrics::of_job(fabric), id, || Self::join_all(fabric, members, id, settings))
    }

    fn join_all(fabric: &Fabric, members: &[Rank], id: SegmentId, settings: GroupSettings) -> Result<Self> {
        let capabilities = fabric.capabilities();
        if !capabilities.direct_mapping || capabilities.atomics != Atomics::Processor {
            return Err(Error::NotMapped { back_end: capabilities.back_end.clone() });
        }
        let settings = settings.fitting(members.len());
        let layout = Layout::new(members.len(), settings.slot);
        let joined = joining::join(fabric, members, id, layout.length() as u64, |own, place| place != own)?;
        joined.muster(fabric, members, id)?;
        let Joined { own, local, remote, .. } = joined;
        let memory_of = |remote: &Option<RemoteSegment>| match remote {
            None => Ok(local.memory().clone()),
            Some(remote) => remote
                .mapping()
                .cloned()
                .ok_or_else(|| Error::NotMapped { back_end: capabilities.back_end.clone() }),
        };
        let memories: Vec<SharedMemory> = remote.iter().map(memory_of).collect::<Result<_>>()?;
        let memories = Arc::new(Memories::new(memories, layout, Lane::Calls));
        let lanes = [Arc::clone(&memories), Arc::new(memories.beside(Lane::Background))];
        let rouse = move || lanes.iter().for_each(|lane| Places::line(&**lane, own).rouse());
        let subscription = fabric.membership().on_disturbance(rouse);
        let segments = Segments { _subscription: subscription, _remote: remote, _local: local };
        let mut group = Self {
            board: Board::new(Arc::clone(&memories), own),
            memories,
            members: members.to_vec(),
            refused: None,
            watched: members.to_vec(),
            own,
            number: 0,
            turn: Turn::default(),
            known_finished: 0,
            owes_rousing: false,
            patience: Patience::of_process(settings.patience, fabric),
            meanwhile: None,
            settings,
            copies_directly: false,
            ways: Ways::default(),
            pause: None,
            progress: None,
            fabric: fabric.clone(),
            segments: Arc::new(segments),
        };
        group.tell_each_other()?;
        Ok(group)
    }

    /// The same members with their other lane.
    fn in_background(&self) -> Self {
        let memories = Arc::new(self.memories.beside(Lane::Background));
        Self {
            board: Board::new(Arc::clone(&memories), self.own),
            memories,
            members: self.members.clone(),
            refused: None,
            watched: self.watched.clone(),
            own: self.own,
            number: 0,
            turn: Turn::default(),
            known_finished: 0,
            owes_rousing: false,
            patience: self.patience.anew(),
            meanwhile: None,
            settings: self.settings,
            copies_directly: self.copies_directly,
            ways: Ways::default(),
            pause: None,
            progress: None,
            fabric: self.fabric.clone(),
            segments: Arc::clone(&self.segments),
        }
    }

    /// How many members there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Bytes of the longest element that every reduction takes: the same for all members.
    #[must_use]
    pub fn longest_element(&self) -> usize {
        self.settings.longest_element(self.size())
    }

    /// Has this member's waits end with an error when one of `ranks` is lost, too. To be called before the first
    /// operation.
    pub(super) fn watch(&mut self, ranks: &[Rank]) {
        self.watched.extend(ranks);
    }

    /// How many operations this member has begun; long data takes several.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.number
    }

    /// This member's number in the group.
    #[must_use]
    pub fn member(&self) -> usize {
        self.own
    }

    /// Has `meanwhile` called again and again while this member waits for others, as far as that takes longer than a
    /// few microseconds: by a host library that has to go on with what it has begun. It should be short, and must not
    /// wait for anything.
    pub fn do_meanwhile(&mut self, meanwhile: fn()) {
        self.meanwhile = Some(meanwhile);
    }

    /// Returns when all members have come.
    ///
    /// # Errors
    /// The fabric's, for a lost member.
    pub fn barrier(&mut self) -> Result<()> {
        self.hold_meeting(&[])?;
        self.leave();
        Ok(())
    }

    /// What depends on all members: whether they copy from and to each other's private memory, and how they wait.
    fn tell_each_other(&mut self) -> Result<()> {
        let mut answer = [u8::from(self.fabric.capabilities().registers_user_memory)];
        self.allreduce(&mut answer, &Elementwise::commutative(u8::min))?;
        self.copies_directly = answer[0] == 1;
        let own = Cores::of_process().to_bytes();
        let mut all = vec![0; own.len() * self.size()];
        self.allgather(&own, &mut all)?;
        let members: Vec<Cores> = all.as_chunks().0.iter().map(Cores::from_bytes).collect();
        let is_crowded = cores::are_crowded(&members, ranks_here(&self.fabric), &Cores::of_machine());
        self.patience.learn(is_crowded);
        Ok(())
    }

    /// The next operation, with room for what this member publishes.
    #[inline]
    fn begin(&mut self) -> Result<u64> {
        self.check_goes_on()?;
        self.number += 1;
        let reused = self.number.saturating_sub(CARDS as u64);
        if reused > self.known_finished {
            self.wait(Awaited { whom: Whom::All, deed: Deed::Finished, number: reused })?;
            self.known_finished = reused;
        }
        Ok(self.number)
    }

    /// The next operation, for which this member publishes nothing.
    #[inline]
    fn begin_silently(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Does the next operation, which is a meeting: each brings `words`. All have come to it then.
    #[inline]
    fn hold_meeting(&mut self, words: &[u64]) -> Result<Turn> {
        self.check_goes_on()?;
        self.number += 1;
        self.turn = self.turn.next();
        self.board.come_to(self.number, self.turn, words);
        self.owes_rousing = true;
        let number = self.number;
        self.wait(Awaited { whom: Whom::All, deed: Deed::Met(self.turn), number })?;
        self.knows_published(number);
        Ok(self.turn)
    }

    #[inline]
    fn publish(&mut self, number: u64, words: &[u64]) {
        self.board.publish(number, words);
        self.owes_rousing = true;
    }

    /// Tells that this member is done with operation `number`, where not all wait for all.
    #[inline]
    fn finish(&mut self, number: u64) {
        self.board.finish(number);
        self.owes_rousing = true;
    }

    /// Ends an operation: nobody is left asleep.
    #[inline]
    fn leave(&mut self) {
        if std::mem::take(&mut self.owes_rousing) {
            self.board.rouse();
        }
    }

    /// Waits until all have published for operation `number`.
    #[inline]
    fn await_all(&mut self, number: u64) -> Result<()> {
        self.wait(Awaited { whom: Whom::All, deed: Deed::Published, number })?;
        self.knows_published(number);
        Ok(())
    }

    /// All have published for operation `number`. A member publishes at most one operation ahead of what it reads.
    #[inline]
    fn knows_published(&mut self, number: u64) {
        self.known_finished = self.known_finished.max(number.saturating_sub(2));
    }

    #[inline]
    fn await_member(&mut self, member: usize, number: u64) -> Result<()> {
        self.wait(Awaited { whom: Whom::Member(member), deed: Deed::Published, number })
    }

    fn await_finished_by(&mut self, member: usize, number: u64) -> Result<()> {
        self.wait(Awaited { whom: Whom::Member(member), deed: Deed::Finished, number })
    }

    /// Waits until all others have read what they need of operation `number`.
    fn await_finished(&mut self, number: u64) -> Result<()> {
        self.wait(Awaited { whom: Whom::All, deed: Deed::Finished, number })?;
        self.known_finished = self.known_finished.max(number);
        Ok(())
    }
}

impl Places for Arc<Memories> {
    #[inline]
    fn count(&self) -> usize {
        (**self).count()
    }

    #[inline]
    fn line(&self, member: usize) -> &Line {
        (**self).line(member)
    }

    #[inline]
    fn notices(&self) -> &Notices {
        (**self).notices()
    }

    #[inline]
    fn cards(&self, row: CardRow) -> &[Card] {
        (**self).cards(row)
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use svmio_transport::{Rank, SegmentId, shm};

    use super::{Group, GroupSettings};

    /// What two members, threads that are bound to these cores, take the machine for, in the background, too.
    fn is_crowded(cores: [usize; 2], id: SegmentId) -> Vec<bool> {
        let fabrics = shm::within_process(2);
        let members = [Rank(0), Rank(1)];
        std::thread::scope(|scope| {
            let join = |(fabric, core)| {
                scope.spawn(move || {
                    let mut one = CpuSet::new();
                    one.set(core);
                    sched_setaffinity(None, &one).unwrap();
                    let group = Group::join(fabric, &members, id, GroupSettings::default()).unwrap();
                    [group.patience.is_crowded(), group.in_background().patience.is_crowded()]
                })
            };
            let threads: Vec<_> = fabrics.iter().zip(cores).map(join).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn members_poll_where_they_are_bound_to_different_cores() {
        let allowed = sched_getaffinity(None).unwrap();
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
        let (first, last) = (cores[0], cores[cores.len() - 1]);
        assert_eq!(is_crowded([first, last], SegmentId::new(79, 0)), [first == last; 4]);
        assert_eq!(is_crowded([first, first], SegmentId::new(79, 1)), [true; 4]);
    }
}
