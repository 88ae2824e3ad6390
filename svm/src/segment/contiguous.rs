//! Bytes in a row, to and from a segment: by the mapping where their pages are known to have storage, by system call
//! elsewhere, and by several cores where these have nothing else to do.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::fs::FallocateFlags;

use super::overwriting::Overwriting;
use super::{Segment, idle_cores};
use crate::blocks::Blocks;
use crate::copying::Course;
use crate::spare;

impl Segment {
    /// Copies `length` bytes from position `at` of the segment to `to`.
    ///
    /// `punches` is the file's count of punches, see [`crate::state::State::punches`].
    ///
    /// # Safety
    /// `to` is valid for writes of `length` bytes, none of which lie in this mapping, and `at + length` does
    /// not pass the segment's end.
    pub(crate) unsafe fn read(&self, at: u64, to: *mut u8, length: usize, punches: u64) -> io::Result<()> {
        self.stored.revalidate(punches);
        let range = at..at + length as u64;
        let helpers = self.helpers(&range, || true);
        if helpers == 0 {
            // SAFETY: the caller's promise.
            return unsafe { self.read_alone(at, to, length) };
        }
        let to = AtomicPtr::new(to);
        let read = idle_cores::share(range, helpers, |part| {
            // Relaxed: never changed.
            let to = to.load(Ordering::Relaxed).wrapping_add((part.start - at) as usize);
            // SAFETY: the caller's promise; the part lies in the range, and others go elsewhere.
            unsafe { self.read_alone(part.start, to, (part.end - part.start) as usize) }
        });
        read.map_err(|(_, e)| e)
    }

    /// # Safety
    /// As [`Segment::read`].
    unsafe fn read_alone(&self, at: u64, to: *mut u8, length: usize) -> io::Result<()> {
        let end = at + length as u64;
        let mut from = at;
        while from < end {
            let (until, stored) = self.stored.run(from..end);
            let bytes = (until - from) as usize;
            // SAFETY: the caller vouches for `to` and for the range.
            let to = unsafe { to.add((from - at) as usize) };
            if stored {
                // SAFETY: as above; the pages have storage, so that the copy cannot fault. Other processes
                // may write the same bytes meanwhile: MPI leaves such a read's result undefined.
                unsafe {
                    let whole = bytes as u64;
                    Course::out_of_file(whole, whole).copy(to, self.map.as_ptr().add(from as usize), bytes)
                };
            } else {
                // SAFETY: the caller vouches for `bytes` writable bytes at `to`.
                let to = unsafe { std::slice::from_raw_parts_mut(to, bytes) };
                self.file.read_exact_at(to, from)?;
                self.learn(from..until);
            }
            from = until;
        }
        Ok(())
    }

    /// Copies `length` bytes from `source` to position `at` of the segment. On an error the first part of
    /// it is how many bytes have been written.
    ///
    /// # Safety
    /// `source` is valid for reads of `length` bytes, none of which lie in this mapping; `at + length` does
    /// not pass the segment's end; the segment was mapped for writing.
    pub(crate) unsafe fn write(
        &self,
        at: u64,
        source: *const u8,
        length: usize,
        punches: u64,
    ) -> Result<(), (usize, io::Error)> {
        self.stored.revalidate(punches);
        let range = at..at + length as u64;
        // Where pages are small, and there are none, the file system lets one writer in at a time.
        let is_parallel = || self.large.is_some() || self.stored.run(range.clone()) == (range.end, true);
        let helpers = self.helpers(&range, is_parallel);
        if helpers == 0 {
            // SAFETY: the caller's promise.
            return unsafe { self.write_alone(at, source, length, punches) };
        }
        let source = AtomicPtr::new(source.cast_mut());
        let written = idle_cores::share(range, helpers, |part| {
            // Relaxed: never changed.
            let source = source.load(Ordering::Relaxed).wrapping_add((part.start - at) as usize);
            // SAFETY: the caller's promise; the part lies in the range, and others go elsewhere.
            unsafe { self.write_alone(part.start, source, (part.end - part.start) as usize, punches) }
        });
        written.map_err(|(start, (done, e))| ((start - at) as usize + done, e))
    }

