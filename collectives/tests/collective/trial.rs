//! The slow truth about a schedule: doing it, with data that shows who contributed what, in any order that ranks may
//! come to their steps in.

use std::collections::{HashMap, VecDeque};

use svmio_collectives::Rank;
use svmio_collectives::collective::{Collective, CollectiveSchedule, Operands, Part, Receipt, Transfer};

/// What is in a block: whose, and which of their blocks, in the order of operands.
type Data = Vec<(u32, u64)>;

/// What ranks hold, and what is on its way between each two.
struct World {
    held: Vec<HashMap<u64, Data>>,
    under_way: HashMap<(Rank, Rank), VecDeque<Vec<Data>>>,
}

/// Nothing that any rank gives.
const NOTHING: (u32, u64) = (u32::MAX, u64::MAX);

impl World {
    fn at(&self, rank: Rank, block: u64) -> Data {
        self.held[rank.index()].get(&block).cloned().unwrap_or_else(|| vec![NOTHING])
    }

    fn read(&self, transfer: &Transfer) -> Vec<Data> {
        transfer.blocks.iter().map(|block| self.at(transfer.from, block)).collect()
    }

    fn take(&mut self, transfer: &Transfer, data: Vec<Data>) {
        for (block, coming) in transfer.target().iter().zip(data) {
            let own = self.at(transfer.to, block);
            let data = match transfer.receipt {
                Receipt::Store => coming,
                Receipt::CombineLeft => [coming, own].concat(),
                Receipt::CombineRight => [own, coming].concat(),
            };
            self.held[transfer.to.index()].insert(block, data);
        }
    }

    /// Has a rank send what it sends in a step.
    fn send(&mut self, rank: Rank, step: &[(u32, Transfer)]) {
        for (_, transfer) in step.iter().filter(|(_, transfer)| transfer.from == rank && !transfer.is_local())
        {
            let data = self.read(transfer);
            self.under_way.entry((rank, transfer.to)).or_default().push_back(data);
        }
    }

    /// Has it receive all that it receives, where that has come.
    fn receive(&mut self, rank: Rank, step: &[(u32, Transfer)]) -> bool {
        let awaited = || step.iter().map(|(_, transfer)| transfer).filter(|transfer| transfer.to == rank);
        let has_come = |transfer: &Transfer| {
            transfer.is_local()
                || self.under_way.get(&(transfer.from, rank)).is_some_and(|queue| !queue.is_empty())
        };
        if !awaited().all(has_come) {
            return false;
        }
        for transfer in awaited() {
            let data = if transfer.is_local() {
                self.read(transfer)
            } else {
                self.under_way.get_mut(&(transfer.from, rank)).unwrap().pop_front().unwrap()
            };
            self.take(transfer, data);
        }
        true
    }
}

/// Whether the schedule does what the collective is.
pub(crate) fn does(
    schedule: &CollectiveSchedule,
    collective: Collective,
    operands: Operands,
    seed: u64,
) -> bool {
    let mut chance = fastrand::Rng::with_seed(seed);
    let ranks = schedule.ranks();
    let parts: Vec<Part> = (0..ranks).map(|rank| schedule.part_of(Rank(rank))).collect();
    let steps: Vec<Vec<&[(u32, Transfer)]>> = parts.iter().map(|part| part.steps().collect()).collect();
    let held = (0..ranks).map(|rank| {
        let given = given(collective, ranks, schedule.blocks(), rank);
        given.into_iter().map(|block| (block, vec![(rank, block)])).collect()
    });
    let mut world = World { held: held.collect(), under_way: HashMap::new() };
    let mut at = vec![(0, false); ranks as usize];
    let mut unfinished: Vec<Rank> =
        (0..ranks).map(Rank).filter(|rank| !steps[rank.index()].is_empty()).collect();
    let mut idle = 0;
    while !unfinished.is_empty() {
        // Of those that wait, somebody can go on: nobody waits for ever.
        assert!(idle < 1_000_000, "all wait for each other");
        let chosen = chance.usize(..unfinished.len());
        let rank = unfinished[chosen];
        let (number, has_sent) = &mut at[rank.index()];
        let step = steps[rank.index()][*number];
        if !std::mem::replace(has_sent, true) {
            world.send(rank, step);
        }
        idle += 1;
        if world.receive(rank, step) {
            (*number, *has_sent, idle) = (*number + 1, false, 0);
            if *number == steps[rank.index()].len() {
                unfinished.swap_remove(chosen);
            }
        }
    }
    (0..ranks).all(|rank| {
        expected(collective, ranks, schedule.blocks(), rank).into_iter().all(|(block, mut data)| {
            let mut found = world.at(Rank(rank), block);
            if operands == Operands::Commuting {
                found.sort_unstable();
                data.sort_unstable();
            }
            found == data
        })
    })
}

/// Which blocks a rank has something in.
fn given(collective: Collective, ranks: u32, blocks: u64, rank: u32) -> Vec<u64> {
    let (all, own) = (u64::from(ranks), u64::from(rank));
    let by =
        |root: Rank, blocks: std::ops::Range<u64>| if root.0 == rank { blocks.collect() } else { vec![] };
    match collective {
        Collective::Bcast { root } => by(root, 0..blocks),
        Collective::Scatter { root } => by(root, 0..all),
        Collective::Gather { .. } | Collective::Allgather => vec![own],
        Collective::Alltoall => (0..all).map(|to| own * all + to).collect(),
        Collective::Reduce { .. } | Collective::Allreduce => (0..blocks).collect(),
        Collective::ReduceScatter => (0..all).collect(),
        Collective::Scan | Collective::Exscan => vec![0],
    }
}

/// What a rank is to have in which blocks.
fn expected(collective: Collective, ranks: u32, blocks: u64, rank: u32) -> Vec<(u64, Data)> {
    let (all, own) = (u64::from(ranks), u64::from(rank));
    let of = |from: u32, block: u64| (block, vec![(from, block)]);
    let sum = |block: u64, from: std::ops::Range<u32>| from.map(|from| (from, block)).collect::<Data>();
    let sums = || (0..blocks).map(|block| (block, sum(block, 0..ranks))).collect();
    match collective {
        Collective::Bcast { root } => (0..blocks).map(|block| of(root.0, block)).collect(),
        Collective::Scatter { root } => vec![of(root.0, own)],
        Collective::Gather { root } if root.0 != rank => vec![],
        Collective::Gather { .. } | Collective::Allgather => {
            (0..ranks).map(|from| of(from, u64::from(from))).collect()
        }
        Collective::Alltoall => (0..ranks).map(|from| of(from, u64::from(from) * all + own)).collect(),
        Collective::Reduce { root } if root.0 != rank => vec![],
        Collective::Reduce { .. } | Collective::Allreduce => sums(),
        Collective::ReduceScatter => vec![(own, sum(own, 0..ranks))],
        Collective::Scan => vec![(0, sum(0, 0..rank + 1))],
        Collective::Exscan if rank == 0 => vec![],
        Collective::Exscan => vec![(1, sum(0, 0..rank))],
    }
}
