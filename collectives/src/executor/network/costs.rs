//! Which algorithm is taken, by what messages cost.
//!
//! The costs of the algorithms for *p* members are those of Thakur, Rabenseifner and Gropp, message by message, without
//! the reductions' arithmetic, which is about the same for all. They are what the schedules' own prediction comes to,
//! in closed form, since one is chosen at each call.

use crate::collective::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BcastAlgorithm, CollectAlgorithm,
    MessageCosts, ReduceAlgorithm, ReduceScatterAlgorithm,
};

/// A group as the model sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Model {
    pub(super) costs: MessageCosts,
    pub(super) members: usize,
    /// Bytes of a segment of what is pipelined.
    pub(super) segment: usize,
}

impl Model {
    fn members(&self) -> f64 {
        self.members as f64
    }

    fn rounds(&self) -> f64 {
        f64::from(self.members.next_power_of_two().trailing_zeros())
    }

    /// Messages with a half of a vector, a quarter of it, and so on, for so many rounds.
    fn halves(&self, bytes: f64, rounds: f64) -> f64 {
        let half = |round: i32| self.costs.message(bytes / 2.0_f64.powi(round));
        (1..=rounds as i32).map(half).sum()
    }

    /// The rounds of a power of two of the members, as many as there are.
    fn active_rounds(&self) -> f64 {
        f64::from(self.members.ilog2())
    }

    /// What it takes that members who are too many for a power of two fold whole vectors into others'.
    fn folding(&self, bytes: f64) -> f64 {
        if self.members.is_power_of_two() { 0.0 } else { self.costs.message(bytes) }
    }

    /// Messages with one member's data, two members', and so on, until all have been sent but one's.
    fn doubles(&self, bytes: f64) -> f64 {
        let sizes = std::iter::successors(Some(1.0), |had| Some(2.0 * had));
        let sizes = sizes.take_while(|&had| had < self.members());
        sizes.map(|had: f64| self.costs.message(bytes * had.min(self.members() - had))).sum()
    }

    /// So many messages as there are other members.
    fn others(&self, bytes: f64) -> f64 {
        (self.members() - 1.0) * self.costs.message(bytes)
    }

    pub(super) fn bcast(&self, bytes: usize) -> BcastAlgorithm {
        cheapest(BcastAlgorithm::Binomial, BcastAlgorithm::ALL, |algorithm| self.bcast_time(algorithm, bytes))
    }

    fn bcast_time(&self, algorithm: BcastAlgorithm, bytes: usize) -> f64 {
        let n = bytes as f64;
        match algorithm {
            BcastAlgorithm::Binomial => self.rounds() * self.costs.message(n),
            BcastAlgorithm::Pipelined => {
                let segments = bytes.div_ceil(self.segment).max(1) as f64;
                (self.members() - 2.0 + segments) * self.costs.message(n / segments)
            }
            BcastAlgorithm::ScatterAllgather => {
                self.halves(n, self.rounds()) + self.others(n / self.members())
            }
        }
    }

    pub(super) fn collect(&self, bytes: usize) -> CollectAlgorithm {
        cheapest(CollectAlgorithm::Binomial, CollectAlgorithm::ALL, |algorithm| {
            self.collect_time(algorithm, bytes)
        })
    }

    fn collect_time(&self, algorithm: CollectAlgorithm, bytes: usize) -> f64 {
        let (costs, n) = (&self.costs, bytes as f64);
        match algorithm {
            CollectAlgorithm::Binomial => self.doubles(n) + costs.copy(2.0 * n * (self.members() - 1.0)),
            // Messages of different members arrive side by side.
            CollectAlgorithm::Linear => {
                costs.message(n) + (self.members() - 2.0).max(0.0) * costs.further_message(n)
            }
        }
    }

    pub(super) fn allgather(&self, bytes: usize) -> AllgatherAlgorithm {
        cheapest(AllgatherAlgorithm::Bruck, AllgatherAlgorithm::ALL, |algorithm| {
            self.allgather_time(algorithm, bytes)
        })
    }

    fn allgather_time(&self, algorithm: AllgatherAlgorithm, bytes: usize) -> f64 {
        let n = bytes as f64;
        match algorithm {
            AllgatherAlgorithm::Bruck => self.doubles(n) + self.costs.copy(2.0 * n * (self.members() - 1.0)),
            AllgatherAlgorithm::Ring => self.others(n),
        }
    }

    pub(super) fn alltoall(&self, bytes: usize) -> AlltoallAlgorithm {
        cheapest(AlltoallAlgorithm::Bruck, AlltoallAlgorithm::ALL, |algorithm| {
            self.alltoall_time(algorithm, bytes)
        })
    }

