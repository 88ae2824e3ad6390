//! The addresses of a mapping: what lies where, write-protected or not.
//!
//! Nothing here knows of states: whoever calls holds the lock of the [table](super::table), so that a page's entry in
//! the page tables and its record change together.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use svmio_transport::copy_bytes;
use userfaultfd::{Event, EventBuffer, FaultKind, ReadWrite, Uffd};

use super::userfault::{self, How, os_error};

/// Addresses, of which each page is a page of the file. Unmapped on drop.
pub(super) struct Memory {
    uffd: Arc<Uffd>,
    start: NonNull<u8>,
    /// The pages of the file.
    pages: Range<u64>,
    page: usize,
    is_writable: bool,
}

// SAFETY: the addresses are this value's own as long as it lives; who loads and stores there vouches for doing so
// rightly.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// Whether a page that is put in place can be stored into without a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protection {
    /// A store is a fault.
    Protected,
    /// It is not.
    Open,
}

/// Room for faults that are read together.
pub(super) struct FaultReader(EventBuffer);

impl FaultReader {
    /// For so many.
    pub(super) fn new(most: usize) -> FaultReader {
        FaultReader(EventBuffer::new(most))
    }
}

/// A thread waits until a page can be loaded from, or stored into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageFault {
    pub(super) page: u64,
    /// The page was there, write-protected.
    pub(super) was_there: bool,
    pub(super) is_store: bool,
}

