//! What lies in the shared memory beside the pages: the header, the sets, a record for each frame.
//!
//! All is made of atomic integers, so that any content is a value and damaged memory leads to an error or to
//! wrong bytes, not to undefined behaviour. A set's mutex gives the order of all accesses to the set, so that
//! the atomics can be relaxed. What remains is the order in which a process that is killed has done its
//! stores: that is the order of its instructions (a processor takes the interrupt between two of them), and
//! [`step`] keeps the compiler from changing it.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    compiler_fence,
};

use super::{PageKey, PageNumber};
use crate::attachment::PROCESSES;
use crate::robust_mutex::RobustMutex;
use crate::units::FileId;

/// The most frames of a set.
pub(super) const WAYS: usize = 16;

/// Changes a word; a process that is killed has done everything before this, or nothing after it.
#[inline]
pub(super) fn step(word: &AtomicU32, value: u32) {
    kill_point();
    compiler_fence(SeqCst);
    word.store(value, Relaxed);
    compiler_fence(SeqCst);
    kill_point();
}

/// As [`step`], for a word of 64 bits.
#[inline]
pub(super) fn step64(word: &AtomicU64, value: u64) {
    kill_point();
    compiler_fence(SeqCst);
    word.store(value, Relaxed);
    compiler_fence(SeqCst);
    kill_point();
}

/// A point at which a process may be killed; the tests try them all.
#[inline(always)]
pub(super) fn kill_point() {
    #[cfg(test)]
    crate::killing::point();
}

/// The beginning of the memory.
#[repr(C, align(64))]
pub(super) struct Header {
    magic: AtomicU64,
    version: AtomicU64,
    mutex_bytes: AtomicU64,
    pub(super) page: AtomicU64,
    pub(super) capacity: AtomicU64,
    /// How many processes have ever entered.
    pub(super) entered: AtomicU64,
    /// By the slot of a process: which of those that ever entered has it, or had it last.
    pub(super) occupants: [AtomicU64; PROCESSES as usize],
    /// At least how many writes past the cache are under way, those of the dead included; see [`super::past`].
    pub(super) writing: AtomicU64,
    /// By the slot of a process: which one it is (48 bits), and how many writes past the cache it has under way (16).
    pub(super) writers: [AtomicU64; PROCESSES as usize],
}

impl Header {
    const MAGIC: u64 = u64::from_le_bytes(*b"svmcache");
    /// To be raised with each change of the layout or of the rules for changing it.
    const VERSION: u64 = 3;
    /// The mutex is the C library's, and libraries differ.
    const MUTEX_BYTES: u64 = size_of::<libc::pthread_mutex_t>() as u64;

    pub(super) fn write_identity(&self) {
        self.version.store(Self::VERSION, Relaxed);
        self.mutex_bytes.store(Self::MUTEX_BYTES, Relaxed);
        // Release, with the Acquire below: who sees the magic sees the rest.
        self.magic.store(Self::MAGIC, Release);
    }

    pub(super) fn has_identity(&self) -> bool {
        self.magic.load(Acquire) == Self::MAGIC
            && self.version.load(Relaxed) == Self::VERSION
            && self.mutex_bytes.load(Relaxed) == Self::MUTEX_BYTES
    }
}

/// A set of frames. Zeros are its initial value but for the mutex.
#[repr(C)]
pub(super) struct SetRecord {
    pub(super) mutex: RobustMutex,
    pub(super) rest: SetState,
    pub(super) frames: [FrameRecord; WAYS],
}

/// What belongs to a set as a whole.
#[repr(C, align(64))]
pub(super) struct SetState {
    /// Changes whenever something ends that somebody may wait for; a futex.
    pub(super) changes: AtomicU32,
    /// Counts uses. Stamps, and the numbers of fetches and flushes, are taken from it. 0: never used.
    pub(super) clock: AtomicU64,
    /// Which bytes of which frame are being copied to, see [`Copying`].
    pub(super) copying: AtomicU64,
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) write_backs: AtomicU64,
}

