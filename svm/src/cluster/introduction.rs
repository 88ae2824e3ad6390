//! What is told of a file that was opened.

use super::wire::FileTruth;
use crate::error::{Error, ErrorKind, Result};
use crate::node::NodeName;

/// What the process that opened a file tells the others, for them to attach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction(pub(super) FileTruth);

impl Introduction {
    /// As bytes, for a message.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(&self.0).expect("writing to memory does not fail")
    }

    /// From the bytes of [`Introduction::to_bytes`].
    ///
    /// # Errors
    /// Where they are something else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Introduction> {
        postcard::from_bytes(bytes).map(Introduction).map_err(|e| Error::OnNode {
            node: NodeName::current(),
            kind: ErrorKind::Other,
            message: format!("what was told of a file makes no sense: {e}"),
        })
    }
}
