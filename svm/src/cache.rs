//! The page cache: pages of remote segments, shared by the processes of one node and job.
//!
//! It is a data structure in shared memory and nothing else: it never talks to a network. Whoever uses it
//! moves the bytes between it and the homes, in five dances that the cache keeps from treading on each other:
//!
//! * **read**: [`PageCache::read`]; where bytes are missing [`PageCache::begin_fetch`], have the home write into
//!   the frame, [`PageCache::finish_fetch`].
//! * **write**: [`PageCache::write`] keeps the bytes here, dirty. Nothing is fetched for that.
//! * **flush**: [`PageCache::begin_flush`] hands out the dirty bytes, they go home, [`PageCache::finish_flush`].
//! * **long write**: [`PageCache::announce_overwrite`], send the bytes home, [`PageCache::overwrite`].
//! * **scattered write**: flush the pages that it touches, send the bytes home, [`PageCache::expire`].
//!
//! The last two go past the cache, and are [noted](PageCache::begin_past) as long as they are under way.
//!
//! Where one has to wait, for another's fetch or flush, the answer carries a [`SetVersion`], and
//! [`PageCache::wait_for_change`] sleeps until something there has ended; then one tries again.
//!
//! # How it is made
//!
//! It is set-associative, as a processor's cache is. A page's key selects a **set** of up to 16 **frames**, and
//! its bytes can be in any of these. Each set has a mutex, held for all that is done to the set, copies of
//! page bytes included: a page of the default size takes some microseconds. Within a set the least recently used
//! frame is replaced, by the stamps that uses leave. A list over all frames would choose better by a little, but
//! every read would change it, all processes would queue for its lock, and whoever dies in between would
//! leave it half-linked: a stamp is one word.
//!
//! Of each byte of a frame is known whether it is **valid**, **dirty** (written here, not yet at its home)
//! or **flushing** (on its way home): two nodes that write different bytes of one page both win.
//! `byte_map` says how little that costs.
//!
//! # What always holds
//!
//! 1. At most one frame is a page ([`layout::FrameState::Page`]), and at most one more is being fetched, per key.
//! 2. Dirty bytes, and flushing ones, are valid. A frame that has any is not evicted.
//! 3. A fetch writes to a frame of its own. What it brings becomes the page, except where bytes are dirty or
//!    flushing. What happens meanwhile at the home may be newer than what the fetch brings: when a flush of the
//!    page ends, when the page is overwritten, or truncated, or dropped, the fetch becomes **void**, and is
//!    discarded when it ends.
//! 4. The memory of a frame is not used again while a fetch may still write to it: if nobody can tell any more
//!    (its process died), never.
//! 5. A set that has dirty frames has its bit set in the map of dirty sets.
//!
//! # Deaths
//!
//! A process may be killed between any two instructions. The kernel hands its mutex on; every change is made
//! in steps of one store each, in an order such that 1 to 4 hold between any two of them, and 5 is mended by
//! whoever gets the mutex. Only a change of bytes in a page that readers see takes longer than one store: where
//! it happens is noted before it begins, and if the note is still there, those bytes are not valid any more,
//! unless dirty: a write that did not return is torn, and all others are whole. What a reader finds clean was
//! never written here without getting home.
//!
//! Fetches and flushes name their process. Whoever would have to wait for one whose process is dead
//! puts its bytes back among the dirty ones, or its frame into quarantine. Of writes past the cache each process keeps
//! count, and what a dead one may have left too old is dropped by whoever next wants to see what is new (`past`).

mod access;
mod byte_map;
mod fetch;
mod flush;
mod invalidate;
mod layout;
mod locked;
mod memory;
mod page_set;
mod past;
mod quarantine;
mod settings;
#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;

use crate::attachment::PROCESSES;
use crate::error::{Error, Result};
use crate::presence::{Presence, ProcessSlot};
use crate::units::FileId;
use locked::LockedSet;
use memory::Memory;

pub(crate) use access::{Overwrite, ReadOutcome, WriteOutcome};
pub(crate) use fetch::{Fetch, FetchTicket, Fetched};
pub(crate) use flush::{Flush, FlushState};
pub(crate) use invalidate::Discarded;
pub(crate) use page_set::PageSet;
pub(crate) use past::WritePast;
pub(crate) use quarantine::warn_of_lost_frames;
pub use settings::{CacheSettings, InvalidCacheSettings};

/// How long a waiter sleeps at most: so long can it take until a death is noticed.
const LOOK_AFTER: Duration = Duration::from_millis(100);

/// The number of a page in its file: bytes `number * page size ..` of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PageNumber(pub(crate) u64);

/// Which page of which file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PageKey {
    pub(crate) file: FileId,
    pub(crate) page: PageNumber,
}

