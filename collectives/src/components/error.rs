//! What can go wrong with components.

use super::function::Function;
use crate::{executor, hardware};

/// What components return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of components, or of what they do.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An executor's.
    #[error(transparent)]
    Executor(#[from] executor::Error),
    /// The fabric's.
    #[error(transparent)]
    Fabric(#[from] svmio_transport::Error),
    /// The hardware barrier's.
    #[error(transparent)]
    Hardware(#[from] hardware::Error),
    /// A setting that makes no sense.
    #[error("{item:?} as a setting of components: {problem}")]
    Setting {
        /// What was set.
        item: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// A component that the user wants for a function cannot be had.
    #[error("the component {component} is wanted for {function} but cannot be had: {reason}")]
    Unavailable {
        /// For which function.
        function: Function,
        /// Which component.
        component: String,
        /// Why not.
        reason: String,
    },
    /// The members do not choose from the same.
    #[error("the members of a group have different components or settings of them: {problem}")]
    Disagreement {
        /// Who has what.
        problem: String,
    },
    /// The module does not offer the function.
    #[error("{function} is not offered")]
    NotOffered {
        /// Which.
        function: Function,
    },
    /// What another member said made no sense.
    #[error("what member {member} says of its components makes no sense: {problem}")]
    Misunderstanding {
        /// Which.
        member: usize,
        /// Why.
        problem: String,
    },
}
