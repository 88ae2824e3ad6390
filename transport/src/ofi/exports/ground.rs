//! Exported memory, as peers reach it by messages.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::copying::copy_bytes;
use crate::memory::UserMemory;

/// Exported memory, to be written as peers ask. It is valid as long as it is in the table.
pub(super) struct Ground(pub(super) UserMemory);

impl Ground {
    /// Writes `bytes` to `offset`, the last word after all others. Returns whether they are all within.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        let Some(to) = self.span(offset, bytes.len()) else { return false };
        if bytes.is_empty() {
            return true;
        }
        let end = to as usize + bytes.len();
        let last =
            [8, 4].into_iter().find(|word| bytes.len() >= *word && end.is_multiple_of(*word)).unwrap_or(1);
        let (first, last) = bytes.split_at(bytes.len() - last);
        // SAFETY: `span` checked the range, which is valid as long as it is exported; the message's buffer is apart
        // from it. The last word is aligned as its size demands.
        unsafe {
            copy_bytes(first.as_ptr(), to, first.len());
            let at = to.add(first.len());
            // Release: whoever sees the last word sees the others.
            if let Ok(word) = last.try_into() {
                AtomicU64::from_ptr(at.cast()).store(u64::from_ne_bytes(word), Ordering::Release);
            } else if let Ok(word) = last.try_into() {
                AtomicU32::from_ptr(at.cast()).store(u32::from_ne_bytes(word), Ordering::Release);
            } else {
                AtomicU8::from_ptr(at).store(last[0], Ordering::Release);
            }
        }
        true
    }

    /// Copies the bytes from `offset` on. Returns whether they are all within.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        let Some(from) = self.span(offset, into.len()) else { return false };
        // SAFETY: as in `write`; `into` is exclusively the caller's.
        unsafe { copy_bytes(from, into.as_mut_ptr(), into.len()) };
        true
    }

    /// Where `length` bytes from `offset` on are, if they are all within.
    pub(super) fn span(&self, offset: u64, length: usize) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(length)?;
        // SAFETY: within the range.
        (end <= self.0.length).then(|| unsafe { self.0.start.as_ptr().add(offset) })
    }

    /// The word at `offset`, if it is within and aligned.
    pub(super) fn word(&self, offset: u64) -> Option<&AtomicU64> {
        let at = self.span(offset, 8)?;
        // SAFETY: within the range, which is valid as long as `self` is borrowed, and aligned.
        (at as usize).is_multiple_of(8).then(|| unsafe { AtomicU64::from_ptr(at.cast()) })
    }
}

#[cfg(test)]
mod tests {
    use super::Ground;
    use crate::memory::UserMemory;

    #[test]
    fn writes_land_where_they_belong_at_any_alignment() {
        for offset in 0..24 {
            for length in 0..24 {
                let mut memory = [0_u8; 64];
                let ground = Ground(UserMemory::of_mut(&mut memory));
                let bytes: Vec<u8> = (1..=length as u8).collect();
                assert!(ground.write(offset, &bytes));
                let mut read = vec![0; length];
                assert!(ground.read(offset, &mut read));
                assert_eq!(read, bytes);
                let mut expected = [0; 64];
                expected[offset as usize..offset as usize + length].copy_from_slice(&bytes);
                assert_eq!(memory, expected);
            }
        }
    }

    #[test]
    fn nothing_lands_outside() {
        let mut memory = [0_u64; 4];
        let start = std::ptr::NonNull::from(&mut memory).cast();
        let ground = Ground(UserMemory { start, length: 32 });
        assert!(!ground.write(31, &[1, 2]) && !ground.write(u64::MAX, &[1]) && ground.write(32, &[]));
        assert!(ground.word(24).is_some() && ground.word(25).is_none() && ground.word(28).is_none());
    }
}