impl Memory {
    /// Reserves addresses for `pages` of a file, so that those of offsets that are multiples of `alignment` (a power of
    /// two) are such multiples, too. Faults there are told by [`Memory::next_faults`].
    pub(super) fn reserve(
        uffd: Uffd,
        pages: Range<u64>,
        alignment: u64,
        is_writable: bool,
    ) -> io::Result<Memory> {
        let page = rustix::param::page_size();
        let too_many = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = usize::try_from(pages.end - pages.start).ok().and_then(|n| n.checked_mul(page));
        let bytes = bytes.ok_or_else(too_many)?;
        let alignment = usize::try_from(alignment).map_err(|_| too_many())?.max(page);
        let protection = if is_writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let all = bytes.checked_add(alignment).ok_or_else(too_many)?;
        // SAFETY: nothing is replaced.
        let room = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), all, protection, flags) }?;
        let room: *mut u8 = room.cast();
        let wanted = (pages.start as usize).wrapping_mul(page) % alignment;
        let before = wanted.wrapping_sub(room.addr()) % alignment;
        let start = room.wrapping_add(before);
        for (at, length) in [(room, before), (start.wrapping_add(bytes), alignment - before)] {
            if length > 0 {
                // SAFETY: what is left of the reservation, to which nobody has a pointer.
                unsafe { rustix::mm::munmap(at.cast(), length) }?;
            }
        }
        let start = NonNull::new(start).ok_or_else(too_many)?;
        let memory = Memory { uffd: Arc::new(uffd), start, pages, page, is_writable };
        // SAFETY: it is this value's own, and nothing is in it.
        unsafe {
            // A child that is forked would find zeros where it finds nothing so.
            rustix::mm::madvise(start.as_ptr().cast(), bytes, Advice::LinuxDontFork)?;
            // Missing pages are not to be made up by the kernel, nor written along with others.
            rustix::mm::madvise(start.as_ptr().cast(), bytes, Advice::LinuxNoHugepage)?;
        }
        userfault::register(&memory.uffd, start.as_ptr(), bytes).map_err(os_error)?;
        Ok(memory)
    }

    /// Bytes of a page.
    pub(super) fn page(&self) -> usize {
        self.page
    }

    /// The pages of the file.
    pub(super) fn pages(&self) -> &Range<u64> {
        &self.pages
    }

    pub(super) fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Where it begins.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// All bytes.
    pub(super) fn bytes(&self) -> usize {
        (self.pages.end - self.pages.start) as usize * self.page
    }

    /// Copies a page that is there.
    pub(super) fn copy_of(&self, page: u64) -> Vec<u8> {
        let mut copy = vec![0; self.page];
        // SAFETY: the page is this value's own; whoever calls has found it to be there. Where it is not
        // write-protected, others may store into it meanwhile, as into any memory that is shared: each byte is one from
        // before or after.
        unsafe { copy_bytes(self.at(page), copy.as_mut_ptr(), self.page) };
        copy
    }

    /// Puts bytes into a page that is there and not write-protected.
    pub(super) fn overwrite(&self, page: u64, within: Range<usize>, bytes: &[u8]) {
        assert!(within.end <= self.page && within.len() == bytes.len(), "within the page");
        // SAFETY: as above.
        unsafe { copy_bytes(bytes.as_ptr(), self.at(page).add(within.start), bytes.len()) };
    }

    /// Puts pages in place, from `first` on, which are missing, and wakes who waits for them.
    pub(super) fn install(&self, first: u64, bytes: &[u8], protection: Protection) -> io::Result<()> {
        self.install_so(first, bytes, How { is_protected: protection == Protection::Protected, wakes: true })
    }

    /// The same; who waits for them has to be [woken](Memory::wake).
    pub(super) fn install_quietly(&self, first: u64, bytes: &[u8], protection: Protection) -> io::Result<()> {
        self.install_so(first, bytes, How { is_protected: protection == Protection::Protected, wakes: false })
    }

    fn install_so(&self, first: u64, bytes: &[u8], how: How) -> io::Result<()> {
        let run = first..first + (bytes.len() / self.page) as u64;
        assert!(bytes.len().is_multiple_of(self.page), "whole pages");
        let to = self.run(&run).0;
        // SAFETY: `run` has checked that they lie within.
        let copied = unsafe { userfault::copy(&self.uffd, to, bytes, how) };
        if !is_divided(&copied, &run) {
            return copied;
        }
        let mut pages = run.zip(bytes.chunks(self.page));
        pages.try_for_each(|(page, bytes)| self.install_so(page, bytes, how))
    }

    /// Has stores into pages that are there be faults. No store that came before is under way any more on return.
    pub(super) fn protect(&self, run: &Range<u64>) -> io::Result<()> {
        let (start, bytes) = self.run(run);
        let done = self.uffd.write_protect(start.cast(), bytes).map_err(os_error);
        if is_divided(&done, run) {
            run.clone().try_for_each(|page| self.protect(&(page..page + 1)))
        } else {
            done
        }
    }

    /// Lets threads store into pages that are there, and wakes who waits for that.
    pub(super) fn open(&self, run: &Range<u64>) -> io::Result<()> {
        let (start, bytes) = self.run(run);
        let done = self.uffd.remove_write_protection(start.cast(), bytes, true).map_err(os_error);
        if is_divided(&done, run) {
            run.clone().try_for_each(|page| self.open(&(page..page + 1)))
        } else {
            done
        }
    }

    /// Takes pages away; who waits for them has to be woken.
    pub(super) fn discard(&self, run: &Range<u64>) -> io::Result<()> {
        let (start, bytes) = self.run(run);
        // SAFETY: within this value's own memory; who touches the pages next, waits for them again.
        Ok(unsafe { rustix::mm::madvise(start.cast(), bytes, Advice::LinuxDontNeed) }?)
    }

    /// Has who waits for pages look again.
    pub(super) fn wake(&self, run: &Range<u64>) -> io::Result<()> {
        let (start, bytes) = self.run(run);
        self.uffd.wake(start.cast(), bytes).map_err(os_error)
    }

    /// Has whoever touches a missing page, or waits for it, get a signal: SIGBUS, or SIGSEGV before Linux 6.6.
    pub(super) fn poison(&self, page: u64) -> io::Result<()> {
        let run = page..page + 1;
        let (start, bytes) = self.run(&run);
        // SAFETY: within this value's own memory.
        if unsafe { userfault::poison(&self.uffd, start, bytes) }.is_ok() {
            return Ok(());
        }
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: likewise; the page is missing.
        unsafe { rustix::mm::mmap_anonymous(start.cast(), bytes, ProtFlags::empty(), flags) }?;
        self.wake(&run)
    }

    /// Makes a poisoned page a missing one.
    pub(super) fn cure(&self, page: u64) -> io::Result<()> {
        let (start, bytes) = self.run(&(page..page + 1));
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // In this order: nobody finds a page there that the kernel has made up.
        // SAFETY: within this value's own memory; the page is missing.
        unsafe {
            rustix::mm::mmap_anonymous(start.cast(), bytes, ProtFlags::empty(), flags)?;
            rustix::mm::madvise(start.cast(), bytes, Advice::LinuxDontFork)?;
            rustix::mm::madvise(start.cast(), bytes, Advice::LinuxNoHugepage)?;
        }
        userfault::register(&self.uffd, start, bytes).map_err(os_error)?;
        let flags =
            if self.is_writable { MprotectFlags::READ | MprotectFlags::WRITE } else { MprotectFlags::READ };
        // SAFETY: likewise.
        Ok(unsafe { rustix::mm::mprotect(start.cast(), bytes, flags) }?)
    }

    /// Maps a part of a file, from `offset` on, in the place of pages; who waits for them is woken. A child that is
    /// forked does not have them, as it has none of those that are fetched.
    ///
    /// # Errors
    /// `OutOfMemory` where the process has as many mappings as it may; then the pages are what they were.
    pub(super) fn map(&self, run: &Range<u64>, file: &File, offset: u64) -> io::Result<()> {
        let (start, bytes) = self.run(run);
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: within this value's own memory, of which what was there is not needed any more.
        let mapped = unsafe { rustix::mm::mmap(start.cast(), bytes, self.protection(), flags, file, offset) };
        mapped.map_err(|error| match error {
            Errno::NOMEM => io::Error::new(io::ErrorKind::OutOfMemory, TOO_MANY),
            other => other.into(),
        })?;
        // What is mapped anew is not kept from children, though what was there before was.
        // SAFETY: within this value's own memory.
        if let Err(error) = unsafe { rustix::mm::madvise(start.cast(), bytes, Advice::LinuxDontFork) } {
            // They are there all the same.
            tracing::warn!("a child that is forked would have pages {run:?} of a mapping: {error}");
        }
        self.wake(run)
    }

    /// Takes the next faults, as many as there are and `reader` can have.
    pub(super) fn next_faults(
        &self,
        reader: &mut FaultReader,
        faults: &mut Vec<PageFault>,
    ) -> io::Result<()> {
        for event in self.uffd.read_events(&mut reader.0).map_err(os_error)? {
            // No other event was asked for.
            if let Event::Pagefault { kind, rw, addr, .. } = event.map_err(os_error)? {
                let at = addr.addr().wrapping_sub(self.start.addr().get()) / self.page;
                let was_there = kind == FaultKind::WriteProtected;
                let is_store = was_there || rw == ReadWrite::Write;
                faults.push(PageFault { page: self.pages.start + at as u64, was_there, is_store });
            }
        }
        Ok(())
    }

    /// What becomes readable when there are faults.
    pub(super) fn descriptor(&self) -> Arc<Uffd> {
        Arc::clone(&self.uffd)
    }

    fn protection(&self) -> ProtFlags {
        if self.is_writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ }
    }

    fn at(&self, page: u64) -> *mut u8 {
        self.run(&(page..page + 1)).0
    }

    fn run(&self, run: &Range<u64>) -> (*mut u8, usize) {
        let is_within = self.pages.start <= run.start && run.start <= run.end && run.end <= self.pages.end;
        assert!(is_within, "pages {run:?} of {:?}", self.pages);
        let before = (run.start - self.pages.start) as usize * self.page;
        (self.start.as_ptr().wrapping_add(before), (run.end - run.start) as usize * self.page)
    }
}

