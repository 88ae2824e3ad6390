//! A barrier as a value: steps of signals.

mod error;
mod order;

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use self::error::ScheduleError;
use self::order::check_order_of_kinds;
use crate::peers::Peers;
use crate::rank::Rank;
use crate::saving::save;

/// One rank tells another how far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "(Rank, Rank)", into = "(Rank, Rank)")]
pub struct Signal {
    /// Who sends it.
    pub from: Rank,
    /// Who awaits it.
    pub to: Rank,
}

impl Signal {
    /// A signal between the ranks of these numbers.
    #[must_use]
    pub fn new(from: u32, to: u32) -> Self {
        Self { from: Rank(from), to: Rank(to) }
    }

    /// The same signal in the other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { from: self.to, to: self.from }
    }
}

impl From<(Rank, Rank)> for Signal {
    fn from((from, to): (Rank, Rank)) -> Self {
        Self { from, to }
    }
}

impl From<Signal> for (Rank, Rank) {
    fn from(signal: Signal) -> Self {
        (signal.from, signal.to)
    }
}

/// What an executor may make of a step, beside sending its signals as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepKind {
    /// Each signal is a write to a flag at its receiver.
    #[default]
    Signals,
    /// The senders of a rank's signals and the rank itself may count in one word at that rank instead, by fetch-add.
    /// Who comes last goes on in that rank's place; the others go on with the next step of kind
    /// [`Resume`](Self::Resume).
    FetchAdd,
    /// One rank writes the resume words of all others that took part in the steps of kind [`FetchAdd`](Self::FetchAdd)
    /// before: the rank that the signals name, or who goes on in its place.
    Resume,
}

/// The signals that are sent before any of the next step is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    kind: StepKind,
    receivers: Peers,
    senders: Peers,
}

impl Step {
    fn new(number: usize, description: StepDescription, ranks: u32) -> Result<Self, ScheduleError> {
        let StepDescription { kind, mut signals } = description;
        signals.sort_unstable();
        for signal in &signals {
            if let Some(&rank) = [signal.from, signal.to].iter().find(|rank| rank.0 >= ranks) {
                return Err(ScheduleError::OutOfRange { step: number, rank, ranks });
            }
            if signal.from == signal.to {
                return Err(ScheduleError::ToItself { step: number, rank: signal.from });
            }
        }
        if let Some(pair) = signals.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ScheduleError::Twice { step: number, from: pair[0].from, to: pair[0].to });
        }
        let receivers = Peers::of_sorted(signals.iter().map(|signal| (signal.from, signal.to)));
        signals.sort_unstable_by_key(|signal| (signal.to, signal.from));
        let senders = Peers::of_sorted(signals.iter().map(|signal| (signal.to, signal.from)));
        let step = Self { kind, receivers, senders };
        step.check_kind(number)?;
        Ok(step)
    }

    fn check_kind(&self, number: usize) -> Result<(), ScheduleError> {
        let mut senders = self.receivers.lists();
        let misfit = match self.kind {
            StepKind::Signals => None,
            // A word counts who comes to it, and who has counted in one has no second place to count in.
            StepKind::FetchAdd => senders
                .find(|(rank, receivers)| receivers.len() > 1 || !self.awaited_by(*rank).is_empty())
                .map(|(rank, _)| rank),
            StepKind::Resume => senders.nth(1).map(|(rank, _)| rank),
        };
        misfit.map_or(Ok(()), |rank| Err(ScheduleError::Kind { step: number, rank, kind: self.kind }))
    }

    /// What an executor may make of it.
    #[must_use]
    pub fn kind(&self) -> StepKind {
        self.kind
    }

    /// How many signals there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.receivers.len()
    }

    /// Whether nobody signals anybody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All signals, by sender and then by receiver.
    pub fn signals(&self) -> impl Iterator<Item = Signal> + '_ {
        self.receivers
            .lists()
            .flat_map(|(from, receivers)| receivers.iter().map(move |&to| Signal { from, to }))
    }

    /// The ranks that send at least one signal, each with whom it signals.
    pub fn senders(&self) -> impl Iterator<Item = (Rank, &[Rank])> {
        self.receivers.lists()
    }

    /// The ranks that await at least one signal, each with whom it awaits.
    pub fn receivers(&self) -> impl Iterator<Item = (Rank, &[Rank])> {
        self.senders.lists()
    }

    /// Whom a rank signals, by rank.
    #[must_use]
    pub fn signalled_by(&self, rank: Rank) -> &[Rank] {
        self.receivers.of(rank)
    }

    /// Whom a rank awaits, by rank.
    #[must_use]
    pub fn awaited_by(&self, rank: Rank) -> &[Rank] {
        self.senders.of(rank)
    }
}

