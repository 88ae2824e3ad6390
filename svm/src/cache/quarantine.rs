//! Telling of frames that are lost: somebody may still write to them, and nobody will say when that has ended.

use std::sync::atomic::Ordering::Relaxed;

use super::{Owner, PageCache};
use crate::node::NodeName;
use crate::units::FileId;

/// Warns, once for an event, that the cache of `node` has lost frames to which pages of a file were to come, and why.
pub(crate) fn warn_of_lost_frames(node: &NodeName, file: FileId, cause: &str) {
    tracing::warn!(
        "node {node}: the page cache is smaller until the job ends, by pages that were fetched for file {file}: \
         {cause}. No data is lost"
    );
}

impl PageCache {
    /// The same for a process of this node that died, however many frames it leaves.
    pub(super) fn warn_of_dead_fetcher(&self, fetcher: Owner, file: FileId) {
        // Relaxed: only this word counts.
        if self.warned_of.swap(fetcher.pack(), Relaxed) != fetcher.pack() {
            let cause = "the process that asked for them died, and their home may still write them";
            warn_of_lost_frames(&NodeName::current(), file, cause);
        }
    }
}
