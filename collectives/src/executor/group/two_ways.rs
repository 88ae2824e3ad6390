//! Long data that all get, of two members, goes one of two ways. Which is the faster depends on how near the cores are
//! to each other, and on what the kernel takes for looking after pages: that is found out by the first operations.
//!
//! ```text
//!   slots       root:  copy in  │ copy in  │ …         each copies everything, side by side, at what lines take
//!               other:          │ copy out │ copy out  from one core's caches to the other's
//!   directly    root:  push half                       each copies a half, side by side, at what pages take to
//!               other: pull half                       be looked after
//! ```

use std::collections::HashMap;
use std::time::{Duration, Instant};

use svmio_transport::back_end::{Piece, Remote};
use svmio_transport::{Registration, UserMemory};

use super::Group;
use crate::executor::blocks::{Room, copy};
use crate::executor::error::Result;
use crate::executor::operation::Elementwise;
use crate::executor::slots::SLOTS;

/// How often each way is tried; slots as often after all of them were touched for the first time.
const TRIALS: u32 = 6;

/// Bytes of a page.
const PAGE: usize = 4096;

/// For how long at most a member polls for one that still copies: what falling asleep and being woken costs is a small
/// part of copying for longer.
const EXPECTED: Duration = Duration::from_micros(200);

/// Operations by which all get the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ForAll {
    Bcast,
    Allgather,
}

/// How two members copy long data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// In and out of slots.
    Slots,
    /// Between their private memories.
    Directly,
}

/// What two members know of the ways: the same at both, since these do the same operations. Lengths of 2^n bytes up to
/// the next are alike.
#[derive(Debug, Default)]
pub(super) struct Ways(HashMap<(ForAll, u32), Trial>);

/// An operation of two members that goes one of the ways.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfTwo {
    operation: ForAll,
    /// Bytes that a member gets from the other at most.
    length: usize,
    /// In how many slots these go.
    pieces: usize,
}

/// How both ways do with lengths that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// So many operations were done, by slots first. Nanoseconds a mebibyte that this member took at least, each way:
    /// touching memory for the first time and whatever else comes between only makes it longer.
    GoesOn {
        done: u32,
        least: [u64; 2],
    },
    Over(Way),
}

/// Measures how long an operation takes a member from when both have come, or, of one that waits for nobody's coming,
/// from its own.
#[derive(Debug)]
pub(super) struct Watch {
    /// When this one came, where somebody wants to know.
    begun: Option<Instant>,
    /// For how long it then waited for the other one.
    waited: Option<Duration>,
}

impl Watch {
    /// One that measures nothing.
    pub(super) fn idle() -> Self {
        Self { begun: None, waited: None }
    }

    fn begin() -> Self {
        Self { begun: Some(Instant::now()), waited: None }
    }

    /// Waits for the other one, the first time for its coming or for what it does first.
    #[inline]
    pub(super) fn meet<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        if self.begun.is_none() || self.waited.is_some() {
            return wait();
        }
        let begun = Instant::now();
        let met = wait();
        self.waited = Some(begun.elapsed());
        met
    }

    fn spent(&self) -> Duration {
        let spent = |begun: Instant| begun.elapsed().saturating_sub(self.waited.unwrap_or_default());
        self.begun.map(spent).unwrap_or_default()
    }
}

impl Group {
    /// The same operation where it may go one of the ways.
    ///
    /// It may not where the loss of others ends this member's waits, too: it would leave, with its memory lent, while
    /// the other member is still to come, and to write there.
    #[inline]
    pub(super) fn of_two(&self, operation: ForAll, length: usize) -> Option<OfTwo> {
        let may_be_two_ways = self.size() == 2
            && self.goes_directly(length)
            && self.watched.iter().all(|rank| self.members.contains(rank));
        may_be_two_ways.then(|| OfTwo { operation, length, pieces: length.div_ceil(self.settings.slot) })
    }

    /// Copies, and learns how long that took as long as both ways are tried; then both members tell each other.
    pub(super) fn copy_one_way(
        &mut self,
        of_two: OfTwo,
        copy: impl FnOnce(&mut Self, Way, &mut Watch) -> Result<()>,
    ) -> Result<()> {
        let way = match self.ways.trial(of_two) {
            &mut Trial::Over(way) => return copy(self, way, &mut Watch::idle()),
            Trial::GoesOn { done, .. } => of_two.way_of_turn(*done),
        };
        let mut watch = Watch::begin();
        copy(self, way, &mut watch)?;
        if let Some(least) = self.ways.trial(of_two).note(watch.spent(), of_two) {
            let mut told = least.map(u64::to_ne_bytes);
            self.allreduce(told.as_flattened_mut(), &Elementwise::commutative(u64::max))?;
            *self.ways.trial(of_two) = Trial::over(told.map(u64::from_ne_bytes));
        }
        Ok(())
    }

    /// [`bcast`](Group::bcast) as its root: the other one has a half copied into its memory, and copies the other half.
    pub(super) fn bcast_halves_from(&mut self, data: &[u8], watch: &mut Watch) -> Result<()> {
        let (pulled, pushed) = data.split_at(half(data.len()));
        let (number, remote, _lent) = self.lend_each_other(UserMemory::of(pulled), watch)?;
        let begun = Instant::now();
        self.push(number, &remote, Piece { offset: 0, bytes: pushed })?;
        self.end_together(number, begun.elapsed())
    }

    /// The same as the other one.
    pub(super) fn bcast_halves(&mut self, data: &mut [u8], watch: &mut Watch) -> Result<()> {
        let (pulled, pushed) = data.split_at_mut(half(data.len()));
        let (number, remote, _lent) = self.lend_each_other(UserMemory::of_mut(pushed), watch)?;
        let begun = Instant::now();
        self.pull(number, &remote, 0, pulled)?;
        self.end_together(number, begun.elapsed())
    }

