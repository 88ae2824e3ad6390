//! One run of a schedule: events by time.

use std::collections::HashMap;
use std::time::Duration;

use svmio_transport::Time;
use svmio_transport::sim::Agenda;

use crate::rank::Rank;
use crate::schedule::{PartStep, Schedule, StepKind};
use crate::simulation::costs::Costs;
use crate::simulation::ranks::{Incoming, Parts, RankState};
use crate::simulation::{Simulation, Timing};

/// What happens.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// A rank is free to go on with its step, or to begin it.
    GoOn(Rank),
    /// A rank's fetch-add gets to the word of a step at a rank.
    Count { rank: Rank, step: usize, home: Rank },
    /// A rank knows whether it came last to the word of a step at a rank.
    Counted { rank: Rank, step: usize, home: Rank, is_last: bool },
}

pub(super) fn run(
    simulation: &Simulation,
    schedule: &Schedule,
    entered: impl Fn(Rank) -> Duration,
) -> Timing {
    let ranks = schedule.ranks();
    let mut run = Run {
        schedule,
        parts: Parts::of(schedule),
        costs: Costs::new(simulation),
        agenda: Agenda::new(),
        ranks: (0..ranks).map(|rank| RankState::new(Rank(rank))).collect(),
        words: HashMap::new(),
        leaves: vec![Time(0); ranks as usize],
    };
    let mut last = Time(0);
    for rank in (0..ranks).map(Rank) {
        let time = Time(0).after(entered(rank));
        last = last.max(time);
        run.agenda.enter(time, Event::GoOn(rank));
    }
    while let Some((now, event)) = run.agenda.take() {
        match event {
            Event::GoOn(rank) => run.go_on(rank, now),
            Event::Count { rank, step, home } => run.count(rank, step, home, now),
            Event::Counted { rank, step, home, is_last } => run.counted(rank, step, home, is_last, now),
        }
    }
    let total = run.leaves.iter().max().map_or(Duration::ZERO, |left| left.since(last));
    Timing { leaves: run.leaves, total }
}

struct Run<'run> {
    schedule: &'run Schedule,
    parts: Parts<'run>,
    costs: Costs<'run>,
    agenda: Agenda<Event>,
    ranks: Vec<RankState>,
    /// How many have come to the word of a step at a rank.
    words: HashMap<(usize, Rank), usize>,
    leaves: Vec<Time>,
}

impl Run<'_> {
    fn go_on(&mut self, rank: Rank, now: Time) {
        let state = &self.ranks[rank.index()];
        let Some(&part) = self.parts.of_rank(state.place).get(state.at) else {
            self.leaves[rank.index()] = now;
            return;
        };
        match part.kind {
            StepKind::Signals => self.send(rank, part, part.awaited.len(), now),
            StepKind::FetchAdd => {
                let home = part.signal.first().copied().unwrap_or(state.place);
                let arrived = self.costs.request(rank, home, now);
                self.agenda.enter(arrived, Event::Count { rank, step: part.number, home });
            }
            // Only who goes on in the place of the step's sender gets here, and waits for nobody.
            StepKind::Resume => self.send(rank, part, 0, now),
        }
    }

    /// Sends the next signal of a step; after the last, the rank waits for so many.
    fn send(&mut self, from: Rank, part: PartStep<'_>, awaited: usize, now: Time) {
        let state = &mut self.ranks[from.index()];
        let Some(&to) = part.signal.get(state.sent) else {
            self.wait(from, part.number, awaited, now);
            return;
        };
        // Who goes on in another's place signals that one, not itself.
        let to = if to == from { state.place } else { to };
        let sent = self.costs.send(from, to, now);
        state.sent += 1;
        state.acknowledged = state.acknowledged.max(sent.acknowledged);
        if state.sent == part.signal.len() {
            // Waiting changes nothing for others: that it begins only when the store is done needs no event.
            self.wait(from, part.number, awaited, sent.free);
        } else {
            self.agenda.enter(sent.free, Event::GoOn(from));
        }
        let incoming = Incoming { step: part.number, arrived: sent.arrived, look: sent.look };
        if let Some(seen) = self.ranks[to.index()].receive(incoming) {
            self.finish(to, part.number, seen);
        }
    }

    /// All signals of a step are sent: checks that they have arrived, and waits for those that come.
    fn wait(&mut self, rank: Rank, step: usize, signals: usize, now: Time) {
        let state = &mut self.ranks[rank.index()];
        let since =
            state.acknowledged.take().map_or(now, |acknowledged| self.costs.checked(now, acknowledged));
        if let Some(seen) = state.wait(step, signals, since) {
            self.finish(rank, step, seen);
        }
    }

    /// A rank has done all of a step.
    fn finish(&mut self, rank: Rank, step: usize, now: Time) {
        let state = &mut self.ranks[rank.index()];
        // Whoever took another's place is in its own again when all are resumed.
        if self.schedule.steps()[step].kind() == StepKind::Resume {
            state.place = rank;
        }
        state.at = self.parts.after(state.place, step);
        state.sent = 0;
        self.agenda.enter(now, Event::GoOn(rank));
    }

    fn count(&mut self, rank: Rank, step: usize, home: Rank, now: Time) {
        let come = self.words.entry((step, home)).or_default();
        *come += 1;
        // All that signal the home, and the home.
        let is_last = *come == self.schedule.steps()[step].awaited_by(home).len() + 1;
        let known = self.costs.reply(home, rank, now);
        self.agenda.enter(known, Event::Counted { rank, step, home, is_last });
    }

    fn counted(&mut self, rank: Rank, step: usize, home: Rank, is_last: bool, now: Time) {
        if is_last {
            self.ranks[rank.index()].place = home;
            self.finish(rank, step, now);
            return;
        }
        let mut later = self.schedule.steps().iter().enumerate().skip(step);
        // Schedules have such a step after each of kind fetch-add.
        if let Some((resume, _)) = later.find(|(_, step)| step.kind() == StepKind::Resume) {
            self.wait(rank, resume, 1, now);
        }
    }
}
