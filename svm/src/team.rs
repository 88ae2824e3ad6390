//! Processes that have files open together, and what they do together with them: all succeed, or all fail for the same
//! reason, and none goes on before all have done their part.
//!
//! ```text
//!   Team ── open, sync, set_size, close, …   steps that all do their part of             (opening, files)
//!     ├── agree, told, maxima, all_gather    what they tell each other after each step   (agreement)
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
mod reach;
mod settings;

use svmio_transport::{Rank, SegmentId};

use crate::cluster::Cluster;
use crate::error::Result;
use crate::node::NodeName;

pub use agreement::Tellable;
pub use engine::Engine;
pub use gathering::Gathering;
pub use meeting::{Place, machine, own_node};
pub use opening::Opening;
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
}

/// The processes that have files open together, as one of them sees them.
pub struct Team {
    member: usize,
    size: usize,
    /// This member's node, and whether it is the first of the team's there.
    node: NodeName,
    is_first_of_node: bool,
    /// The file that the team is for, if it is for one only.
    file: Option<String>,
    /// None where there is nobody else.
    means: Option<Box<dyn Means>>,
}

impl Team {
    /// A process by itself.
    pub fn alone() -> Team {
        let (node, file) = (NodeName::current(), None);
        Team { member: 0, size: 1, node, is_first_of_node: true, file, means: None }
    }

    /// Member `member` of `size` members, which tell each other things by `means`.
    pub fn new(member: usize, size: usize, means: Box<dyn Means>) -> Team {
        let is_first_of_node = member == 0;
        let means = Some(means).filter(|_| size > 1);
        Team { member, size, node: NodeName::current(), is_first_of_node, file: None, means }
    }

    /// All processes of a cluster, numbered by their ranks there. All of them call this.
    ///
    /// # Errors
    /// [`Error::Fabric`](crate::Error::Fabric) where they do not come together.
    pub fn of_cluster(cluster: &Cluster) -> Result<Team> {
        /// The segments of these teams' engines are in this space.
        const SPACE: u32 = 0x7465_616d;
        let members: Vec<Rank> = (0..cluster.size()).map(Rank).collect();
        let is_first = cluster.is_first_of_node(&members);
        let team = |means| Team::new(cluster.rank().index(), members.len(), means);
        if members.len() == 1 {
            return Ok(Team::alone().on_node(cluster.nodes()[0].clone(), is_first));
        }
        let number = cluster.count_team();
        let id = SegmentId::new(SPACE, number.wrapping_mul(Engine::SEGMENTS));
        let engine = Engine::join(&cluster.reach()?, &members, id, None)?;
        let node = cluster.nodes()[cluster.own_node().0 as usize].clone();
        Ok(team(Box::new(engine)).on_node(node, is_first))
    }

    /// The same, on a node of which this member is the first one, or not.
    #[must_use]
    pub fn on_node(self, node: NodeName, is_first_of_node: bool) -> Team {
        Team { node, is_first_of_node, ..self }
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
}

impl std::fmt::Debug for Team {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Team { member, size, node, .. } = self;
        let mut formatter = formatter.debug_struct("Team");
        formatter.field("member", member).field("size", size).field("node", node).finish_non_exhaustive()
    }
}
