//! What a simulated rank remembers.

use std::time::Duration;

use svmio_transport::Time;

use crate::rank::Rank;
use crate::schedule::{PartStep, Schedule};

/// The parts of all ranks: what each does in the steps in which it does anything.
pub(super) struct Parts<'schedule>(Vec<Vec<PartStep<'schedule>>>);

impl<'schedule> Parts<'schedule> {
    /// Step by step rather than rank by rank: each list of a step is met once, none is searched for.
    pub(super) fn of(schedule: &'schedule Schedule) -> Self {
        let mut parts = vec![Vec::<PartStep<'schedule>>::new(); schedule.ranks() as usize];
        for (number, step) in schedule.steps().iter().enumerate() {
            let idle = PartStep { number, kind: step.kind(), signal: &[], awaited: &[] };
            for (rank, signal) in step.senders() {
                parts[rank.index()].push(PartStep { signal, ..idle });
            }
            for (rank, awaited) in step.receivers() {
                match parts[rank.index()].last_mut().filter(|part| part.number == number) {
                    Some(part) => part.awaited = awaited,
                    None => parts[rank.index()].push(PartStep { awaited, ..idle }),
                }
            }
        }
        Self(parts)
    }

    /// A rank's steps.
    pub(super) fn of_rank(&self, rank: Rank) -> &[PartStep<'schedule>] {
        &self.0[rank.index()]
    }

    /// Where in a rank's steps those after step `number` begin.
    pub(super) fn after(&self, rank: Rank, number: usize) -> usize {
        self.of_rank(rank).partition_point(|part| part.number <= number)
    }
}

/// A signal on its way to a rank, or there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Incoming {
    pub(super) step: usize,
    pub(super) arrived: Time,
    pub(super) look: Duration,
}

/// A simulated rank.
#[derive(Debug)]
pub(super) struct RankState {
    /// In whose place it does what it does: its own, but after it came last to a word.
    pub(super) place: Rank,
    /// Which of that rank's steps it takes.
    pub(super) at: usize,
    /// How many signals of that step it has sent.
    pub(super) sent: usize,
    /// How many of these may be under way still, where there is a check to be made.
    pub(super) unchecked: usize,
    /// When the last of the others is known to have arrived, likewise.
    pub(super) acknowledged: Option<Time>,
    /// That it has sent them all, and makes the check.
    pub(super) checking: Option<Checking>,
    /// What it waits for.
    pub(super) waiting: Option<Waiting>,
    /// Signals of this and later steps.
    pub(super) incoming: Vec<Incoming>,
}

/// That a rank waits for its own signals to arrive, and then for those of others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checking {
    pub(super) step: usize,
    /// How many signals of others.
    pub(super) signals: usize,
    /// When its last one was stored.
    pub(super) stored: Time,
}

/// That a rank waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) step: usize,
    pub(super) since: Time,
    /// How many signals have not been sent yet.
    pub(super) missing: usize,
}

impl RankState {
    pub(super) fn new(rank: Rank) -> Self {
        Self {
            place: rank,
            at: 0,
            sent: 0,
            unchecked: 0,
            acknowledged: None,
            checking: None,
            waiting: None,
            incoming: Vec::new(),
        }
    }

    /// Begins to wait for so many signals of a step; tells when all are seen, if they are known.
    pub(super) fn wait(&mut self, step: usize, signals: usize, since: Time) -> Option<Time> {
        let known = self.incoming.iter().filter(|incoming| incoming.step == step).count();
        self.waiting = Some(Waiting { step, since, missing: signals - known });
        self.seen()
    }

    /// Takes a signal; tells when all that it waits for are seen, if this was the last that was missing.
    pub(super) fn receive(&mut self, incoming: Incoming) -> Option<Time> {
        self.incoming.push(incoming);
        let waiting = self.waiting.as_mut().filter(|waiting| waiting.step == incoming.step)?;
        waiting.missing -= 1;
        self.seen()
    }

    fn seen(&mut self) -> Option<Time> {
        let Waiting { step, since, .. } = self.waiting.filter(|waiting| waiting.missing == 0)?;
        self.waiting = None;
        let mut flags: Vec<_> = self.incoming.extract_if(.., |incoming| incoming.step == step).collect();
        flags.sort_unstable_by_key(|incoming| incoming.arrived);
        Some(flags.iter().fold(since, |now, flag| now.max(flag.arrived).after(flag.look)))
    }
}