    /// # Safety
    /// As [`Segment::write`].
    unsafe fn write_alone(
        &self,
        at: u64,
        source: *const u8,
        length: usize,
        punches: u64,
    ) -> Result<(), (usize, io::Error)> {
        /// Bytes: so many are better stored into pages that are there, which others may have given it, than written
        /// past them by system call.
        const WORTH_ASKING: u64 = 1 << 20;
        let end = at + length as u64;
        let mut from = at;
        while from < end {
            let (mut until, mut stored) = self.stored.run(from..end);
            if !stored && until - from >= WORTH_ASKING && self.overwriting == Overwriting::AfterReading {
                self.learn(from..until);
                (until, stored) = self.stored.run(from..until);
            }
            if !stored {
                self.populated.revalidate(punches);
                self.enlarge(from..until, None);
                (until, stored) = self.stored.run(from..until);
            }
            let storable = if stored { self.storable_until(from..until, None, punches) } else { from };
            let is_storable = storable > from;
            // What may not be stored goes with what is behind it, in one call.
            until = match (is_storable, stored) {
                (true, _) => storable,
                (false, true) => end,
                (false, false) => until,
            };
            let (done, bytes) = ((from - at) as usize, (until - from) as usize);
            // SAFETY: the caller vouches for `source` and for the range.
            let source = unsafe { source.add(done) };
            if is_storable {
                self.populate(from..until, punches);
                // SAFETY: as above; the mapping is writable and its pages have storage.
                unsafe {
                    let to = self.map.as_mut_ptr().add(from as usize);
                    let whole = bytes as u64;
                    Course::into_file(&Blocks::one(from, whole), whole).copy(to, source, bytes);
                }
            } else {
                // SAFETY: the caller vouches for `bytes` readable bytes at `source`.
                let source = unsafe { std::slice::from_raw_parts(source, bytes) };
                if !stored {
                    self.reserve(from..until);
                }
                self.write_through(from, source).map_err(|(n, e)| (done + n, e))?;
                // Elsewhere the question costs more, and the first write of each page through the mapping, too.
                if self.overwriting == Overwriting::AfterReading {
                    self.learn(from..until);
                }
            }
            from = until;
        }
        Ok(())
    }

    /// How many cores are to help with an access to `range`, if it `is_parallel`.
    fn helpers(&self, range: &Range<u64>, is_parallel: impl FnOnce() -> bool) -> usize {
        let is_long = range.end - range.start >= idle_cores::least();
        let is_in_memory = self.overwriting == Overwriting::AfterReading;
        if is_long && is_in_memory && is_parallel() { idle_cores::helpers() } else { 0 }
    }

    /// Before `range`, which has no storage as far as is known, is written by system call: gives it all its blocks of
    /// the disk. ext4 sets them aside one by one otherwise, which takes a tenth to a quarter of a long write's time.
    fn reserve(&self, range: Range<u64>) {
        /// Bytes: with four writers on two cores, a quarter of that gains nothing.
        const LEAST: u64 = 1 << 20;
        if self.overwriting == Overwriting::Directly && range.end - range.start >= LEAST {
            // Where there is no room for all of it, the write tells how much there is.
            let _ = rustix::fs::fallocate(
                &self.file,
                FallocateFlags::empty(),
                range.start,
                range.end - range.start,
            );
        }
    }

    /// After a write that has failed: what it was to write from `range.start` on, which nobody is to see, is zero. Other
    /// cores may have got further than the one that failed.
    pub(crate) fn clear_unfinished(&self, range: Range<u64>) -> io::Result<()> {
        if self.overwriting == Overwriting::AfterReading { self.clear(range) } else { Ok(()) }
    }

    fn write_through(&self, at: u64, source: &[u8]) -> Result<(), (usize, io::Error)> {
        // Others may have given back meanwhile what there was, so that nothing is left to give back.
        let (mut done, mut is_new) = (0, true);
        let outcome = loop {
            if done == source.len() {
                break Ok(());
            }
            match self.file.write_at(&source[done..], at + done as u64) {
                Ok(0) => break Err((done, io::Error::from_raw_os_error(libc::ENOSPC))),
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if spare::is_full(&e) && (spare::give_back(&self.file) || is_new) => is_new = false,
                Err(e) => break Err((done, e)),
            }
        };
        // Every page that the kernel wrote even one byte of has storage now.
        self.stored.insert(at..at + done as u64);
        outcome
    }
}
