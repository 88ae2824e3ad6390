//! Many small pieces of a segment at a time: one look at the pages for all of them, one short loop for the bytes.

use std::io;
use std::ops::Range;

use svmio_transport::StreamingStores;

use crate::blocks::{self, Blocks};
use crate::copying::Course;

use super::sharing::{Sole, WORTH_ASKING};
use super::{Overwriting, Segment};

/// Bytes between blocks up to which the pages of a range are all touched, or nearly: given storage together.
const NEAR: u64 = 4096;
/// Bytes that get storage at a time: few enough that they are still in the processor's cache when they are written.
const AT_ONCE: u64 = 1 << 20;

/// The write that some blocks are a part of.
pub(crate) struct Access {
    /// How many bytes it has.
    pub(crate) bytes: u64,
    /// Where it goes.
    pub(crate) place: Place,
    /// Where in the segment much is about to be written, by this process or by others.
    pub(crate) likely: Range<u64>,
    /// What it has found out of other files that have a part in the segment's storage.
    pub(crate) sole: Sole,
}

/// What is where a write goes, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Other bytes.
    Old,
    /// None so far: if pages are small, what they get first is in the caches, as zeros.
    New,
}

impl Segment {
    /// Copies `blocks`, counted from the segment's beginning, to places that are `stride` bytes from each other, by
    /// `course`: by `past_caches` if that is where it goes.
    ///
    /// `punches` as with [`Segment::read`].
    ///
    /// # Safety
    /// Each place is valid for writes of a block's length, none lies in this mapping, and none is looked at before
    /// `past_caches` is in order; the blocks do not pass the segment's end.
    pub(crate) unsafe fn read_blocks(
        &self,
        blocks: &Blocks,
        (to, stride): (*mut u8, isize),
        (course, past_caches): (Course, &mut StreamingStores),
        punches: u64,
    ) -> io::Result<()> {
        self.stored.revalidate(punches);
        let (mut rest, mut to) = (*blocks, to);
        while rest.count > 0 {
            let (until, stored) = self.stored.run(rest.start..rest.end());
            let mut done;
            if stored {
                done = rest.whole_before(until);
                // SAFETY: the caller vouches for the places and for the range; pages with storage cannot fault.
                unsafe {
                    let from = (self.map.as_ptr().add(rest.start as usize), rest.stride as isize);
                    let (length, count) = (rest.length as usize, done as usize);
                    match course {
                        Course::PastCaches => past_caches.copy_blocks((to, stride), from, length, count),
                        Course::ThroughCaches => blocks::copy((to, stride), from, length, count),
                    }
                }
            } else {
                // To the segment's end: the answer takes as long as there is storage, and is wanted once.
                match self.next_data(rest.start..self.map.len() as u64)? {
                    Some(data) if data.start == rest.start => {
                        self.stored.insert(data);
                        continue;
                    }
                    data => {
                        done = rest.whole_before(data.map_or(until, |data| data.start.min(until)));
                        for number in 0..done as isize {
                            // SAFETY: the caller vouches for the places.
                            unsafe {
                                to.wrapping_offset(stride * number).write_bytes(0, rest.length as usize)
                            };
                        }
                    }
                }
            }
            if done == 0 {
                // A block of which pages have storage and pages have none.
                // SAFETY: as above.
                unsafe { self.read(rest.start, to, rest.length as usize, punches) }?;
                done = 1;
            }
            (rest, to) = (rest.behind(done), to.wrapping_offset(stride * done as isize));
        }
        Ok(())
    }

