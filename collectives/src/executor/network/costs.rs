//! What messages cost, and by that which algorithm is taken.
//!
//! A message of *n* bytes costs α + *n*β (R. W. Hockney), a byte that is copied within memory κ. The costs of the
//! algorithms for *p* members are those of Thakur, Rabenseifner and Gropp, without the reductions' arithmetic, which is
//! about the same for all.

use super::choices::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BcastAlgorithm, CollectAlgorithm,
    ReduceAlgorithm, ReduceScatterAlgorithm,
};

/// What messages between members cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MessageCosts {
    /// α, nanoseconds.
    pub latency: f64,
    /// β, nanoseconds for each byte.
    pub per_byte: f64,
    /// κ, nanoseconds for each byte that is copied within a member's memory.
    pub per_copied_byte: f64,
}

impl Default for MessageCosts {
    /// 1 Gbit/s with 20 µs.
    fn default() -> Self {
        Self { latency: 20_000.0, per_byte: 8.0, per_copied_byte: 0.1 }
    }
}

impl MessageCosts {
    fn message(&self, bytes: f64) -> f64 {
        self.latency + bytes * self.per_byte
    }

    fn copy(&self, bytes: f64) -> f64 {
        bytes * self.per_copied_byte
    }
}

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

    /// Bytes that each moves where a vector is divided among all, and each gets all parts but its own.
    fn parts(&self, bytes: f64) -> f64 {
        bytes * (self.members() - 1.0) / self.members()
    }

    pub(super) fn bcast(&self, bytes: usize) -> BcastAlgorithm {
        let (costs, n) = (&self.costs, bytes as f64);
        let segments = bytes.div_ceil(self.segment).max(1) as f64;
        let scattered =
            (self.rounds() + self.members() - 1.0) * costs.latency + 2.0 * self.parts(n) * costs.per_byte;
        cheapest([
            (BcastAlgorithm::Binomial, self.rounds() * costs.message(n)),
            (BcastAlgorithm::ScatterAllgather, scattered),
            (BcastAlgorithm::Pipelined, (self.members() - 2.0 + segments) * costs.message(n / segments)),
        ])
    }

    pub(super) fn collect(&self, bytes: usize) -> CollectAlgorithm {
        let (costs, all) = (&self.costs, bytes as f64 * (self.members() - 1.0));
        cheapest([
            (
                CollectAlgorithm::Binomial,
                self.rounds() * costs.latency + all * costs.per_byte + costs.copy(2.0 * all),
            ),
            // Messages of different members arrive side by side: only the root's part of α adds up.
            (CollectAlgorithm::Linear, costs.latency * (1.0 + self.members() / 4.0) + all * costs.per_byte),
        ])
    }

    pub(super) fn allgather(&self, bytes: usize) -> AllgatherAlgorithm {
        let (costs, all) = (&self.costs, bytes as f64 * (self.members() - 1.0));
        cheapest([
            (
                AllgatherAlgorithm::Bruck,
                self.rounds() * costs.latency + all * costs.per_byte + costs.copy(2.0 * all),
            ),
            (AllgatherAlgorithm::Ring, (self.members() - 1.0) * costs.latency + all * costs.per_byte),
        ])
    }

    pub(super) fn alltoall(&self, bytes: usize) -> AlltoallAlgorithm {
        let (costs, half) = (&self.costs, bytes as f64 * self.members() / 2.0);
        cheapest([
            (AlltoallAlgorithm::Bruck, self.rounds() * (costs.message(half) + costs.copy(2.0 * half))),
            (AlltoallAlgorithm::Pairwise, (self.members() - 1.0) * costs.message(bytes as f64)),
        ])
    }

    pub(super) fn reduce(&self, bytes: usize) -> ReduceAlgorithm {
        let (costs, n) = (&self.costs, bytes as f64);
        let halved = 2.0 * self.rounds() * costs.latency + 2.0 * self.parts(n) * costs.per_byte;
        cheapest([
            (ReduceAlgorithm::Binomial, self.rounds() * costs.message(n)),
            (ReduceAlgorithm::Rabenseifner, halved),
        ])
    }

    pub(super) fn allreduce(&self, bytes: usize, commutes: bool) -> AllreduceAlgorithm {
        let (costs, n) = (&self.costs, bytes as f64);
        let moved = 2.0 * self.parts(n) * costs.per_byte;
        // With no power of two, some fold their data into others' before, and get it back after.
        let folding = if self.members.is_power_of_two() { 0.0 } else { 2.0 * costs.message(n) };
        let ring = 2.0 * (self.members() - 1.0) * costs.latency + moved;
        cheapest([
            (AllreduceAlgorithm::RecursiveDoubling, self.rounds().floor() * costs.message(n) + folding),
            (AllreduceAlgorithm::Rabenseifner, 2.0 * self.rounds() * costs.latency + moved + folding),
            (AllreduceAlgorithm::Ring, if commutes { ring } else { f64::INFINITY }),
        ])
    }

    pub(super) fn reduce_scatter(&self, bytes: usize) -> ReduceScatterAlgorithm {
        let (costs, n) = (&self.costs, bytes as f64);
        let pairwise = (self.members() - 1.0) * costs.latency + self.parts(n) * costs.per_byte;
        cheapest([
            (ReduceScatterAlgorithm::Allreduce, self.rounds() * costs.message(n)),
            (ReduceScatterAlgorithm::Pairwise, pairwise),
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
    fn a_ring_is_for_those_who_commute_and_are_no_power_of_two() {
        assert_eq!(model(7).allreduce(16 << 20, true), AllreduceAlgorithm::Ring);
        assert_eq!(model(7).allreduce(16 << 20, false), AllreduceAlgorithm::Rabenseifner);
    }
}