/// What the record of a frame says about it.
#[repr(C, align(64))]
pub(super) struct FrameRecord {
    state: AtomicU32,
    /// Which of `changed` are the dirty bytes; the other ones are being written back.
    pub(super) dirty: AtomicU32,
    file: [AtomicU64; 2],
    page: AtomicU64,
    version: AtomicU64,
    pub(super) stamp: AtomicU64,
    pub(super) fetcher: AtomicU64,
    pub(super) fetch_number: AtomicU64,
    pub(super) flusher: AtomicU64,
    pub(super) flush_number: AtomicU64,
    /// Spans, see [`super::byte_map`].
    pub(super) valid: AtomicU64,
    pub(super) changed: [AtomicU64; 2],
    pub(super) page_reserved: AtomicU32,
    pub(super) bits_reserved: AtomicU32,
}

const _: () = assert!(size_of::<SetState>() == 64 && size_of::<FrameRecord>() == 128);

/// What a frame is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum FrameState {
    /// Nothing.
    Free = 0,
    /// It is its page.
    Page = 1,
    /// A fetch writes to it; its page may be in another frame, too.
    Fetching = 2,
    /// A fetch writes to it, but what it brings is too old.
    Void = 3,
    /// Somebody may still write to it, and nobody will say when that has ended.
    Quarantined = 4,
}

/// No version: versions count from 0 and do not get there.
const NO_VERSION: u64 = u64::MAX;

impl FrameRecord {
    pub(super) fn state(&self) -> FrameState {
        let value = self.state.load(Relaxed);
        let all = [FrameState::Free, FrameState::Page, FrameState::Fetching, FrameState::Void];
        // What is no state is not touched.
        all.into_iter().find(|state| *state as u32 == value).unwrap_or(FrameState::Quarantined)
    }

    pub(super) fn set_state(&self, state: FrameState) {
        step(&self.state, state as u32);
    }

    pub(super) fn key(&self) -> PageKey {
        let mut file = [0; 16];
        file[..8].copy_from_slice(&self.file[0].load(Relaxed).to_le_bytes());
        file[8..].copy_from_slice(&self.file[1].load(Relaxed).to_le_bytes());
        PageKey { file: FileId::from_bytes(file), page: PageNumber(self.page.load(Relaxed)) }
    }

    /// Only of a frame that is free.
    pub(super) fn set_key(&self, key: &PageKey) {
        let [low, high] = key.file_words();
        self.file[0].store(low, Relaxed);
        self.file[1].store(high, Relaxed);
        self.page.store(key.page.0, Relaxed);
    }

    /// As `self.key() == key`, quicker.
    pub(super) fn has_key(&self, key: &PageKey) -> bool {
        let [low, high] = key.file_words();
        self.page.load(Relaxed) == key.page.0
            && self.file[0].load(Relaxed) == low
            && self.file[1].load(Relaxed) == high
    }

    pub(super) fn version(&self) -> Option<u64> {
        Some(self.version.load(Relaxed)).filter(|version| *version != NO_VERSION)
    }

    pub(super) fn set_version(&self, version: Option<u64>) {
        step64(&self.version, version.unwrap_or(NO_VERSION));
    }
}

/// The note of a process that copies bytes into a frame which is a page already. Should it be killed over
/// that, the bytes are neither the old ones nor the new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Copying {
    pub(super) way: usize,
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Copying {
    /// Bits of a position in a page, which is at most 16 MiB (2^24 bytes).
    const BITS: u32 = 25;

    /// Never 0, which stands for no copying.
    pub(super) fn pack(self) -> u64 {
        u64::from(self.start) | u64::from(self.end) << Self::BITS | (self.way as u64 + 1) << (2 * Self::BITS)
    }

    pub(super) fn unpack(word: u64) -> Option<Copying> {
        let position = |word: u64| word as u32 & ((1 << Self::BITS) - 1);
        let way = ((word >> (2 * Self::BITS)) as usize).checked_sub(1)?;
        Some(Copying { way, start: position(word), end: position(word >> Self::BITS) })
    }
}
