//! Seeing what others have brought home: pages that lack it go.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::error::Result;
use crate::units::SegmentIndex;

use super::page::{PageState, Version};
use super::service::Service;
use super::table::Place;
use super::write_back::After;

/// In ranges of more segments only those are looked at that have been touched.
const MANY_SEGMENTS: usize = 1024;

impl Service {
    /// From now on loads from `pages` see what others had brought home before, and what they had given homes, as far as
    /// this node knows of these.
    pub(super) fn refresh(&self, pages: &Range<u64>) -> Result<()> {
        let mut elsewhere: BTreeMap<u32, Vec<SegmentIndex>> = BTreeMap::new();
        let mut here = Vec::new();
        for index in self.segments_to_refresh(pages) {
            match self.settle(index)? {
                Place::There(home) => elsewhere.entry(home).or_default().push(index),
                Place::Here => here.push(index),
                Place::Hole | Place::Homeless | Place::Direct => {}
            }
        }
        let elsewhere: Vec<_> = elsewhere.into_iter().collect();
        let mut versions = Vec::new();
        if !elsewhere.is_empty() {
            let (shared, bytes) = (self.shared()?, self.bytes_of(pages));
            // First what this node has in its cache: it is seen at once here, so that it has to be counted.
            shared.bring_cached_home(&(bytes.start.0..bytes.end.0))?;
            versions = shared.changes(&elsewhere)?;
        }
        let mut changed = BTreeSet::new();
        for ((_, segments), versions) in elsewhere.iter().zip(versions) {
            for (index, version) in segments.iter().zip(versions) {
                changed.extend(self.drop_stale(*index, pages, Some(version)));
            }
        }
        // What others of this node copied in is not counted.
        here.into_iter().for_each(|index| changed.extend(self.drop_stale(index, pages, None)));
        self.bring_home(changed, After::Drop)?;
        self.cure(pages);
        Ok(())
    }

    /// Has pages that were lost tried again, also those of segments of which nothing could be found out.
    fn cure(&self, pages: &Range<u64>) {
        let mut table = self.table();
        for page in table.lost(pages) {
            if let Err(e) = self.memory.cure(page) {
                tracing::warn!("a page of {} stays lost: {e}", self.file.name());
            } else {
                table.remove(page);
            }
        }
    }

    /// Drops what may be too old in a segment of `version`; returns those pages that have to be brought home before.
    fn drop_stale(&self, index: SegmentIndex, pages: &Range<u64>, version: Option<Version>) -> Vec<u64> {
        let its = self.pages_of(index);
        let both = its.start.max(pages.start)..its.end.min(pages.end);
        let mut table = self.table();
        let present = table.present(&both);
        let Some(segment) = table.segments.get_mut(&index) else { return Vec::new() };
        segment.known = segment.known.max(version);
        let (mut stale, mut changed) = (Vec::new(), Vec::new());
        for page in present {
            let has = table.page(page).and_then(|record| record.version);
            let has = has.zip(table.segments.get(&index)).map(|(has, segment)| segment.caught_up(has));
            if let (Some(has), Some(version)) = (has, version)
                && has >= version
            {
                table.set_version(page, Some(has));
                continue;
            }
            match table.state(page) {
                Some(PageState::Fetching { .. }) => {
                    if let Some(is_void) = table.flags(page).and_then(|flags| flags.is_void) {
                        *is_void = true;
                    }
                }
                Some(PageState::Clean | PageState::Ready(_)) => stale.push(page),
                Some(PageState::Dirty { .. } | PageState::WritingBack { .. }) => changed.push(page),
                // Whatever its segment is: see `cure`.
                Some(PageState::Lost) | None => {}
            }
        }
        self.drop_pages(&mut table, stale);
        changed
    }

    fn segments_to_refresh(&self, pages: &Range<u64>) -> Vec<SegmentIndex> {
        let segments = self.segments_of(pages);
        let indices: Vec<_> = match segments.len() <= MANY_SEGMENTS {
            true => segments.map(SegmentIndex).collect(),
            false => {
                let table = self.table();
                table.segments.keys().copied().filter(|index| segments.contains(&index.0)).collect()
            }
        };
        indices.into_iter().filter(|index| !self.leave_untouched_here(*index)).collect()
    }
}
