//! A segment's version in memory, as one node sees it: the home tells it, and who reads the segment by himself takes
//! it.
//!
//! A word never shrinks. It is stored after the bytes that it counts, and taken before bytes are read. So these are at
//! least as new as it: who remembers it with them takes them for older than they are, if anything, and fetches them
//! again.

use std::sync::atomic::{AtomicU64, Ordering};

use svmio_transport::{Result, SharedMemory};

/// Memory in which versions are.
pub(super) trait Words {
    /// What a version is in there.
    type Word: Word;

    /// The word at a position, bytes.
    ///
    /// # Errors
    /// Where there is none.
    fn word(&self, at: u64) -> Result<&Self::Word>;
}

/// Eight bytes that are stored and taken at once.
pub(super) trait Word {
    fn store(&self, value: u64, order: Ordering);
    fn load(&self, order: Ordering) -> u64;
}

/// Tells a version that counts bytes which are there.
///
/// # Errors
/// Where there is no such word.
pub(super) fn tell(words: &impl Words, at: u64, version: u64) -> Result<()> {
    // Release: who takes it with Acquire and reads bytes then, finds those that it counts.
    words.word(at)?.store(version, Ordering::Release);
    Ok(())
}

/// The version at least as new as which bytes are that are read from now on.
///
/// # Errors
/// Where there is no such word.
pub(super) fn take(words: &impl Words, at: u64) -> Result<u64> {
    // Acquire: no byte is read before it; with the Release of `tell`. A system call that reads a file comes after it
    // like any other access.
    Ok(words.word(at)?.load(Ordering::Acquire))
}

impl Words for SharedMemory {
    type Word = AtomicU64;

    fn word(&self, at: u64) -> Result<&AtomicU64> {
        self.word64(at)
    }
}

impl Word for AtomicU64 {
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }

    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }
}
