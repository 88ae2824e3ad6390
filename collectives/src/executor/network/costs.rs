//! What messages cost, and by that which algorithm is taken.
//!
//! A message of *n* bytes costs α + *n*β (R. W. Hockney), a byte that is copied within memory κ. The costs of the
//! algorithms for *p* members are those of Thakur, Rabenseifner and Gropp, without the reductions' arithmetic, which is
//! about the same for all.

use crate::profile::Profile;
use crate::rank::Rank;

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
    /// Those of a machine of that profile, whose links carry a byte in so many nanoseconds: α is the mean of what a
    /// signal costs between two ranks.
    #[must_use]
    pub fn of_profile(profile: &Profile, per_byte: f64) -> Self {
        let ranks = profile.ranks();
        let pairs = (0..ranks).flat_map(|one| (0..one).map(move |other| (Rank(one), Rank(other))));
        let (sum, count) = pairs
            .fold((0.0, 0.0), |(sum, count), (one, other)| (sum + profile.distance(one, other), count + 1.0));
        Self { latency: if count > 0.0 { sum / count } else { 0.0 }, per_byte, ..Self::default() }
    }

    fn message(&self, bytes: f64) -> f64 {
        self.latency + bytes * self.per_byte
    }

    fn copy(&self, bytes: f64) -> f64 {
        bytes * self.per_copied_byte
    }
}

/// How data goes from one to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BcastAlgorithm {
    /// Who has it passes it on, whole, in ⌈log *p*⌉ rounds.
    Binomial,
    /// From member to member in segments.
    Pipelined,
    /// Divided among all by a binomial tree, then gathered by a ring.
    ScatterAllgather,
}

/// How data is gathered at one, or scattered from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectAlgorithm {
    /// By a binomial tree, several members' data in one message.
    Binomial,
    /// Each with the root.
    Linear,
}

/// How all get what all have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllgatherAlgorithm {
    /// J. Bruck and others, "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems":
    /// twice as much in each of ⌈log *p*⌉ rounds.
    Bruck,
    /// From neighbour to neighbour, in *p* − 1 rounds.
    Ring,
}

/// How each gets something else from each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlltoallAlgorithm {
    /// Bruck's: in ⌈log *p*⌉ rounds, each with half of all data.
    Bruck,
    /// With one after the other.
    Pairwise,
}

/// How all data is combined at one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReduceAlgorithm {
    /// Up a binomial tree, whole.
    Binomial,
    /// R. Rabenseifner's: halves of halves are combined, and then gathered.
    Rabenseifner,
}

/// How all data is combined for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllreduceAlgorithm {
    /// Whole, with a partner twice as far each time.
    RecursiveDoubling,
    /// R. Rabenseifner's: halves of halves are combined, and then gathered by all.
    Rabenseifner,
    /// Parts go around, and around once more; for operations that commute.
    Ring,
}

/// How all data is combined and divided among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReduceScatterAlgorithm {
    /// All is combined for all.
    Allreduce,
    /// Each gets what is for it from each.
    Pairwise,
}

/// Which algorithms are taken, whatever they cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Choices {
    /// For bcast.
    pub bcast: Option<BcastAlgorithm>,
    /// For gather.
    pub gather: Option<CollectAlgorithm>,
    /// For scatter.
    pub scatter: Option<CollectAlgorithm>,
    /// For allgather and allgatherv.
    pub allgather: Option<AllgatherAlgorithm>,
    /// For alltoall.
    pub alltoall: Option<AlltoallAlgorithm>,
    /// For reduce.
    pub reduce: Option<ReduceAlgorithm>,
    /// For allreduce. A ring is not taken for operations that do not commute.
    pub allreduce: Option<AllreduceAlgorithm>,
    /// For reduce_scatter.
    pub reduce_scatter: Option<ReduceScatterAlgorithm>,
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
    use crate::profile::{Matrix, Profile};

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

    #[test]
    fn the_latency_is_the_mean_of_the_profile() {
        let profile =
            Profile::new(Matrix::from_fn(3, |_, _| 900.0), Matrix::from_fn(3, |_, _| 100.0)).unwrap();
        let costs = MessageCosts::of_profile(&profile, 0.5);
        assert_eq!((costs.latency, costs.per_byte), (1000.0, 0.5));
    }
}
