//! Which copies go past the caches: those of blocks that do not fit there anyway.
//!
//! A plain copy first fetches every cache line that it is going to overwrite, and throws out of the caches what was of
//! use there. What goes past them does neither, at up to twice the rate, but is not in the caches then: small blocks,
//! which somebody is likely to look at soon, are better left to the plain copy.

use svmio_transport::{PAST_CACHES, copy_bytes, copy_past_caches};

use crate::blocks::Blocks;

/// Bytes of a block from which on it goes into a file past the caches. Where the place is not in the caches, which is
/// the rule with files, blocks from 16 KiB on gain half as much again. Where it is there, they lose as much.
const INTO_FILE: u64 = 32 << 10;

/// Bytes of a block from which on it comes out of a file past the caches. A smaller buffer that is read into again and
/// again, and looked at, is better off in the caches; one of this size is as fast to copy and look at, and where nobody
/// has looked at it before, faster to copy by a third or more.
const OUT_OF_FILE: u64 = 1 << 20;

/// Bytes of a block from which on it goes into a file past the caches with all the others of an access, if together
/// they are too many for these: twice as fast from 1 KiB on, and nowhere slower, even if all of them are written again
/// and again. The lines at a block's ends, which are in part its neighbours', make shorter ones slower.
const OF_MANY_INTO_FILE: u64 = 256;

/// The same for blocks of whole lines: twice as fast.
const OF_MANY_LINES_INTO_FILE: u64 = LINE;

/// The same for blocks out of a file: faster by a tenth, from 4 KiB on by a quarter. Of shorter ones, finding them is
/// what takes the time.
const OF_MANY_OUT_OF_FILE: u64 = 512;

/// Bytes of a line of the caches.
const LINE: u64 = 64;

/// Which way a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    ThroughCaches,
    PastCaches,
}

impl Course {
    /// That of `blocks`, of an access of `whole` bytes, into a file.
    pub(crate) fn into_file(blocks: &Blocks, whole: u64) -> Course {
        let are_lines = (blocks.start | blocks.stride | blocks.length).is_multiple_of(LINE);
        let of_many = if are_lines { OF_MANY_LINES_INTO_FILE } else { OF_MANY_INTO_FILE };
        Self::past_caches_if(blocks.length, INTO_FILE, of_many, whole)
    }

    /// That of blocks of `length` bytes, of an access of `whole` bytes, out of a file, to where somebody is going to
    /// use them.
    pub(crate) fn out_of_file(length: u64, whole: u64) -> Course {
        Self::past_caches_if(length, OUT_OF_FILE, OF_MANY_OUT_OF_FILE, whole)
    }

    fn past_caches_if(length: u64, of_one: u64, of_many: u64, whole: u64) -> Course {
        let is_long = length >= of_one || (length >= of_many && whole >= PAST_CACHES as u64);
        if is_long { Course::PastCaches } else { Course::ThroughCaches }
    }

    /// Copies `bytes` bytes from `from` to `to`. What this thread stores afterwards is visible to nobody before them.
    ///
    /// # Safety
    /// `from` is valid for reads of `bytes` bytes, `to` for writes, and the two do not overlap.
    pub(crate) unsafe fn copy(self, to: *mut u8, from: *const u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Course::ThroughCaches => copy_bytes(from, to, bytes),
                Course::PastCaches => copy_past_caches(from, to, bytes),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_blocks_go_past_the_caches_and_shorter_ones_with_many_others() {
        for (length, gap, whole, into, out) in [
            (8, 8, 1 << 30, false, false),
            (64, 64, 8 << 20, true, false),
            (64, 8, 8 << 20, false, false),
            (128, 0, 8 << 20, true, false),
            (250, 10, 8 << 20, false, false),
            (260, 4, 8 << 20, true, false),
            (512, 512, 1 << 20, false, false),
            (512, 512, 8 << 20, true, true),
            (4096, 4096, 8 << 20, true, true),
            (32 << 10, 0, 32 << 10, true, false),
            (1 << 20, 0, 1 << 20, true, true),
        ] {
            let is_past = |course| course == Course::PastCaches;
            let blocks = Blocks { start: 128, length, stride: length + gap, count: 3 };
            assert_eq!(is_past(Course::into_file(&blocks, whole)), into, "{blocks:?} of {whole}");
            assert_eq!(is_past(Course::out_of_file(length, whole)), out, "{length} of {whole}");
        }
        let between_lines = Blocks { start: 130, length: 64, stride: 128, count: 3 };
        assert_eq!(Course::into_file(&between_lines, 8 << 20), Course::ThroughCaches);
    }
}
