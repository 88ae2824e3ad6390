//! Processes that have files open together, and what they do together with them: all succeed, or all fail for the same
//! reason, and none goes on before all have done their part.
//!
//! ```text
//!   Team ── open, sync, set_size, close, …   steps that all do their part of             (opening, files, place)
//!     ├── agree, told, maxima, all_gather    what they tell each other after each step   (agreement)
//!     ├── end_of_write, agree_with_size       how long a file has become                     (sizes)
//!     ├── meet ──► Place                     in which store, or cluster, their files are   (meeting, settings)
//!     └── Means                              by what they tell it
//!           ├── Engine    the collectives of svmio's own engine, over a fabric           (engine, reach)
//!           ├── Gathering a program's own function that gathers bytes                  (gathering)
//!           └── …         anything else that a layer above has
//! ```
//!
//! Members are numbered from 0. All of them make the same calls in the same order.

mod agreement;
mod engine;
mod files;
mod gathering;
mod meeting;
mod opening;
mod place;
mod reach;
mod settings;
mod sizes;

use svmio_transport::{Rank, SegmentId};

use crate::cluster::Cluster;
use crate::error::Result;
use crate::node::NodeName;

pub use agreement::Tellable;
pub use engine::Engine;
pub use gathering::Gathering;
pub use meeting::{Place, machine, own_node};
pub use opening::{Found, Opening};
pub use reach::Reach;
pub(crate) use settings::InForce;

/// By what the members of a team tell each other something. All of them make the same calls in the same order, and none
/// may use the same means from two threads at once.
pub trait Means: Send + Sync {
    /// Each number becomes the largest that any member has in its place. There are as many on all members.
    ///
    /// # Errors
    /// [`Error::Disunited`](crate::Error::Disunited), as for all functions here: that a member is lost, above all.
    fn maxima(&self, numbers: &mut [i64]) -> Result<()>;

    /// The bytes become those of member `root`. They have the same length on all members.
    ///
    /// # Errors
    /// As [`maxima`](Self::maxima).
    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()>;

    /// `all` becomes what all members have in `own`, one behind the other. All have the same length.
    ///
    /// # Errors
    /// As [`maxima`](Self::maxima).
    fn all_gather(&self, own: &[u8], all: &mut [u8]) -> Result<()>;

    /// The same of member `root`; elsewhere `all` is not used, and may be empty.
    ///
    /// # Errors
    /// As [`maxima`](Self::maxima).
    fn gather(&self, root: usize, own: &[u8], all: &mut [u8]) -> Result<()>;
}

/// Which one a member is of those on its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalRank {
    /// From 0, in the order of the team.
    pub rank: usize,
    /// How many there are.
    pub ranks: usize,
}

impl LocalRank {
    /// The only one.
    pub const ALONE: LocalRank = LocalRank { rank: 0, ranks: 1 };

    /// That of `member` where each member's node is told, in the order of the team.
    pub fn of<N: PartialEq>(member: usize, nodes: impl IntoIterator<Item = N>, own: N) -> LocalRank {
        let here = nodes.into_iter().enumerate().filter(|(_, node)| *node == own);
        here.fold(LocalRank { rank: 0, ranks: 0 }, |local, (other, _)| LocalRank {
            rank: local.rank + usize::from(other < member),
            ranks: local.ranks + 1,
        })
    }

    /// Whether it does what is done once on a node.
    pub fn is_first(self) -> bool {
        self.rank == 0
    }
}

/// The processes that have files open together, as one of them sees them.
pub struct Team {
    member: usize,
    size: usize,
    /// This member's node, and which of the team's it is there.
    node: NodeName,
    local: LocalRank,
    /// The file that the team is for, if it is for one only.
    file: Option<String>,
    /// None where there is nobody else.
    means: Option<Box<dyn Means>>,
}

impl Team {
    /// A process by itself.
    pub fn alone() -> Team {
        let (node, file) = (NodeName::current(), None);
        Team { member: 0, size: 1, node, local: LocalRank::ALONE, file, means: None }
    }

    /// Member `member` of `size` members, all on one node, which tell each other things by `means`.
    pub fn new(member: usize, size: usize, means: Box<dyn Means>) -> Team {
        let local = LocalRank { rank: member, ranks: size };
        let means = Some(means).filter(|_| size > 1);
        Team { member, size, node: NodeName::current(), local, file: None, means }
    }

    /// All processes of a cluster, numbered by their ranks there. All of them call this.
    ///
    /// # Errors
    /// [`Error::Fabric`](crate::Error::Fabric) where they do not come together.
    pub fn of_cluster(cluster: &Cluster) -> Result<Team> {
        /// The segments of these teams' engines are in this space.
        const SPACE: u32 = 0x7465_616d;
        let members: Vec<Rank> = (0..cluster.size()).map(Rank).collect();
        let nodes = members.iter().map(|&member| cluster.node_of(member));
        let local = LocalRank::of(cluster.rank().index(), nodes, cluster.own_node());
        let team = |means| Team::new(cluster.rank().index(), members.len(), means);
        if members.len() == 1 {
            return Ok(Team::alone().on_node(cluster.nodes()[0].clone(), local));
        }
        let number = cluster.count_team();
        let id = SegmentId::new(SPACE, number.wrapping_mul(Engine::SEGMENTS));
        let engine = Engine::join(&cluster.reach()?, &members, id, None)?;
        let node = cluster.nodes()[cluster.own_node().0 as usize].clone();
        Ok(team(Box::new(engine)).on_node(node, local))
    }

    /// The same, on a node of which this member is one of several.
    #[must_use]
    pub fn on_node(self, node: NodeName, local: LocalRank) -> Team {
        Team { node, local, ..self }
    }

    /// The same, for one file only, which is named where the members cannot tell each other anything.
    #[must_use]
    pub fn for_file(self, name: impl Into<String>) -> Team {
        Team { file: Some(name.into()), ..self }
    }

    /// This member's number.
    pub fn member(&self) -> usize {
        self.member
    }

    /// How many members there are.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Which of those on its node this member is.
    pub fn local(&self) -> LocalRank {
        self.local
    }
}

impl std::fmt::Debug for Team {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Team { member, size, node, .. } = self;
        let mut formatter = formatter.debug_struct("Team");
        formatter.field("member", member).field("size", size).field("node", node).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::LocalRank;

    #[test]
    fn members_are_numbered_on_each_node() {
        let nodes = ["a", "b", "a", "a", "b"];
        let of = |member: usize| LocalRank::of(member, nodes, nodes[member]);
        let expected = [(0, 3), (0, 2), (1, 3), (2, 3), (1, 2)];
        for (member, (rank, ranks)) in expected.into_iter().enumerate() {
            assert_eq!(of(member), LocalRank { rank, ranks }, "{member}");
        }
    }
}
