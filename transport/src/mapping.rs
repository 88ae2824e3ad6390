//! Memory that is mapped: fresh, or part of a file, until nobody holds it any more.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::error::{Error, Result};
use crate::memory::SharedMemory;

/// A range of the address space, to be given back.
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: only an address range to be unmapped, from whichever thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; nothing can be done through a shared reference.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // By the C library's function, which libfabric watches, and not by a system call of our own: its cache of
        // registrations (`verbs`, `cxi`) would go on to serve this one to what is mapped here next, and peers would
        // write into the memory that was here.
        // SAFETY: mapped by `map`, which gave it to a `SharedMemory` that is gone now, all clones included. It fails
        // only for ranges that cannot be mapped ones.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Whether pages are there when memory is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// All: what is missing is missing now.
    Touched,
    /// Each comes when it is first touched; nothing is reserved for it.
    Untouched,
}

/// Fresh zeroed memory of this process alone.
///
/// # Errors
/// `Memory`.
pub(crate) fn anonymous(what: &str, length: u64, pages: Pages) -> Result<SharedMemory> {
    let flags = match pages {
        Pages::Touched => MapFlags::PRIVATE,
        Pages::Untouched => MapFlags::PRIVATE | MapFlags::NORESERVE,
    };
    let memory = map(what, length, |length, access| {
        // SAFETY: a new mapping, at an address that the kernel chooses.
        unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), length, access, flags) }
    })?;
    if pages == Pages::Touched {
        touch(&memory, enter_pages).map_err(|problem| refused(what, length, problem))?;
    }
    Ok(memory)
}

/// `length` bytes of a file from `offset` on, shared with all who map it. They must be there as long as they are
/// mapped.
///
/// # Errors
/// `OutOfBounds` where the file is shorter; `Memory` where there is no room for `what` in the address space; `System`
/// where the system refuses.
pub(crate) fn of_file(what: &str, file: impl AsFd, offset: u64, length: u64) -> Result<SharedMemory> {
    check_size(&file, offset, length)?;
    if length == 0 {
        return anonymous(what, 0, Pages::Untouched);
    }
    map(what, length, |length, access| {
        // SAFETY: as above.
        unsafe { rustix::mm::mmap(ptr::null_mut(), length, access, MapFlags::SHARED, &file, offset) }
    })
}

/// That a file has `length` bytes from `offset` on.
///
/// # Errors
/// `OutOfBounds` where it is shorter; `System` where it cannot be asked.
pub(crate) fn check_size(file: impl AsFd, offset: u64, length: u64) -> Result<()> {
    let status =
        rustix::fs::fstat(file).map_err(|error| Error::system("asking for the size of a file", error))?;
    let size = u64::try_from(status.st_size).unwrap_or(0);
    if offset.checked_add(length).is_none_or(|end| end > size) {
        return Err(Error::OutOfBounds { what: "the file of a segment".into(), offset, length, size });
    }
    Ok(())
}

/// Enters the pages of mapped memory into the page table now, where the kernel can do that (from 5.14 on).
///
/// # Errors
/// `EINVAL` where it cannot; `ENOMEM` and others where pages are missing.
pub(crate) fn enter_pages(memory: &SharedMemory) -> rustix::io::Result<()> {
    if memory.is_empty() {
        return Ok(());
    }
    // SAFETY: the range is mapped, as nothing else is made here; no access changes what is there.
    unsafe { rustix::mm::madvise(memory.as_ptr().cast(), memory.len(), Advice::LinuxPopulateWrite) }
}

/// Touches all pages of memory that is fresh and nobody else's yet, by `enter`, or by hand where the kernel does not
/// know how.
fn touch(
    memory: &SharedMemory,
    enter: impl FnOnce(&SharedMemory) -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    match enter(memory) {
        Err(Errno::INVAL) => {
            for offset in (0..memory.len()).step_by(rustix::param::page_size()) {
                // SAFETY: within the mapping, which is this function's caller's alone; it is zero already.
                unsafe { memory.as_ptr().add(offset).write_volatile(0) };
            }
            Ok(())
        }
        outcome => outcome,
    }
}

