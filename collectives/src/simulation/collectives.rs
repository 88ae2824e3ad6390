//! One run of a collective: events by time.

use std::time::Duration;

use svmio_transport::Time;
use svmio_transport::sim::Agenda;

use crate::collective::{CollectiveSchedule, Receipt, Transfer};
use crate::rank::Rank;
use crate::simulation::costs::Costs;
use crate::simulation::{Simulation, Timing};

pub(super) fn run(simulation: &Simulation, schedule: &CollectiveSchedule, block_bytes: u64) -> Timing {
    let ranks = schedule.ranks() as usize;
    let transfers: Vec<(usize, &Transfer)> = schedule
        .steps()
        .iter()
        .enumerate()
        .flat_map(|(step, transfers)| transfers.iter().map(move |transfer| (step, transfer)))
        .collect();
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
    while let Some((now, rank)) = run.agenda.take() {
        run.go_on(rank, now);
    }
    let total = run.leaves.iter().max().map_or(Duration::ZERO, |left| left.since(Time(0)));
    Timing { leaves: run.leaves, total }
}

struct Run<'run> {
    /// All transfers with their steps, in the order of these.
    transfers: Vec<(usize, &'run Transfer)>,
    /// When each message arrives that has been sent, and how long its receiver is busy with seeing it.
    under_way: Vec<Option<(Time, Duration)>>,
    /// The numbers of each rank's transfers.
    parts: Vec<Vec<u32>>,
    block_bytes: u64,
    costs: Costs<'run>,
    /// Who is free to go on.
    agenda: Agenda<Rank>,
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
    /// When the last message of its step is known to have arrived, where there is a check to be made.
    acknowledged: Option<Time>,
    /// That it waits for what comes in its step.
    waiting: Option<Waiting>,
}

/// Since when a rank waits, and how much has not been sent yet.
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
        self.agenda.enter(now, rank);
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
        let (step, transfer) = self.transfers[number];
        self.ranks[rank.index()].looked_at += next + 1;
        if transfer.is_local() {
            self.under_way[number] = Some((now, Duration::ZERO));
            return self.wait(rank, now);
        }
        let sent = self.costs.send_message(rank, transfer.to, self.bytes(transfer), now);
        let state = &mut self.ranks[rank.index()];
        state.acknowledged = state.acknowledged.max(sent.acknowledged);
        self.under_way[number] = Some((sent.arrived, sent.look));
        self.agenda.enter(sent.free, rank);
        self.tell(transfer.to, step);
    }

    /// All messages of a step are sent: checks that they have arrived, and waits for those that come.
    fn wait(&mut self, rank: Rank, now: Time) {
        let acknowledged = self.ranks[rank.index()].acknowledged.take();
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

    /// Something of a step is on its way to a rank.
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

    fn bytes(&self, transfer: &Transfer) -> u64 {
        transfer.blocks.len() * self.block_bytes
    }
}