    fn alltoall_time(&self, algorithm: AlltoallAlgorithm, bytes: usize) -> f64 {
        let (costs, half) = (&self.costs, bytes as f64 * self.members() / 2.0);
        match algorithm {
            AlltoallAlgorithm::Bruck => self.rounds() * (costs.message(half) + costs.copy(2.0 * half)),
            AlltoallAlgorithm::Pairwise => self.others(bytes as f64),
        }
    }

    pub(super) fn reduce(&self, bytes: usize) -> ReduceAlgorithm {
        cheapest(ReduceAlgorithm::Binomial, ReduceAlgorithm::ALL, |algorithm| {
            self.reduce_time(algorithm, bytes)
        })
    }

    fn reduce_time(&self, algorithm: ReduceAlgorithm, bytes: usize) -> f64 {
        let n = bytes as f64;
        match algorithm {
            ReduceAlgorithm::Binomial => self.rounds() * self.costs.message(n),
            // The first ones are folded, and a root that is gets the result last.
            ReduceAlgorithm::Rabenseifner => 2.0 * (self.folding(n) + self.halves(n, self.active_rounds())),
        }
    }

    pub(super) fn allreduce(&self, bytes: usize, commutes: bool) -> AllreduceAlgorithm {
        cheapest(
            AllreduceAlgorithm::RecursiveDoubling,
            AllreduceAlgorithm::ALL,
            |algorithm| match algorithm {
                AllreduceAlgorithm::Ring if !commutes => f64::INFINITY,
                algorithm => self.allreduce_time(algorithm, bytes),
            },
        )
    }

    fn allreduce_time(&self, algorithm: AllreduceAlgorithm, bytes: usize) -> f64 {
        let n = bytes as f64;
        // Who has folded its data into another's before gets the result back after.
        let (rounds, folding) = (self.active_rounds(), 2.0 * self.folding(n));
        match algorithm {
            AllreduceAlgorithm::RecursiveDoubling => rounds * self.costs.message(n) + folding,
            AllreduceAlgorithm::Rabenseifner => 2.0 * self.halves(n, rounds) + folding,
            AllreduceAlgorithm::Ring => 2.0 * self.others(n / self.members()),
        }
    }

    pub(super) fn reduce_scatter(&self, bytes: usize) -> ReduceScatterAlgorithm {
        cheapest(ReduceScatterAlgorithm::Allreduce, ReduceScatterAlgorithm::ALL, |algorithm| {
            self.reduce_scatter_time(algorithm, bytes)
        })
    }

    fn reduce_scatter_time(&self, algorithm: ReduceScatterAlgorithm, bytes: usize) -> f64 {
        let n = bytes as f64;
        match algorithm {
            ReduceScatterAlgorithm::Allreduce => self.rounds() * self.costs.message(n),
            ReduceScatterAlgorithm::Pairwise => self.others(n / self.members()),
        }
    }
}

/// The first of the cheapest, where `first` is the first of all.
fn cheapest<A: Copy>(first: A, all: &[A], cost: impl Fn(A) -> f64) -> A {
    let cheaper = |best: (A, f64), &other: &A| {
        let cost = cost(other);
        if cost < best.1 { (other, cost) } else { best }
    };
    all.iter().fold((first, cost(first)), cheaper).0
}

#[cfg(test)]
mod tests {
    use super::{
        AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BcastAlgorithm, CollectAlgorithm,
        MessageCosts, Model, ReduceAlgorithm, ReduceScatterAlgorithm,
    };
    use crate::collective::{CollectiveAlgorithm, Operands};
    use crate::rank::Rank;

    fn model(members: usize) -> Model {
        Model { costs: MessageCosts::default(), members, segment: 32 << 10 }
    }

    #[test]
    fn short_data_takes_few_rounds_and_long_data_moves_once() {
        let (few, large) = (8, 16 << 20);
        let model = model(8);
        assert_eq!(model.bcast(few), BcastAlgorithm::Binomial);
        assert_eq!(model.bcast(large), BcastAlgorithm::Pipelined);
        assert_eq!(model.collect(large), CollectAlgorithm::Linear);
        assert_eq!(model.allgather(few), AllgatherAlgorithm::Bruck);
        assert_eq!(model.allgather(large), AllgatherAlgorithm::Ring);
        assert_eq!(model.alltoall(few), AlltoallAlgorithm::Bruck);
        assert_eq!(model.alltoall(large), AlltoallAlgorithm::Pairwise);
        assert_eq!(model.reduce(few), ReduceAlgorithm::Binomial);
        assert_eq!(model.reduce(large), ReduceAlgorithm::Rabenseifner);
        assert_eq!(model.allreduce(few, false), AllreduceAlgorithm::RecursiveDoubling);
        assert_eq!(model.allreduce(large, false), AllreduceAlgorithm::Rabenseifner);
        assert_eq!(model.reduce_scatter(few), ReduceScatterAlgorithm::Allreduce);
        assert_eq!(model.reduce_scatter(large), ReduceScatterAlgorithm::Pairwise);
    }

