//! Copies of blocks that do not fit into the caches anyway.
//!
//! An ordinary copy first fetches every cache line that it is going to overwrite, and throws out of the caches
//! what was of use there. Non-temporal stores do neither: they gather a line and send it to memory, at up to
//! twice the bandwidth. What has been copied so is not in the caches, so that small blocks, which somebody is
//! likely to look at soon, are better left to the ordinary copy.

use svmio_transport::copy_bytes;

/// Copies `bytes` bytes from `from` into a mapped file at `to`. What this thread stores afterwards is visible to nobody
/// before them.
///
/// # Safety
/// `from` is valid for reads of `bytes` bytes, `to` for writes, and the two do not overlap.
pub(crate) unsafe fn into_file(to: *mut u8, from: *const u8, bytes: usize) {
    /// Where the place is not in the caches, which is the rule with files, blocks from 16 KiB on gain half as much
    /// again. Where it is there, they lose as much.
    const PAST_CACHES_FROM: usize = 32 << 10;
    // SAFETY: the caller vouches for the blocks.
    unsafe { copy(to, from, bytes, PAST_CACHES_FROM) };
}

/// Copies `bytes` bytes of a mapped file at `from` to `to`, where somebody is going to use them.
///
/// # Safety
/// As [`into_file`].
pub(crate) unsafe fn out_of_file(to: *mut u8, from: *const u8, bytes: usize) {
    /// A smaller buffer that is read into again and again, and looked at, is better off in the caches; one of this size
    /// is as fast to copy and look at, and where nobody has looked at it before, faster to copy by a third or more.
    const PAST_CACHES_FROM: usize = 1 << 20;
    // SAFETY: the caller vouches for the blocks.
    unsafe { copy(to, from, bytes, PAST_CACHES_FROM) };
}

/// # Safety
/// As [`into_file`].
unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize, past_caches_from: usize) {
    #[cfg(target_arch = "x86_64")]
    if bytes >= past_caches_from && std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the caller vouches for the blocks; the processor can do it.
        return unsafe { avx::copy_past_caches(to, from, bytes) };
    }
    // No other processor's stores of this kind are within Rust's reach.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = past_caches_from;
    // SAFETY: the caller vouches for the blocks.
    unsafe { copy_bytes(from, to, bytes) };
}

#[cfg(target_arch = "x86_64")]
mod avx {
    use std::arch::x86_64::{__m256i, _mm_sfence, _mm256_loadu_si256, _mm256_stream_si256};

    const LINE: usize = 64;
    const VECTOR: usize = size_of::<__m256i>();

    /// # Safety
    /// As [`super::into_file`]; the processor has AVX.
    #[target_feature(enable = "avx")]
    pub(super) unsafe fn copy_past_caches(to: *mut u8, from: *const u8, bytes: usize) {
        /// Vectors that are under way at the same time.
        const VECTORS: usize = 4;
        let head = to.align_offset(LINE).min(bytes);
        let body = (bytes - head) / (VECTORS * VECTOR) * (VECTORS * VECTOR);
        // SAFETY: head, body and tail lie one after the other and are `bytes` bytes together, for which the caller
        // vouches; the body's destination begins at a line, as aligned stores want it.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, head);
            let mut at = head;
            while at < head + body {
                let source = from.add(at).cast::<__m256i>();
                let vectors: [__m256i; VECTORS] = std::array::from_fn(|n| _mm256_loadu_si256(source.add(n)));
                let destination = to.add(at).cast::<__m256i>();
                for (n, vector) in vectors.into_iter().enumerate() {
                    _mm256_stream_si256(destination.add(n), vector);
                }
                at += VECTORS * VECTOR;
            }
            std::ptr::copy_nonoverlapping(from.add(at), to.add(at), bytes - at);
        }
        // Non-temporal stores keep no order with others: what the caller stores next could be seen before them.
        _mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_arrives_is_what_was_there(
            bytes in 0..1000usize,
            past_caches_from in prop_oneof![Just(0usize), 0..1000usize],
            from in 0..130usize,
            to in 0..130usize,
            seed: u8,
        ) {
            let source: Vec<u8> = (0..from + bytes).map(|n| (n as u8).wrapping_mul(31) ^ (n >> 8) as u8 ^ seed).collect();
            let mut copied = vec![0xAA; to + bytes + 130];
            let mut expected = copied.clone();
            expected[to..to + bytes].copy_from_slice(&source[from..]);
            // SAFETY: both have `bytes` bytes from these positions on.
            unsafe { copy(copied[to..].as_mut_ptr(), source[from..].as_ptr(), bytes, past_caches_from) };
            prop_assert!(copied == expected);
        }
    }
}
