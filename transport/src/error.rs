//! What can go wrong on a fabric.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::membership::Membership;
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
    #[error(
        "{doing} rank {peer}: no answer within {limit:?}; is that process stopped or stuck, or its node overloaded?"
    )]
    TimedOut {
        /// What was tried, as in "connecting to segment 1.2 of"; see [`Error::timed_out`].
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
    /// The process has no messenger on this port, or none that talks to this process.
    #[error("rank {rank} on node {node} has no messenger on port {port}: {problem}")]
    NoMessenger {
        /// Which process.
        rank: Rank,
        /// Where it runs.
        node: String,
        /// The port's number.
        port: u32,
        /// Why, with the way out.
        problem: String,
    },
    /// The process exports no segment of this id.
    #[error(
        "rank {owner} exports no segment {id}; it must be created there before others connect, and not removed \
         before they are done"
    )]
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
    #[error(
        "the message from rank {from} has {length} bytes, the buffer {capacity}: give a buffer of {length} bytes or \
         more; a probe tells the length before"
    )]
    Truncated {
        /// Who sent it.
        from: Rank,
        /// Its length in bytes.
        length: u64,
        /// The buffer's length in bytes.
        capacity: u64,
    },
    /// What came over the wire is not what a peer of this version sends.
    #[error(
        "rank {from} sent what cannot be understood: {problem}; do all processes of the job run the same version of \
         svmio, with the same settings of the fabric?"
    )]
    Wire {
        /// Who sent it.
        from: Rank,
        /// What is wrong with it; see [`Error::wire`].
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

    /// That `peer` did not answer within `limit` what was tried, as in "connecting to segment 1.2 of"; tells the node
    /// as well.
    #[must_use]
    pub fn timed_out(membership: &Membership, doing: impl fmt::Display, peer: Rank, limit: Duration) -> Self {
        Self::TimedOut { doing: format!("[node {}] {doing}", membership.node(peer)), peer, limit }
    }

    /// That `from` sent what no peer of this version sends; tells the node as well.
    #[must_use]
    pub fn wire(membership: &Membership, from: Rank, problem: impl fmt::Display) -> Self {
        Self::Wire { from, problem: format!("{problem} (it runs on node {})", membership.node(from)) }
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn errors_tell_who_where_and_the_way_out() {
        let membership = Membership::new(Rank(0), vec!["alpha".into(), "beta".into()]);
        let (peer, limit) = (Rank(1), Duration::from_secs(3));
        let id = SegmentId::new(1, 2);
        for (error, parts) in [
            (
                Error::timed_out(&membership, "a store barrier with", peer, limit),
                &["rank 1", "beta", "3s", "stopped"][..],
            ),
            (Error::wire(&membership, peer, "no header"), &["rank 1", "beta", "no header", "same version"]),
            (Error::UnknownSegment { owner: peer, id }, &["rank 1", "segment 1.2", "created there before"]),
            (
                Error::Truncated { from: peer, length: 100, capacity: 10 },
                &["rank 1", "buffer 10", "give a buffer of 100"],
            ),
        ] {
            let text = error.to_string();
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        }
    }
}
