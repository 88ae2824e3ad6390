//! All interleavings of members that sleep at once wherever they wait: whoever sleeps through a signal, a resumption or
//! a refusal would sleep for ever, which loom reports; and what came before a barrier is seen after it.
//!
//! With `SVMIO_FULL=1` (`cargo xtask soak`) with one preemption more.

use loom::sync::Arc;
use loom::thread;
use svmio_transport::futex::{AtomicU64, Ordering};

use super::{Place, Planned, Words, pass, refuse};
use crate::algorithm::Algorithm;
use crate::executor::barrier::layout::Layout;
use crate::executor::barrier::plan::plan;
use crate::executor::bed::Bed;
use crate::executor::error::{Error, Result};
use crate::executor::flags::{self, Memory, Wanted};
use crate::rank::Rank;

/// A member's memory, of as many words as the layout has.
struct Segment {
    bed: Bed,
    words: Vec<AtomicU64>,
}

impl Segment {
    fn word(&self, offset: u64) -> &AtomicU64 {
        &self.words[offset as usize / size_of::<u64>()]
    }
}

impl Memory for Segment {
    fn load(&self, offset: u64, ordering: Ordering) -> Result<u64> {
        Ok(self.word(offset).load(ordering))
    }

    fn store(&self, offset: u64, value: u64, ordering: Ordering) -> Result<()> {
        self.word(offset).store(value, ordering);
        Ok(())
    }

    fn fetch_add(&self, offset: u64, amount: u64, ordering: Ordering) -> Result<u64> {
        Ok(self.word(offset).fetch_add(amount, ordering))
    }

    fn bed(&self) -> &Bed {
        &self.bed
    }
}

/// What all share.
struct Shared {
    segments: Vec<Segment>,
    /// What each member writes before a barrier. Relaxed: the barrier orders it.
    written: Vec<AtomicU64>,
}

/// A barrier, as a member holds it.
struct Member {
    shared: Arc<Shared>,
    own: usize,
    planned: Vec<Planned>,
    generation: u64,
    completed: u64,
}

impl Words for Member {
    fn own(&self) -> usize {
        self.own
    }

    fn count(&self, place: Place) -> Result<u64> {
        flags::count(&self.shared.segments[place.member], place.offset)
    }

    fn signal(&self, places: &[Place], generation: u64) -> Result<()> {
        let flag = |place: &Place| Ok((&self.shared.segments[place.member], place.offset));
        flags::signal(places.iter().map(flag), generation)
    }

    fn word(&self, place: Place) -> u64 {
        flags::word(&self.shared.segments[self.own], place.offset).expect("there is such a word")
    }
}

impl Member {
    /// As a barrier waits, but asleep at once.
    fn wait(&mut self) -> Result<()> {
        self.generation += 1;
        let memory = &self.shared.segments[self.own];
        let sleep = |words: &[Place], wanted: Wanted| {
            flags::doze(memory, None, flags::all_come(memory, words, |_| true, wanted), || Ok(()))
        };
        pass(&self.planned, self.generation, self, sleep)?;
        self.completed = self.generation;
        Ok(())
    }

    /// Writes, waits, and sees what all have written.
    fn meet(&mut self) {
        // Relaxed: the barrier orders it.
        self.shared.written[self.own].store(self.generation + 1, Ordering::Relaxed);
        self.wait().expect("all come");
        for written in &self.shared.written {
            assert!(written.load(Ordering::Relaxed) >= self.generation);
        }
    }

    /// Waits for somebody who will not come.
    fn miss(&mut self, who: usize) {
        let error = self.wait().expect_err("somebody has left");
        assert!(matches!(error, Error::Refused { member, .. } if member == who), "{error}");
    }

    fn leave(&self) {
        refuse(&self.planned, self, self.own(), self.completed);
    }
}

/// Has each of `size` members of a barrier do `body`, in all interleavings with at most so many preemptions.
fn check(algorithm: &Algorithm, size: usize, preemptions: usize, body: fn(&mut Member)) {
    let schedule = algorithm.schedule(size as u32).expect("it has a schedule for so many");
    let mut builder = loom::model::Builder::new();
    let more = usize::from(std::env::var_os("SVMIO_FULL").is_some_and(|value| value == "1"));
    builder.preemption_bound = Some(preemptions + more);
    builder.check(move || {
        let layout = Layout::new(&schedule, true);
        let words = layout.length() / size_of::<u64>() as u64;
        let segment =
            || Segment { bed: Bed::default(), words: (0..words).map(|_| AtomicU64::new(0)).collect() };
        let shared = Arc::new(Shared {
            segments: (0..size).map(|_| segment()).collect(),
            written: (0..size).map(|_| AtomicU64::new(0)).collect(),
        });
        let mut members: Vec<_> = (0..size)
            .map(|own| Member {
                shared: Arc::clone(&shared),
                own,
                planned: plan(&schedule, layout, Rank(own as u32)),
                generation: 0,
                completed: 0,
            })
            .collect();
        let mut first = members.remove(0);
        let others: Vec<_> =
            members.into_iter().map(|mut member| thread::spawn(move || body(&mut member))).collect();
        body(&mut first);
        others.into_iter().for_each(|other| other.join().expect("it ends"));
    });
}

#[test]
fn loom_two_signal_and_sleep_three_times() {
    check(&Algorithm::Dissemination, 2, 2, |member| (0..3).for_each(|_| member.meet()));
}

#[test]
fn loom_three_signal_and_sleep() {
    check(&Algorithm::Linear, 3, 1, |member| member.meet());
}

#[test]
fn loom_three_count_and_are_resumed_twice() {
    check(&Algorithm::X1Tree, 3, 1, |member| (0..2).for_each(|_| member.meet()));
}

/// Whoever waits for a flag of one that has left hears of it; what was signalled before counts.
#[test]
fn loom_nobody_sleeps_for_a_signal_of_who_has_left() {
    check(&Algorithm::Dissemination, 2, 3, |member| {
        member.meet();
        if member.own == 1 { member.leave() } else { member.miss(1) }
    });
}

/// Nobody who is resumed late is misled by those who were resumed earlier and have left.
#[test]
fn loom_all_are_resumed_though_others_leave() {
    check(&Algorithm::X1Tree, 3, 2, |member| {
        member.meet();
        member.leave();
    });
}

/// A refusal outlasts the resumption of the barrier before it.
#[test]
fn loom_who_counts_hears_of_who_has_left() {
    check(&Algorithm::X1Tree, 3, 1, |member| {
        member.meet();
        if member.own == 1 { member.leave() } else { member.miss(1) }
    });
}
