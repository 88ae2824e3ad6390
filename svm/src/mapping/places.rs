//! Where segments are: finding out, claiming, and mapping those of this node in place.

use std::io;
use std::ops::Range;

use crate::attachment::Home;
use crate::error::{Error, Result};
use crate::segment::Segment as StoredSegment;
use crate::units::SegmentIndex;

use super::service::Service;
use super::table::{Place, Segment};

impl Service {
    /// Finds out where a segment is before anybody touches it, and what is wrong with it. One that is here is put in
    /// place at its first fault: from then on others are told at each flush that it may have changed.
    pub(super) fn look_for(&self, index: SegmentIndex) -> Result<()> {
        match self.file.attachment().home(index) {
            Home::Here => self.file.attachment().segment(index).map(drop),
            Home::There(_) | Home::Hole => self.settle(index).map(drop),
        }
    }

    /// Whether a segment is here, and nobody has touched it: of what others have stored there it lacks nothing. That it
    /// was a hole when it was looked at is forgotten then: its first fault looks again.
    pub(super) fn leave_untouched_here(&self, index: SegmentIndex) -> bool {
        if self.file.attachment().home(index) != Home::Here {
            return false;
        }
        let mut table = self.table();
        let is_touched = match table.segments.get(&index).map(|segment| segment.place) {
            None => false,
            Some(Place::Hole) => !table.are_missing(&self.pages_of(index)),
            Some(_) => true,
        };
        if !is_touched {
            table.segments.remove(&index);
        }
        !is_touched
    }

    /// Finds out where a segment is, if it is not known to be anywhere yet; maps it in place where it is here.
    pub(super) fn settle(&self, index: SegmentIndex) -> Result<Place> {
        let before = self.table().segments.get(&index).map(|segment| segment.place);
        match before {
            Some(place @ (Place::Direct | Place::Here | Place::There(_))) => return Ok(place),
            Some(Place::Hole | Place::Homeless) | None => {}
        }
        match self.file.attachment().home(index) {
            Home::Hole => Ok(self.note(index, Place::Hole)),
            Home::There(home) => Ok(self.note(index, Place::There(home))),
            Home::Here => self.settle_here(index),
        }
    }

    /// Gives a segment a home, this node or what the file's placement says, if it has none. Where that fails, what is
    /// stored stays here until it can be brought home.
    pub(super) fn claim(&self, index: SegmentIndex) -> Result<Place> {
        let end = self.bytes_of(self.memory.pages()).end.0;
        match self.file.claim(index, end) {
            Ok(()) => self.settle(index),
            Err(error) => {
                let name = self.file.name();
                tracing::warn!(
                    "segment {index} of {name} gets no home, what is stored there stays here: {error}"
                );
                Ok(self.note(index, Place::Homeless))
            }
        }
    }

    /// Gives a segment a home, of which bytes are here that have to go home.
    pub(super) fn claim_for_bytes(&self, index: SegmentIndex) -> Result<Place> {
        self.file.claim(index, self.bytes_of(self.memory.pages()).end.0)?;
        Ok(match self.file.attachment().home(index) {
            Home::There(home) => self.note(index, Place::There(home)),
            Home::Here => self.note(index, Place::Here),
            Home::Hole => Place::Homeless,
        })
    }

    /// Notes where a segment is; returns what is known, which may be more.
    fn note(&self, index: SegmentIndex, place: Place) -> Place {
        let mut table = self.table();
        let segment = table.segments.entry(index).or_insert_with(|| Segment::new(place));
        match (segment.place, place) {
            (Place::Direct | Place::Here | Place::There(_), _) | (Place::Homeless, Place::Hole) => {}
            _ => segment.place = place,
        }
        segment.place
    }

