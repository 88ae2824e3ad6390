//! Copying to and from shared memory.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::copying::copy_bytes;

/// From this length on, in bytes, a copy goes past the caches: it would push out of them all that is there, and of
/// itself only the end would still be there when somebody reads it. Measured on a machine with 32 MiB of last-level
/// cache: 47 to 27 GB/s in favour of the plain copy at 4 MiB, 25 to 11 the other way at 16 MiB.
const PAST_CACHES: usize = 8 << 20;

/// Copies, fast; in which order the bytes become visible is not said.
///
/// # Safety
/// As for `std::ptr::copy_nonoverlapping`.
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_part(from, to, length, length) };
}

/// Copies a part of a copy of `whole` bytes.
///
/// # Safety
/// As for `std::ptr::copy_nonoverlapping`.
#[inline]
pub(super) unsafe fn copy_part(from: *const u8, to: *mut u8, length: usize, whole: usize) {
    if whole >= PAST_CACHES {
        // SAFETY: the caller's promise.
        unsafe { copy_past_caches(from, to, length) };
    } else {
        // SAFETY: the caller's promise.
        unsafe { copy_bytes(from, to, length) };
    }
}

/// Copies with stores that go to memory line by line, without reading the lines first.
///
/// # Safety
/// As for `std::ptr::copy_nonoverlapping`.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_past_caches(from: *const u8, to: *mut u8, length: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    const LINE: usize = 64;
    let head = to.align_offset(LINE).min(length);
    let lines = (length - head) / LINE;
    let tail = head + lines * LINE;
    // SAFETY: head, lines and tail make up the range. The lines begin at multiples of 64, and these instructions
    // are part of every x86-64 processor. The fence orders these stores before all later ones, as plain stores are.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        for line in 0..lines {
            let at = head + line * LINE;
            let (from, to) = (from.add(at).cast::<__m128i>(), to.add(at).cast::<__m128i>());
            let parts = [0, 1, 2, 3].map(|part| _mm_loadu_si128(from.add(part)));
            for (part, bytes) in parts.into_iter().enumerate() {
                _mm_stream_si128(to.add(part), bytes);
            }
        }
        std::ptr::copy_nonoverlapping(from.add(tail), to.add(tail), length - tail);
        _mm_sfence();
    }
}

/// As a plain copy, where no better way is known.
///
/// # Safety
/// As for `std::ptr::copy_nonoverlapping`.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_past_caches(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_bytes(from, to, length) };
}

/// Stores `length` bytes such that the last aligned word of eight becomes visible after all others: whoever sees
/// it sees the rest.
///
/// # Safety
/// As for `std::ptr::copy_nonoverlapping`; `to` is shared memory, of which all eight-byte words that the range
/// touches may be accessed atomically.
#[inline]
pub(super) unsafe fn store(from: *const u8, to: *mut u8, length: usize) {
    let closing = closing_word(to as usize, length);
    // SAFETY: within the range, as the caller promises.
    unsafe { copy(from, to, closing) };
    if length - closing == 8 {
        // SAFETY: eight bytes within the ranges, aligned at the target by `closing_word`.
        unsafe {
            let word = from.add(closing).cast::<u64>().read_unaligned();
            // Release: after all that this thread stored before, this range and earlier ones.
            AtomicU64::from_ptr(to.add(closing).cast()).store(word, Ordering::Release);
        }
    } else {
        // A tail that is no whole word: no word that could close it, but it still comes last.
        std::sync::atomic::fence(Ordering::Release);
        // SAFETY: the rest of the range.
        unsafe { copy(from.add(closing), to.add(closing), length - closing) };
    }
}

/// Where, in a range of `length` bytes at address `to`, its last part begins: a whole aligned word where the range
/// ends with one, else what lies in the last word.
fn closing_word(to: usize, length: usize) -> usize {
    let end = to.wrapping_add(length);
    let tail = if end.is_multiple_of(8) { 8 } else { end % 8 };
    length.saturating_sub(tail)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_copy_past_the_caches_copies_all_bytes_and_no_others(
            bytes in prop::collection::vec(any::<u8>(), 0..500), offset in 0..80_usize,
        ) {
            let mut target = vec![0_u8; 600];
            // SAFETY: at most 500 bytes behind at most 80.
            unsafe { super::copy_past_caches(bytes.as_ptr(), target.as_mut_ptr().add(offset), bytes.len()) };
            let end = offset + bytes.len();
            prop_assert_eq!(&target[offset..end], &bytes[..]);
            prop_assert!(target[..offset].iter().chain(&target[end..]).all(|&byte| byte == 0));
        }

        #[test]
        fn all_bytes_are_stored_and_no_others(
            bytes in prop::collection::vec(any::<u8>(), 0..300), offset in 0..80_usize,
        ) {
            let mut target = vec![0_u64; 50];
            let target = target.as_mut_ptr().cast::<u8>();
            let end = offset + bytes.len();
            // SAFETY: 400 bytes are there, aligned for words.
            let target = unsafe {
                super::store(bytes.as_ptr(), target.add(offset), bytes.len());
                std::slice::from_raw_parts(target, 400)
            };
            prop_assert_eq!(&target[offset..end], &bytes[..]);
            prop_assert!(target[..offset].iter().chain(&target[end..]).all(|&byte| byte == 0));
        }
    }
}