fn map(
    what: &str,
    length: u64,
    mmap: impl FnOnce(usize, ProtFlags) -> rustix::io::Result<*mut std::ffi::c_void>,
) -> Result<SharedMemory> {
    let refused = |problem| refused(what, length, problem);
    let bytes = usize::try_from(length).map_err(|_| refused(Errno::NOMEM))?;
    // There is no mapping of nothing: it gets a page that nobody reaches.
    let mapped = bytes.max(1);
    let start = mmap(mapped, ProtFlags::READ | ProtFlags::WRITE).map_err(refused)?;
    let start = NonNull::new(start.cast()).ok_or(refused(Errno::NOMEM))?;
    let mapping = Arc::new(Mapping { start, length: mapped });
    // SAFETY: the mapping stays until it is dropped, begins at a page, and only this value has its address. That its
    // pages are there was checked, or is promised by whoever gave the file.
    Ok(unsafe { SharedMemory::new(start, bytes, mapping) })
}

fn refused(what: &str, length: u64, problem: Errno) -> Error {
    match problem {
        Errno::NOMEM | Errno::AGAIN => {
            let source = Arc::new(io::Error::from(problem));
            Error::Memory { what: what.into(), length, source }
        }
        problem => Error::system(format!("mapping {what}"), problem),
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::os::unix::fs::FileExt;

    use rustix::io::Errno;

    use super::{Pages, anonymous, enter_pages, of_file, touch};
    use crate::error::Error;
    use crate::memory::SharedMemory;

    /// How many pages of it are there.
    fn resident(memory: &SharedMemory) -> usize {
        let mut pages = vec![0_u8; memory.len().div_ceil(rustix::param::page_size())];
        // SAFETY: a mapped range, and a byte for each of its pages.
        let answer = unsafe { libc::mincore(memory.as_ptr().cast(), memory.len(), pages.as_mut_ptr()) };
        assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
        pages.iter().filter(|page| **page & 1 == 1).count()
    }

    #[test]
    fn a_kernel_that_cannot_enter_pages_is_no_shortage_of_memory() {
        let memory = anonymous("a test", 100_000, Pages::Untouched).unwrap();
        assert_eq!(resident(&memory), 0);
        touch(&memory, |_| Err(Errno::INVAL)).unwrap();
        assert_eq!(resident(&memory), 100_000_usize.div_ceil(rustix::param::page_size()));
        assert_eq!(touch(&memory, |_| Err(Errno::NOMEM)), Err(Errno::NOMEM));
    }

    #[test]
    fn touched_memory_is_there_and_zeroed() {
        let memory = anonymous("a test", 10_000, Pages::Touched).unwrap();
        assert_eq!(resident(&memory), 10_000_usize.div_ceil(rustix::param::page_size()));
        let mut bytes = vec![1; 10_000];
        memory.read(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_part_of_a_file_is_that_part_and_no_more() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 * 4096).unwrap();
        let memory = of_file("a test", &file, 4096, 5000).unwrap();
        enter_pages(&memory).unwrap();
        memory.write(1, b"here").unwrap();
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, 4097).unwrap();
        assert_eq!(&bytes, b"here");
        let beyond = of_file("a test", &file, 8192, 4097);
        assert!(matches!(beyond, Err(Error::OutOfBounds { size: 12_288, .. })), "{beyond:?}");
        let beyond = of_file("a test", &file, u64::MAX, 1);
        assert!(matches!(beyond, Err(Error::OutOfBounds { .. })), "{beyond:?}");
        let crooked = of_file("a test", &file, 1, 1);
        assert!(matches!(crooked, Err(Error::System { .. })), "{crooked:?}");
    }

    #[test]
    fn nothing_can_be_mapped_and_too_much_not() {
        let file = tempfile::tempfile().unwrap();
        for memory in [anonymous("a test", 0, Pages::Touched), of_file("a test", &file, 0, 0)] {
            let memory = memory.unwrap();
            assert!(memory.is_empty() && memory.write(0, b"x").is_err());
        }
        for length in [1 << 60, u64::MAX] {
            let error = anonymous("a test", length, Pages::Touched).unwrap_err();
            assert!(matches!(error, Error::Memory { length: wanted, .. } if wanted == length), "{error}");
        }
    }
}
