//! What one member does, step by step, with all places worked out.

use std::collections::BTreeSet;

use super::layout::Layout;
use crate::executor::ground::Place;
use crate::rank::Rank;
use crate::schedule::{Schedule, Step, StepKind};

/// What a member does between two points at which it may wait.
#[derive(Debug)]
pub(super) enum Planned {
    /// It signals, then awaits.
    Signals { signal: Vec<Place>, awaited: Vec<Place> },
    /// Those who take part count in, level by level; who comes last goes on, and resumes all others at the end.
    Counting { levels: Vec<Level>, resumed: Vec<Place>, own: Place },
}

/// A step of counting.
#[derive(Debug)]
pub(super) struct Level {
    /// For each that counts in: who, where, and how many count there.
    pub(super) counters: Vec<(Rank, Counter)>,
}

/// A word in which some members count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counter {
    /// In whose place the last one goes on.
    pub(super) head: Rank,
    pub(super) place: Place,
    pub(super) participants: u64,
}

/// The plan of a member.
pub(super) fn plan(schedule: &Schedule, layout: Layout<'_>, own: Rank) -> Vec<Planned> {
    let mut planned = Vec::new();
    let mut levels = Vec::new();
    for (number, step) in schedule.steps().iter().enumerate() {
        let (signalled, awaited) = (step.signalled_by(own), step.awaited_by(own));
        match layout.kind(step) {
            StepKind::Signals => {
                if signalled.is_empty() && awaited.is_empty() {
                    continue;
                }
                let place = |&to: &Rank| Place { member: to.index(), offset: layout.flag(number, own, to) };
                let signal = signalled.iter().map(place).collect();
                let flag =
                    |&from: &Rank| Place { member: from.index(), offset: layout.flag(number, from, own) };
                let awaited = awaited.iter().map(flag).collect();
                planned.push(Planned::Signals { signal, awaited });
            }
            StepKind::FetchAdd => levels.push(level(number, step, layout)),
            StepKind::Resume => {
                let levels = std::mem::take(&mut levels);
                if !signalled.is_empty() || !awaited.is_empty() {
                    let resumed = participants(step).into_iter().filter(|&rank| rank != own);
                    let resumed = resumed
                        .map(|rank| Place { member: rank.index(), offset: layout.first(rank, number) })
                        .collect();
                    // Whoever comes last writes it, and counting is for members that reach each other alike.
                    let own = Place { member: own.index(), offset: layout.first(own, number) };
                    planned.push(Planned::Counting { levels, resumed, own });
                }
            }
        }
    }
    planned
}

/// Whom a member reaches by what it has planned, itself included where it counts there.
pub(super) fn reached(planned: &[Planned]) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    for planned in planned {
        match planned {
            Planned::Signals { signal, .. } => reached.extend(signal.iter().map(|place| place.member)),
            Planned::Counting { levels, resumed, .. } => {
                reached.extend(resumed.iter().map(|place| place.member));
                let counters = levels.iter().flat_map(|level| &level.counters);
                reached.extend(counters.map(|(_, counter)| counter.place.member));
            }
        }
    }
    reached
}

fn level(number: usize, step: &Step, layout: Layout<'_>) -> Level {
    let mut counters = Vec::new();
    for (head, senders) in step.receivers() {
        let place = Place { member: head.index(), offset: layout.first(head, number) };
        let counter = Counter { head, place, participants: senders.len() as u64 + 1 };
        counters.push((head, counter));
        counters.extend(senders.iter().map(|&rank| (rank, counter)));
    }
    counters.sort_unstable_by_key(|(rank, _)| *rank);
    Level { counters }
}

fn participants(step: &Step) -> BTreeSet<Rank> {
    step.signals().flat_map(|signal| [signal.from, signal.to]).collect()
}

impl Level {
    /// Where somebody in the place of `rank` counts in, if it does on this level.
    pub(super) fn counter_of(&self, rank: Rank) -> Option<Counter> {
        let found = self.counters.binary_search_by_key(&rank, |(rank, _)| *rank);
        found.ok().map(|at| self.counters[at].1)
    }
}
