//! Memory that other processes write into.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::copying::{copy_bytes, copy_part};
use crate::error::{Error, Result};

/// A range of memory that others may change at any time: an exported segment, or a mapped remote one.
///
/// It is read and written by copying; a program that needs to know that what it copies is complete waits for a
/// flag first. Clones are the same memory.
#[derive(Clone)]
pub struct SharedMemory {
    start: NonNull<u8>,
    length: usize,
    // Unmaps or frees the range when the last clone goes.
    _keep: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the range stays valid as long as `_keep`, which is Send and Sync; all accesses through a shared reference
// are copies or atomics on memory that is declared to change.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// The `length` bytes from `start`, which stay as long as `keep` is held.
    ///
    /// # Safety
    /// The range must be valid for reads and writes until `keep` is dropped, `start` be a multiple of 8, and no
    /// Rust reference to its bytes exist meanwhile.
    #[must_use]
    pub unsafe fn new(start: NonNull<u8>, length: usize, keep: Arc<dyn Any + Send + Sync>) -> Self {
        Self { start, length, _keep: keep }
    }

    /// How many bytes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The first byte. Whoever uses the pointer keeps within [`len`](Self::len) and keeps this value alive.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Copies the bytes from `offset` on into `into`.
    ///
    /// # Errors
    /// Where they are not all within the range.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let from = self.span(offset, into.len())?;
        // SAFETY: `span` checked the range; `into` is exclusively ours, so they cannot overlap. Bytes that change
        // meanwhile give an unspecified mix, which the caller's protocol excludes or detects.
        unsafe { copy_bytes(from, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// The same for a part of `whole` bytes that come together: many of them go past the caches.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_part(&self, offset: u64, into: &mut [u8], whole: usize) -> Result<()> {
        let from = self.span(offset, into.len())?;
        // SAFETY: as above.
        unsafe { copy_part(from, into.as_mut_ptr(), into.len(), whole) };
        Ok(())
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Errors
    /// Where they would not all be within the range.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let to = self.span(offset, bytes.len())?;
        // SAFETY: `span` checked the range; no Rust reference to it exists, as `new` demands.
        unsafe { copy_bytes(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    /// The four bytes at `offset` as an atomic word.
    ///
    /// # Errors
    /// Where they are not within the range, or not at a multiple of 4.
    pub fn word32(&self, offset: u64) -> Result<&AtomicU32> {
        let at = self.span(offset, 4)?;
        if !offset.is_multiple_of(4) {
            return Err(Error::Misaligned { offset });
        }
        // SAFETY: within the range, aligned (`new` demands an aligned start), and valid as long as `self`.
        Ok(unsafe { AtomicU32::from_ptr(at.cast()) })
    }

    /// The eight bytes at `offset` as an atomic word.
    ///
    /// # Errors
    /// Where they are not within the range, or not at a multiple of 8.
    pub fn word64(&self, offset: u64) -> Result<&AtomicU64> {
        let at = self.span(offset, 8)?;
        if !offset.is_multiple_of(8) {
            return Err(Error::Misaligned { offset });
        }
        // SAFETY: as in `word32`.
        Ok(unsafe { AtomicU64::from_ptr(at.cast()) })
    }

    /// Where `length` bytes from `offset` are.
    ///
    /// # Errors
    /// Where they are not all within the range.
    pub fn span(&self, offset: u64, length: usize) -> Result<*mut u8> {
        let fits = usize::try_from(offset)
            .is_ok_and(|offset| offset.checked_add(length).is_some_and(|end| end <= self.length));
        if !fits {
            return Err(Error::OutOfBounds {
                what: "the segment".into(),
                offset,
                length: length as u64,
                size: self.length as u64,
            });
        }
        // SAFETY: just checked to be within the range.
        Ok(unsafe { self.start.as_ptr().add(offset as usize) })
    }
}

impl std::fmt::Debug for SharedMemory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SharedMemory").field("length", &self.length).finish_non_exhaustive()
    }
}

/// A range of the user's memory, by address; whoever passes it on answers for its being valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserMemory {
    /// The first byte.
    pub start: NonNull<u8>,
    /// Bytes.
    pub length: usize,
}

// SAFETY: an address is only a number; each use of it is unsafe and has its own promise.
unsafe impl Send for UserMemory {}
// SAFETY: as above.
unsafe impl Sync for UserMemory {}

impl UserMemory {
    /// The range of `bytes`, only to be read.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self { start: NonNull::from(bytes).cast(), length: bytes.len() }
    }

    /// The range of `bytes`.
    #[must_use]
    pub fn of_mut(bytes: &mut [u8]) -> Self {
        let length = bytes.len();
        Self { start: NonNull::from(bytes).cast(), length }
    }

    /// `length` bytes of this range from `offset` on; both are cut to what there is.
    #[must_use]
    pub fn part(self, offset: usize, length: usize) -> Self {
        let offset = offset.min(self.length);
        // SAFETY: not beyond the end of the range.
        Self { start: unsafe { self.start.add(offset) }, length: length.min(self.length - offset) }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use proptest::prelude::*;

    use super::{SharedMemory, UserMemory};
    use crate::Error;

    fn shared(words: usize) -> SharedMemory {
        let mut keep = vec![0_u64; words].into_boxed_slice();
        let start = NonNull::new(keep.as_mut_ptr().cast()).unwrap();
        // SAFETY: the box is moved into `keep` as a pointer, stays where it is, and is not used otherwise.
        unsafe { SharedMemory::new(start, words * 8, Arc::new(keep)) }
    }

    proptest! {
        #[test]
        fn accesses_are_within_the_range_or_refused(offset in 0_u64..200, length in 0_usize..200) {
            let memory = shared(16);
            let bytes = vec![7; length];
            let fits = offset + length as u64 <= 128;
            prop_assert_eq!(memory.write(offset, &bytes).is_ok(), fits);
            let mut back = vec![0; length];
            prop_assert_eq!(memory.read(offset, &mut back).is_ok(), fits);
            prop_assert_eq!(back == bytes, fits || length == 0);
        }

        #[test]
        fn a_part_never_leaves_the_range(offset in 0_usize..40, length in 0_usize..40) {
            let bytes = [0; 20];
            let whole = UserMemory::of(&bytes);
            let part = whole.part(offset, length);
            let begin = part.start.as_ptr() as usize - whole.start.as_ptr() as usize;
            prop_assert!(begin + part.length <= 20);
            prop_assert_eq!(part.length, length.min(20_usize.saturating_sub(offset)));
        }
    }

    #[test]
    fn words_lie_at_multiples_of_their_size() {
        let memory = shared(2);
        memory.write(8, &5_u32.to_ne_bytes()).unwrap();
        assert_eq!(memory.word32(8).unwrap().load(Ordering::Relaxed), 5);
        assert!(matches!(memory.word64(4), Err(Error::Misaligned { offset: 4 })));
        assert!(matches!(memory.word64(16), Err(Error::OutOfBounds { .. })));
        assert!(matches!(memory.word32(u64::MAX), Err(Error::OutOfBounds { .. })));
    }
}
