//! One run of a collective: events by time.

use std::time::Duration;

use svmio_transport::Time;
use svmio_transport::sim::{Agenda, Flight, Next};

use crate::collective::{CollectiveSchedule, Receipt, Transfer};
use crate::rank::Rank;
use crate::simulation::costs::{Check, Costs, Sent, Way};
use crate::simulation::{Simulation, SimulationError, Timing};

/// What comes at this time may come later: additions stop here.
const END: Time = Time(u64::MAX);

pub(super) fn run(
    simulation: &Simulation,
    schedule: &CollectiveSchedule,
    block_bytes: u64,
) -> Result<Timing, SimulationError> {
    let ranks = schedule.ranks() as usize;
    let transfers: Vec<(usize, &Transfer)> = schedule
        .steps()
        .iter()
        .enumerate()
        .flat_map(|(step, transfers)| transfers.iter().map(move |transfer| (step, transfer)))
        .collect();
    let longest = transfers.iter().map(|(_, transfer)| transfer.blocks.len()).max().unwrap_or(0);
    longest.checked_mul(block_bytes).ok_or(SimulationError::Bytes)?;
    let mut parts = vec![Vec::new(); ranks];
    for (number, (_, transfer)) in transfers.iter().enumerate() {
        parts[transfer.from.index()].push(number as u32);
        if !transfer.is_local() {
            parts[transfer.to.index()].push(number as u32);
        }
    }
    let mut run = Run {
        under_way: vec![None; transfers.len()],
        transfers,
        parts,
        block_bytes,
        costs: Costs::new(simulation),
        agenda: Agenda::new(),
        ranks: vec![RankState::default(); ranks],
        leaves: vec![Time(0); ranks],
    };
    for rank in (0..schedule.ranks()).map(Rank) {
        run.begin(rank, 0, Time(0));
    }
    while let Some((now, event)) = run.agenda.take() {
        match event {
            Event::GoOn(rank) => run.go_on(rank, now),
            Event::Fly(mut flying) => {
                run.costs.fly_on(&mut flying.0);
                run.fly(flying);
            }
        }
    }
    let last = run.leaves.iter().max().copied().unwrap_or(Time(0));
    if last == END {
        return Err(SimulationError::Time);
    }
    Ok(Timing { leaves: run.leaves, total: last.since(Time(0)) })
}

/// What happens.
#[derive(Debug)]
enum Event {
    /// A rank is free to go on.
    GoOn(Rank),
    /// A message that is under way reaches another link.
    Fly(Box<(Flight, Message)>),
}

/// A message that was sent.
#[derive(Debug, Clone, Copy)]
struct Message {
    /// The number of its transfer.
    number: usize,
    look: Duration,
    check: Check,
}

struct Run<'run> {
    /// All transfers with their steps, in the order of these.
    transfers: Vec<(usize, &'run Transfer)>,
    /// When each message arrives of which that is known, and how long its receiver is busy with seeing it.
    under_way: Vec<Option<(Time, Duration)>>,
    /// The numbers of each rank's transfers.
    parts: Vec<Vec<u32>>,
    block_bytes: u64,
    costs: Costs<'run>,
    agenda: Agenda<Event>,
    ranks: Vec<RankState>,
    leaves: Vec<Time>,
}

/// A simulated rank.
#[derive(Debug, Clone, Default)]
struct RankState {
    /// How many of its transfers belong to steps that it has done.
    done: usize,
    /// How many belong to the one that it is at.
    at_hand: usize,
    /// How many of these it has looked at for something to send.
    looked_at: usize,
    /// How many of those that it has sent may be under way still, where there is a check to be made.
    unchecked: usize,
    /// When the last of the others is known to have arrived, likewise.
    acknowledged: Option<Time>,
    /// When it had sent all of its step, and began the check.
    checking: Option<Time>,
    /// That it waits for what comes in its step.
    waiting: Option<Waiting>,
}

/// Since when a rank waits, and of how much it is not known yet when it arrives.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    since: Time,
    missing: usize,
}

