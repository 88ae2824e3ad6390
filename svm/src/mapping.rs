//! The file as memory: a range of a file, on whatever nodes its segments are, at addresses of this process.
//!
//! ```text
//!   Mapping ── Service ─┬─ Memory     addresses: what is in place, and whether a store is a fault
//!     │ │               ├─ Table      a record of each page that is not missing (page), of each segment, streams
//!     │ └ MappingLock   ├─ fault      serving faults                               ◄── Handlers: threads in epoll
//!     └ Region, guards  ├─ ahead      pages that nobody waits for yet   ◄── streams, advice, fetch
//!                       ├─ write_back what differs from the twins goes home        ◄── sync, flush, locks, room
//!                       ├─ refresh    what others have changed goes                ◄── refresh, locks, barriers
//!                       ├─ room       the limit: the oldest pages go
//!                       └─ places     where segments are; claiming them; those of this node in place
//! ```
//!
//! A segment whose home is this node is [mapped straight](self::Mapping) in its place, with its storage reserved:
//! loads and stores there are those of memory, and no fault is served. All other pages are memory of this process,
//! which is filled when it is touched: the kernel tells of the fault (`userfaultfd`), a thread fetches the page from
//! its home, past the node's page cache, and puts it in place, **protected**: the first store to it is another fault,
//! by which the page gets a **twin**, a copy of what it was (and so do some behind it, where it is not the first one in
//! a row that is stored into). What differs from the twin goes home, byte by byte, when it is time. So several nodes
//! that store into one page all win, as long as they store into different bytes of it.
//! (Twins and differences are those of TreadMarks: Keleher, Cox, Dwarkadas, Zwaenepoel, *TreadMarks: Distributed Shared
//! Memory on Standard Workstations and Operating Systems*, 1994, its multiple-writer protocol. Homes that are always up
//! to date, so that a fault costs one round trip, are those of Zhou, Iftode, Li, *Performance Evaluation of Two
//! Home-Based Lazy Release Consistency Protocols for Shared Virtual Memory Systems*, 1996.)
//!
//! # What one sees of the others
//!
//! There are three kinds of consistency, of which `docs/memory.md` tells when to take which.
//!
//! **Release consistency.** A process sees its own stores at once, by the mapping that it stores by: all that follows
//! is about one mapping of each process, and about a second one of the same bytes as about another process. What it
//! stored before it [released](MappingLock::release) a lock, another one sees that [locks](Mapping::lock) the range after that. What any
//! stored before a [barrier](Mapping::barrier), all see after it. [`Mapping::flush`] is the half of a barrier that
//! shows, [`Mapping::refresh`] the half that sees. Programs in which any two accesses to a byte, one of them a store,
//! have such a thing between them, find memory as if there were only one (Gharachorloo et al., *Memory Consistency and
//! Event Ordering in Scalable Shared-Memory Multiprocessors*, 1990). Of others' stores that are not
//! ordered so, each byte may be seen or not.
//!
//! **With the file's other faces** a mapping agrees by the rules of MPI-IO: what [`File::write_at`] wrote and
//! [`File::flush`] showed, on whatever node, a refresh sees; what a mapping has flushed, [`File::read_at`] sees after
//! [`File::refresh`], and on this node at once. [`Mapping::sync`] is what `MPI_File_sync` is for bytes that are
//! written: they are on the storage devices on return.
//!
//! A mapping that can be stored into makes the file as long as it reaches. One for reading has to end where the file
//! does or before. While any part of a file is mapped, nobody may make the file shorter: what is cut off may still be
//! seen, or read as zero, or be a signal.
//!
//! **Memory that has no file's name** is a file that was made [`temporary`](crate::OpenOptions::temporary), and removed
//! when all have opened it.
//!
//! **Entry consistency** costs less where a program's values are each guarded by one lock: what is [`Bound`] to a lock
//! is brought up to date when a guard of it is had, and sent when that is released, and nothing else is. No page is
//! fetched or searched for changes, and no load or store is a fault, for the values lie in memory of the guard.
//!
//! **Strict** consistency is for programs without annotations: a [`StrictMapping`] is sequentially consistent, for a
//! page has one writer at a time, or readers. It is a protocol of its own, and shares with the others the addresses,
//! the twins and the threads that serve faults.
//!
//! # States and races
//!
//! Those of strict mappings are theirs (`mapping/strict/pages.rs`); these are those of release consistency.
//!
//! The states of a page, and what leads from one to the other, are drawn in `mapping/page.rs`. One mutex guards all
//! records. **Whenever it is free, page tables and records agree**: a page that is Clean or WritingBack is in place and
//! protected, one that is Dirty in place and open, all others are not in place. So each change of page tables (putting
//! in place, protecting, opening, taking away) is made together with that of the record, under the mutex. It takes a
//! system call of a microsecond or two, and is a small part of what a fault costs. Nothing is waited for under it: no
//! message, no storage, and no lock but short ones of the mapping's own (advice, the queue of what is fetched ahead,
//! room for twins). What takes time is done by whoever has put the page into a state that says so
//! (Fetching, WritingBack), which makes it his.
//!
//! Of two things that meet at a page, either may come first:
//!
//! | | and | what holds |
//! |---|---|---|
//! | fault | fault | The first makes it Fetching. The second finds that, and its thread is woken when the page is put in place, which wakes all. |
//! | fault | prefetch | Likewise, either way round. A thread that waits for a page that is fetched ahead and does not come is woken, and faults again. |
//! | fault | evict | A fault that was told before its page was taken away or put in place is out of date: the handler finds a state that it does not fit, and wakes the thread, which looks again. |
//! | store | protect | The kernel ends protecting when no processor can store any more without a fault. A store came before, and is in the page when it is compared, or it faults. |
//! | store | write-back (sync, release) | The page is protected, compared, sent, and Clean when it has arrived. A store meanwhile faults and waits; then the page gets a twin of what was sent, and is opened. It is never sent twice at the same time, so that nothing older comes home over something newer. |
//! | store | evict | As for a write-back; a page that a store waits for stays. A Clean page is protected: a store comes before it is Dirty, or after it is missing. |
//! | store | refresh | A page that is stale and Dirty goes home first; then it goes, also if a store waits: its thread fetches it anew, with what others stored. |
//! | sync | sync, evict | Who finds a page WritingBack waits until it is not: what was stored before is in what the other sends. If that fails, it is Dirty again, and tried again. |
//! | fetch | refresh | What is asked for before a refresh may be older than it: the fetch is void, its bytes are not taken, and who waits for them faults again. |
//! | fetch | write-back | Never of one page: a page that is in place is not fetched. It is taken away when its bytes have arrived, so that who fetches it next finds them at home. |
//! | fetch | claim | A segment that nobody has written is zeros, without a message. It gets a home before the first store to it is let go on, so that it has no changed pages when it is mapped in place. Who waits for a page of it is woken and finds the segment. |
//!
//! Where a home has no space, or is lost, changed pages stay, and every [sync](Mapping::sync) tries again; only what
//! was stored under a lock is given up at its [release](MappingLock::release), with an error.
//!
//! **No handler waits for itself.** The threads that serve faults and fetch ahead touch pages only by way of the
//! record, where they are in place. They are not the agent, which answers other nodes whatever becomes of mappings.
//! Bytes that [`File::write_at`] and [`File::read_at`] move from or to mapped memory are copied once more, so that no
//! lock of the page cache, which handlers need, is held during a fault. Room is made by whoever needs it, before it
//! takes a page for its own.
//!
//! # Memory
//!
//! Pages that are fetched, with their twins, take at most [`MappingOptions::limit`]; what is mapped straight does not
//! count. When more is needed, those pages go that had no fault for longest: of other uses nothing is heard.
//!
//! # When a home is lost
//!
//! The job's watchdog notices, and what was asked of the node ends with an error. A thread that touches a page there
//! does not hang: [`MappingOptions::on_loss`] is told, which it waits for only so long, and then the page is poisoned:
//! the thread gets SIGBUS (before Linux 6.6 SIGSEGV), as for a file on a device that fails. A page that is lost is
//! tried again after the next [`Mapping::refresh`].
//!
//! # What to keep from
//!
//! * Memory of a mapping is not for `madvise`, `mprotect` and the like.
//! * A child that is forked does not have it: there a load or a store is SIGSEGV, wherever the segment is. Nor is such
//!   a child for other functions of this crate's, with its parent's files: it has none of the threads behind them.
//! * A signal handler must not touch a mapping: the thread that it interrupts may be in a call of the mapping's, and hold
//!   what serving the handler's fault takes. It would wait for itself.
//! * A transfer of the kernel's that is under way on its own (`O_DIRECT` with `io_uring`, a network card) into mapped
//!   memory must not be under way during a sync, a release or an eviction: it stores without a fault.

