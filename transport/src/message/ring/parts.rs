//! The parts of a ring that is reached by plain stores and loads: what makes a part visible, and when.

use std::sync::atomic::Ordering;

use super::super::atomic::Atomic;

/// Where the parts lie. Numbers count from 0 and wrap; a number's slot is its place in the ring.
pub(in super::super) trait Slots {
    /// What closes a part.
    type Word: Atomic;

    /// The word that closes a part.
    fn closing_word(&self, number: u32) -> &Self::Word;

    /// Copies the payload of a part, of which `length` bytes are used, into `into`, or as much of it as fits.
    fn copy_out(&self, number: u32, length: usize, into: &mut [u8]);

    /// Puts a payload, no longer than a part holds.
    fn put(&self, number: u32, payload: &[u8]);
}

/// A ring's parts.
#[derive(Debug, Clone)]
pub(in super::super) struct Parts<S>(S);

impl<S: Slots> Parts<S> {
    pub(super) fn new(slots: S) -> Self {
        Self(slots)
    }

    /// The closing word of a part. Whoever finds it new may read the payload.
    #[inline]
    pub(super) fn closing(&self, number: u32) -> u64 {
        // Acquire: pairs with the Release in `write`.
        self.0.closing_word(number).load(Ordering::Acquire)
    }

    /// Copies the payload of a part, of which `length` bytes are used, into `into`, or as much of it as fits.
    #[inline]
    pub(super) fn copy_out(&self, number: u32, length: usize, into: &mut [u8]) {
        self.0.copy_out(number, length, into);
    }

    /// Writes a part: a payload no longer than it holds, and the word that closes it.
    #[inline]
    pub(super) fn write(&self, number: u32, payload: &[u8], closing: u64) {
        self.0.put(number, payload);
        // Release: the payload is visible to whoever sees the part closed.
        self.0.closing_word(number).store(closing, Ordering::Release);
    }
}
