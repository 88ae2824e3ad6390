//! What a storage device did not take.

use std::path::PathBuf;

use super::ErrorKind;
use crate::units::SegmentIndex;

/// A segment could not be brought to the storage device. The system tells of that once, and does not tell which bytes
/// it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name}: segment {segment} could not be brought to the storage device ({problem}; {}): any of what was written to it \
     since the last sync may be lost when this node goes down, and no sync succeeds until the file has been closed; \
     write it again then, to a store on another device if this one is failing",
    path.display()
)]
pub struct Unsynced {
    /// The file.
    pub name: String,
    /// The segment.
    pub segment: SegmentIndex,
    /// The file's directory in the store.
    pub path: PathBuf,
    /// What kind of error it is.
    pub kind: ErrorKind,
    /// What the operating system said.
    pub problem: String,
}
