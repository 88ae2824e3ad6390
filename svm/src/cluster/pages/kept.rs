//! Blocks of pages that are in the cache already.

use crate::blocks::Blocks;
use crate::cache::{PageNumber, ReadOutcome};
use crate::cluster::SharedFile;
use crate::copying::Course;
use crate::error::Result;

use super::{overlap, pages};

impl SharedFile {
    /// How many of `blocks`, counted from the file's beginning, lie in one page with the first of them; none, if that lies
    /// in several.
    pub(crate) fn in_one_page(&self, blocks: &Blocks) -> u64 {
        let page = u64::from(self.cache().page());
        blocks.whole_before((blocks.start / page + 1) * page)
    }

    /// Copies as many of `blocks` as [`SharedFile::in_one_page`] says, or the first where that lies in several, to places
    /// that are `stride` bytes from each other, if they are in the cache. Returns how many these are, and whether they
    /// were copied.
    ///
    /// # Safety
    /// Each place is valid for writes of a block.
    pub(crate) unsafe fn copy_kept(
        &self,
        blocks: &Blocks,
        to: *mut u8,
        stride: isize,
    ) -> Result<(u64, bool)> {
        let (cache, count) = (self.cache(), self.in_one_page(blocks));
        if count > 0 {
            let page = blocks.start / u64::from(cache.page());
            let within = blocks.first(count).within(page * u64::from(cache.page()));
            // SAFETY: the caller's promise; all of them lie in the page.
            let copied = unsafe { cache.read_blocks(&self.key(PageNumber(page)), &within, to, stride) }?;
            return Ok((count, copied));
        }
        // One that lies in several pages.
        let range = blocks.start..blocks.start + blocks.length;
        for page in pages(&range, cache) {
            let (within, at) = overlap(page, &range, cache);
            // SAFETY: the caller vouches for the block's place; the part lies within.
            let read = unsafe { cache.read(&self.key(page), within, to.add(at), Course::ThroughCaches) }?;
            if read != ReadOutcome::Copied {
                return Ok((1, false));
            }
        }
        Ok((1, true))
    }
}
