//! The word that closes a part.

use super::{Kind, Malformed};

/// Bytes of the closing word.
pub const CLOSING: usize = 8;

/// The word that closes a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closing {
    /// What the packet is.
    pub kind: Kind,
    /// Whether the next part belongs to it too.
    pub more: bool,
    /// Bytes of payload.
    pub length: u16,
    /// The part's number in its ring, counted from 1; it wraps.
    pub id: u32,
}

const MORE: u32 = 1 << 4;

impl Closing {
    /// As it stands in memory, little end first: the id is in the last four bytes.
    #[inline]
    #[must_use]
    pub fn encode(self) -> u64 {
        let meta = self.kind as u32 | if self.more { MORE } else { 0 } | u32::from(self.length) << 16;
        u64::from(self.id) << 32 | u64::from(meta)
    }

    /// Which part it closes; known even if the rest is nonsense.
    #[inline]
    #[must_use]
    pub fn id(word: u64) -> u32 {
        (word >> 32) as u32
    }

    /// The payload's length, if it closes a short message of a single part.
    #[inline]
    #[must_use]
    pub fn one_part(word: u64) -> Option<usize> {
        (word as u16 == Kind::Short as u16).then_some((word as u32 >> 16) as usize)
    }

    /// # Errors
    /// What is wrong with it, in a part of `part` bytes.
    pub fn decode(word: u64, part: usize) -> Result<Self, Malformed> {
        let meta = word as u32;
        let unknown = meta & 0xffe0;
        if unknown != 0 {
            return Err(Malformed::Bits { bits: unknown });
        }
        let closing = Self {
            kind: Kind::decode(meta & 0xf)?,
            more: meta & MORE != 0,
            length: (meta >> 16) as u16,
            id: Self::id(word),
        };
        let (length, most) = (usize::from(closing.length), part.saturating_sub(CLOSING));
        if length > most {
            return Err(Malformed::PartLength { length, most });
        }
        Ok(closing)
    }
}
