//! Copying to and from shared memory.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::copying::copy_part;

/// Copies, fast; in which order the bytes become visible is not said.
///
/// # Safety
/// As for `std::ptr::copy_nonoverlapping`.
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_part(from, to, length, length) };
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