/// What a rank does in a step: it sends all its signals, and then waits until all that it awaits have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartStep<'schedule> {
    /// Which step of the schedule it is, from 0.
    pub number: usize,
    /// What an executor may make of it.
    pub kind: StepKind,
    /// Whom to signal.
    pub signal: &'schedule [Rank],
    /// Whom to await.
    pub awaited: &'schedule [Rank],
}

/// A schedule: *steps* of signals between *ranks*.
///
/// A rank takes the steps in order. In each it sends its signals, and it goes on when it has received those that it
/// awaits. It leaves after the last. A step in which it has nothing to do costs it nothing. (J. C. Meyer and A. C.
/// Elster, "Optimized Barriers for Heterogeneous Systems Using MPI", section V: a step is one of the incidence
/// matrices.)
///
/// Not every schedule is a barrier: [`is_barrier`](Self::is_barrier) tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ScheduleDescription", into = "ScheduleDescription")]
pub struct Schedule {
    ranks: u32,
    steps: Vec<Step>,
}

impl Schedule {
    /// The schedule for so many ranks with these steps; steps without signals are left out.
    ///
    /// # Errors
    /// [`ScheduleError`] for a rank that is not there, a signal to oneself, the same signal twice in a step, or steps
    /// whose signals do not fit their kinds.
    pub fn new<S>(ranks: u32, steps: impl IntoIterator<Item = S>) -> Result<Self, ScheduleError>
    where
        S: Into<StepDescription>,
    {
        let steps =
            steps.into_iter().map(Into::into).filter(|step: &StepDescription| !step.signals.is_empty());
        let steps = steps
            .enumerate()
            .map(|(number, step)| Step::new(number, step, ranks))
            .collect::<Result<Vec<_>, _>>()?;
        check_order_of_kinds(&steps)?;
        Ok(Self { ranks, steps })
    }

    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The steps.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// How many signals there are, in all steps.
    #[must_use]
    pub fn signals(&self) -> usize {
        self.steps.iter().map(Step::len).sum()
    }

    /// What a rank does in each step in which it does anything.
    pub fn part_of(&self, rank: Rank) -> impl Iterator<Item = PartStep<'_>> {
        self.steps.iter().enumerate().filter_map(move |(number, step)| {
            let (signal, awaited) = (step.signalled_by(rank), step.awaited_by(rank));
            let is_idle = signal.is_empty() && awaited.is_empty();
            (!is_idle).then_some(PartStep { number, kind: step.kind, signal, awaited })
        })
    }

    /// The steps as they are given to [`new`](Self::new).
    #[must_use]
    pub fn descriptions(&self) -> Vec<StepDescription> {
        let describe = |step: &Step| StepDescription { kind: step.kind, signals: step.signals().collect() };
        self.steps.iter().map(describe).collect()
    }

    /// Writes it to a file, as a [`Profile`](crate::profile::Profile::save) is written.
    ///
    /// # Errors
    /// What writing gives.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        save(self, path)
    }
}

