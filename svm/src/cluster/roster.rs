//! Which processes are on which node, and who leads each.

use svmio_transport::{Membership, Rank};

use crate::node::NodeName;

use super::NodeIndex;

/// The processes of a cluster by node.
#[derive(Debug)]
pub(crate) struct Roster {
    names: Vec<NodeName>,
    leaders: Vec<Rank>,
    nodes: Vec<NodeIndex>,
    rank: Rank,
    /// How many processes are on the node of this one.
    here: u32,
}

impl Roster {
    /// The node on which names, segment tables and sizes are true.
    pub(crate) const MASTER: NodeIndex = NodeIndex(0);

    /// Nodes are numbered in the order of their lowest ranks, which lead them.
    pub(crate) fn new(membership: &Membership) -> Roster {
        let (mut names, mut leaders, mut nodes): (Vec<NodeName>, Vec<_>, Vec<_>) = Default::default();
        for rank in membership.ranks() {
            let name = NodeName::new(membership.node(rank));
            let index = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                leaders.push(rank);
                names.len() - 1
            });
            nodes.push(NodeIndex(index as u32));
        }
        let rank = membership.rank();
        let here = nodes.iter().filter(|node| **node == nodes[rank.index()]).count() as u32;
        Roster { names, leaders, nodes, rank, here }
    }

    /// This process.
    pub(crate) fn rank(&self) -> Rank {
        self.rank
    }

    /// How many processes there are.
    pub(crate) fn size(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// The nodes' names.
    pub(crate) fn names(&self) -> &[NodeName] {
        &self.names
    }

    /// A node's name.
    pub(crate) fn name(&self, node: NodeIndex) -> &NodeName {
        &self.names[node.0 as usize]
    }

    /// The node that is called `name`.
    pub(crate) fn index(&self, name: &NodeName) -> Option<NodeIndex> {
        self.names.iter().position(|known| known == name).map(|index| NodeIndex(index as u32))
    }

    /// The node of a process.
    pub(crate) fn node_of(&self, rank: Rank) -> NodeIndex {
        self.nodes[rank.index()]
    }

    /// The node of this process.
    pub(crate) fn own(&self) -> NodeIndex {
        self.node_of(self.rank)
    }

    /// How many processes are on the node of this one.
    pub(crate) fn processes_here(&self) -> u32 {
        self.here
    }

    /// The process that has a node's agent.
    pub(crate) fn leader(&self, node: NodeIndex) -> Rank {
        self.leaders[node.0 as usize]
    }

    /// Whether this process has its node's agent.
    pub(crate) fn leads(&self) -> bool {
        self.leader(self.own()) == self.rank
    }

    /// Whether this process is on the master node.
    pub(crate) fn is_master_node(&self) -> bool {
        self.own() == Self::MASTER
    }

    /// All nodes but this process's.
    pub(crate) fn others(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        (0..self.names.len() as u32).map(NodeIndex).filter(|node| *node != self.own())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_rank_of_a_node_leads_it() {
        let nodes = ["b", "a", "b", "c", "a"].map(String::from).to_vec();
        let roster = Roster::new(&Membership::new(Rank(2), nodes));
        assert_eq!(roster.names(), ["b", "a", "c"].map(NodeName::new));
        assert_eq!(roster.own(), NodeIndex(0));
        assert_eq!(roster.node_of(Rank(4)), NodeIndex(1));
        assert_eq!([0, 1, 2].map(|node| roster.leader(NodeIndex(node))), [Rank(0), Rank(1), Rank(3)]);
        assert!(!roster.leads());
        assert_eq!(roster.processes_here(), 2);
        assert_eq!(roster.others().collect::<Vec<_>>(), [NodeIndex(1), NodeIndex(2)]);
    }
}
