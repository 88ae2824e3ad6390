//! What can go wrong in executing.

use svmio_transport::{Error as FabricError, Rank, SegmentId};

/// What executors return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of an executor. After one, the group is of no more use: its members no longer agree on where they are. The
/// others hear of it in their turn.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The fabric's: a lost peer above all.
    #[error(transparent)]
    Fabric(#[from] svmio_transport::Error),
    /// The members make no group.
    #[error("group {id}: {problem}")]
    Members {
        /// The group's segments.
        id: SegmentId,
        /// What is wrong with them.
        problem: String,
    },
    /// A member could not join, which ends the joining for all.
    #[error("group {id}: rank {rank} could not join it: {reason}")]
    NotJoined {
        /// The group's segments.
        id: SegmentId,
        /// Who.
        rank: Rank,
        /// Its error.
        reason: String,
    },
    /// The members are not all on one machine with shared memory that the processors keep coherent.
    #[error("the fabric {back_end} maps no memory of other processes: use the executors of schedules there")]
    NotMapped {
        /// Which fabric.
        back_end: String,
    },
    /// Buffers whose lengths do not fit together.
    #[error("{what} has {found} bytes, expected {expected}")]
    Length {
        /// Which buffer.
        what: &'static str,
        /// What it has to have, in bytes.
        expected: usize,
        /// What it has, in bytes.
        found: usize,
    },
    /// A block whose length two members give differently.
    #[error(
        "the block between member {member} and this one has {length} bytes here, and another length there"
    )]
    Unequal {
        /// The other member.
        member: usize,
        /// What it has here, in bytes.
        length: usize,
    },
    /// A member could not do its part of an operation, as of wrong arguments, which ends the group for all.
    #[error("member {member} does no more operations of the group: {reason}")]
    Refused {
        /// Which.
        member: usize,
        /// Its error.
        reason: String,
    },
    /// A host library could not do what an operation needs of it, before others took part.
    #[error("{reason}")]
    Host {
        /// Its error.
        reason: String,
    },
    /// A function of the host library's, which sends or receives for a group, has failed.
    #[error("{function} failed with code {code}")]
    HostCall {
        /// Which.
        function: &'static str,
        /// What it returned, as the host library numbers its errors.
        code: i32,
    },
    /// A group cannot be made by its settings.
    #[error("a group by such settings cannot be: {problem}")]
    Settings {
        /// What is wrong with them.
        problem: String,
    },
    /// What was carried out in the background has panicked, as a reduction's function may, in this operation or in one
    /// before it.
    #[error("an operation in the background has panicked")]
    Panicked,
    /// A member of that number is not in the group.
    #[error("there is no member {member} in a group of {size}")]
    NoSuchMember {
        /// Which.
        member: usize,
        /// How many there are.
        size: usize,
    },
    /// The root of a reduction gets the result: it cannot only give.
    #[error("member {member} is the root, which gets the result")]
    IsRoot {
        /// Which.
        member: usize,
    },
    /// A member other than the first gets something of those before it: it cannot only give.
    #[error("member {member} gets what those before it have: only the first does not")]
    NotFirst {
        /// Which.
        member: usize,
    },
}

impl Error {
    /// That a member has left a group, without a word why.
    pub(super) fn has_left(member: usize) -> Self {
        Self::Refused { member, reason: "it has left the group".to_owned() }
    }

    /// Whether the fabric tells all by itself of what has gone wrong who hear of the loss of any of `watched`. Of the
    /// loss of another one, as of one of another group whose messages go the same way, they may never hear.
    pub(crate) fn is_heard_by_all(&self, watched: &[Rank]) -> bool {
        match self {
            Self::Fabric(FabricError::PeerLost { rank, .. }) => watched.contains(rank),
            Self::Fabric(FabricError::Ending { .. }) => true,
            _ => false,
        }
    }

    /// Who is to be named to those who wait for the member `own`, which has met this error and leaves: the one who has
    /// left first, as far as is known. Nobody where they hear by themselves of what is behind it.
    pub(super) fn who_leaves(&self, own: usize) -> Option<usize> {
        match self {
            Self::Fabric(FabricError::PeerLost { .. } | FabricError::Ending { .. }) => None,
            Self::Refused { member, .. } => Some(*member),
            _ => Some(own),
        }
    }
}
