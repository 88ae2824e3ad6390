//! A segment's file in this process's memory, where large pages fit.

use std::ffi::c_void;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// A whole file, mapped for all processes to see; unmapped on drop.
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is memory like any other, and this owns it; who reads and writes through its pointers vouches for
// doing so rightly.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` bytes of `file`, from an address that is a multiple of `alignment` on, a power of two. An
    /// address space that is too full for that gives any address.
    pub(super) fn new(file: &File, bytes: usize, writable: bool, alignment: usize) -> io::Result<Mapping> {
        let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let map = |at: *mut c_void, flags: MapFlags| -> io::Result<Mapping> {
            // SAFETY: nothing is replaced, or (see below) only what was reserved for this.
            let start =
                unsafe { rustix::mm::mmap(at, bytes, protection, MapFlags::SHARED | flags, file, 0) }?;
            let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
            Ok(Mapping { start, bytes })
        };
        let anywhere = map(ptr::null_mut(), MapFlags::empty())?;
        if anywhere.start.addr().get().is_multiple_of(alignment) {
            return Ok(anywhere);
        }
        let Ok(reserved) = reserve(bytes + alignment) else {
            return Ok(anywhere);
        };
        let room = reserved.start.as_ptr();
        let before = room.align_offset(alignment);
        // From here on its parts go their own ways. A fixed mapping that fails may have taken its place away already:
        // then addresses are lost, but none is unmapped that somebody else has got since.
        std::mem::forget(reserved);
        let mapping = map(room.wrapping_add(before).cast(), MapFlags::FIXED)?;
        let behind = alignment - before;
        for (at, bytes) in [(room, before), (room.wrapping_add(before + bytes), behind)] {
            if bytes > 0 {
                // SAFETY: what is left of the reservation, to which nobody has a pointer.
                unsafe { rustix::mm::munmap(at.cast(), bytes) }?;
            }
        }
        Ok(mapping)
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    pub(super) fn as_mut_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// Has the kernel map the pages of `range`, which have storage, for reading.
    pub(super) fn populate(&self, range: Range<u64>) -> io::Result<()> {
        let (start, bytes) = self.pages(range);
        // SAFETY: the pages lie in this mapping, and their content stays.
        Ok(unsafe { rustix::mm::madvise(start.cast(), bytes, Advice::LinuxPopulateRead) }?)
    }

    /// Has the kernel map the pages of `range`, which get storage where they have none, for writing.
    pub(super) fn populate_for_writing(&self, range: Range<u64>) -> io::Result<()> {
        let (start, bytes) = self.pages(range);
        // SAFETY: as above.
        Ok(unsafe { rustix::mm::madvise(start.cast(), bytes, Advice::LinuxPopulateWrite) }?)
    }

    /// Has the kernel keep `pages`, where they are not in memory, in large ones from the next fault on.
    pub(super) fn ask_for_large_pages(&self, pages: Range<u64>) -> io::Result<()> {
        let (start, bytes) = self.pages(pages);
        // SAFETY: as above.
        Ok(unsafe { rustix::mm::madvise(start.cast(), bytes, Advice::LinuxHugepage) }?)
    }

    /// Has the kernel put the content of `range` into large pages, and map them.
    pub(super) fn collapse(&self, range: Range<u64>) -> io::Result<()> {
        let (start, bytes) = self.pages(range);
        // SAFETY: as above.
        match unsafe { libc::madvise(start.cast(), bytes, libc::MADV_COLLAPSE) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Whether the kernel knows of [`Mapping::collapse`].
    pub(super) fn knows_collapsing(&self) -> bool {
        // SAFETY: no page is meant; the kernel looks at the advice before it finds that out.
        unsafe { libc::madvise(self.start.as_ptr().cast(), 0, libc::MADV_COLLAPSE) == 0 }
    }

    /// Makes the bytes of `range`, which has storage, zero. Others may be doing the same, and nothing else.
    pub(super) fn clear(&self, range: Range<u64>) {
        assert!(range.start <= range.end && range.end <= self.bytes as u64, "within the mapping");
        // SAFETY: the bytes lie in this mapping; its pages have storage, so that none is missing. Nobody writes to
        // them, and who reads them looks afterwards whether he should have.
        unsafe {
            self.as_mut_ptr().add(range.start as usize).write_bytes(0, (range.end - range.start) as usize)
        };
    }

    /// Whether any part of it is mapped by a large page at this moment.
    pub(super) fn has_large_page(&self) -> io::Result<bool> {
        let head = format!("{:x}-", self.start.addr());
        let is_head = |line: &io::Result<String>| line.as_ref().is_ok_and(|line| line.starts_with(&head));
        // See proc_pid_smaps(5).
        let maps = BufReader::new(File::open("/proc/self/smaps")?);
        for line in maps.lines().skip_while(|line| !is_head(line)).skip(1) {
            let line = line?;
            let mut words = line.split_whitespace();
            match (words.next(), words.next()) {
                (Some("ShmemPmdMapped:" | "FilePmdMapped:"), Some(kibibytes)) if kibibytes != "0" => {
                    return Ok(true);
                }
                // The next mapping's head.
                (Some(first), _) if !first.ends_with(':') => break,
                _ => {}
            }
        }
        Ok(false)
    }

    /// The pages that `range` touches.
    fn pages(&self, range: Range<u64>) -> (*mut u8, usize) {
        assert!(range.start <= range.end && range.end <= self.bytes as u64, "within the mapping");
        let start = range.start as usize & !(rustix::param::page_size() - 1);
        (self.start.as_ptr().wrapping_add(start), range.end as usize - start)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this owns the mapping, and no pointer into it is used any more. Fails only for addresses that
        // were never mapped.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Addresses that nobody else gets.
fn reserve(bytes: usize) -> io::Result<Mapping> {
    // SAFETY: nothing is replaced.
    let start = unsafe {
        rustix::mm::mmap_anonymous(
            ptr::null_mut(),
            bytes,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    }?;
    let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
    Ok(Mapping { start, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn mappings_begin_where_large_pages_fit_and_show_the_file() {
        const BYTES: usize = 3 << 20;
        let file = tempfile::tempfile().unwrap();
        file.set_len(BYTES as u64).unwrap();
        for alignment in [4096, 2 << 20, 32 << 20] {
            // Some at a time, so that not all can lie right by chance.
            let mappings: Vec<Mapping> =
                (0..5).map(|_| Mapping::new(&file, BYTES, true, alignment).unwrap()).collect();
            for (n, mapping) in mappings.iter().enumerate() {
                assert_eq!(mapping.as_ptr() as usize % alignment, 0);
                let at = BYTES - 1 - n;
                // SAFETY: within the mapping, which is writable.
                unsafe { mapping.as_mut_ptr().add(at).write_volatile(n as u8 + 1) };
                let mut byte = [0];
                file.read_exact_at(&mut byte, at as u64).unwrap();
                assert_eq!(byte, [n as u8 + 1]);
            }
        }
    }
}
