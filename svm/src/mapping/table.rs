//! The records of all pages that are not missing, in the order of their last faults, and of all segments.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use lru::LruCache;

use super::page::{Page, PageState, Ticket, Version};
use super::streams::Streams;
use crate::units::SegmentIndex;

/// Where a segment's bytes are for the mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Nobody has written it, as far as is known.
    Hole,
    /// Likewise, and it could not be given a home: what is stored there stays here until it can.
    Homeless,
    /// In this node's store, mapped in place.
    Direct,
    /// In this node's store, copied in and out.
    Here,
    /// On another node: its position in the file's list.
    There(u32),
}

/// Bytes that the record of a page takes in the [`Table`]'s three orders, with its twin's and with what the allocator
/// keeps between such small pieces, which come and go on many threads: as measured, about half each.
pub(super) const RECORD: u64 = 320;

/// What is known of a segment.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) place: Place,
    /// The version at the last refresh: what is fetched later has at least that.
    pub(super) known: Option<Version>,
    /// Changes that this mapping brought home itself, from the version before the first to that of the last.
    own: BTreeMap<Version, Version>,
}

impl Segment {
    pub(super) fn new(place: Place) -> Segment {
        Segment { place, known: None, own: BTreeMap::new() }
    }

    /// Takes note that this mapping made the change that led to version `after`.
    pub(super) fn add_own(&mut self, after: Version) {
        /// More are forgotten: pages are then fetched once too often.
        const MOST: usize = 256;
        let Some(before) = after.checked_sub(1) else { return };
        let start = match self.own.range(..=before).next_back() {
            Some((start, end)) if *end >= before => *start,
            _ => before,
        };
        let end = self.own.remove(&after).unwrap_or(after);
        self.own.insert(start, end);
        if self.own.len() > MOST {
            self.own.pop_first();
        }
    }

    /// The newest version that a page has which has `version`: others changed nothing between.
    pub(super) fn caught_up(&self, version: Version) -> Version {
        match self.own.range(..=version).next_back() {
            Some((_, end)) if *end > version => *end,
            _ => version,
        }
    }
}

/// All that is known.
pub(super) struct Table {
    pages: LruCache<u64, Page>,
    /// Their numbers, in the order of the file.
    present: BTreeSet<u64>,
    /// Those of which bytes may have to go home.
    changed: BTreeSet<u64>,
    /// Those that could not be had.
    lost: BTreeSet<u64>,
    pub(super) segments: HashMap<SegmentIndex, Segment>,
    pub(super) streams: Streams,
    /// Pages' memory in use.
    used: usize,
    tickets: u64,
    /// How often the state of a page was asked for.
    #[cfg(test)]
    pub(super) looks: std::cell::Cell<u64>,
    /// How often somebody has waited for what another one was at.
    #[cfg(test)]
    pub(super) waits: std::cell::Cell<u64>,
}

impl Table {
    pub(super) fn new(streams: Streams) -> Table {
        let (pages, segments) = (LruCache::unbounded(), HashMap::new());
        let (present, changed, lost) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Table {
            pages,
            present,
            changed,
            lost,
            segments,
            streams,
            used: 0,
            tickets: 0,
            #[cfg(test)]
            looks: std::cell::Cell::default(),
            #[cfg(test)]
            waits: std::cell::Cell::default(),
        }
    }