    /// Each gets the other's block: both pull, side by side. This member's is `own`, or is there already.
    pub(super) fn exchange_blocks(
        &mut self,
        own: Option<&[u8]>,
        blocks: &mut (impl Room + ?Sized),
        watch: &mut Watch,
    ) -> Result<()> {
        let lent = UserMemory::of(own.unwrap_or(blocks.of(self.own)));
        let (number, remote, _lent) = self.lend_each_other(lent, watch)?;
        let begun = Instant::now();
        self.pull(number, &remote, 0, blocks.of(1 - self.own))?;
        if let Some(own) = own {
            copy(own, blocks.of(self.own), 2 * own.len());
        }
        self.end_together(number, begun.elapsed())
    }

    /// Each lets the other at some memory, in the operation that is returned, with what the other one has lent.
    fn lend_each_other(
        &mut self,
        memory: UserMemory,
        watch: &mut Watch,
    ) -> Result<(u64, Remote, Registration)> {
        let number = self.begin()?;
        let registration = self.register(memory)?;
        self.publish(number, &registration.key().0);
        let remote = watch.meet(|| self.memory_of(1 - self.own, number))?;
        Ok((number, remote, registration))
    }

    /// Returns when both have finished with each other's memory, of which this one has copied its part in that time.
    fn end_together(&mut self, number: u64, copying: Duration) -> Result<()> {
        self.finish(number);
        self.expect_finished(number, EXPECTED.min(2 * copying))?;
        self.leave();
        Ok(())
    }
}

impl Ways {
    fn trial(&mut self, of_two: OfTwo) -> &mut Trial {
        let class = of_two.length.checked_ilog2().unwrap_or(0);
        let begins = Trial::GoesOn { done: 0, least: [u64::MAX; 2] };
        self.0.entry((of_two.operation, class)).or_insert(begins)
    }
}

impl Trial {
    /// Takes down how long this member had for an operation. After the last one, what it had at least is returned.
    fn note(&mut self, spent: Duration, of_two: OfTwo) -> Option<[u64; 2]> {
        let Self::GoesOn { done, least } = self else { return None };
        let pace = (spent.as_nanos() << 20) / of_two.length.max(1) as u128;
        let of_way = &mut least[of_two.way_of_turn(*done) as usize];
        *of_way = u64::try_from(pace).unwrap_or(u64::MAX).min(*of_way);
        *done += 1;
        (*done >= of_two.trials_of_slots() + TRIALS).then_some(*least)
    }

    /// That in which the member that took longer took so long at least.
    fn over([slots, directly]: [u64; 2]) -> Self {
        Self::Over(if directly < slots { Way::Directly } else { Way::Slots })
    }
}

impl OfTwo {
    /// Each way by itself: the other one would have the caches filled with something else.
    fn way_of_turn(self, turn: u32) -> Way {
        if turn < self.trials_of_slots() { Way::Slots } else { Way::Directly }
    }

    fn trials_of_slots(self) -> u32 {
        TRIALS + SLOTS.div_ceil(self.pieces.max(1)) as u32
    }
}

/// How many of so many bytes the one copies who wants them: the other one, who has them, copies the rest meanwhile.
/// From its beginning on, whole pages.
fn half(length: usize) -> usize {
    (length / 2).next_multiple_of(PAGE).min(length)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ForAll, OfTwo, TRIALS, Trial, Way, Ways};

    const SHORT: OfTwo = OfTwo { operation: ForAll::Bcast, length: 1 << 20, pieces: 16 };

    /// What comes of trying, with such times by slots and directly; the first of each take longer.
    fn tried(ways: &mut Ways, nanoseconds: [u64; 2]) -> Trial {
        let trials = [SHORT.trials_of_slots(), TRIALS];
        assert_eq!(trials[0], TRIALS + 2, "two touch all slots");
        let mut least = None;
        for (way, (trials, nanoseconds)) in
            [Way::Slots, Way::Directly].into_iter().zip(trials.into_iter().zip(nanoseconds))
        {
            for turn in 0..trials {
                let Trial::GoesOn { done, .. } = *ways.trial(SHORT) else { panic!("{ways:?}") };
                assert_eq!(SHORT.way_of_turn(done), way);
                let first = if turn == 0 { 1000 } else { 0 };
                assert_eq!(least, None);
                least = ways.trial(SHORT).note(Duration::from_nanos(first + nanoseconds), SHORT);
            }
        }
        assert_eq!(least, Some(nanoseconds));
        *ways.trial(SHORT) = Trial::over(nanoseconds);
        *ways.trial(SHORT)
    }

    #[test]
    fn both_ways_are_tried_and_the_faster_one_stays() {
        assert_eq!(tried(&mut Ways::default(), [90, 60]), Trial::Over(Way::Directly));
        assert_eq!(tried(&mut Ways::default(), [50, 60]), Trial::Over(Way::Slots));
    }

    #[test]
    fn what_is_alike_is_tried_together_and_nothing_else() {
        let mut ways = Ways::default();
        let over = tried(&mut ways, [90, 60]);
        assert_eq!(*ways.trial(OfTwo { length: (2 << 20) - 1, ..SHORT }), over);
        for other in [
            OfTwo { length: 2 << 20, ..SHORT },
            OfTwo { length: 0, ..SHORT },
            OfTwo { length: usize::MAX, ..SHORT },
            OfTwo { operation: ForAll::Allgather, ..SHORT },
        ] {
            assert!(matches!(ways.trial(other), Trial::GoesOn { done: 0, .. }), "{other:?}");
        }
    }
}