impl PageKey {
    fn file_words(&self) -> [u64; 2] {
        let bytes = u128::from_le_bytes(self.file.to_bytes());
        [bytes as u64, (bytes >> 64) as u64]
    }

    /// Which of so many sets the page belongs to; the same in all processes, whatever they were compiled with.
    ///
    /// As many pages in a row as there are sets have a set each, so that a range fills all sets to the same height.
    /// Each such row begins somewhere else, so that pages of regular distance, as columns of a matrix have, do not
    /// share a set more than others do.
    fn set_among(&self, sets: u32) -> u32 {
        // The finaliser of the generator SplitMix64: every bit of the input changes half of those of the output.
        let mix = |mut word: u64| {
            word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ word >> 31
        };
        let (row, place) = (self.page.0 / u64::from(sets), self.page.0 % u64::from(sets));
        let [low, high] = self.file_words();
        // Identities are random already.
        let start = mix(mix(row.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ low ^ high.rotate_left(32));
        // The high half of a product is spread as evenly as the hash, over any number of sets.
        let start = (u128::from(start) * u128::from(sets)) >> 64;
        ((start as u64 + place) % u64::from(sets)) as u32
    }
}

/// A moment in the life of a set, to be waited on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "what was asked for has not been done: wait for a change, and ask again"]
pub(crate) struct SetVersion {
    set: u32,
    changes: u32,
}

/// A process among all that ever had the cache open. Slots are taken again, this never is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    slot: ProcessSlot,
    /// How many had entered when it had.
    entered: u64,
}

impl Owner {
    /// Not a process.
    const NOBODY: Owner = Owner { slot: ProcessSlot(0), entered: 0 };

    fn pack(self) -> u64 {
        self.entered << 16 | u64::from(self.slot.0)
    }

    fn unpack(word: u64) -> Owner {
        Owner { slot: ProcessSlot(word as u16), entered: word >> 16 }
    }
}

/// What the cache has done since it was made, for all processes of the node together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Statistics {
    /// Reads that were answered from the cache, those that follow a fetch included.
    pub(crate) hits: u64,
    /// Fetches that were begun.
    pub(crate) misses: u64,
    /// Pages that were dropped to make room.
    pub(crate) evictions: u64,
    /// Flushes of a page that were finished.
    pub(crate) write_backs: u64,
}

/// One process's handle of the page cache of its node and job.
///
/// A forked child must not use the handle of its parent; it opens one of its own.
pub(crate) struct PageCache {
    memory: Memory,
    presence: Presence,
    own: Owner,
    /// The last dead process of whose frames this one has warned.
    warned_of: AtomicU64,
}

impl PageCache {
    /// Makes the cache. Others open it by what [`PageCache::whereabouts`] says; it lasts as long as any of
    /// them has it open.
    ///
    /// # Errors
    /// [`Error::Io`] where the settings are none that [`CacheSettings::check`] lets pass, or there is no memory.
    pub(crate) fn create(settings: &CacheSettings) -> Result<PageCache> {
        let failed = |source: io::Error| error("making the page cache", PathBuf::from("memfd"), source);
        settings.check().map_err(|e| failed(io::Error::new(io::ErrorKind::InvalidInput, e)))?;
        PageCache::enter(Memory::create(settings).map_err(failed)?)
    }

    /// Opens the cache that process `pid` of this node has at descriptor `fd`.
    ///
    /// # Errors
    /// [`Error::Io`] where there is none, or none of this version of svmio.
    pub(crate) fn open(pid: u32, fd: i32) -> Result<PageCache> {
        let path = PathBuf::from(format!("/proc/{pid}/fd/{fd}"));
        // An `open` makes an open file description of its own, to which the lock of `presence` belongs.
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let memory = file.and_then(Memory::open);
        PageCache::enter(memory.map_err(|source| error("opening the page cache", path, source))?)
    }

    fn enter(memory: Memory) -> Result<PageCache> {
        let failed = |source| error("entering the page cache", path_of(memory.file()), source);
        let file = memory.file().try_clone().map_err(failed)?;
        let presence = Presence::enter(file, PROCESSES).map_err(failed)?;
        let header = memory.header();
        // Relaxed: only uniqueness counts.
        let entered = header.entered.fetch_add(1, Relaxed) + 1;
        let own = Owner { slot: presence.slot(), entered };
        // Release, with the Acquire in `is_alive`. Until here, who looks takes the predecessor in the slot for
        // alive, and will look again.
        header.occupants[usize::from(own.slot.0)].store(entered, Release);
        let warned_of = AtomicU64::new(Owner::NOBODY.pack());
        let cache = PageCache { memory, presence, own, warned_of };
        cache.bury_writer(own.slot)?;
        cache.begin_counting();
        Ok(cache)
    }

