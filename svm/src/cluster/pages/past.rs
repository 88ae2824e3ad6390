//! Accesses past the cache, to pages for which it has no room and will not have any: what fills their set is dirty and
//! cannot be brought home, because a node was lost or has no space, or is lost itself to fetches that never ended. And
//! long writes, which need none.

use std::ops::Range;

use svmio_transport::copy_bytes;

use crate::cache::PageNumber;
use crate::cluster::pieces::touched;
use crate::cluster::wire::{LONGEST_DATA, Part, Reply, Request};
use crate::cluster::{NodeIndex, SharedFile};
use crate::error::Result;
use crate::units::SegmentIndex;

use super::overlap;

impl SharedFile {
    /// Reads a page's part of `range` from `node`, its home.
    ///
    /// # Safety
    /// `to` is valid for writes of as many bytes as `range` has.
    pub(super) unsafe fn read_past(
        &self,
        node: NodeIndex,
        page: PageNumber,
        range: &Range<u64>,
        to: *mut u8,
    ) -> Result<()> {
        let (within, at) = overlap(page, range, self.cache());
        // Before the home is asked: what this node wrote is in the cache still, or at home by then.
        let ours = self.cache().valid_bytes(&self.key(page), &within)?;
        let mut bytes = Vec::new();
        for start in within.clone().step_by(LONGEST_DATA) {
            let portion = start..within.end.min(start.saturating_add(LONGEST_DATA as u32));
            let request = Request::Read { file: self.file(), parts: vec![self.part(page, &portion)] };
            self.cluster().ask_with(node, &request, &[], &mut |reply, data| {
                if *reply == Reply::Data {
                    bytes.extend_from_slice(data);
                }
            })?;
        }
        if bytes.len() != within.len() {
            return Err(self.cluster().context().out_of_place(node));
        }
        for (start, run) in ours {
            let start = (start - within.start) as usize;
            bytes[start..start + run.len()].copy_from_slice(&run);
        }
        // SAFETY: the caller vouches for `to`; the part lies within the range.
        unsafe { copy_bytes(bytes.as_ptr(), to.add(at), bytes.len()) };
        Ok(())
    }

    /// Writes bytes `within` of a page to its home.
    pub(super) fn write_past(&self, page: PageNumber, within: &Range<u32>, bytes: &[u8]) -> Result<()> {
        let node = self.home_of(self.attachment(), &self.key(page))?;
        let Part { segment, within, .. } = self.part(page, within);
        // Others may have put the page into the cache since.
        self.write_around(segment, within, bytes, || self.write_in_messages(node, segment, within, bytes))
    }

    /// Has `write` bring bytes home past the cache; what is cached agrees with that then.
    pub(in crate::cluster) fn write_around(
        &self,
        index: SegmentIndex,
        within: u64,
        data: &[u8],
        write: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let cache = self.cache();
        let _under_way = cache.begin_past();
        let announced = self.announce_overwrite(index, within, data);
        let written = announced.and_then(|versions| write().map(|()| versions));
        let versions = written.inspect_err(|_| {
            // Nobody knows which of them are home, and nobody may read here what others do not find there.
            let touched = touched(self, &[Part::one(index, within, data.len() as u32)]);
            if let Err(e) = cache.expire(self.file(), &touched) {
                tracing::error!("pages that may not be as their home has them stay cached: {e}");
            }
        })?;
        self.overwrite_cached(index, within, data, &versions)
    }
}
