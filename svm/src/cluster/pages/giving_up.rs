//! Dirty bytes that did not get home while they were locked. They are given up: if they came home later, it would be
//! over what the next holder of the lock wrote.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::cache::Discarded;
use crate::cluster::SharedFile;
use crate::error::{Error, Result};

use super::{overlap, pages_in};

impl SharedFile {
    /// Gives up what is dirty in `range`, which is locked exclusively, after `error` has kept it from its home. Each
    /// handle of this node is told by its next flush; `is_told` says that this one knows already.
    pub(crate) fn give_up_range(&self, range: &Range<u64>, error: &Error, is_told: bool) -> Result<()> {
        let (cache, mut is_lost) = (self.cache(), false);
        for page in self.cache().dirty_pages(self.file())?.into_iter().filter(pages_in(range, cache)) {
            let (within, _) = overlap(page, range, cache);
            loop {
                match cache.discard(&self.key(page), &within)? {
                    Discarded::Busy(version) => cache.wait_for_change(version)?,
                    Discarded::Dirty => {
                        is_lost = true;
                        break;
                    }
                    Discarded::Nothing => break,
                }
            }
        }
        if is_lost {
            let (state, _) = self.attachment().writable()?;
            let number = state.add_loss(error.kind());
            if is_told {
                // Relaxed: only this number counts. Where it is not the next one, there is one more to tell of.
                let order = Ordering::Relaxed;
                let _ = self.told_losses().compare_exchange(number - 1, number, order, order);
            }
        }
        Ok(())
    }

    /// Tells, once, that bytes of this node were given up since this handle was opened.
    pub(in crate::cluster) fn report_losses(&self) -> Result<()> {
        let (losses, kind) = self.attachment().state().map_or((0, crate::ErrorKind::Other), |s| s.losses());
        if self.told_losses().swap(losses, Ordering::Relaxed) < losses {
            return Err(Error::WritesLost { name: self.attachment().name().into(), kind });
        }
        Ok(())
    }
}
