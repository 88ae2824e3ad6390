//! Which ranks are on the same node.

use std::collections::HashMap;
use std::hash::Hash;

use crate::rank::Rank;

/// The ranks of a group by node: each rank on exactly one.
///
/// The first rank of each node is its *master*, who speaks for the others of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    nodes: Vec<Vec<Rank>>,
    node_of: Vec<u32>,
}

impl Partition {
    /// Nodes with these ranks, in the order in which they are given; nodes without ranks are left out.
    ///
    /// # Errors
    /// [`PartitionError`] where the ranks from 0 on are not each there once.
    pub fn new(nodes: Vec<Vec<Rank>>) -> Result<Self, PartitionError> {
        let nodes: Vec<_> = nodes.into_iter().filter(|ranks| !ranks.is_empty()).collect();
        let ranks: usize = nodes.iter().map(Vec::len).sum();
        let mut node_of = vec![u32::MAX; ranks];
        for (node, members) in nodes.iter().enumerate() {
            for &rank in members {
                let place =
                    node_of.get_mut(rank.index()).ok_or(PartitionError::OutOfRange { rank, ranks })?;
                if *place != u32::MAX {
                    return Err(PartitionError::Twice { rank });
                }
                *place = node as u32;
            }
        }
        Ok(Self { nodes, node_of })
    }

    /// From each rank's node: equal values stand for the same node. Nodes come in the order of their first ranks.
    pub fn of_nodes<N: Eq + Hash>(node_of_rank: impl IntoIterator<Item = N>) -> Self {
        let (mut known, mut nodes, mut node_of) = (HashMap::new(), Vec::<Vec<Rank>>::new(), Vec::new());
        for (rank, name) in node_of_rank.into_iter().enumerate() {
            let node = *known.entry(name).or_insert(nodes.len());
            if node == nodes.len() {
                nodes.push(Vec::new());
            }
            nodes[node].push(Rank(rank as u32));
            node_of.push(node as u32);
        }
        Self { nodes, node_of }
    }

    /// Blocks of consecutive ranks, the last one maybe smaller.
    #[must_use]
    pub fn blocks(ranks: u32, ranks_per_node: u32) -> Self {
        let size = ranks_per_node.max(1);
        let block = |node: u32| (node * size..ranks.min((node + 1) * size)).map(Rank).collect();
        Self {
            nodes: (0..ranks.div_ceil(size)).map(block).collect(),
            node_of: (0..ranks).map(|rank| rank / size).collect(),
        }
    }

    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.node_of.len() as u32
    }

    /// The ranks of each node; none is empty.
    #[must_use]
    pub fn nodes(&self) -> &[Vec<Rank>] {
        &self.nodes
    }

    /// On which node a rank is, as an index of [`nodes`](Self::nodes); none for a rank that is not there.
    #[must_use]
    pub fn node_of(&self, rank: Rank) -> Option<usize> {
        self.node_of.get(rank.index()).map(|&node| node as usize)
    }

    /// Whether two ranks are on the same node.
    #[must_use]
    pub fn is_local(&self, one: Rank, other: Rank) -> bool {
        self.node_of(one).is_some_and(|node| self.node_of(other) == Some(node))
    }

    /// The master of each node.
    pub fn masters(&self) -> impl Iterator<Item = Rank> + '_ {
        self.nodes.iter().map(|members| members[0])
    }
}

/// What is wrong with a list of nodes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// A number that is too large, so that a smaller one is missing.
    #[error("rank {rank} is named, but there are only {ranks} ranks, numbered from 0")]
    OutOfRange {
        /// Which rank.
        rank: Rank,
        /// How many are named.
        ranks: usize,
    },
    /// A rank on two nodes, or twice on one.
    #[error("rank {rank} is named twice")]
    Twice {
        /// Which rank.
        rank: Rank,
    },
}

#[cfg(test)]
mod tests {
    use super::{Partition, PartitionError};
    use crate::rank::Rank;

    #[test]
    fn each_rank_is_on_one_node() {
        let partition = Partition::of_nodes(["a", "b", "a", "c", "b"]);
        assert_eq!(partition.nodes(), [vec![Rank(0), Rank(2)], vec![Rank(1), Rank(4)], vec![Rank(3)]]);
        assert_eq!(Partition::new(partition.nodes().to_vec()), Ok(partition.clone()));
        assert!(partition.is_local(Rank(1), Rank(4)) && !partition.is_local(Rank(0), Rank(1)));
        assert!(!partition.is_local(Rank(7), Rank(8)));
        assert_eq!(partition.masters().collect::<Vec<_>>(), [Rank(0), Rank(1), Rank(3)]);
        assert_eq!(Partition::blocks(5, 2), Partition::of_nodes([0, 0, 1, 1, 2]));
    }

    #[test]
    fn a_list_of_nodes_that_is_wrong_is_refused() {
        let twice = Partition::new(vec![vec![Rank(0), Rank(1)], vec![Rank(1)]]);
        assert_eq!(twice, Err(PartitionError::Twice { rank: Rank(1) }));
        let gap = Partition::new(vec![vec![Rank(0)], vec![], vec![Rank(2)]]);
        assert_eq!(gap, Err(PartitionError::OutOfRange { rank: Rank(2), ranks: 2 }));
    }
}
