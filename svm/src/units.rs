//! The quantities of a file: offsets, segment numbers, segment sizes, identities.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use svmio_transport::settings::byte_size;

/// A byte position in a file, from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileOffset(pub u64);

impl FileOffset {
    /// The largest size that MPI's signed 64-bit offsets can name, bytes.
    pub const MAX: FileOffset = FileOffset(i64::MAX as u64);

    /// The position `bytes` further on, or `None` past [`FileOffset::MAX`].
    pub fn checked_add(self, bytes: u64) -> Option<FileOffset> {
        self.0.checked_add(bytes).filter(|end| *end <= Self::MAX.0).map(FileOffset)
    }
}

impl fmt::Display for FileOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a segment within its file: bytes `index * size ..` of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SegmentIndex(pub u32);

impl fmt::Display for SegmentIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The size of every segment of a file, bytes; fixed when the file is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct SegmentSize(NonZeroU64);

impl SegmentSize {
    /// 16 MiB. Opening a segment (create or open, size check, map) costs 10 to 20 microseconds, copying
    /// 16 MiB takes over a millisecond: about one per cent. Smaller segments would spend more on opening
    /// and on descriptors (a terabyte is 65,536 of these, the kernel's limit on mappings); larger ones
    /// would only coarsen placement, because holes cost nothing. It is a multiple of every page size, so
    /// that huge pages fit.
    pub const DEFAULT: SegmentSize = SegmentSize(NonZeroU64::new(16 << 20).expect("not zero"));
    /// 64 KiB: a multiple of every base page size that Linux has.
    pub const MIN: SegmentSize = SegmentSize(NonZeroU64::new(64 << 10).expect("not zero"));
    /// 1 GiB.
    pub const MAX: SegmentSize = SegmentSize(NonZeroU64::new(1 << 30).expect("not zero"));

    /// A segment size of `bytes`.
    ///
    /// # Errors
    /// Says which values are possible: powers of two from [`SegmentSize::MIN`] to [`SegmentSize::MAX`].
    #[inline]
    pub fn new(bytes: u64) -> Result<SegmentSize, InvalidSegmentSize> {
        NonZeroU64::new(bytes)
            .filter(|b| b.is_power_of_two() && (Self::MIN.0..=Self::MAX.0).contains(b))
            .map(SegmentSize)
            .ok_or(InvalidSegmentSize(bytes))
    }

    /// The largest size, up to `at_most`, with which `bytes` bytes are several segments for each of `nodes` nodes; with
    /// one node there is nothing to spread.
    pub fn to_spread(bytes: u64, nodes: usize, at_most: SegmentSize) -> SegmentSize {
        /// Segments of each node: with fewer, one node might hold twice as much as another.
        const EACH: u64 = 4;
        if nodes <= 1 {
            return at_most;
        }
        let of_each = bytes / EACH.saturating_mul(nodes as u64).max(1);
        let largest = of_each.checked_ilog2().map_or(0, |bits| 1 << bits);
        SegmentSize::new(largest.clamp(Self::MIN.bytes(), at_most.bytes())).unwrap_or(at_most)
    }

    /// The size in bytes.
    #[inline]
    pub fn bytes(self) -> u64 {
        self.0.get()
    }

    /// The segment that holds `offset` and the position of `offset` within it, or `None` where the file
    /// would need more segments than a segment table has room for.
    #[inline]
    pub(crate) fn locate(self, offset: FileOffset) -> Option<(SegmentIndex, u64)> {
        let index = u32::try_from(offset.0 >> self.0.trailing_zeros()).ok()?;
        Some((SegmentIndex(index), offset.0 & (self.bytes() - 1)))
    }

    /// The file offset at which segment `index` begins.
    pub fn start_of(self, index: SegmentIndex) -> FileOffset {
        FileOffset(u64::from(index.0) * self.bytes())
    }
}

impl TryFrom<u64> for SegmentSize {
    type Error = InvalidSegmentSize;
    fn try_from(bytes: u64) -> Result<Self, InvalidSegmentSize> {
        SegmentSize::new(bytes)
    }
}

impl From<SegmentSize> for u64 {
    fn from(size: SegmentSize) -> u64 {
        size.bytes()
    }
}

/// Reads `1048576`, `1024K`, `16MiB` or `1G` (powers of 1024).
impl FromStr for SegmentSize {
    type Err = InvalidSegmentSize;
    fn from_str(text: &str) -> Result<Self, InvalidSegmentSize> {
        byte_size(text).ok_or(InvalidSegmentSize(0)).and_then(SegmentSize::new)
    }
}

impl fmt::Display for SegmentSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A segment size that no file can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a segment size is a power of two from 64 KiB (65536) to 1 GiB (1073741824) bytes")]
pub struct InvalidSegmentSize(
    /// The bytes that were asked for; 0 where the text was no number.
    pub u64,
);

/// The identity of a file, drawn at random when it is created: names can change hands, identities never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FileId([u8; 16]);

impl FileId {
    /// A fresh identity from the kernel's random numbers.
    ///
    /// # Errors
    /// The error of `getrandom(2)`.
    pub(crate) fn random() -> std::io::Result<FileId> {
        let mut bytes = [0u8; 16];
        let mut filled = 0;
        while filled < bytes.len() {
            let rest = &mut bytes[filled..];
            filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(FileId(bytes))
    }

    /// The sixteen bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// The identity with these sixteen bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> FileId {
        FileId(bytes)
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for FileId {
    type Err = InvalidFileId;
    fn from_str(text: &str) -> Result<FileId, InvalidFileId> {
        let text = text.as_bytes();
        if text.len() != 32 {
            return Err(InvalidFileId);
        }
        let mut bytes = [0u8; 16];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            let digit = |c: u8| (c as char).to_digit(16).ok_or(InvalidFileId);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(FileId(bytes))
    }
}

impl TryFrom<String> for FileId {
    type Error = InvalidFileId;
    fn try_from(text: String) -> Result<FileId, InvalidFileId> {
        text.parse()
    }
}

impl From<FileId> for String {
    fn from(id: FileId) -> String {
        id.to_string()
    }
}

/// A text that is no file identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a file identity is 32 hexadecimal digits")]
pub struct InvalidFileId;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn segment_sizes_are_read_and_checked() {
        assert_eq!("16M".parse(), Ok(SegmentSize::DEFAULT));
        assert_eq!("65536".parse(), Ok(SegmentSize::MIN));
        assert_eq!("1g".parse(), Ok(SegmentSize::MAX));
        assert_eq!("64 KiB".parse(), Ok(SegmentSize::MIN));
        for bad in ["", "M", "3M", "4K", "2G", "-1", "99999999999999999999", "18014398509481984K"] {
            assert!(bad.parse::<SegmentSize>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_offset_lies_in_its_segment(offset in 0..1u64 << 46, shift in 16u32..=30) {
            let size = SegmentSize::new(1 << shift).unwrap();
            if let Some((index, within)) = size.locate(FileOffset(offset)) {
                prop_assert!(within < size.bytes());
                prop_assert_eq!(size.start_of(index).0 + within, offset);
            } else {
                prop_assert!(offset / size.bytes() > u64::from(u32::MAX));
            }
        }

        #[test]
        fn identities_survive_their_text(bytes: [u8; 16]) {
            let id = FileId(bytes);
            prop_assert_eq!(id.to_string().parse::<FileId>(), Ok(id));
        }
    }
}