mod advice;
mod ahead;
mod attention;
mod bytes;
mod difference;
mod entry;
mod fault;
mod handlers;
mod lock;
mod losses;
mod memory;
mod options;
mod page;
mod places;
mod prepared;
mod refresh;
mod region;
mod registry;
mod reserving;
mod room;
mod service;
mod streams;
mod strict;
mod table;
mod together;
mod twins;
mod userfault;
mod wanted;
mod watch;
mod write_back;

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::file::File;
use crate::units::FileOffset;

pub use advice::Advice;
pub use entry::{Bound, ExclusiveGuard, SharedGuard};
pub use lock::{MappingLock, Meeting};
pub use losses::LostPage;
pub use options::MappingOptions;
pub use prepared::Prepared;
pub use region::{ReadGuard, Region, WriteGuard};
pub(crate) use registry::is_mapped;
pub use reserving::check;
pub use strict::{StrictMapping, StrictStatistics};
pub use wanted::Fetch;

use handlers::Handlers;
use registry::Registration;
use service::{Parts, Service};
use streams::Streams;
use table::Table;
use twins::Twins;
use write_back::After;

/// A range of a file as memory of this process.
///
/// ```
/// use std::sync::Arc;
/// use svmio_svm::{FileName, FileOffset, OpenOptions, Store, mapping::Mapping};
///
/// # let directory = tempfile::tempdir()?;
/// let store = Store::open(directory.path())?;
/// let file = store.open_file(&FileName::new("/array")?, &OpenOptions::read_write().create(true))?;
/// let mapping = Mapping::new(&Arc::new(file), FileOffset(0)..FileOffset(1 << 30))?;
/// // SAFETY: it lies in the mapping, and nobody else uses it.
/// unsafe { mapping.as_mut_ptr().add(1 << 29).write(7) };
/// mapping.sync(FileOffset(0)..FileOffset(1 << 30))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Mapping {
    // In this order: nobody serves faults any more when the memory goes.
    handlers: Option<Handlers<Service>>,
    _registration: Registration,
    service: Arc<Service>,
    range: Range<FileOffset>,
}

