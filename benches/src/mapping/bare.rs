//! What faults cost at least: served by the kernel alone, and by a thread that does nothing else.

use std::ffi::c_void;
use std::fs::File;
use std::ptr;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::mm::{MapFlags, ProtFlags};
use userfaultfd::{Event, Uffd, UffdBuilder};

pub(super) const PAGE: usize = 4096;

/// Memory of this process's own, at whole pages. Unmapped on drop.
struct Pages {
    start: *mut c_void,
    count: usize,
}

// SAFETY: an address, and a number.
unsafe impl Send for Pages {}
// SAFETY: the memory is only read, and by one thread.
unsafe impl Sync for Pages {}

impl Pages {
    fn touch(&self, page: usize) -> u8 {
        assert!(page < self.count);
        // SAFETY: it lies within, and is not unmapped as long as this is there.
        unsafe { self.start.cast::<u8>().add(page * PAGE).read_volatile() }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this owns the addresses, and nobody uses them any more.
        let _ = unsafe { rustix::mm::munmap(self.start, self.count * PAGE) };
    }
}

/// A file that the kernel has mapped.
pub(super) struct Kernel(Pages);

impl Kernel {
    /// Pages of a file that has them all.
    ///
    /// # Panics
    /// Where it cannot be mapped.
    pub(super) fn new(file: &File, count: usize) -> Kernel {
        // SAFETY: nothing is replaced.
        let start = unsafe {
            rustix::mm::mmap(ptr::null_mut(), count * PAGE, ProtFlags::READ, MapFlags::SHARED, file, 0)
        };
        Kernel(Pages { start: start.expect("a file can be mapped"), count })
    }

    pub(super) fn touch(&self, page: usize) -> u8 {
        self.0.touch(page)
    }
}

/// Memory of which a thread serves the faults, which sleeps in between: it reads a fault, and copies a page.
pub(super) struct Bare {
    pages: Arc<Pages>,
    thread: Option<JoinHandle<()>>,
}

impl Bare {
    /// So many pages. Before the thread puts a page in place it does what `fetch` says.
    ///
    /// # Panics
    /// Where that is not allowed.
    pub(super) fn new(count: usize, fetch: impl Fn() + Send + 'static) -> Bare {
        let uffd = UffdBuilder::new().close_on_exec(true).non_blocking(false).user_mode_only(false).create();
        let uffd = uffd.expect("faults may be served: by root, or where vm.unprivileged_userfaultfd is 1");
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // One more, by which the thread is told to end.
        let count = count + 1;
        // SAFETY: nothing is replaced.
        let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), count * PAGE, protection, flags) };
        let pages = Pages { start: start.expect("there are addresses"), count };
        // SAFETY: it is this value's own, and nothing is in it.
        unsafe { rustix::mm::madvise(pages.start, count * PAGE, rustix::mm::Advice::LinuxNoHugepage) }
            .expect("small pages can be had");
        uffd.register(pages.start, count * PAGE).expect("faults of own memory can be served");
        let pages = Arc::new(pages);
        let thread = std::thread::spawn({
            let pages = Arc::clone(&pages);
            move || serve(&uffd, &pages, &fetch)
        });
        Bare { pages, thread: Some(thread) }
    }

    /// # Panics
    /// Where there is no such page.
    pub(super) fn touch(&self, page: usize) -> u8 {
        assert!(page + 1 < self.pages.count);
        self.pages.touch(page)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.pages.touch(self.pages.count - 1);
        if let Some(thread) = self.thread.take() {
            // Its panic has been told.
            let _ = thread.join();
        }
    }
}

fn serve(uffd: &Uffd, pages: &Pages, fetch: &dyn Fn()) {
    let page = [1u8; PAGE];
    loop {
        let event = uffd.read_event().expect("faults can be read");
        let Some(Event::Pagefault { addr, .. }) = event else { continue };
        let at = addr.addr() - pages.start.addr();
        let to = pages.start.wrapping_byte_add(at / PAGE * PAGE);
        fetch();
        // SAFETY: the page is missing, of memory that is registered; there are as many bytes to copy.
        unsafe { uffd.copy(page.as_ptr().cast(), to, PAGE, true) }
            .expect("a missing page can be put in place");
        if at / PAGE == pages.count - 1 {
            return;
        }
    }
}
