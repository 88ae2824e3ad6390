//! The slots of a ring that lies in this process's address space.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use super::super::wire::CLOSING;
use super::parts::Slots;
use crate::error::Result;
use crate::memory::SharedMemory;

/// A ring's bytes, by slot.
#[derive(Debug, Clone)]
pub(in super::super) struct Mapped {
    start: NonNull<u8>,
    part: usize,
    /// The number of parts, a power of two, less one: whatever is asked for is brought into the ring by it.
    mask: u32,
    _memory: SharedMemory,
}

// SAFETY: it is shared memory with its bounds checked once; `SharedMemory` itself can be sent and shared.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// `count` parts of `part` bytes from `base` on. `count` is a power of two, `part` a multiple of 16.
    ///
    /// # Errors
    /// Where they are not within the memory, or `base` is no multiple of 8.
    pub(super) fn new(memory: &SharedMemory, base: u64, part: u32, count: u32) -> Result<Self> {
        let length = part as usize * count as usize;
        memory.word64(base)?;
        let start = memory.span(base, length)?;
        // A span is never null.
        let start = NonNull::new(start).unwrap_or(NonNull::dangling());
        Ok(Self { start, part: part as usize, mask: count - 1, _memory: memory.clone() })
    }

    #[inline]
    fn payload(&self, number: u32, length: usize) -> *mut u8 {
        let end = ((number & self.mask) as usize + 1) * self.part - CLOSING;
        let start = end - length.min(self.part - CLOSING);
        // SAFETY: within the part, as for the closing word.
        unsafe { self.start.as_ptr().add(start) }
    }
}

impl Slots for Mapped {
    type Word = AtomicU64;

    #[inline]
    fn closing_word(&self, number: u32) -> &AtomicU64 {
        let offset = ((number & self.mask) as usize + 1) * self.part - CLOSING;
        // SAFETY: the mask keeps it within the range that `new` checked, which `_memory` keeps; `new` checked that the
        // beginning is aligned, and parts are multiples of 16.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    #[inline]
    fn copy_out(&self, number: u32, length: usize, into: &mut [u8]) {
        let count = into.len().min(length).min(self.part - CLOSING);
        // SAFETY: `payload` gives `length` bytes, or as many as a part holds, and `into` is exclusively ours. The
        // writer leaves the part alone until it is given back; one that does not only spoils what it sent.
        unsafe { copy_small(self.payload(number, length), into.as_mut_ptr(), count) };
    }

    #[inline]
    fn put(&self, number: u32, payload: &[u8]) {
        let count = payload.len().min(self.part - CLOSING);
        // SAFETY: `payload` gives that many bytes of memory to which no Rust reference exists.
        unsafe { copy_small(payload.as_ptr(), self.payload(number, count), count) };
    }
}

/// A copy of few bytes, most often eight, or as many as a part of a cache line holds.
///
/// # Safety
/// As for `std::ptr::copy_nonoverlapping`.
#[inline]
unsafe fn copy_small(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller's promise, for a piece that is within `length`.
    let piece = |at: usize, count: usize| unsafe {
        std::ptr::copy_nonoverlapping(from.add(at), to.add(at), count);
    };
    // Lengths that are known become loads and stores without a call; pieces may overlap.
    match length {
        8 => piece(0, 8),
        9..=16 => {
            piece(0, 8);
            piece(length - 8, 8);
        }
        17..=32 => {
            piece(0, 16);
            piece(length - 16, 16);
        }
        33..=64 => {
            piece(0, 16);
            piece(16, 16);
            piece(length - 32, 16);
            piece(length - 16, 16);
        }
        _ => piece(0, length),
    }
}
