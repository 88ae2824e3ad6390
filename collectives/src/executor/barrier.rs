//! Any schedule as a barrier over the fabric.
//!
//! ```text
//!   generation g:   for each step     write g into the flags at whom this member signals
//!                                     wait until its own flags, in its own memory, are at least g
//!                   x1tree's steps    count in by fetch-add; who is last goes on, the others wait for a resume word;
//!                                     where the fabric counts by messages, signals as in other steps
//! ```
//!
//! Who signals and who awaits is worked out once. A flag is a number that only grows, with one writer and a cache line
//! to itself at the member that awaits it (B. Bierbaum and others, "Evaluation of Optimized Barrier Algorithms for SCI
//! Networks with Different MPI Implementations", section 4.2), so a signal is one remote write, a waiter polls local
//! memory, and nothing is reset. A signal may come a generation before it is awaited.

mod layout;
mod passing;
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
use plan::Planned;

/// A barrier of some processes, as one of them holds it. After an error it is of no more use.
#[derive(Debug)]
pub struct Barrier {
    planned: Vec<Planned>,
    counts: bool,
    generation: u64,
    /// The latest one for which all have come.
    completed: u64,
    patience: Patience,
    ground: Ground,
}

impl Barrier {
    /// Joins the barrier of `members` by `schedule`, whose ranks are places among them. All call this with the same
    /// ones in the same order, the same schedule, and an `id` that none of them uses for anything else. Returns when
    /// all have come.
    ///
    /// # Errors
    /// [`Error::Members`], also where the schedule is for another number of ranks; [`Error::NotJoined`] where another
    /// member fails; the fabric's. After one, `id` is not to be used again.
    pub fn join(fabric: &Fabric, members: &[Rank], id: SegmentId, schedule: &Schedule) -> Result<Self> {
        Self::join_across(&Fabrics::of_job(fabric), members, id, schedule)
    }

    /// The same where members on one node signal each other through their memory, and those of different nodes by the
    /// job's fabric: whatever the schedule, and best with one in which few ranks of a node signal others.
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
        let counts = layout.counts();
        Ok(Self { planned, counts, generation: 0, completed: 0, patience, ground })
    }

    /// How many members there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.ground.size()
    }

    /// Whether steps of kind [`FetchAdd`](crate::StepKind::FetchAdd) are done by counting, if the schedule has any. Where
    /// the fabric counts by messages, they are done by the signals that they stand for. The same for all members.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// Has `meanwhile` called again and again while this member waits for others, as
    /// [`Group::do_meanwhile`](super::Group::do_meanwhile) has it.
    pub fn do_meanwhile(&mut self, meanwhile: fn()) {
        self.ground.do_meanwhile(meanwhile);
    }

    /// Has all whom this member signals hear that it will not come any more.
    pub(crate) fn refuse(&self) {
        self.refuse_for(self.ground.own());
    }

    /// The same where `member` is to be named to them, since this one leaves because of that one.
    pub(super) fn refuse_for(&self, member: usize) {
        passing::refuse(&self.planned, &self.ground, member, self.completed);
    }

    /// Returns when all members have come, if the schedule [is a barrier](Schedule::is_barrier).
    ///
    /// # Errors
    /// The fabric's, for a lost member.
    pub fn wait(&mut self) -> Result<()> {
        self.generation += 1;
        let await_all =
            |words: &[GroundPlace], wanted| self.ground.await_all(words, wanted, &mut self.patience);
        passing::pass(&self.planned, self.generation, &self.ground, await_all)?;
        self.completed = self.generation;
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use svmio_transport::{Rank, SegmentId, shm};

    use super::{Barrier, Error, GroundPlace, Planned};
    use crate::algorithm::Algorithm;

    /// Nobody waits so long for anybody who comes.
    const LIMIT: Duration = Duration::from_secs(30);

    /// Three members by counters, who have met once.
    fn counting() -> Vec<Barrier> {
        let schedule = Algorithm::X1Tree.schedule(3).unwrap();
        let (members, id) = ([Rank(0), Rank(1), Rank(2)], SegmentId::new(81, 1));
        let threads: Vec<_> = shm::within_process(3)
            .into_iter()
            .map(|fabric| {
                let schedule = schedule.clone();
                thread::spawn(move || {
                    let mut barrier = Barrier::join(&fabric, &members, id, &schedule).unwrap();
                    barrier.wait().unwrap();
                    barrier
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }

    fn resume_words(barrier: &Barrier) -> &[GroundPlace] {
        let [Planned::Counting { resumed, .. }] = &barrier.planned[..] else {
            panic!("where memory is mapped, its steps are counted")
        };
        resumed
    }

    /// Who came last may be at resuming the others when somebody whom it has resumed leaves.
    #[test]
    fn a_refusal_outlasts_a_late_resumption() {
        let mut barriers = counting();
        barriers[1].refuse();
        barriers[0].ground.signal(resume_words(&barriers[0]), 1).unwrap();
        let (sender, ended) = mpsc::channel();
        for own in [2, 0] {
            let (mut barrier, sender) = (barriers.remove(own), sender.clone());
            thread::spawn(move || {
                let ended = barrier.wait();
                // Nobody's memory goes before all have ended.
                sender.send((ended, barrier)).unwrap();
            });
        }
        let all: Vec<_> = (0..2).map(|_| ended.recv_timeout(LIMIT).expect("it waits for ever")).collect();
        for (ended, _) in &all {
            assert!(matches!(ended, Err(Error::Refused { member: 1, .. })), "{ended:?}");
        }
    }

    static LOOKS: AtomicUsize = AtomicUsize::new(0);

    fn count_look() {
        LOOKS.fetch_add(1, Ordering::Relaxed);
    }

    /// The others are resumed, though who came last is slower at that than somebody, whom it has resumed, at leaving.
    #[test]
    fn who_leaves_after_all_have_come_keeps_nobody_from_being_resumed() {
        let mut barriers = counting();
        let (mut late, mut leaving, last) = (barriers.remove(0), barriers.remove(0), barriers.remove(0));
        leaving.completed = 2;
        leaving.refuse();
        late.do_meanwhile(count_look);
        let waiting = thread::spawn(move || (late.wait(), late));
        while LOOKS.load(Ordering::Relaxed) == 0 && !waiting.is_finished() {
            thread::yield_now();
        }
        last.ground.signal(resume_words(&last), 2).unwrap();
        let (ended, _late) = waiting.join().unwrap();
        assert!(ended.is_ok(), "{ended:?}");
    }
}
