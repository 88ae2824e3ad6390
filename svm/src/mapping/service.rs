//! What the threads of a mapping share, and how they agree.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::file::File;
use crate::units::{FileOffset, SegmentIndex};

use super::advice::Advices;
use super::handlers::ServesFaults;
use super::losses::Losses;
use super::memory::{Memory, PageFault};
use super::table::Table;
use super::together::Together;
use super::twins::{Twin, Twins};
use super::wanted::Ahead;
use super::watch::{Promise, Watch};

/// How long a thread sleeps at most before it looks again, whatever it waits for.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A mapping in one process.
pub(super) struct Service {
    pub(super) file: Arc<File>,
    pub(super) memory: Memory,
    pub(super) twins: Arc<Twins>,
    /// Held for changes of states and of page tables, and never while somebody else is waited for.
    table: Mutex<Table>,
    /// Pages have left states in which they are waited for.
    changed: Condvar,
    /// The most memory for pages, in pages.
    pub(super) limit: usize,
    /// Pages of a segment.
    segment_pages: u64,
    pub(super) advices: Advices,
    pub(super) ahead: Ahead,
    pub(super) together: Together,
    pub(super) losses: Losses,
    pub(super) is_stopping: AtomicBool,
    pub(super) counters: Counters,
}

/// What a mapping has done.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) faults: AtomicU64,
    pub(super) fetched: AtomicU64,
    pub(super) ahead: AtomicU64,
    pub(super) evicted: AtomicU64,
    pub(super) merged: AtomicU64,
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64, count: u64) {
        // Relaxed: a statistic.
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// What a service is made of.
pub(super) struct Parts {
    pub(super) file: Arc<File>,
    pub(super) memory: Memory,
    pub(super) twins: Arc<Twins>,
    pub(super) table: Table,
    pub(super) limit: usize,
    pub(super) losses: Losses,
}

impl ServesFaults for Service {
    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn serve(&self, fault: PageFault) {
        Service::serve(self, fault);
    }

    const TOGETHER: usize = 64;
    // While one attends to what was asked for, another one watches. With more, those that attended to it before would
    // look for faults, too, each for a moment, where one is enough.
    const WATCHING: usize = 2;

    fn begin(&self, faults: &mut Vec<PageFault>, new: usize, watch: &Watch) -> bool {
        self.serve_together(faults, new, watch)
    }

    fn attend<'w>(&self, watch: &'w Watch) -> Option<Promise<'w>> {
        self.take_what_comes(watch)
    }

    fn is_busy(&self) -> bool {
        self.is_asking()
    }

    fn losses(&self) -> &Losses {
        &self.losses
    }

    fn file_name(&self) -> &str {
        self.file.name()
    }

    fn is_stopping(&self) -> &AtomicBool {
        &self.is_stopping
    }

    fn wake_others(&self) {
        self.ahead.stop();
    }
}

impl Service {
    pub(super) fn new(parts: Parts) -> Service {
        let Parts { file, memory, twins, table, limit, losses } = parts;
        let segment_pages = file.segment_size().bytes() / memory.page() as u64;
        Service {
            file,
            memory,
            twins,
            table: Mutex::new(table),
            changed: Condvar::new(),
            limit,
            segment_pages,
            advices: Advices::default(),
            ahead: Ahead::default(),
            together: Together::default(),
            losses,
            is_stopping: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        // A panic elsewhere leaves the records whole.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until something has changed, or for a while.
    pub(super) fn wait<'t>(&'t self, table: MutexGuard<'t, Table>) -> MutexGuard<'t, Table> {
        #[cfg(test)]
        table.waits.set(table.waits.get() + 1);
        self.changed.wait_timeout(table, LOOK_AGAIN).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Has those who [wait](Service::wait) look again.
    pub(super) fn notify(&self) {
        self.changed.notify_all();
    }

    /// A twin of a page that is in place.
    pub(super) fn twin_of(&self, page: u64) -> Arc<Twin> {
        Arc::new(self.twins.of(&self.memory.copy_of(page)))
    }

    pub(super) fn segment_of(&self, page: u64) -> SegmentIndex {
        // The file's limit was checked when it was mapped.
        SegmentIndex(u32::try_from(page / self.segment_pages).unwrap_or(u32::MAX))
    }

    /// The pages of a segment that are mapped.
    pub(super) fn pages_of(&self, index: SegmentIndex) -> Range<u64> {
        let (start, all) = (u64::from(index.0) * self.segment_pages, self.memory.pages());
        start.max(all.start)..(start + self.segment_pages).min(all.end)
    }

    /// The segments that pages lie in.
    pub(super) fn segments_of(&self, pages: &Range<u64>) -> Range<u32> {
        if pages.is_empty() {
            return 0..0;
        }
        self.segment_of(pages.start).0..self.segment_of(pages.end - 1).0 + 1
    }

    /// Where a page lies in its segment, bytes.
    pub(super) fn within(&self, page: u64) -> u64 {
        page % self.segment_pages * self.memory.page() as u64
    }

    /// The bytes of the file that pages are.
    pub(super) fn bytes_of(&self, pages: &Range<u64>) -> Range<FileOffset> {
        let page = self.memory.page() as u64;
        FileOffset(pages.start * page)..FileOffset(pages.end * page)
    }
}
