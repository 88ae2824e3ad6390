//! Strict mappings: memory that several processes share without annotations, for each page has one writer at a time, or
//! readers.
//!
//! ```text
//!   StrictMapping ── Keeper ─┬─ Memory    addresses: what is in place, and whether a store is a fault
//!                            ├─ pages     a record of each page that is not missing
//!                            ├─ serving   faults: a page is wished for at its home  ◄── Handlers: threads in epoll
//!                            ├─ ahead     copies for loads that nobody waits for yet  ◄── rows of faults
//!                            ├─ orders    what homes want back                      ◄── a thread for each home
//!                            │  └─ returning  what is on its way home by that      ──► flush waits for it
//!                            ├─ leaving   pages that go home unasked                ◄── flush, refresh, room, the end
//!                            └─ telling   of copies that went                       ──► homes, which may forget them
//!
//!   at each home: the agent, with a directory of its pages (cluster/agent/directory.rs)
//! ```
//!
//! The pages' states, and what leads from one to the other, are in `strict/pages.rs`.

mod ahead;
mod leaving;
mod orders;
mod pages;
mod returning;
mod serving;
mod telling;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::cluster::{MappingNumber, NodeIndex, PagePlace, SharedFile};
use crate::error::{Error, Result};
use crate::file::File;
use crate::units::{FileOffset, SegmentIndex};

use super::handlers::{self, Handlers, ServesFaults};
use super::losses::Losses;
use super::memory::{Memory, PageFault};
use super::options::MappingOptions;
use super::registry::Registration;
use super::reserving;
use super::streams::Streams;
use super::twins::Twins;
use super::wanted::Ahead;

use pages::Pages;
use telling::Telling;

/// How long a thread sleeps at most before it looks again, whatever it waits for.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A range of a file as memory that is sequentially consistent among all processes that have mapped it so: as if there
/// were one memory, without locks, barriers or flushes. That costs: a page that one process stores into can be had by
/// no other at the same time, and goes to and fro between processes that use it by turns, also where they use different
/// bytes of it.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use svmio_svm::{FileName, FileOffset, OpenOptions, Store, mapping::StrictMapping};
///
/// # let directory = tempfile::tempdir()?;
/// let store = Store::open(directory.path())?;
/// let file = store.open_file(&FileName::new("/board")?, &OpenOptions::read_write().create(true))?;
/// let board = StrictMapping::new(&Arc::new(file), FileOffset(0)..FileOffset(1 << 20))?;
/// // SAFETY: it lies in the mapping, aligned, and all processes use it as an atomic.
/// let posted = unsafe { AtomicU64::from_ptr(board.as_mut_ptr().cast()) };
/// posted.fetch_add(1, Ordering::SeqCst);
/// board.unmap()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # The protocol
///
/// That of Li, Hudak, *Memory Coherence in Shared Virtual Memory Systems*, 1989, with a fixed manager for each page:
/// the agent of its segment's home. A load of a page that is not here is a fault, for which the home is asked for a
/// copy; if another mapping may store into the page, it is told before to bring home what it stored, and to keep a copy
/// for loads at most. A store is a fault unless this mapping may store into the page; the home has all other copies
/// given up, waits until they are, and then grants it. So **whoever may store has the only copy**, and who has a copy
/// for loads has the last value stored: loads and stores of all processes to all pages are as if done one after the
/// other (Lamport, *How to Make a Multiprocessor Computer That Correctly Executes Multiprocess Programs*, 1979), as far
/// as the processor keeps to the program's order. It does for atomics with `SeqCst`; an atomic read-modify-write, too,
/// is one for all processes.
///
/// Each mapping is a party of its own, also of several in one process or on one node, and at the home. Threads of one
/// process share its copy. A segment gets a home when it is first touched, be it by a load. Where the job, or the file,
/// has only one node, its processes map the segments themselves and share them as any memory.
///
/// # What is fetched ahead
///
/// Rows of loads are followed as those of a [`Mapping`](super::Mapping), and copies for loads of the pages ahead are
/// asked for, many at a time. The home grants those that no mapping may store into and none waits for, and has none
/// given up for it; from then on they are copies as all others. The rest is asked for when it is touched.
///
/// # Who waits, and for how long
///
/// Wishes for a page are fulfilled in the order in which they come to the home, and an agent waits for nobody: it notes
/// what it has ordered, and goes on. Who is ordered to give a page up does so at once, unless it was put in place less
/// than a short time ago, which is left for the thread to use it that had waited for it (as the time window of Fleisch,
/// Popek, *Mirage: A Coherent Distributed Shared Memory Design*, 1989). So a page that all want goes round, and nobody
/// is passed over. A program that waits for a value by looking at it again and again ought to yield in between.
///
/// # The file's other faces
///
/// As for other mappings, by the rules of MPI-IO: what was stored, [`File::read_at`] and mappings of other kinds find
/// after [`StrictMapping::flush`] and their own refresh; what was written by [`File::write_at`] and flushed, a strict
/// mapping finds after [`StrictMapping::refresh`]. Of a page, only bytes that changed go home. Nobody may shorten the
/// file.
///
/// # When a process is lost
///
/// What it had stored into pages that were nobody else's at that time, and had not flushed, is lost: such a page is
/// again what came home last. **Each mapping is told once**: the first touch of such a page is served as one of a page
/// whose home is lost. Copies for loads that went with a process are no loss, and nobody waits for it longer than the
/// job's watchdog takes to notice. Where a home is lost, pages that are here stay and can be used, for nobody else can
/// get them; what is not here cannot be had: [`MappingOptions::on_loss`] is told, and the thread that touched it gets
/// SIGBUS (before Linux 6.6 SIGSEGV). [`StrictMapping::refresh`] has pages that were lost tried again.
pub struct StrictMapping {
    // In this order: nobody serves faults any more when the memory goes.
    handlers: Option<Handlers<Keeper>>,
    _registration: Registration,
    keeper: Arc<Keeper>,
    range: Range<FileOffset>,
}

