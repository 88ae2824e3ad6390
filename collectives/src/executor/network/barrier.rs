//! The barrier of a group: by flags of the fabric's, or any schedule by messages without bytes.
//!
//! ```text
//!   step of a schedule   0─►1 0─►2 1─►2 2─►1          each rank signals, and awaits, any number of others
//!       round 0          0─►1 1─►2                    each sends to one at most, and receives from one at most
//!       round 1          0─►2 2─►1
//! ```
//!
//! A member does the rounds one after the other, a step's before the next step's. So it tells of the same arrivals as
//! by the schedule, or of more: what is proven of the schedule holds.
//!
//! Nobody waits for ever, also where a send waits for its receiver. Of the rounds that somebody has not done look at
//! the first: whoever has a part in it is at it, since all before are done. Its messages make paths and circles, each
//! member sending to the next. On a path whoever comes first only sends and whoever comes last only receives, so
//! somewhere one who sends first meets the next one, who receives first; on a circle this is so by
//! [`PointToPoint::exchange`]. Without the message that they are done with, a circle is a path, and a path is two: so
//! it goes on until none is left.

use super::point_to_point::PointToPoint;
use crate::executor::arguments::check_length;
use crate::executor::barrier::Barrier;
use crate::executor::error::Result;
use crate::rank::Rank;
use crate::schedule::{Schedule, Signal, Step};

/// How members wait until all have come.
#[derive(Debug)]
pub(super) enum Barriers {
    /// By flags.
    Flags(Box<Barrier>),
    /// By messages.
    Messages(Vec<Round>),
}

impl Barriers {
    /// A member's part of a schedule, by messages.
    pub(super) fn by_messages(schedule: &Schedule, own: usize) -> Self {
        let own = Rank(own as u32);
        Self::Messages(schedule.steps().iter().flat_map(|step| rounds(step, schedule.ranks(), own)).collect())
    }

    /// Returns when all have come, if the schedule is a barrier.
    pub(super) fn wait(&mut self, messages: &dyn PointToPoint) -> Result<()> {
        match self {
            Self::Flags(barrier) => barrier.wait(),
            Self::Messages(rounds) => rounds.iter().try_for_each(|round| round.take(messages)),
        }
    }

    /// Has others hear that this member will not come any more, as far as its messages do not tell them.
    pub(super) fn refuse(&self) {
        if let Self::Flags(barrier) = self {
            barrier.refuse();
        }
    }

    /// Has `meanwhile` called while this member waits, other than for messages.
    pub(super) fn do_meanwhile(&mut self, meanwhile: fn()) {
        if let Self::Flags(barrier) = self {
            barrier.do_meanwhile(meanwhile);
        }
    }
}

/// A round of a step, as a member takes part in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Round {
    /// Whom it sends to.
    to: Option<usize>,
    /// Whom it receives from.
    from: Option<usize>,
}

impl Round {
    fn take(self, messages: &dyn PointToPoint) -> Result<()> {
        let length = match (self.to, self.from) {
            (Some(to), Some(from)) => messages.exchange(to, &[], from, &mut [])?,
            (None, Some(from)) => messages.receive(from, &mut [])?,
            (Some(to), None) => return messages.send(to, &[]),
            (None, None) => 0,
        };
        check_length("a signal", length, 0)
    }
}

/// The rounds of a step in which a member takes part.
fn rounds(step: &Step, ranks: u32, own: Rank) -> impl Iterator<Item = Round> {
    let mut rounds = Vec::new();
    for (signal, number) in numbered(step, ranks) {
        if signal.from != own && signal.to != own {
            continue;
        }
        if rounds.len() <= number {
            rounds.resize(number + 1, Round::default());
        }
        if signal.from == own {
            rounds[number].to = Some(signal.to.index());
        } else {
            rounds[number].from = Some(signal.from.index());
        }
    }
    rounds.into_iter().filter(|round| *round != Round::default())
}

