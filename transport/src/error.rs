//! What can go wrong on a fabric.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::units::{Rank, SegmentId};

/// What functions of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the fabric. It can be handed to all who wait for one operation, so it is cheap to clone.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process is dead, hung or unreachable.
    #[error("rank {rank} on node {node} is lost: {reason}")]
    PeerLost {
        /// Which process.
        rank: Rank,
        /// Where it ran.
        node: String,
        /// How that was noticed.
        reason: String,
    },
    /// The job is being ended.
    #[error("the job is ending: {reason}")]
    Ending {
        /// Who ended it, and why.
        reason: String,
    },
    /// No answer within the time that was set.
    #[error("{doing} rank {peer}: no answer within {limit:?}")]
    TimedOut {
        /// What was tried, as in "connecting to segment 1.2 of".
        doing: String,
        /// With whom.
        peer: Rank,
        /// How long was waited.
        limit: Duration,
    },
    /// Transfers to the process failed again and again.
    #[error(
        "rank {peer} on node {node} did not get a transfer intact in {attempts} attempts; is its link broken?"
    )]
    Unreachable {
        /// To whom.
        peer: Rank,
        /// Where it runs.
        node: String,
        /// How often it was tried.
        attempts: u32,
    },
    /// The process exports no segment of this id.
    #[error("rank {owner} exports no segment {id}")]
    UnknownSegment {
        /// Whose segment was asked for.
        owner: Rank,
        /// Under which id.
        id: SegmentId,
    },
    /// The id is in use.
    #[error("segment {id} exists already; remove it before it is created again")]
    SegmentExists {
        /// The id.
        id: SegmentId,
    },
    /// An access beyond the end of a segment or of registered memory.
    #[error("{length} bytes from {offset} are beyond the {size} bytes of {what}")]
    OutOfBounds {
        /// Of what.
        what: String,
        /// First byte of the access.
        offset: u64,
        /// Bytes of the access.
        length: u64,
        /// Bytes that there are.
        size: u64,
    },
    /// A word that is not at a multiple of its size.
    #[error("an atomic word of 8 bytes cannot lie at {offset}: give a multiple of 8")]
    Misaligned {
        /// Where it was wanted.
        offset: u64,
    },
    /// There is no process of that rank.
    #[error("there is no rank {rank} in a job of {size}")]
    NoSuchRank {
        /// The rank asked for.
        rank: Rank,
        /// How many processes the job has.
        size: u32,
    },
    /// This fabric cannot do that; its capabilities say so.
    #[error("the fabric {back_end} offers no {what}")]
    Unsupported {
        /// Which fabric.
        back_end: String,
        /// What it lacks.
        what: &'static str,
    },
    /// Memory for segments or buffers is short.
    #[error("no memory for {what} ({length} bytes): {source}")]
    Memory {
        /// For what.
        what: String,
        /// How much was wanted.
        length: u64,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// A receive buffer is too small for the message that came.
    #[error("the message from rank {from} has {length} bytes, the buffer {capacity}")]
    Truncated {
        /// Who sent it.
        from: Rank,
        /// Its length in bytes.
        length: u64,
        /// The buffer's length in bytes.
        capacity: u64,
    },
    /// What came over the wire is not what a peer of this version sends.
    #[error("rank {from} sent what cannot be understood: {problem}")]
    Wire {
        /// Who sent it.
        from: Rank,
        /// What is wrong with it.
        problem: String,
    },
    /// A start-up that did not come about.
    #[error("the job does not start: {problem}")]
    StartUp {
        /// Why, with the way out.
        problem: String,
    },
    /// A setting that makes no sense.
    #[error("{place}: {problem}")]
    Setting {
        /// The file and line, or the environment variable.
        place: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A network provider's own error.
    #[error("{doing} (libfabric, provider {provider}): {problem}")]
    Provider {
        /// What was tried.
        doing: String,
        /// With which provider.
        provider: String,
        /// What it said.
        problem: String,
    },
    /// The operating system refused.
    #[error("{doing}: {source}")]
    System {
        /// What was tried.
        doing: String,
        /// What the system said.
        source: Arc<io::Error>,
    },
}

impl Error {
    /// The error of a system call made for `doing`.
    pub fn system(doing: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System { doing: doing.into(), source: Arc::new(source.into()) }
    }

    /// The process that is lost, when that is what happened.
    #[must_use]
    pub fn lost_peer(&self) -> Option<Rank> {
        match self {
            Self::PeerLost { rank, .. } => Some(*rank),
            Self::Unreachable { peer, .. } => Some(*peer),
            _ => None,
        }
    }
}
