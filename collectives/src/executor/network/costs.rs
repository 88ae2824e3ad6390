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

    /// Messages with a half of a vector, a quarter of it, and so on.
    fn halves(&self, bytes: f64) -> f64 {
        let half = |round: i32| self.costs.message(bytes / 2.0_f64.powi(round));
        (1..=self.rounds() as i32).map(half).sum()
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
        let (costs, n) = (&self.costs, bytes as f64);
        let segments = bytes.div_ceil(self.segment).max(1) as f64;
        cheapest([
            (BcastAlgorithm::Binomial, self.rounds() * costs.message(n)),
            (BcastAlgorithm::ScatterAllgather, self.halves(n) + self.others(n / self.members())),
            (BcastAlgorithm::Pipelined, (self.members() - 2.0 + segments) * costs.message(n / segments)),
        ])
    }

    pub(super) fn collect(&self, bytes: usize) -> CollectAlgorithm {
        let (costs, n) = (&self.costs, bytes as f64);
        let all = n * (self.members() - 1.0);
        // Messages of different members arrive side by side: only the root's part of α adds up.
        let side_by_side = self.others(n) - costs.latency * (self.members() * 3.0 / 4.0 - 2.0);
        cheapest([
            (CollectAlgorithm::Binomial, self.doubles(n) + costs.copy(2.0 * all)),
            (CollectAlgorithm::Linear, side_by_side),
        ])
    }

    pub(super) fn allgather(&self, bytes: usize) -> AllgatherAlgorithm {
        let n = bytes as f64;
        let copies = self.costs.copy(2.0 * n * (self.members() - 1.0));
        cheapest([
            (AllgatherAlgorithm::Bruck, self.doubles(n) + copies),
            (AllgatherAlgorithm::Ring, self.others(n)),
        ])
    }

    pub(super) fn alltoall(&self, bytes: usize) -> AlltoallAlgorithm {
        let (costs, half) = (&self.costs, bytes as f64 * self.members() / 2.0);
        cheapest([
            (AlltoallAlgorithm::Bruck, self.rounds() * (costs.message(half) + costs.copy(2.0 * half))),
            (AlltoallAlgorithm::Pairwise, self.others(bytes as f64)),
        ])
    }

    pub(super) fn reduce(&self, bytes: usize) -> ReduceAlgorithm {
        let n = bytes as f64;
        cheapest([
            (ReduceAlgorithm::Binomial, self.rounds() * self.costs.message(n)),
            (ReduceAlgorithm::Rabenseifner, 2.0 * self.halves(n)),
        ])
    }

    pub(super) fn allreduce(&self, bytes: usize, commutes: bool) -> AllreduceAlgorithm {
        let (costs, n) = (&self.costs, bytes as f64);
        // With no power of two, some fold their data into others' before, and get it back after.
        let folding = if self.members.is_power_of_two() { 0.0 } else { 2.0 * costs.message(n) };
        let ring = 2.0 * self.others(n / self.members());
        cheapest([
            (AllreduceAlgorithm::RecursiveDoubling, self.rounds().floor() * costs.message(n) + folding),
            (AllreduceAlgorithm::Rabenseifner, 2.0 * self.halves(n) + folding),
            (AllreduceAlgorithm::Ring, if commutes { ring } else { f64::INFINITY }),
        ])
    }

    pub(super) fn reduce_scatter(&self, bytes: usize) -> ReduceScatterAlgorithm {
        let n = bytes as f64;
        cheapest([
            (ReduceScatterAlgorithm::Allreduce, self.rounds() * self.costs.message(n)),
            (ReduceScatterAlgorithm::Pairwise, self.others(n / self.members())),
        ])
    }
}

/// The first of the cheapest.
fn cheapest<A: Copy, const N: usize>(candidates: [(A, f64); N]) -> A {
    let mut best = candidates[0];
    for candidate in &candidates[1..] {
        if candidate.1 < best.1 {
            best = *candidate;
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::{
        AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BcastAlgorithm, CollectAlgorithm,
        MessageCosts, Model, ReduceAlgorithm, ReduceScatterAlgorithm,
    };

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