/// What a mapping has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MappingStatistics {
    /// Faults that were served.
    pub faults: u64,
    /// Pages that were fetched because somebody waited for them.
    pub fetched: u64,
    /// Pages that were fetched ahead.
    pub fetched_ahead: u64,
    /// Pages that went to make room.
    pub evicted: u64,
    /// Bytes that were found to differ from their twins, and sent home.
    pub merged_bytes: u64,
    /// Bytes of memory that pages and twins take now.
    pub memory: u64,
}

impl Mapping {
    /// Maps `range` of a file: for loads and stores where the file was opened for writing, otherwise for loads.
    ///
    /// # Errors
    /// As [`MappingOptions::map`].
    pub fn new(file: &Arc<File>, range: Range<FileOffset>) -> Result<Mapping> {
        MappingOptions::new().map(file, range)
    }

    /// The mapping, of a file that may not be as long.
    fn unlengthened(file: &Arc<File>, range: Range<FileOffset>, options: &MappingOptions) -> Result<Mapping> {
        let (may_read, may_write) = file.access();
        if !may_read {
            return Err(Error::NotOpenedFor { name: file.name().into(), what: "reading" });
        }
        let memory = reserving::reserve(file, &range, may_write)?;
        let (page, pages) = (memory.page() as u64, memory.pages().clone());
        let failed = |e| Error::io(format!("mapping {}", file.name()), &file.directory(), e);
        // Each page has one, and another one while they change.
        let twins = Twins::new(2 * (pages.end - pages.start) as usize, memory.page()).map_err(failed)?;
        let limit = options.limit_in_pages(page, table::RECORD, together::UNDER_WAY);
        let table = Table::new(Streams::new((options.ahead / page).min(limit as u64 / 4)));
        let (losses, file) = (options.losses_of(file.name()), Arc::clone(file));
        let service = Arc::new(Service::new(Parts { file, memory, twins, table, limit, losses }));
        let local = service.segments_of(&pages);
        let known: Vec<_> = service.file.attachment().homes().map(|(index, _)| index).collect();
        for index in known.into_iter().filter(|index| local.contains(&index.0)) {
            service.look_for(index)?;
        }
        let registration = Registration::new(service.memory.start().as_ptr(), service.memory.bytes());
        let failed = |e| handlers::failed(&service.file, e);
        let mut handlers = Handlers::start(&service, options.handlers).map_err(failed)?;
        let ahead = Arc::clone(&service);
        handlers.add("svmio-ahead", move || ahead.fetch_ahead()).map_err(failed)?;
        Ok(Mapping { handlers: Some(handlers), _registration: registration, service, range })
    }

    /// Where the first byte of the range is.
    pub fn as_ptr(&self) -> *const u8 {
        self.as_mut_ptr()
    }

    /// Likewise. Stores are for mappings of files that were opened for writing; others answer with SIGSEGV.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        let page = self.service.memory.page() as u64;
        let start: NonNull<u8> = self.service.memory.start();
        start.as_ptr().wrapping_add((self.range.start.0 % page) as usize)
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