impl Run<'_> {
    /// Has a rank begin its next step, having done so many transfers.
    fn begin(&mut self, rank: Rank, done: usize, now: Time) {
        let rest = &self.parts[rank.index()][done..];
        let step = |number: &u32| self.transfers[*number as usize].0;
        let at_hand = rest.iter().take_while(|number| step(number) == step(&rest[0])).count();
        self.ranks[rank.index()] = RankState { done, at_hand, ..RankState::default() };
        self.agenda.enter(now, Event::GoOn(rank));
    }

    /// Has a rank send the next message of its step, one in each event, since messages are to be sent in the order of
    /// their times; or wait.
    fn go_on(&mut self, rank: Rank, now: Time) {
        let (state, step) = (&self.ranks[rank.index()], self.step_of(rank));
        if step.is_empty() {
            self.leaves[rank.index()] = now;
            return;
        }
        let is_sent = |number: &u32| self.transfers[*number as usize].1.from == rank;
        let Some(next) = step[state.looked_at..].iter().position(is_sent) else {
            return self.wait(rank, now);
        };
        let number = step[state.looked_at + next] as usize;
        let transfer = self.transfers[number].1;
        self.ranks[rank.index()].looked_at += next + 1;
        if transfer.is_local() {
            self.under_way[number] = Some((now, Duration::ZERO));
            return self.wait(rank, now);
        }
        let Sent { free, way, look, check } =
            self.costs.send_message(rank, transfer.to, self.bytes(transfer), now);
        self.ranks[rank.index()].unchecked += usize::from(check == Check::Once);
        self.agenda.enter(free, Event::GoOn(rank));
        let message = Message { number, look, check };
        match way {
            Way::Known(time) => self.arrive(message, time),
            Way::Flight(flight) => self.fly(Box::new((flight, message))),
        }
    }

    fn fly(&mut self, flying: Box<(Flight, Message)>) {
        match flying.0.next() {
            Next::Reaches(time) => self.agenda.enter(time, Event::Fly(flying)),
            Next::Arrives(time) => self.arrive(flying.1, time),
        }
    }

    /// It is known when a message arrives: now or later.
    fn arrive(&mut self, Message { number, look, check }: Message, arrived: Time) {
        let (step, transfer) = self.transfers[number];
        self.under_way[number] = Some((arrived, look));
        if check == Check::Once {
            let known = self.costs.acknowledged(transfer.from, transfer.to, arrived);
            let state = &mut self.ranks[transfer.from.index()];
            state.unchecked -= 1;
            state.acknowledged = state.acknowledged.max(Some(known));
            if let Some(sent) = state.checking.take_if(|_| state.unchecked == 0) {
                self.wait(transfer.from, sent);
            }
        }
        self.tell(transfer.to, step);
    }

    /// All messages of a step are sent: checks that they have arrived, and waits for those that come.
    fn wait(&mut self, rank: Rank, now: Time) {
        let state = &mut self.ranks[rank.index()];
        if state.unchecked > 0 {
            state.checking = Some(now);
            return;
        }
        let acknowledged = state.acknowledged.take();
        let since = acknowledged.map_or(now, |acknowledged| self.costs.checked(now, acknowledged));
        let missing = |number: &&u32| {
            let number = **number as usize;
            self.transfers[number].1.to == rank && self.under_way[number].is_none()
        };
        let missing = self.step_of(rank).iter().filter(missing).count();
        self.ranks[rank.index()].waiting = Some(Waiting { since, missing });
        if missing == 0 {
            self.finish(rank, since);
        }
    }

    /// It is known when something of a step gets to a rank.
    fn tell(&mut self, rank: Rank, step: usize) {
        let is_at = |run: &Self| {
            run.step_of(rank).first().is_some_and(|&number| run.transfers[number as usize].0 == step)
        };
        if !is_at(self) {
            return;
        }
        let Some(waiting) = &mut self.ranks[rank.index()].waiting else { return };
        waiting.missing -= 1;
        if let Waiting { since, missing: 0 } = *waiting {
            self.finish(rank, since);
        }
    }

    /// When all that comes to a rank in its step is known: has it take that, and begin the next one.
    fn finish(&mut self, rank: Rank, since: Time) {
        let step = self.step_of(rank).iter().map(|&number| number as usize);
        let coming = step.filter(|&number| self.transfers[number].1.to == rank);
        let mut coming: Vec<_> =
            coming.filter_map(|number| Some((self.under_way[number]?, self.transfers[number].1))).collect();
        coming.sort_by_key(|&((arrived, _), _)| arrived);
        let seen = coming.into_iter().fold(since, |now, ((arrived, look), transfer)| {
            let works = transfer.is_local() || transfer.receipt != Receipt::Store;
            let work = if works { self.costs.work(self.bytes(transfer)) } else { Duration::ZERO };
            now.max(arrived).after(look).after(work)
        });
        let state = &self.ranks[rank.index()];
        self.begin(rank, state.done + state.at_hand, seen);
    }

    /// The transfers of the step that a rank is at.
    fn step_of(&self, rank: Rank) -> &[u32] {
        let state = &self.ranks[rank.index()];
        &self.parts[rank.index()][state.done..][..state.at_hand]
    }

    /// It fits: that of the longest does.
    fn bytes(&self, transfer: &Transfer) -> u64 {
        transfer.blocks.len() * self.block_bytes
    }
}