    fn settle_here(&self, index: SegmentIndex) -> Result<Place> {
        let Some(stored) = self.file.attachment().segment(index)? else {
            return Ok(self.note(index, Place::Hole));
        };
        if !self.may_be_mapped(&stored)? {
            return Ok(self.note(index, Place::Here));
        }
        let failed = |e| self.failed(format!("mapping segment {index}"), e);
        let pages = self.pages_of(index);
        let mut table = self.table();
        match table.segments.get(&index).map(|segment| segment.place) {
            // There may be bytes that are nowhere else.
            Some(Place::Homeless) => {
                drop(table);
                return Ok(self.note(index, Place::Here));
            }
            // Another thread has had it in place, or has not.
            Some(place @ (Place::Direct | Place::Here)) => return Ok(place),
            _ => {}
        }
        match self.memory.map(&pages, stored.file(), self.within(pages.start)) {
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                tracing::info!("segment {index} of {} is not mapped: {error}", self.file.name());
                let segment = table.segments.entry(index).or_insert_with(|| Segment::new(Place::Here));
                segment.place = Place::Here;
                return Ok(Place::Here);
            }
            mapped => mapped.map_err(failed)?,
        }
        // Zeros, which nobody has stored into: that would have claimed the segment.
        for page in table.present(&pages) {
            let removed = table.remove(page);
            debug_assert!(!removed.is_some_and(|page| page.state.is_changed()), "in a hole");
        }
        let segment = table.segments.entry(index).or_insert_with(|| Segment::new(Place::Direct));
        segment.place = Place::Direct;
        Ok(Place::Direct)
    }

    /// Whether a segment of this node can be mapped: no load or store may need storage that there is none of.
    fn may_be_mapped(&self, stored: &StoredSegment) -> Result<bool> {
        if self.file.attachment().writable().is_err() {
            // Nobody waits for who only looks on before he has storage be another file's.
            return Ok(false);
        }
        let pages = self.pages_of(stored.index());
        let bytes = (pages.end - pages.start) * self.memory.page() as u64;
        let range = self.within(pages.start)..self.within(pages.start) + bytes;
        if !self.memory.is_writable() {
            // A hole may get storage by being read.
            let failed = |e| self.failed(format!("looking at segment {}", stored.index()), e);
            return Ok(stored.next_data(range.clone()).map_err(failed)? == Some(range));
        }
        if !stored.may_be_stored_into() {
            return Ok(false);
        }
        match stored.allocate_to_map(range) {
            Ok(()) => Ok(true),
            Err(e) => {
                let (index, name) = (stored.index(), self.file.name());
                tracing::info!(
                    "segment {index} of {name} has no storage for all of it, and is not mapped: {e}"
                );
                Ok(false)
            }
        }
    }

    pub(super) fn failed(&self, what: String, error: io::Error) -> Error {
        Error::io(format!("{what} of {}", self.file.name()), &self.file.directory(), error)
    }

    /// Notes for the next sync, and for other nodes, that segments that are mapped in place may have been stored into.
    pub(super) fn mark_direct(&self, pages: &Range<u64>) {
        if !self.memory.is_writable() {
            return;
        }
        let segments = self.segments_of(pages);
        let table = self.table();
        let direct = table.segments.iter().filter(|(_, segment)| segment.place == Place::Direct);
        let direct: Vec<_> =
            direct.map(|(index, _)| *index).filter(|index| segments.contains(&index.0)).collect();
        drop(table);
        direct.into_iter().for_each(|index| self.file.attachment().mark_dirty_in_place(index));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::mapping::{Mapping, StrictMapping};
    use crate::{File, FileName, FileOffset, OpenOptions, SegmentSize, Store, mapping_cache};

    /// More than are kept open.
    const SEGMENTS: u64 = 300;

    fn file(directory: &tempfile::TempDir) -> Arc<File> {
        let store = Store::open(directory.path()).unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
        Arc::new(store.open_file(&FileName::new("f").unwrap(), &options).unwrap())
    }

    /// Stores into all segments; then flushes twice, and says how many segments that opened.
    fn opened_by_flushes(start: *mut u8, flush: impl Fn() -> crate::Result<()>) -> u64 {
        for segment in 0..SEGMENTS {
            // SAFETY: whoever calls has mapped so many segments from there on.
            unsafe { start.add((segment * SegmentSize::MIN.bytes()) as usize).write_volatile(7) };
        }
        let before = mapping_cache::made_by_this_thread();
        flush().unwrap();
        flush().unwrap();
        mapping_cache::made_by_this_thread() - before
    }

    #[test]
    fn a_flush_opens_no_segments_that_are_in_place() {
        let all = FileOffset(0)..FileOffset(SEGMENTS * SegmentSize::MIN.bytes());
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let mapping = Mapping::new(&file(&directory), all.clone()).unwrap();
        assert_eq!(opened_by_flushes(mapping.as_mut_ptr(), || mapping.flush()), 0);
        drop(mapping);
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let mapping = StrictMapping::new(&file(&directory), all).unwrap();
        assert_eq!(opened_by_flushes(mapping.as_mut_ptr(), || mapping.flush()), 0);
    }
}
