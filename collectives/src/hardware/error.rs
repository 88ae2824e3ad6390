//! What can go wrong with the hardware barrier.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// What the hardware barrier returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the hardware barrier. After one in a barrier, the barrier is of no more use.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device could not be opened, read or written.
    #[error("{doing} {}: {source}{}", path.display(), advice(hint))]
    Device {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What can be done about it; may be empty.
        hint: &'static str,
        /// What the system says.
        source: Arc<io::Error>,
    },
    /// What is there is no controller of this kind.
    #[error("{} is no emulated controller: {problem}", path.display())]
    Foreign {
        /// Where.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// There is a controller already.
    #[error("{} has a controller already, in another process or thread", path.display())]
    Taken {
        /// Where.
        path: PathBuf,
    },
    /// The controller's process or thread has ended.
    #[error("the emulated controller of {} has ended", path.display())]
    NoController {
        /// Where it was.
        path: PathBuf,
    },
    /// All circuits belong to other groups.
    #[error("all {circuits} circuits of {device} are in use by other groups")]
    NoCircuit {
        /// The controller.
        device: String,
        /// How many circuits it has.
        circuits: usize,
    },
    /// The circuit was given to another group.
    #[error("circuit {circuit} of {device} belongs to another group")]
    Revoked {
        /// The controller.
        device: String,
        /// Which circuit.
        circuit: usize,
    },
    /// There is no such node.
    #[error(
        "a group of {nodes} nodes has no node {node}; a controller has lines for 1 to {most}",
        most = super::MOST_NODES
    )]
    Nodes {
        /// How many nodes the group has.
        nodes: usize,
        /// Which was asked for.
        node: usize,
    },
    /// A controller with no circuits or too many.
    #[error("a controller has 1 to {most} circuits, not {circuits}", most = super::MOST_CIRCUITS)]
    Circuits {
        /// How many were asked for.
        circuits: usize,
    },
    /// The line in does not do what a controller's should.
    #[error("no controller answers as it should: {problem}")]
    Trial {
        /// What was seen.
        problem: &'static str,
    },
}

impl Error {
    /// That something with a file went wrong.
    pub(super) fn device(
        doing: &'static str,
        path: impl Into<PathBuf>,
        hint: &'static str,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Device { doing, path, hint, source: Arc::new(source) }
    }
}

fn advice(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!("; {hint}") }
}
