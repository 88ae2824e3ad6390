//! Copying bytes as fast as the processor can, wherever they lie.
//!
//! From some two KiB on, glibc copies by one instruction, `rep movsb`. On AMD's processors of family 25 (Zen 3 and 4)
//! that takes fifteen to twenty times as long where the destination lies 1 to 31 bytes further behind the beginning of
//! its page than the source does: 2 instead of 40 GB/s with glibc 2.36. That is the rule, not the exception: shared
//! memory begins with a page, and long blocks of `malloc` begin 16 bytes behind one. Such bytes are copied in pieces,
//! each too short for that instruction: as fast as any copy there, and a call for every 2 KiB more elsewhere.

/// Bytes of a page.
const PAGE: usize = 4096;

/// Bytes of a piece.
const PIECE: usize = 2048;

/// So far ahead, in bytes, a destination within its page is too near: a cache line.
const NEAR: usize = 64;

/// Copies `length` bytes from `from` to `to`.
///
/// # Safety
/// As for `std::ptr::copy_nonoverlapping`.
#[inline]
pub unsafe fn copy_bytes(from: *const u8, to: *mut u8, length: usize) {
    if length <= PIECE || !is_too_near(from, to) {
        // SAFETY: the caller's promise.
        return unsafe { std::ptr::copy_nonoverlapping(from, to, length) };
    }
    // SAFETY: the caller's promise.
    unsafe { copy_in_pieces(from, to, length) };
}

fn is_too_near(from: *const u8, to: *mut u8) -> bool {
    let ahead = to.addr().wrapping_sub(from.addr()) % PAGE;
    cfg!(target_arch = "x86_64") && (1..NEAR).contains(&ahead)
}

/// # Safety
/// As for `std::ptr::copy_nonoverlapping`.
unsafe fn copy_in_pieces(from: *const u8, to: *mut u8, length: usize) {
    for at in (0..length).step_by(PIECE) {
        // SAFETY: the caller's promise, for a part of the bytes.
        unsafe { std::ptr::copy_nonoverlapping(from.add(at), to.add(at), PIECE.min(length - at)) };
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use proptest::prelude::*;

    use super::{PAGE, copy_bytes};

    proptest! {
        #[test]
        fn what_arrives_is_what_was_there(
            length in prop_oneof![0..100usize, 2000..2100usize, 4000..10_000usize],
            // Behind the beginning of a page.
            from in 0..70usize,
            to in 0..70usize,
            seed: u8,
        ) {
            let value = |at: usize| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed;
            let source: Vec<u8> = (0..2 * PAGE + length).map(value).collect();
            let mut copied = vec![0xAA; 3 * PAGE + length];
            let (from, to) = (source.as_ptr().align_offset(PAGE) + from, copied.as_ptr().align_offset(PAGE) + to);
            let mut expected = copied.clone();
            expected[to..to + length].copy_from_slice(&source[from..from + length]);
            // SAFETY: both have `length` bytes from these positions on.
            unsafe { copy_bytes(source[from..].as_ptr(), copied[to..].as_mut_ptr(), length) };
            prop_assert!(copied == expected);
        }
    }
}