    /// By how much the schedule's prediction is above the formula's, for blocks of so many bytes: copies apart, which
    /// no schedule knows of.
    fn above(model: Model, algorithm: CollectiveAlgorithm, block_bytes: f64, formula: f64) -> f64 {
        algorithm.schedule(model.members as u32).predict(&model.costs, block_bytes).total / formula - 1.0
    }

    /// That of each algorithm of a group for vectors, or parts, of that many bytes.
    fn all_above(model: Model, bytes: usize) -> Vec<(CollectiveAlgorithm, f64)> {
        let (root, n) = (Rank(0), bytes as f64);
        let mut all = Vec::new();
        let mut add = |algorithm: CollectiveAlgorithm, block_bytes: f64, formula: f64| {
            all.push((algorithm, above(model, algorithm, block_bytes, formula)));
        };
        let part = |algorithm: CollectiveAlgorithm| n / algorithm.blocks(model.members as u32) as f64;
        for &algorithm in BcastAlgorithm::ALL {
            let segments = bytes.div_ceil(model.segment) as u32;
            let bcast = CollectiveAlgorithm::Bcast { root, algorithm, segments };
            add(bcast, part(bcast), model.bcast_time(algorithm, bytes));
        }
        for &algorithm in CollectAlgorithm::ALL {
            let formula = model.collect_time(algorithm, bytes);
            add(CollectiveAlgorithm::Gather { root, algorithm }, n, formula);
            add(CollectiveAlgorithm::Scatter { root, algorithm }, n, formula);
        }
        for &algorithm in AllgatherAlgorithm::ALL {
            add(CollectiveAlgorithm::Allgather(algorithm), n, model.allgather_time(algorithm, bytes));
        }
        for &algorithm in AlltoallAlgorithm::ALL {
            add(CollectiveAlgorithm::Alltoall(algorithm), n, model.alltoall_time(algorithm, bytes));
        }
        for &algorithm in ReduceAlgorithm::ALL {
            let reduce = CollectiveAlgorithm::Reduce { root, algorithm, operands: Operands::Commuting };
            add(reduce, part(reduce), model.reduce_time(algorithm, bytes));
        }
        for &algorithm in AllreduceAlgorithm::ALL {
            let allreduce = CollectiveAlgorithm::Allreduce(algorithm);
            add(allreduce, part(allreduce), model.allreduce_time(algorithm, bytes));
        }
        let pairwise = model.reduce_scatter_time(ReduceScatterAlgorithm::Pairwise, bytes);
        add(CollectiveAlgorithm::ReduceScatter, n / model.members as f64, pairwise);
        all
    }

    #[test]
    fn formulas_are_what_schedules_are_predicted_to_cost() {
        let costs = MessageCosts { per_short_byte: 3.0, per_copied_byte: 0.0, ..MessageCosts::default() };
        for members in 2..=33 {
            for bytes in [1, 8 << 10, 1 << 20] {
                for (algorithm, above) in all_above(Model { costs, ..model(members) }, bytes) {
                    // The last round, or the last subtree, is full only where there is a power of two of members.
                    let may_be_below = !members.is_power_of_two()
                        && matches!(
                            algorithm,
                            CollectiveAlgorithm::Bcast { algorithm: BcastAlgorithm::ScatterAllgather, .. }
                                | CollectiveAlgorithm::Gather { algorithm: CollectAlgorithm::Binomial, .. }
                                | CollectiveAlgorithm::Reduce { algorithm: ReduceAlgorithm::Binomial, .. }
                                | CollectiveAlgorithm::Alltoall(AlltoallAlgorithm::Bruck)
                        );
                    let least = if may_be_below { -0.41 } else { -1e-9 };
                    assert!((least..1e-9).contains(&above), "{algorithm:?} of {members}, {bytes}: {above}");
                }
            }
        }
    }

    #[test]
    fn what_goes_at_once_is_not_divided() {
        let costs = MessageCosts { per_short_byte: 0.1, ..MessageCosts::default() };
        let quick = Model { costs, ..model(4) };
        assert_eq!(model(4).reduce(16 << 10), ReduceAlgorithm::Rabenseifner);
        assert_eq!(quick.reduce(16 << 10), ReduceAlgorithm::Binomial);
        assert_eq!(quick.reduce(1 << 20), ReduceAlgorithm::Rabenseifner);
    }

    #[test]
    fn a_ring_is_for_those_who_commute_and_are_no_power_of_two() {
        assert_eq!(model(7).allreduce(16 << 20, true), AllreduceAlgorithm::Ring);
        assert_eq!(model(7).allreduce(16 << 20, false), AllreduceAlgorithm::Rabenseifner);
    }
}