/// What a strict mapping has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StrictStatistics {
    /// Faults that were served.
    pub faults: u64,
    /// Pages that came from their homes because somebody waited for them.
    pub fetched: u64,
    /// Pages that were fetched ahead.
    pub fetched_ahead: u64,
    /// Copies that were given up, or stored into no more, because others wanted the page.
    pub given_up: u64,
    /// Pages that went to make room.
    pub evicted: u64,
    /// Bytes that were found to have been stored, and brought home.
    pub brought_home: u64,
    /// Bytes of memory that pages and what they were take now.
    pub memory: u64,
}

/// A strict mapping in one process.
struct Keeper {
    file: Arc<File>,
    memory: Memory,
    twins: Arc<Twins>,
    number: MappingNumber,
    /// Held for changes of states and of page tables, and never while somebody else is waited for.
    pages: Mutex<Pages>,
    /// Pages have left states in which they are waited for.
    changed: Condvar,
    limit: usize,
    ahead: Ahead,
    telling: Telling,
    losses: Losses,
    /// The homes that have been asked for pages, and who does what they order.
    listeners: Mutex<BTreeMap<NodeIndex, JoinHandle<()>>>,
    is_stopping: AtomicBool,
    counters: Counters,
    own: Weak<Keeper>,
}

#[derive(Default)]
struct Counters {
    faults: AtomicU64,
    fetched: AtomicU64,
    ahead: AtomicU64,
    given_up: AtomicU64,
    evicted: AtomicU64,
    brought_home: AtomicU64,
}

impl StrictMapping {
    /// Maps `range` of a file, which was opened for reading and writing, and is made that long.
    ///
    /// # Errors
    /// As [`MappingOptions::map_strictly`].
    pub fn new(file: &Arc<File>, range: Range<FileOffset>) -> Result<StrictMapping> {
        MappingOptions::new().map_strictly(file, range)
    }