    /// Copies blocks of memory that are `stride` bytes from each other to `blocks`, counted from the segment's
    /// beginning, by `past_caches` if they are long or many. On an error the first part of it is how many blocks have been
    /// written.
    ///
    /// # Safety
    /// Each block of memory is valid for reads, none lies in this mapping; `blocks` do not pass the segment's end, and are
    /// not looked at before `past_caches` is in order; the segment was mapped for writing.
    pub(crate) unsafe fn write_blocks(
        &self,
        blocks: &Blocks,
        (source, stride): (*const u8, isize),
        (access, past_caches): (&Access, &mut StreamingStores),
        punches: u64,
    ) -> Result<(), (u64, io::Error)> {
        self.stored.revalidate(punches);
        self.enlarged.revalidate(punches);
        let sole = Some(&access.sole).filter(|_| access.bytes / blocks.length.max(1) >= WORTH_ASKING);
        let may_be_stored = match self.overwriting {
            Overwriting::AfterReading | Overwriting::Directly => true,
            Overwriting::UnlessShared => sole.is_some(),
            Overwriting::ByCopying => false,
        };
        let (mut rest, mut source) = (*blocks, source);
        while rest.count > 0 {
            let failed = |e| (blocks.count - rest.count, e);
            let (until, stored) = self.stored.run(rest.start..rest.end());
            let mut done = 0;
            if may_be_stored {
                if stored {
                    done = rest.whole_before(self.storable_until(
                        rest.start..until,
                        sole.map(|sole| (sole, rest.count)),
                        punches,
                    ));
                    if done > 0 {
                        self.populate(rest.start..rest.first(done).end(), punches);
                        // SAFETY: the caller vouches for the blocks; the mapping is writable and its pages have
                        // storage.
                        unsafe {
                            let to = (self.map.as_mut_ptr().add(rest.start as usize), rest.stride as isize);
                            let (length, count) = (rest.length as usize, done as usize);
                            match self.course(&rest, access) {
                                Course::PastCaches => {
                                    past_caches.copy_blocks(to, (source, stride), length, count)
                                }
                                Course::ThroughCaches => blocks::copy(to, (source, stride), length, count),
                            }
                        }
                    }
                } else {
                    let are_near = rest.count > 1 && rest.length < NEAR && rest.stride <= NEAR;
                    let provide = || self.provide(rest.start..until.min(rest.start + AT_ONCE), access);
                    if self.prepare(rest.start, access, punches) || are_near && provide().map_err(failed)? {
                        continue;
                    }
                }
            }
            if done == 0 {
                // SAFETY: as above.
                unsafe { self.write(rest.start, source, rest.length as usize, punches) }
                    .map_err(|(_, e)| failed(e))?;
                done = 1;
            }
            (rest, source) = (rest.behind(done), source.wrapping_offset(stride * done as isize));
        }
        Ok(())
    }

    /// Gives `range` storage, nearly all pages of which `access` touches, or its first part. Returns whether it has some
    /// now; where not, pieces are better written one by one.
    fn provide(&self, range: Range<u64>, access: &Access) -> io::Result<bool> {
        match self.overwriting {
            Overwriting::AfterReading => self.allocate(range).map(|()| true),
            Overwriting::Directly | Overwriting::UnlessShared => {
                Ok(self.provide_on_disk(range, &access.likely))
            }
            Overwriting::ByCopying => Ok(false),
        }
    }

    /// Which way `blocks` of `access` go, whose pages have storage: past the caches where these have no room for the
    /// access, and into new large pages, each of which has gone through them as zeros.
    fn course(&self, blocks: &Blocks, access: &Access) -> Course {
        /// Bytes of an access that is not looked at right after it, as far as is known.
        const LONG: u64 = 64 << 10;
        let is_in_large_page = || self.enlarged.run(blocks.start..blocks.start + 1).1;
        let whole = match access.place {
            Place::Old => access.bytes,
            Place::New if access.bytes >= LONG && is_in_large_page() => u64::MAX,
            Place::New => 0,
        };
        Course::into_file(blocks, whole)
    }

