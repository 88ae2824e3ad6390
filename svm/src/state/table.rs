//! The segment table in a file's shared state.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::spare;
use crate::units::SegmentIndex;

use super::{ENTRY, MAX_SEGMENTS, PAGE, State, TABLE_AT};

/// What is known of a segment.
#[repr(C)]
pub(super) struct Entry {
    /// 0 where there is no such segment, otherwise its home (a position in the manifest's list of nodes) plus one.
    pub(super) home: AtomicU32,
    /// The lowest bit: whether processes of its home changed it since somebody on another node last asked. The others:
    /// how often a process left changes there that it had not brought to the storage device, and nobody else has since.
    pub(super) changed: AtomicU32,
}

const CHANGED: u32 = 1;

impl State {
    /// The home of a segment, or `None` where there is no such segment.
    pub(crate) fn home(&self, index: SegmentIndex) -> Option<u32> {
        self.entry(index)?.home.load(Ordering::Acquire).checked_sub(1)
    }

    /// Enters a segment, whose storage file is complete, into the table. False where it was there already.
    pub(crate) fn add_segment(&self, index: SegmentIndex, home: u32) -> io::Result<bool> {
        let header = self.header();
        let entries = header.table_entries.load(Ordering::Acquire);
        if entries <= u64::from(index.0) && index.0 < MAX_SEGMENTS {
            let wanted = (u64::from(index.0) + 1).next_multiple_of(PAGE / ENTRY);
            let (from, to) = (TABLE_AT + entries * ENTRY, TABLE_AT + wanted * ENTRY);
            // Several processes may do this at once: reserving storage twice changes nothing.
            spare::reserve(&self.file, from..to)?;
            header.table_entries.fetch_max(wanted, Ordering::AcqRel);
        }
        let Some(entry) = self.entry(index) else {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        };
        // AcqRel: the segment's storage was made before, and whoever sees the entry may use it.
        let added = entry.home.compare_exchange(0, home + 1, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if added {
            header.segments.fetch_add(1, Ordering::AcqRel);
        }
        Ok(added)
    }

    /// All segments with their homes, in ascending order.
    pub(crate) fn homes(&self) -> impl Iterator<Item = (SegmentIndex, u32)> + '_ {
        (0..self.entries()).map(SegmentIndex).filter_map(|index| Some((index, self.home(index)?)))
    }

    /// The segments from `first` on, in ascending order.
    pub(crate) fn segments_from(&self, first: SegmentIndex) -> impl Iterator<Item = SegmentIndex> + '_ {
        (first.0..self.entries()).map(SegmentIndex).filter(|index| self.home(*index).is_some())
    }

    /// How many segments there are; read it before the segments that a commit writes.
    pub(crate) fn segments(&self) -> u64 {
        self.header().segments.load(Ordering::Acquire)
    }

    /// Notes that processes of this node have changed a segment whose home it is.
    pub(crate) fn set_changed(&self, index: SegmentIndex) {
        if let Some(entry) = self.entry(index) {
            // Release: whoever takes the mark sees the bytes.
            entry.changed.fetch_or(CHANGED, Ordering::Release);
        }
    }

    /// Whether a segment was changed since this was last asked.
    pub(crate) fn take_changed(&self, index: SegmentIndex) -> bool {
        // Acquire: pairs with `set_changed`.
        self.entry(index)
            .is_some_and(|entry| entry.changed.fetch_and(!CHANGED, Ordering::Acquire) & CHANGED != 0)
    }

    /// Notes that a process leaves changes of a segment that it has not brought to the storage device.
    pub(crate) fn leave_unsynced(&self, index: SegmentIndex) {
        if let Some(entry) = self.entry(index) {
            // A count that is full begins anew: it is compared with what it was during a sync, and is not to be 0.
            let more = |word: u32| Some(word.checked_add(2).unwrap_or(word & CHANGED | 2));
            // Release: whoever finds it sees the bytes.
            let _ = entry.changed.fetch_update(Ordering::Release, Ordering::Relaxed, more);
        }
    }

    /// The same of all segments whose home is `own`, where processes died that had the file open: nobody knows what they
    /// changed. The caller alone has it open.
    pub(crate) fn leave_unsynced_of_dead(&self, own: Option<u32>) {
        if self.users() != 0 {
            let here = self.homes().filter(|(_, home)| Some(*home) == own);
            here.for_each(|(index, _)| self.leave_unsynced(index));
        }
    }

    /// The segments with changes that processes left and nobody has brought to the storage device, each with what
    /// [`State::note_synced`] takes.
    pub(crate) fn left_unsynced(&self) -> impl Iterator<Item = (SegmentIndex, u32)> + '_ {
        let left = |index| Some((index, self.entry(index)?.changed.load(Ordering::Acquire) >> 1));
        (0..self.entries()).map(SegmentIndex).filter_map(left).filter(|(_, count)| *count != 0)
    }

    /// Notes that a segment has reached the storage device since it had this `count`. Nothing is noted where somebody
    /// left more meanwhile.
    pub(crate) fn note_synced(&self, index: SegmentIndex, count: u32) {
        if let Some(entry) = self.entry(index) {
            let synced = |word: u32| (word >> 1 == count).then_some(word & CHANGED);
            let _ = entry.changed.fetch_update(Ordering::AcqRel, Ordering::Relaxed, synced);
        }
    }

    /// How many entries of the segment table may be looked at.
    pub(super) fn entries(&self) -> u32 {
        self.header().table_entries.load(Ordering::Acquire).min(u64::from(MAX_SEGMENTS)) as u32
    }

    pub(super) fn entry(&self, index: SegmentIndex) -> Option<&Entry> {
        // Acquire: the entry has storage once the count says so.
        if index.0 >= self.entries() {
            return None;
        }
        // SAFETY: below MAX_SEGMENTS the entry lies within the mapping; it is aligned because the table begins on
        // a page; an entry consists of atomics, which any content is valid for.
        Some(unsafe { &*self.map.as_mut_ptr().add(TABLE_AT as usize).cast::<Entry>().add(index.0 as usize) })
    }
}