    pub(super) fn with(
        file: &Arc<File>,
        range: Range<FileOffset>,
        options: &MappingOptions,
    ) -> Result<StrictMapping> {
        let (may_read, may_write) = file.access();
        if !may_read || !may_write {
            let what = if may_read { "writing" } else { "reading" };
            return Err(Error::NotOpenedFor { name: file.name().into(), what });
        }
        let memory = reserving::reserve(file, &range, true)?;
        let failed = |e| Error::io(format!("mapping {}", file.name()), &file.directory(), e);
        let count = memory.pages().end - memory.pages().start;
        // Each page has one, and another one while they change.
        let twins = Twins::new(2 * count as usize, memory.page()).map_err(failed)?;
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only uniqueness counts.
        let number = MappingNumber(NUMBERS.fetch_add(1, Ordering::Relaxed));
        let page = memory.page() as u64;
        let limit = options.limit_in_pages(page, pages::RECORD, 0);
        let keeper = Arc::new_cyclic(|own| Keeper {
            file: Arc::clone(file),
            memory,
            twins,
            number,
            pages: Mutex::new(Pages::new(Streams::new((options.ahead / page).min(limit as u64 / 4)))),
            changed: Condvar::new(),
            limit,
            ahead: Ahead::default(),
            telling: Telling::default(),
            losses: options.losses_of(file.name()),
            listeners: Mutex::default(),
            is_stopping: AtomicBool::new(false),
            counters: Counters::default(),
            own: Weak::clone(own),
        });
        let registration = Registration::new(keeper.memory.start().as_ptr(), keeper.memory.bytes());
        let failed = |e| handlers::failed(file, e);
        let mut handlers = Handlers::start(&keeper, options.handlers).map_err(failed)?;
        let ahead = Arc::clone(&keeper);
        handlers.add("svmio-ahead", move || ahead.fetch_ahead()).map_err(failed)?;
        reserving::lengthen(file, &range)?;
        Ok(StrictMapping { handlers: Some(handlers), _registration: registration, keeper, range })
    }

    /// Where the first byte of the range is.
    pub fn as_ptr(&self) -> *const u8 {
        self.as_mut_ptr()
    }

    /// Likewise.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        let page = self.keeper.memory.page() as u64;
        self.keeper.memory.start().as_ptr().wrapping_add((self.range.start.0 % page) as usize)
    }

    /// How many bytes it has; never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        (self.range.end.0 - self.range.start.0) as usize
    }

    /// Which bytes of the file it is.
    pub fn range(&self) -> Range<FileOffset> {
        self.range.clone()
    }

    /// Brings what this process stored until now where the file's other faces look for it. Strict mappings need no such
    /// thing.
    ///
    /// # Errors
    /// [`Error::OnNode`], [`Error::Fabric`], [`Error::NoSpace`], …: what could not be brought home is kept. Not so what
    /// went home because another one wanted the page: where its home could not store it, or was lost, it is lost, which
    /// is told once.
    pub fn flush(&self) -> Result<()> {
        self.keeper.bring_home()?;
        self.keeper.mark_direct();
        self.keeper.file.flush()
    }

    /// Finds from now on what was written and flushed through the file's other faces: all pages are given up, and come
    /// anew when they are touched, also those that were lost.
    ///
    /// # Errors
    /// As [`StrictMapping::flush`] and [`File::refresh`].
    pub fn refresh(&self) -> Result<()> {
        self.keeper.file.refresh()?;
        self.keeper.leave_all()?;
        self.keeper.tell_gone_and_wait();
        self.keeper.cure()
    }

    /// Brings what this process stored until now to the storage devices of its homes, with the manifest, as
    /// [`File::commit_synced`] does.
    ///
    /// # Errors
    /// As [`StrictMapping::flush`] and [`File::commit_synced`].
    pub fn sync(&self) -> Result<()> {
        self.flush()?;
        self.keeper.file.sync_data()?;
        self.keeper.file.commit_synced()
    }

    /// What it has done so far.
    pub fn statistics(&self) -> StrictStatistics {
        let counters = &self.keeper.counters;
        // Relaxed: numbers of different moments.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StrictStatistics {
            faults: read(&counters.faults),
            fetched: read(&counters.fetched),
            fetched_ahead: read(&counters.ahead),
            given_up: read(&counters.given_up),
            evicted: read(&counters.evicted),
            brought_home: read(&counters.brought_home),
            memory: (self.keeper.pages().used() * self.keeper.memory.page()) as u64,
        }
    }

    /// Ends the mapping, after what was stored is at home. Other processes' strict mappings go on.
    ///
    /// # Errors
    /// As [`StrictMapping::flush`]; what could not be brought home is lost.
    pub fn unmap(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if self.handlers.is_none() {
            return Ok(());
        }
        let home = self.keeper.leave_all().and(self.flush());
        self.handlers = None;
        self.keeper.withdraw();
        home
    }
}