    /// Looks whether somebody else has given the page at `at` storage; if not, gives it some with all around it in a
    /// large page, if enough of that is `likely` to be written. Whether it has storage now.
    pub(super) fn prepare(&self, at: u64, access: &Access, punches: u64) -> bool {
        let Some(large) = self.large else { return false };
        let is_stored = || self.stored.run(at..at + 1).1;
        self.learn(at..at + 1);
        if !is_stored() {
            self.populated.revalidate(punches);
            self.small.revalidate(punches);
            let start = at / large.bytes() * large.bytes();
            let likely = &access.likely;
            let likely_of = |start: u64| start.max(likely.start)..(start + large.bytes()).min(likely.end);
            let is_wanted = |part: &Range<u64>| !part.is_empty() && !self.small.run(part.clone()).1;
            let part = likely_of(start);
            if part.contains(&at)
                && !self.small.run(at..at + 1).1
                && self.has_room_for(large.bytes(), large.bytes())
            {
                // Processes that write to one end of a file all come to a new page at the same time.
                let next = likely_of(start + large.bytes());
                self.enlarge(part, Some(next).filter(is_wanted));
                self.learn(at..at + 1);
            }
        }
        if is_stored() && access.place == Place::New {
            // What somebody has just given storage to its end, and others behind it perhaps, is no sum of small ones.
            let end = self.stored.run(at..self.map.len() as u64).0 / large.bytes() * large.bytes();
            self.enlarged.insert(at..end.max(at));
        }
        is_stored()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::segment::Division;
    use crate::segment::tests::opened_anew;
    use crate::team::LocalRank;
    use crate::units::SegmentIndex;

    const BYTES: u64 = 64 << 12;

    fn blocks() -> impl Strategy<Value = Blocks> {
        let lengths = prop_oneof![1u64..20, 1000u64..9000];
        let gaps = prop_oneof![Just(0u64), 0u64..40, 3000u64..12000];
        (0..BYTES / 2, lengths, gaps, 1u64..200).prop_map(|(start, length, gap, count)| {
            let stride = length + gap;
            let blocks = Blocks { start, length, stride, count };
            blocks.first(blocks.whole_before(BYTES).max(1))
        })
    }

    /// Ranks that write rows of their own of one step after the other all come to a new large page at the same time.
    #[test]
    fn nothing_is_lost_while_several_write_to_the_same_end() {
        several_write_to_the_same_end(false);
        several_write_to_the_same_end(true);
    }

    /// Each may begin with pages of its own.
    fn several_write_to_the_same_end(is_divided: bool) {
        const BYTES: u64 = 16 << 20;
        const WRITERS: u64 = 4;
        const ROW: u64 = 480;
        const ROWS: u64 = 250;
        const STEP: u64 = WRITERS * ROW * ROWS;
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.set_len(BYTES).unwrap();
        let steps = BYTES / STEP;
        let meeting = std::sync::Barrier::new(WRITERS as usize);
        let value = |writer: u64, step: u64| (step * WRITERS + writer) as u8 + 1;
        let write = |writer: u64| {
            // Each has a mapping of its own, as if it were another process.
            let segment = Segment::map(SegmentIndex(0), opened_anew(&file), BYTES, true).unwrap();
            for step in 0..steps {
                meeting.wait();
                let start = step * STEP + writer * ROW;
                let rows = Blocks { start, length: ROW, stride: WRITERS * ROW, count: ROWS };
                let memory = [value(writer, step); ROW as usize];
                let likely = start..(start + STEP + start / 4).min(BYTES);
                if is_divided {
                    let local = LocalRank { rank: writer as usize, ranks: WRITERS as usize };
                    segment.make_share(&likely, Division::new(local, WRITERS as usize), 0);
                }
                let access = Access { bytes: ROW * ROWS, place: Place::New, likely, sole: Sole::default() };
                let access = (&access, &mut StreamingStores::default());
                // SAFETY: each row comes from the same memory, and the last one ends within the segment.
                unsafe { segment.write_blocks(&rows, (memory.as_ptr(), 0), access, 0) }.unwrap();
            }
        };
        std::thread::scope(|scope| (0..WRITERS).for_each(|writer| drop(scope.spawn(move || write(writer)))));
        let segment = Segment::map(SegmentIndex(0), file, BYTES, true).unwrap();
        let mut content = vec![0; (steps * STEP) as usize];
        // SAFETY: the vector has as many bytes.
        unsafe { segment.read(0, content.as_mut_ptr(), content.len(), 0) }.unwrap();
        for (number, row) in content.chunks(ROW as usize).enumerate() {
            let (writer, step) = (number as u64 % WRITERS, number as u64 / WRITERS / ROWS);
            assert!(row.iter().all(|byte| *byte == value(writer, step)), "row {number}");
        }
    }

    /// Needs large pages, see `large_writes_get_large_pages_and_small_ones_do_not`.
    #[test]
    fn what_is_new_goes_past_the_caches_in_large_pages_only() {
        const BYTES: u64 = 8 << 20;
        let rows = Blocks { start: 0, length: 1 << 10, stride: 2 << 10, count: 3 << 10 };
        let memory = vec![1u8; rows.bytes() as usize];
        let course_in = |directory, likely: Range<u64>, bytes, place| {
            let file = tempfile::tempfile_in(directory).unwrap();
            file.set_len(BYTES).unwrap();
            let segment = Segment::map(SegmentIndex(0), file, BYTES, true).unwrap();
            let access = Access { bytes, place, likely, sole: Sole::default() };
            let whole = (&access, &mut StreamingStores::default());
            // SAFETY: the vector has as many blocks, which end within the segment.
            unsafe { segment.write_blocks(&rows, (memory.as_ptr(), 1 << 10), whole, 0) }.unwrap();
            segment.course(&rows, &access)
        };
        let all = 0..BYTES;
        assert_eq!(course_in("/dev/shm", all.clone(), 1 << 20, Place::New), Course::PastCaches);
        assert_eq!(course_in("/dev/shm", all.clone(), 1 << 10, Place::New), Course::ThroughCaches, "short");
        assert_eq!(course_in("/tmp", 0..0, 1 << 30, Place::New), Course::ThroughCaches, "small pages");
        assert_eq!(course_in("/dev/shm", all.clone(), 1 << 20, Place::Old), Course::ThroughCaches, "few");
        assert_eq!(course_in("/dev/shm", all, 1 << 30, Place::Old), Course::PastCaches);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            writes in prop::collection::vec((blocks(), any::<u8>(), 0u64..30), 1..8),
            in_memory: bool,
        ) {
            // In memory, there may be large pages.
            let (directory, size) = if in_memory { ("/dev/shm", 4 << 20) } else { ("/tmp", BYTES) };
            let file = tempfile::tempfile_in(directory).unwrap();
            file.set_len(size).unwrap();
            let segment = Segment::map(SegmentIndex(0), file, size, true).unwrap();
            let mut oracle = vec![0u8; BYTES as usize];
            for (blocks, value, gap) in writes {
                let step = (blocks.length + gap) as usize;
                let likely = if value % 2 == 0 { 0..0 } else { 0..size };
                let memory: Vec<u8> =
                    (0..step * blocks.count as usize).map(|at| value.wrapping_add((at % 239) as u8)).collect();
                for number in 0..blocks.count as usize {
                    let at = (blocks.start + blocks.stride * number as u64) as usize;
                    let bytes = &memory[number * step..][..blocks.length as usize];
                    oracle[at..at + bytes.len()].copy_from_slice(bytes);
                }
                let place = if gap % 2 == 0 { Place::New } else { Place::Old };
                let bytes = if gap % 3 == 0 { 0 } else { 1 << 30 };
                let mut stores = StreamingStores::default();
                let access = (&Access { bytes, place, likely, sole: Sole::default() }, &mut stores);
                // SAFETY: the vector has as many blocks, which end within the segment.
                unsafe { segment.write_blocks(&blocks, (memory.as_ptr(), step as isize), access, 0) }.unwrap();
                stores.order();
                let everything = Blocks { start: 0, length: 512, stride: 512, count: BYTES / 512 };
                for asked in [blocks, everything] {
                    let step = (asked.length + gap) as usize;
                    let course = (Course::out_of_file(asked.length, bytes), &mut stores);
                    let mut read = vec![0xAAu8; step * asked.count as usize];
                    // SAFETY: likewise.
                    unsafe { segment.read_blocks(&asked, (read.as_mut_ptr(), step as isize), course, 0) }
                        .unwrap();
                    stores.order();
                    for (number, block) in read.chunks(step).enumerate() {
                        let at = (asked.start + asked.stride * number as u64) as usize;
                        prop_assert_eq!(&block[..asked.length as usize], &oracle[at..at + asked.length as usize]);
                        prop_assert!(block[asked.length as usize..].iter().all(|byte| *byte == 0xAA));
                    }
                }
            }
        }
    }
}