    /// Pages' memory in use.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    pub(super) fn page(&self, page: u64) -> Option<&Page> {
        self.pages.peek(&page)
    }

    pub(super) fn state(&self, page: u64) -> Option<&PageState> {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        self.page(page).map(|page| &page.state)
    }

    /// What may be changed of a page without [`Table::set`].
    pub(super) fn flags(&mut self, page: u64) -> Option<Flags<'_>> {
        match &mut self.pages.peek_mut(&page)?.state {
            PageState::Fetching { is_void, is_wanted, .. } => {
                Some(Flags { is_void: Some(is_void), is_wanted })
            }
            PageState::WritingBack { is_wanted, .. } => Some(Flags { is_void: None, is_wanted }),
            _ => None,
        }
    }

    /// Gives a page a state; it counts as used last.
    pub(super) fn set(&mut self, page: u64, state: PageState, version: Option<Version>) {
        self.used += state.weight();
        for (all, is_one) in
            [(&mut self.changed, state.is_changed()), (&mut self.lost, matches!(state, PageState::Lost))]
        {
            if is_one {
                all.insert(page);
            } else {
                all.remove(&page);
            }
        }
        match self.pages.put(page, Page { state, version }) {
            Some(old) => self.used -= old.state.weight(),
            None => {
                self.present.insert(page);
            }
        }
    }

    /// Gives a page that could be had another state, its version and its place in the order kept.
    pub(super) fn change(&mut self, page: u64, change: impl FnOnce(PageState) -> PageState) {
        let Some(record) = self.pages.peek_mut(&page) else { return };
        let before = record.state.weight();
        record.state = change(std::mem::replace(&mut record.state, PageState::Lost));
        self.used = self.used - before + record.state.weight();
        if record.state.is_changed() {
            self.changed.insert(page);
        } else {
            self.changed.remove(&page);
        }
    }

    /// The page is missing.
    pub(super) fn remove(&mut self, page: u64) -> Option<Page> {
        let removed = self.pages.pop(&page)?;
        self.used -= removed.state.weight();
        self.present.remove(&page);
        self.changed.remove(&page);
        self.lost.remove(&page);
        Some(removed)
    }

    /// The page is missing again, if it is still fetched so.
    pub(super) fn give_up(&mut self, page: u64, ticket: Ticket) {
        if let Some(PageState::Fetching { ticket: other, .. }) = self.state(page)
            && *other == ticket
        {
            self.remove(page);
        }
    }

    pub(super) fn set_version(&mut self, page: u64, version: Option<Version>) {
        if let Some(record) = self.pages.peek_mut(&page) {
            record.version = version;
        }
    }

    /// Those in `range` of which bytes may have to go home.
    pub(super) fn changed(&self, range: &Range<u64>) -> BTreeSet<u64> {
        self.changed.range(range.clone()).copied().collect()
    }

    /// Those in `range` that could not be had.
    pub(super) fn lost(&self, range: &Range<u64>) -> Vec<u64> {
        self.lost.range(range.clone()).copied().collect()
    }

    /// Pages that are not missing, those first that have had no fault for longest.
    pub(super) fn oldest(&self) -> impl Iterator<Item = (u64, &PageState)> {
        self.pages.iter().rev().map(|(page, record)| (*page, &record.state))
    }

    /// Whether all pages in `range` are missing.
    pub(super) fn are_missing(&self, range: &Range<u64>) -> bool {
        self.present.range(range.clone()).next().is_none()
    }

    /// The pages in `range` that are not missing, ascending.
    pub(super) fn present(&self, range: &Range<u64>) -> Vec<u64> {
        self.present.range(range.clone()).copied().collect()
    }
}

/// See [`Table::flags`].
pub(super) struct Flags<'t> {
    /// Of a fetch: its bytes may be old.
    pub(super) is_void: Option<&'t mut bool>,
    /// A thread waits.
    pub(super) is_wanted: &'t mut bool,
}

/// Pages as runs of neighbours; they ascend.
pub(super) fn runs(pages: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some(last) if last.end == page => last.end += 1,
            _ => runs.push(page..page + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_page_catches_up_over_own_changes_and_no_others(
            // Of each change, whether it is the mapping's own.
            own in prop::collection::vec(any::<bool>(), 1..60), order in any::<u64>(),
        ) {
            let mut segment = Segment::new(Place::There(1));
            let mut noted: Vec<u64> = (1..).zip(&own).filter(|(_, own)| **own).map(|(after, _)| after).collect();
            // Answers come in any order.
            if !noted.is_empty() {
                let by = order as usize % noted.len();
                noted.rotate_left(by);
            }
            noted.into_iter().for_each(|after| segment.add_own(after));
            for version in 0..=own.len() as u64 {
                let followed = own[version as usize..].iter().take_while(|own| **own).count() as u64;
                prop_assert_eq!(segment.caught_up(version), version + followed);
            }
        }
    }
}