impl Drop for StrictMapping {
    fn drop(&mut self) {
        if let Err(e) = self.end() {
            tracing::error!("what was stored into a mapping of {} is lost: {e}", self.keeper.file.name());
        }
    }
}

impl std::fmt::Debug for StrictMapping {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut mapping = formatter.debug_struct("StrictMapping");
        mapping.field("file", &self.keeper.file.name()).field("range", &self.range).finish_non_exhaustive()
    }
}

impl ServesFaults for Keeper {
    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn serve(&self, fault: PageFault) {
        Keeper::serve(self, fault);
    }

    // Whoever reads them leaves all but one to others, which are woken at the same time.
    const TOGETHER: usize = 64;

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
        self.changed.notify_all();
        self.ahead.stop();
    }
}

impl Keeper {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        // A panic elsewhere leaves the records whole.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until something has changed, or for a while.
    fn wait<'p>(&'p self, pages: MutexGuard<'p, Pages>, at_most: Duration) -> MutexGuard<'p, Pages> {
        self.changed.wait_timeout(pages, at_most.min(LOOK_AGAIN)).unwrap_or_else(PoisonError::into_inner).0
    }

    fn count(counter: &AtomicU64, count: u64) {
        // Relaxed: a statistic.
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// The file as other nodes take part in it; `None` where there are none.
    fn shared(&self) -> Option<&Arc<SharedFile>> {
        self.file.shared().filter(|shared| shared.has_other_nodes())
    }

    fn failed(&self, what: &str, error: std::io::Error) -> Error {
        Error::io(format!("{what} of {}", self.file.name()), &self.file.directory(), error)
    }

    fn place(&self, page: u64) -> PagePlace {
        let (size, segment) = (self.memory.page() as u64, self.file.segment_size().bytes());
        let at = page * size;
        // The file's limit was checked when it was mapped.
        let index = u32::try_from(at / segment).unwrap_or(u32::MAX);
        PagePlace { segment: SegmentIndex(index), within: at % segment }
    }

    fn page_at(&self, place: PagePlace) -> Option<u64> {
        let (size, segment) = (self.memory.page() as u64, self.file.segment_size().bytes());
        let page = (u64::from(place.segment.0) * segment + place.within) / size;
        self.memory.pages().contains(&page).then_some(page)
    }

    /// The pages of a segment that are mapped.
    fn pages_of(&self, index: SegmentIndex) -> Range<u64> {
        let count = self.file.segment_size().bytes() / self.memory.page() as u64;
        let (start, all) = (u64::from(index.0) * count, self.memory.pages());
        start.max(all.start)..(start + count).min(all.end)
    }
}

#[cfg(test)]
mod tests;