/// What is wrong where the kernel maps nothing more.
const TOO_MANY: &str = "the process may have no more mappings (a larger sysctl vm.max_map_count allows more, and \
                        larger segments, svm_segment_size, take fewer), or the kernel has no memory for them";

/// Whether a run of pages could not be done because the kernel keeps it in two parts, as it may after one of the pages
/// was [cured](Memory::cure).
fn is_divided(done: &io::Result<()>, run: &Range<u64>) -> bool {
    done.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::NotFound) && run.end - run.start > 1
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this owns the addresses, and no pointer to them is used any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u64 = 8;

    fn memory() -> Memory {
        let uffd = userfault::open().expect("tests run as root, or where page faults may be served");
        Memory::reserve(uffd, 5..5 + PAGES, 1 << 21, true).unwrap()
    }

    fn byte(memory: &Memory, page: u64) -> u8 {
        memory.copy_of(page)[7]
    }

    #[test]
    fn pages_are_put_in_place_poisoned_and_cured() {
        let memory = memory();
        assert_eq!(memory.start().addr().get() % (1 << 21), 5 * memory.page());
        let bytes = |byte: u8, pages: u64| vec![byte; pages as usize * memory.page()];
        for turn in 0..3 {
            memory.poison(8).unwrap();
            memory.cure(8).unwrap();
            // Also where the kernel has divided them.
            memory.install(5, &bytes(turn, PAGES), Protection::Protected).unwrap();
            memory.open(&(5..5 + PAGES)).unwrap();
            memory.overwrite(8, 7..8, &[99]);
            memory.protect(&(5..5 + PAGES)).unwrap();
            assert_eq!((5..5 + PAGES).map(|page| byte(&memory, page)).collect::<Vec<_>>(), {
                let mut expected = vec![turn; PAGES as usize];
                expected[3] = 99;
                expected
            });
            memory.discard(&(5..5 + PAGES)).unwrap();
        }
    }

    #[test]
    fn faults_are_told_with_what_they_are() {
        let memory = memory();
        let at = |page: u64| memory.at(page).expose_provenance();
        std::thread::scope(|scope| {
            let (load, store) = (at(6), at(7));
            let loads = scope.spawn(move || {
                // SAFETY: it lies in the memory, and is put in place.
                unsafe { std::ptr::with_exposed_provenance::<u8>(load).read_volatile() }
            });
            let fault = next(&memory);
            assert_eq!(fault, PageFault { page: 6, was_there: false, is_store: false });
            memory.install(6, &vec![3; memory.page()], Protection::Protected).unwrap();
            assert_eq!(loads.join().unwrap(), 3);
            let stores = scope.spawn(move || {
                for at in [store, load] {
                    // SAFETY: as above.
                    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at).write_volatile(4) };
                }
            });
            assert_eq!(next(&memory), PageFault { page: 7, was_there: false, is_store: true });
            memory.install(7, &vec![0; memory.page()], Protection::Open).unwrap();
            assert_eq!(next(&memory), PageFault { page: 6, was_there: true, is_store: true });
            memory.open(&(6..7)).unwrap();
            stores.join().unwrap();
            assert_eq!([memory.copy_of(6)[0], memory.copy_of(7)[0]], [4, 4]);
        });
    }

    /// Waits for a fault.
    fn next(memory: &Memory) -> PageFault {
        let mut faults = Vec::new();
        loop {
            memory.next_faults(&mut FaultReader::new(1), &mut faults).unwrap();
            if let Some(fault) = faults.pop() {
                return fault;
            }
            let mut wanted = [rustix::event::PollFd::new(&memory.uffd, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut wanted, None).unwrap();
        }
    }
}