/// A step as it is given to [`Schedule::new`] and as it is written to files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StepDescription {
    /// What an executor may make of it.
    #[serde(default)]
    pub kind: StepKind,
    /// Its signals, in any order.
    pub signals: Vec<Signal>,
}

impl From<Vec<Signal>> for StepDescription {
    fn from(signals: Vec<Signal>) -> Self {
        Self { kind: StepKind::Signals, signals }
    }
}

/// A schedule as it is written to files.
#[derive(Serialize, Deserialize)]
struct ScheduleDescription {
    ranks: u32,
    steps: Vec<StepDescription>,
}

impl TryFrom<ScheduleDescription> for Schedule {
    type Error = ScheduleError;

    fn try_from(description: ScheduleDescription) -> Result<Self, ScheduleError> {
        Self::new(description.ranks, description.steps)
    }
}

impl From<Schedule> for ScheduleDescription {
    fn from(schedule: Schedule) -> Self {
        Self { ranks: schedule.ranks, steps: schedule.descriptions() }
    }
}

#[cfg(test)]
mod tests {
    use super::{Schedule, ScheduleError, Signal, StepDescription, StepKind};
    use crate::rank::Rank;

    fn signals(pairs: &[(u32, u32)]) -> Vec<Signal> {
        pairs.iter().map(|&(from, to)| Signal::new(from, to)).collect()
    }

    #[test]
    fn a_rank_sees_whom_it_signals_and_awaits_in_each_step() {
        let schedule =
            Schedule::new(4, [signals(&[(3, 0), (1, 0), (2, 3)]), signals(&[]), signals(&[(0, 3), (0, 1)])])
                .unwrap();
        assert_eq!((schedule.steps().len(), schedule.signals()), (2, 5));
        let part: Vec<_> =
            schedule.part_of(Rank(0)).map(|step| (step.number, step.signal, step.awaited)).collect();
        assert_eq!(part, [(0, &[][..], &[Rank(1), Rank(3)][..]), (1, &[Rank(1), Rank(3)], &[])]);
        let part: Vec<_> =
            schedule.part_of(Rank(2)).map(|step| (step.number, step.signal, step.awaited)).collect();
        assert_eq!(part, [(0, &[Rank(3)][..], &[][..])]);
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let refused = |pairs: &[(u32, u32)]| Schedule::new(3, [signals(pairs)]).unwrap_err();
        assert_eq!(refused(&[(0, 3)]), ScheduleError::OutOfRange { step: 0, rank: Rank(3), ranks: 3 });
        assert_eq!(refused(&[(1, 0), (2, 2)]), ScheduleError::ToItself { step: 0, rank: Rank(2) });
        assert_eq!(
            refused(&[(0, 1), (2, 1), (0, 1)]),
            ScheduleError::Twice { step: 0, from: Rank(0), to: Rank(1) }
        );
        for (kind, pairs) in [
            (StepKind::FetchAdd, &[(1, 0), (1, 2)][..]),
            (StepKind::FetchAdd, &[(1, 0), (2, 1)]),
            (StepKind::Resume, &[(0, 1), (2, 0)]),
        ] {
            let refused = Schedule::new(3, [StepDescription { kind, signals: signals(pairs) }]).unwrap_err();
            assert!(matches!(refused, ScheduleError::Kind { step: 0, .. }), "{refused}");
        }
    }

    #[test]
    fn a_schedule_is_read_as_it_was_written() {
        let arrival = StepDescription { kind: StepKind::FetchAdd, signals: signals(&[(1, 0), (2, 0)]) };
        let resume = StepDescription { kind: StepKind::Resume, signals: signals(&[(0, 1), (0, 2)]) };
        let schedule = Schedule::new(3, [arrival, resume]).unwrap();
        let text = serde_json::to_string(&schedule).unwrap();
        assert_eq!(serde_json::from_str::<Schedule>(&text).unwrap(), schedule);
        assert!(serde_json::from_str::<Schedule>(&text.replace("\"ranks\":3", "\"ranks\":2")).is_err());
    }
}
