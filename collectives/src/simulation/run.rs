//! One run of a schedule: events by time.

use std::collections::HashMap;
use std::time::Duration;

use svmio_transport::Time;
use svmio_transport::sim::{Agenda, Flight, Next};

use crate::rank::Rank;
use crate::schedule::{PartStep, Schedule, StepKind};
use crate::simulation::costs::{Check, Costs, Sent, Way};
use crate::simulation::ranks::{Checking, Incoming, Parts, RankState};
use crate::simulation::{Simulation, Timing};

/// What happens.
#[derive(Debug)]
enum Event {
    /// What is under way reaches another link.
    Fly(Box<(Flight, Cargo)>),
    /// A rank is free to go on with its step, or to begin it.
    GoOn(Rank),
    /// A rank's fetch-add gets to the word of a step at a rank.
    Count { rank: Rank, step: usize, home: Rank },
    /// A rank knows whether it came last to the word of a step at a rank.
    Counted { rank: Rank, step: usize, home: Rank, is_last: bool },
}

/// What is under way.
#[derive(Debug, Clone, Copy)]
enum Cargo {
    Signal {
        from: Rank,
        to: Rank,
        step: usize,
        look: Duration,
        /// When its sender is free again, as [`Sent`] has it.
        free: Time,
        check: Check,
    },
    FetchAdd {
        rank: Rank,
        step: usize,
        home: Rank,
    },
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
            Event::Fly(mut flying) => {
                run.costs.fly_on(&mut flying.0);
                run.fly(flying);
            }
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
                let way = self.costs.request(rank, home, now);
                self.go(way, Cargo::FetchAdd { rank, step: part.number, home });
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
        let Sent { free, way, look, check } = self.costs.send(from, to, now);
        state.sent += 1;
        state.unchecked += usize::from(check == Check::Once);
        // Who makes sure of each goes on when it knows of the arrival.
        if check != Check::Each {
            if state.sent == part.signal.len() {
                // Waiting changes nothing for others: that it begins only when the store is done needs no event.
                self.wait(from, part.number, awaited, free);
            } else {
                self.agenda.enter(free, Event::GoOn(from));
            }
        }
        self.go(way, Cargo::Signal { from, to, step: part.number, look, free, check });
    }

    fn go(&mut self, way: Way, cargo: Cargo) {
        match way {
            Way::Known(time) => self.arrive(cargo, time),
            Way::Flight(flight) => self.fly(Box::new((flight, cargo))),
        }
    }

    fn fly(&mut self, flying: Box<(Flight, Cargo)>) {
        match flying.0.next() {
            Next::Reaches(time) => self.agenda.enter(time, Event::Fly(flying)),
            Next::Arrives(time) => self.arrive(flying.1, time),
        }
    }

    /// It is known when something arrives: now or later.
    fn arrive(&mut self, cargo: Cargo, arrived: Time) {
        let (from, to, step, look, free, check) = match cargo {
            Cargo::Signal { from, to, step, look, free, check } => (from, to, step, look, free, check),
            Cargo::FetchAdd { rank, step, home } => {
                self.agenda.enter(arrived, Event::Count { rank, step, home });
                return;
            }
        };
        match check {
            Check::Never => {}
            Check::Once => self.acknowledge(from, self.costs.acknowledged(from, to, arrived)),
            Check::Each => {
                let known = self.costs.acknowledged(from, to, arrived);
                self.agenda.enter(free.max(known), Event::GoOn(from));
            }
        }
        if let Some(seen) = self.ranks[to.index()].receive(Incoming { step, arrived, look }) {
            self.finish(to, step, seen);
        }
    }

    /// It is known when a rank can know that a signal of its step has arrived.
    fn acknowledge(&mut self, rank: Rank, known: Time) {
        let state = &mut self.ranks[rank.index()];
        state.unchecked -= 1;
        state.acknowledged = state.acknowledged.max(Some(known));
        if let Some(Checking { step, signals, stored }) = state.checking.take_if(|_| state.unchecked == 0) {
            self.wait(rank, step, signals, stored);
        }
    }

    /// All signals of a step are sent: checks that they have arrived, and waits for those that come.
    fn wait(&mut self, rank: Rank, step: usize, signals: usize, now: Time) {
        let state = &mut self.ranks[rank.index()];
        if state.unchecked > 0 {
            state.checking = Some(Checking { step, signals, stored: now });
            return;
        }
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
