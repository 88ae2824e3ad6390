//! How an operation ended, for the one that waits for it.

use std::sync::OnceLock;

use crate::error::Result;

/// The end of a send or receive: how many bytes, or why not.
#[derive(Debug, Default)]
pub(super) struct Outcome(OnceLock<Result<usize>>);

impl Outcome {
    /// What came of it, once it has ended.
    pub(super) fn get(&self) -> Option<&Result<usize>> {
        self.0.get()
    }

    /// Ends it. From then on nobody touches the operation's memory. A second end is ignored.
    pub(super) fn set(&self, result: Result<usize>) {
        let _ = self.0.set(result);
    }
}
