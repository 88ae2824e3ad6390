//! Which ranks are near one another, at every level of a machine.

use crate::profile::Profile;
use crate::rank::Rank;

/// The part of the diameter by which clusters are apart, as the paper chose it.
pub const SPARSENESS: f64 = 0.35;

/// Ranks as a tree: those nearer to one another are deeper in a common branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cluster {
    /// A single rank.
    Rank(Rank),
    /// Clusters that are about equally far from one another; never empty.
    Group(Vec<Cluster>),
}

impl Cluster {
    /// Clusters the ranks of a profile by sparse spatial centres, again and again: the clusters of a cluster are found
    /// with its own diameter, until all ranks of one are about equally far from one another.
    ///
    /// (J. C. Meyer and A. C. Elster, "Optimized Barriers for Heterogeneous Systems Using MPI", section VII.A: rank 0
    /// is the first centre, and who is further than `sparseness` times the diameter from all centres becomes one.) None
    /// for a profile of no ranks.
    #[must_use]
    pub fn of(profile: &Profile, sparseness: f64) -> Option<Self> {
        let ranks: Vec<_> = (0..profile.ranks()).map(Rank).collect();
        (!ranks.is_empty()).then(|| cluster(profile, ranks, sparseness))
    }

    /// Who speaks for it to others: the first of its ranks.
    #[must_use]
    pub fn representative(&self) -> Rank {
        match self {
            Self::Rank(rank) => *rank,
            Self::Group(clusters) => clusters[0].representative(),
        }
    }

    /// All ranks in it, cluster by cluster.
    #[must_use]
    pub fn ranks(&self) -> Vec<Rank> {
        match self {
            Self::Rank(rank) => vec![*rank],
            Self::Group(clusters) => clusters.iter().flat_map(Self::ranks).collect(),
        }
    }

    /// How many levels of groups there are.
    #[must_use]
    pub fn depth(&self) -> usize {
        match self {
            Self::Rank(_) => 0,
            Self::Group(clusters) => 1 + clusters.iter().map(Self::depth).max().unwrap_or(0),
        }
    }
}

/// Clusters ranks that are not none.
fn cluster(profile: &Profile, ranks: Vec<Rank>, sparseness: f64) -> Cluster {
    if let [rank] = ranks[..] {
        return Cluster::Rank(rank);
    }
    let groups = sparse_spatial_centres(profile, &ranks, sparseness);
    // All in one, or each by itself: these are as near as one another.
    if groups.len() == 1 || groups.len() == ranks.len() {
        return Cluster::Group(ranks.into_iter().map(Cluster::Rank).collect());
    }
    Cluster::Group(groups.into_iter().map(|group| cluster(profile, group, sparseness)).collect())
}

/// The ranks by the centre to which they are nearest, none empty, by their first ranks.
fn sparse_spatial_centres(profile: &Profile, ranks: &[Rank], sparseness: f64) -> Vec<Vec<Rank>> {
    let mut diameter = 0.0_f64;
    for (number, &one) in ranks.iter().enumerate() {
        diameter =
            ranks[number + 1..].iter().map(|&other| profile.distance(one, other)).fold(diameter, f64::max);
    }
    let mut centres: Vec<Rank> = Vec::new();
    for &rank in ranks {
        if centres.iter().all(|&centre| profile.distance(rank, centre) > sparseness * diameter) {
            centres.push(rank);
        }
    }
    let mut groups = vec![Vec::new(); centres.len()];
    for &rank in ranks {
        let distances = centres.iter().map(|&centre| profile.distance(rank, centre)).enumerate();
        if let Some((nearest, _)) = distances.min_by(|one, other| one.1.total_cmp(&other.1)) {
            groups[nearest].push(rank);
        }
    }
    groups.retain(|group| !group.is_empty());
    groups.sort_unstable_by_key(|group| group[0]);
    groups
}

#[cfg(test)]
mod tests {
    use super::{Cluster, SPARSENESS};
    use crate::profile::{Matrix, Profile};
    use crate::rank::Rank;

    /// What signals cost when ranks share so much.
    fn profile(ranks: u32, cost: impl Fn(u32, u32) -> f64) -> Profile {
        let overhead = Matrix::from_fn(ranks, |from, to| if from == to { 10.0 } else { cost(from.0, to.0) });
        let latency =
            Matrix::from_fn(ranks, |from, to| if from == to { 0.0 } else { cost(from.0, to.0) / 4.0 });
        Profile::new(overhead, latency).unwrap()
    }

    fn group(ranks: impl IntoIterator<Item = u32>) -> Cluster {
        Cluster::Group(ranks.into_iter().map(|rank| Cluster::Rank(Rank(rank))).collect())
    }

    #[test]
    fn ranks_that_are_placed_round_robin_are_found_on_their_nodes() {
        let profile = profile(22, |from, to| if from % 3 == to % 3 { 300.0 } else { 20_000.0 });
        let cluster = Cluster::of(&profile, SPARSENESS).unwrap();
        let node = |first| group((first..22).step_by(3));
        assert_eq!(cluster, Cluster::Group(vec![node(0), node(1), node(2)]));
        assert_eq!((cluster.depth(), cluster.representative()), (2, Rank(0)));
    }

    #[test]
    fn levels_are_as_many_as_the_machine_has() {
        let cost = |from: u32, to: u32| match () {
            () if from / 2 == to / 2 => 60.0,
            () if from / 4 == to / 4 => 240.0,
            () if from / 8 == to / 8 => 1200.0,
            () => 20_000.0,
        };
        let cluster = Cluster::of(&profile(32, cost), SPARSENESS).unwrap();
        assert_eq!(cluster.depth(), 4);
        assert_eq!(cluster.ranks(), (0..32).map(Rank).collect::<Vec<_>>());
    }

    #[test]
    fn ranks_that_are_all_alike_are_one_group() {
        let noisy = |from: u32, to: u32| 100.0 + f64::from((from * 7 + to * 7) % 40);
        assert_eq!(Cluster::of(&profile(9, noisy), SPARSENESS), Some(group(0..9)));
        assert_eq!(Cluster::of(&profile(1, noisy), SPARSENESS), Some(Cluster::Rank(Rank(0))));
        assert_eq!(Cluster::of(&profile(0, noisy), SPARSENESS), None);
        assert_eq!(Cluster::of(&profile(3, |_, _| 0.0), SPARSENESS), Some(group(0..3)));
    }
}