    /// Whether it can be stored into.
    pub fn is_writable(&self) -> bool {
        self.service.memory.is_writable()
    }

    /// Brings what was stored until now where others look for it; they see it once they [refresh](Mapping::refresh).
    ///
    /// # Errors
    /// [`Error::OnNode`], [`Error::Fabric`], [`Error::NoSpace`], …: what could not be brought home is kept, to be tried
    /// again.
    pub fn flush(&self) -> Result<()> {
        self.flush_pages(&self.service.memory.pages().clone())
    }

    /// Sees from now on what others had flushed, through mappings or otherwise.
    ///
    /// # Errors
    /// As [`File::refresh`]; as [`Mapping::flush`], for pages in which both sides have stored.
    pub fn refresh(&self) -> Result<()> {
        self.service.file.refresh()?;
        self.service.refresh(&self.service.memory.pages().clone())
    }

    /// Brings what was stored into `range` until now to the storage devices of its homes, with the manifest, as
    /// [`File::commit_synced`] does. A call of one process is about that process's stores alone.
    ///
    /// # Errors
    /// As [`Mapping::flush`] and [`File::commit_synced`]; [`Error::BadRange`].
    pub fn sync(&self, range: Range<FileOffset>) -> Result<()> {
        self.flush_pages(&self.pages(&range)?)?;
        let file = &self.service.file;
        file.sync_data()?;
        file.commit_synced()
    }

    /// Says how `range` will be gone about.
    ///
    /// # Errors
    /// [`Error::BadRange`]; for [`Advice::DoNotNeed`] as [`Mapping::flush`].
    pub fn advise(&self, range: Range<FileOffset>, advice: Advice) -> Result<()> {
        let pages = self.pages(&range)?;
        match advice {
            Advice::Normal | Advice::Sequential | Advice::Random => {
                self.service.advices.give(&pages, advice);
                Ok(())
            }
            Advice::WillNeed => self.fetch(range).map(drop),
            Advice::DoNotNeed => self.service.leave(&pages),
        }
    }

    /// Has the pages of `range` fetched, from its beginning on, without waiting: at most half of the pages that the
    /// limit has room for.
    ///
    /// # Errors
    /// [`Error::BadRange`].
    pub fn fetch(&self, range: Range<FileOffset>) -> Result<Fetch> {
        let pages = self.pages(&range)?;
        let most = (self.service.limit / 2) as u64;
        Ok(self.service.ahead.want_all(pages.start..pages.end.min(pages.start + most)))
    }

    /// What it has done so far.
    pub fn statistics(&self) -> MappingStatistics {
        let counters = &self.service.counters;
        // Relaxed: numbers of different moments.
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        MappingStatistics {
            faults: read(&counters.faults),
            fetched: read(&counters.fetched),
            fetched_ahead: read(&counters.ahead),
            evicted: read(&counters.evicted),
            merged_bytes: read(&counters.merged),
            memory: (self.service.table().used() * self.service.memory.page()) as u64,
        }
    }

    /// Ends the mapping, after what was stored is where others look for it.
    ///
    /// # Errors
    /// As [`Mapping::flush`]; what could not be brought home is lost.
    pub fn unmap(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if self.handlers.is_none() {
            return Ok(());
        }
        let flushed = if self.is_writable() { self.flush() } else { Ok(()) };
        self.handlers = None;
        flushed
    }

    fn flush_pages(&self, pages: &Range<u64>) -> Result<()> {
        self.service.write_back(pages, After::Keep)?;
        self.service.mark_direct(pages);
        self.service.file.flush()
    }

    /// The pages that a part of the mapping touches.
    fn pages(&self, range: &Range<FileOffset>) -> Result<Range<u64>> {
        let (page, own) = (self.service.memory.page() as u64, &self.range);
        if range.start > range.end || range.start < own.start || range.end > own.end {
            let reason = format!("only bytes {} to {} are mapped", own.start, own.end);
            let (name, range) = (self.service.file.name().into(), range.clone());
            return Err(Error::BadRange { name, range, reason });
        }
        Ok(range.start.0 / page..range.end.0.div_ceil(page))
    }

    fn service(&self) -> &Service {
        &self.service
    }
}

/// The examples of the documentation are tried with the others.
#[cfg(doctest)]
#[doc = include_str!("../../docs/memory.md")]
struct Examples;

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Err(e) = self.end() {
            tracing::error!("what was stored into a mapping of {} is lost: {e}", self.service.file.name());
        }
    }
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut mapping = formatter.debug_struct("Mapping");
        mapping.field("file", &self.service.file.name()).field("range", &self.range).finish_non_exhaustive()
    }
}
