//! Copying bytes as fast as the processor can, wherever they lie.
//!
//! From some two KiB on, glibc copies by one instruction, `rep movsb`. On AMD's processors of family 25 (Zen 3 and 4)
//! that takes fifteen to twenty times as long where the destination lies 1 to 31 bytes further behind the beginning of
//! its page than the source does: 2 instead of 40 GB/s with glibc 2.36. That is the rule, not the exception: shared
//! memory begins with a page, and long blocks of `malloc` begin 16 bytes behind one. Such bytes are copied in pieces,
//! each too short for that instruction: as fast as any copy there, and a call for every 2 KiB more elsewhere.

use std::marker::PhantomData;

/// Bytes of a page.
const PAGE: usize = 4096;

/// Bytes of a piece.
const PIECE: usize = 2048;

/// So far ahead, in bytes, a destination within its page is too near: a cache line.
const NEAR: usize = 64;

/// From this length on, in bytes, a copy goes past the caches: it would push out of them all that is there, and of
/// itself only the end would still be there when somebody reads it. Measured on a machine with 32 MiB of last-level
/// cache: 47 to 27 GB/s in favour of the plain copy at 4 MiB, 25 to 11 the other way at 16 MiB.
pub const PAST_CACHES: usize = 8 << 20;

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

/// Copies `length` of `whole` bytes that are copied one part after the other, all of them to places that belong
/// together.
///
/// # Safety
/// As for `std::ptr::copy_nonoverlapping`.
#[inline]
pub unsafe fn copy_part(from: *const u8, to: *mut u8, length: usize, whole: usize) {
    if whole >= PAST_CACHES {
        // SAFETY: the caller's promise.
        unsafe { copy_past_caches(from, to, length) };
    } else {
        // SAFETY: the caller's promise.
        unsafe { copy_bytes(from, to, length) };
    }
}

/// Copies `length` bytes from `from` to `to` by [`StreamingStores`]. What this thread stores afterwards is visible to
/// nobody before them.
///
/// # Safety
/// As for `std::ptr::copy_nonoverlapping`.
pub unsafe fn copy_past_caches(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller's promise, for a single block, which is in order when this returns.
    unsafe { StreamingStores::default().copy_blocks((to, 0), (from, 0), length, 1) };
}

/// Copies by stores that gather a line and send it to memory, at up to twice the rate of a plain copy, which first
/// fetches each line that it is going to overwrite, and throws out of the caches what was of use there. What has been
/// copied so is not in the caches. Without AVX, plain copies.
///
/// Such stores keep no order with others, and waiting until they are done takes as long as storing a KiB: that is done
/// once for many blocks, by [`StreamingStores::order`] or at the latest when this is dropped.
#[derive(Debug, Default)]
pub struct StreamingStores {
    are_on_their_way: bool,
    /// They are ordered by the thread that has stored.
    of_this_thread: PhantomData<*const u8>,
}

impl StreamingStores {
    /// Copies `count` blocks of `length` bytes, which are `from_stride` bytes from each other, to places that are
    /// `to_stride` bytes from each other.
    ///
    /// # Safety
    /// All blocks at `from` are valid for reads, all at `to` for writes, and no block at `from` overlaps one at `to`. What
    /// lies at `to` is neither read nor written, by this thread either, before it is in [order](Self::order); of memory
    /// that other processes share, a protocol among them says so.
    pub unsafe fn copy_blocks(
        &mut self,
        (to, to_stride): (*mut u8, isize),
        (from, from_stride): (*const u8, isize),
        length: usize,
        count: usize,
    ) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx") {
            self.are_on_their_way = true;
            // SAFETY: the caller's promise; the processor can do it.
            return unsafe { avx::copy_blocks((to, to_stride), (from, from_stride), length, count) };
        }
        for number in 0..count as isize {
            let to = to.wrapping_offset(to_stride.wrapping_mul(number));
            let from = from.wrapping_offset(from_stride.wrapping_mul(number));
            // SAFETY: the caller vouches for each block.
            unsafe { copy_bytes(from, to, length) };
        }
    }

    /// What this thread stores afterwards is visible to nobody before what has been copied.
    pub fn order(&mut self) {
        #[cfg(target_arch = "x86_64")]
        if std::mem::take(&mut self.are_on_their_way) {
            // SAFETY: every x86-64 processor has SSE.
            unsafe { std::arch::x86_64::_mm_sfence() };
        }
    }
}

impl Drop for StreamingStores {
    fn drop(&mut self) {
        self.order();
    }
}

#[cfg(target_arch = "x86_64")]
mod avx {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_stream_si256};

    const LINE: usize = 64;
    const VECTORS: usize = LINE / size_of::<__m256i>();

    /// # Safety
    /// As [`super::StreamingStores::copy_blocks`]; the processor has AVX.
    #[target_feature(enable = "avx")]
    pub(super) unsafe fn copy_blocks(
        (to, to_stride): (*mut u8, isize),
        (from, from_stride): (*const u8, isize),
        length: usize,
        count: usize,
    ) {
        for number in 0..count as isize {
            let to = to.wrapping_offset(to_stride.wrapping_mul(number));
            let from = from.wrapping_offset(from_stride.wrapping_mul(number));
            // SAFETY: the caller vouches for each block.
            unsafe { copy(from, to, length) };
        }
    }

    /// # Safety
    /// As for `std::ptr::copy_nonoverlapping`; the processor has AVX.
    #[target_feature(enable = "avx")]
    unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
        let head = to.align_offset(LINE).min(length);
        let tail = head + (length - head) / LINE * LINE;
        // SAFETY: head, lines and tail lie one after the other and are `length` bytes together, for which the caller
        // vouches; the lines' destinations are aligned, as such stores want it.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, head);
            for at in (head..tail).step_by(LINE) {
                let source = from.add(at).cast::<__m256i>();
                let vectors: [__m256i; VECTORS] = std::array::from_fn(|n| _mm256_loadu_si256(source.add(n)));
                let destination = to.add(at).cast::<__m256i>();
                for (n, vector) in vectors.into_iter().enumerate() {
                    _mm256_stream_si256(destination.add(n), vector);
                }
            }
            std::ptr::copy_nonoverlapping(from.add(tail), to.add(tail), length - tail);
        }
    }
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

    use super::{PAGE, StreamingStores, copy_bytes};

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

        #[test]
        fn copies_past_the_caches_copy_all_bytes_and_no_others(
            lengths in (0..500_usize, 0..80_usize, 0..80_usize),
            count in 0..5_usize,
            offset in 0..80_usize,
            backwards: bool,
            seed: u8,
        ) {
            let (length, to_gap, from_gap) = lengths;
            let (to_step, from_step) = (length + to_gap, length + from_gap);
            let source: Vec<u8> = (0..from_step * count).map(|at| (at % 251) as u8 ^ seed).collect();
            let mut target = vec![0xAA_u8; offset + to_step * count];
            let mut expected = target.clone();
            for number in 0..count {
                let place = if backwards { count - 1 - number } else { number };
                let block = &source[number * from_step..][..length];
                expected[offset + place * to_step..][..length].copy_from_slice(block);
            }
            let mut stores = StreamingStores::default();
            // SAFETY: both vectors have as many blocks of their steps.
            unsafe {
                let to = (target.as_mut_ptr().add(offset), to_step as isize);
                let last = to.0.wrapping_add(to_step * count.saturating_sub(1));
                let to = if backwards { (last, -to.1) } else { to };
                stores.copy_blocks(to, (source.as_ptr(), from_step as isize), length, count);
            }
            stores.order();
            prop_assert_eq!(target, expected);
        }
    }
}