/// Each signal of a step with its round: the first in which its sender does not send yet and its receiver does not
/// receive.
fn numbered(step: &Step, ranks: u32) -> impl Iterator<Item = (Signal, usize)> {
    let mut signals: Vec<Signal> = step.signals().collect();
    // By how far they go: where each signals each, all signals that go equally far make a round, and no round is left
    // over.
    signals.sort_by_key(|signal| ((signal.to.0 + ranks - signal.from.0) % ranks, signal.from));
    let (mut sending, mut receiving) =
        (vec![Busy::default(); ranks as usize], vec![Busy::default(); ranks as usize]);
    signals.into_iter().map(move |signal| {
        let (sender, receiver) = (&mut sending[signal.from.index()], &mut receiving[signal.to.index()]);
        let number = sender.first_free_with(receiver);
        sender.take(number);
        receiver.take(number);
        (signal, number)
    })
}

/// The rounds in which a rank sends, or receives, already: a bit for each.
#[derive(Debug, Clone, Default)]
struct Busy(Vec<u64>);

impl Busy {
    fn first_free_with(&self, other: &Self) -> usize {
        let word = |busy: &Self, at: usize| busy.0.get(at).copied().unwrap_or(0);
        let mut at = 0;
        loop {
            let taken = word(self, at) | word(other, at);
            if taken != u64::MAX {
                return 64 * at + taken.trailing_ones() as usize;
            }
            at += 1;
        }
    }

    fn take(&mut self, number: usize) {
        if self.0.len() <= number / 64 {
            self.0.resize(number / 64 + 1, 0);
        }
        self.0[number / 64] |= 1 << (number % 64);
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{Barriers, Busy, numbered};
    use crate::algorithm::Algorithm;
    use crate::schedule::{Schedule, Signal};

    fn schedule(name: &str, ranks: u32) -> Schedule {
        name.parse::<Algorithm>().unwrap().schedule(ranks).unwrap()
    }

    fn rounds_of(schedule: &Schedule, own: usize) -> usize {
        match Barriers::by_messages(schedule, own) {
            Barriers::Messages(rounds) => rounds.len(),
            Barriers::Flags(_) => unreachable!("it was made of a schedule"),
        }
    }

    proptest! {
        /// Whatever the signals are.
        #[test]
        fn in_a_round_each_sends_once_and_receives_once(
            pairs in prop::collection::btree_set((0_u32..90, 0_u32..90), 1..400),
        ) {
            let signals: Vec<Signal> = pairs
                .into_iter()
                .filter(|(from, to)| from != to)
                .map(|(from, to)| Signal::new(from, to))
                .collect();
            let schedule = Schedule::new(90, [signals.clone()]).unwrap();
            let Some(step) = schedule.steps().first() else { return Ok(()) };
            let rounds: Vec<_> = numbered(step, 90).collect();
            let distinct = |key: fn(Signal) -> u32| {
                rounds.iter().map(|&(signal, round)| (key(signal), round)).collect::<BTreeSet<_>>().len()
            };
            prop_assert_eq!(distinct(|signal| signal.from.0), signals.len());
            prop_assert_eq!(distinct(|signal| signal.to.0), signals.len());
            let key = |signal: &Signal| (signal.from, signal.to);
            let mut done: Vec<Signal> = rounds.into_iter().map(|(signal, _)| signal).collect();
            done.sort_by_key(key);
            prop_assert_eq!(done, signals);
        }
    }

    #[test]
    fn no_more_rounds_are_made_than_a_member_has_signals() {
        for (name, ranks, rounds) in
            [("dissemination", 100, 7), ("nx", 100, 99), ("nx2:4", 64, 9), ("nx:4", 64, 9), ("nx2", 5, 4)]
        {
            let schedule = schedule(name, ranks);
            for own in 0..ranks as usize {
                assert_eq!(rounds_of(&schedule, own), rounds, "{name}, member {own} of {ranks}");
            }
        }
    }

    #[test]
    fn rounds_beyond_a_word_are_found() {
        let (mut one, mut other) = (Busy::default(), Busy::default());
        (0..64).for_each(|number| one.take(number));
        (64..70).for_each(|number| other.take(number));
        assert_eq!((one.first_free_with(&other), other.first_free_with(&one)), (70, 70));
        assert_eq!(one.first_free_with(&Busy::default()), 64);
    }
}