    /// The file that is the cache, for exporting it whole: frames are named by their offset in it.
    pub(crate) fn file(&self) -> &Arc<File> {
        self.memory.file()
    }

    /// Bytes of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// Bytes of a page.
    pub(crate) fn page(&self) -> u32 {
        self.memory.page()
    }

    /// Bytes of all pages together.
    pub(crate) fn capacity(&self) -> u64 {
        let frames = u64::from(self.memory.sets()) * self.memory.ways() as u64;
        frames * u64::from(self.page())
    }

    /// Process and descriptor by which others can open the cache, as long as this handle lives.
    pub(crate) fn whereabouts(&self) -> (u32, i32) {
        (std::process::id(), self.file().as_raw_fd())
    }

    /// Sleeps until something has ended in the set since `seen`, for a tenth of a second at most: the caller
    /// tries again in any case, and finds out about deaths by that.
    ///
    /// # Errors
    /// [`Error::Io`] with what `futex` reports.
    pub(crate) fn wait_for_change(&self, seen: SetVersion) -> Result<()> {
        let word = &self.memory.set(seen.set).rest.changes;
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK_AFTER.subsec_nanos()) };
        match futex::wait(word, futex::Flags::empty(), seen.changes, Some(&timeout)) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => Ok(()),
            Err(errno) => Err(self.error("waiting for a page", errno.into())),
        }
    }

    /// What has been done. Numbers that change meanwhile are from different moments.
    pub(crate) fn statistics(&self) -> Statistics {
        let sets = (0..self.memory.sets()).map(|set| &self.memory.set(set).rest);
        sets.fold(Statistics::default(), |sum, set| Statistics {
            hits: sum.hits + set.hits.load(Relaxed),
            misses: sum.misses + set.misses.load(Relaxed),
            evictions: sum.evictions + set.evictions.load(Relaxed),
            write_backs: sum.write_backs + set.write_backs.load(Relaxed),
        })
    }

    /// Locks the set that a page belongs to.
    fn lock(&self, key: &PageKey) -> io::Result<LockedSet<'_>> {
        self.lock_set(self.set_of(key))
    }

    fn set_of(&self, key: &PageKey) -> u32 {
        key.set_among(self.memory.sets())
    }

    /// The sets that pages of a file belong to, each once.
    fn sets_of(&self, file: FileId, pages: &PageSet) -> impl Iterator<Item = u32> + use<> {
        let some = self.few_sets_of(file, pages, |_| true);
        let all = if some.is_some() { 0..0 } else { 0..self.memory.sets() };
        all.chain(some.into_iter().flatten())
    }

    /// Those of them that are `wanted`; `None` where there are so many pages that they may be in any.
    fn few_sets_of(&self, file: FileId, pages: &PageSet, wanted: impl Fn(&u32) -> bool) -> Option<Vec<u32>> {
        (pages.count() < u64::from(self.memory.sets())).then(|| {
            let sets = pages.pages().map(|page| self.set_of(&PageKey { file, page }));
            let mut sets: Vec<_> = sets.filter(wanted).collect();
            sets.sort_unstable();
            sets.dedup();
            sets
        })
    }

    fn lock_set(&self, set: u32) -> io::Result<LockedSet<'_>> {
        LockedSet::lock(self, set)
    }

    /// Whether a process still has the cache open.
    fn is_alive(&self, owner: Owner) -> io::Result<bool> {
        let occupant = self.memory.header().occupants.get(usize::from(owner.slot.0));
        // Acquire: with the Release in `enter`.
        let there =
            owner.entered != 0 && occupant.is_some_and(|occupant| occupant.load(Acquire) == owner.entered);
        Ok(there && self.presence.alive(owner.slot)?)
    }

    /// Panics where a range is none of bytes of a page: the caller has miscounted.
    #[track_caller]
    fn check(&self, within: &Range<u32>) {
        assert!(
            within.start < within.end && within.end <= self.page(),
            "bytes {within:?} of a page of {} bytes",
            self.page()
        );
    }

    /// As if this process had died: nothing is left to say so.
    #[cfg(test)]
    pub(crate) fn pretend_death(&self) {
        self.presence.leave().expect("the lock can be given up");
    }

    /// How many times this thread has locked a set, of whatever cache.
    #[cfg(test)]
    pub(crate) fn sets_locked() -> u64 {
        locked::LOCKED.get()
    }

    fn error(&self, subject: &str, source: io::Error) -> Error {
        error(subject, path_of(self.file()), source)
    }
}

fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}

/// Not by [`Error::io`], whose ways out are those of a store.
fn error(subject: &str, path: PathBuf, source: io::Error) -> Error {
    Error::Io { subject: subject.to_owned(), path, source }
}
