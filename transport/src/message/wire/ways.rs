//! How the bytes of a rendezvous message go.

/// How the bytes of a rendezvous message go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Way {
    /// The sender stores into staging buffers of the receiver.
    Stores = 0,
    /// DMA from a staging buffer to a staging buffer.
    Staged = 1,
    /// DMA from user memory to a staging buffer.
    FromUser = 2,
    /// DMA from a staging buffer to user memory.
    ToUser = 3,
    /// DMA from user memory to user memory.
    Direct = 4,
    /// Both sides copy from user memory to user memory.
    Shared = 5,
}

impl Way {
    /// From the one that costs least to the one that always works.
    pub const BEST_FIRST: [Self; 6] =
        [Self::Shared, Self::Direct, Self::FromUser, Self::ToUser, Self::Staged, Self::Stores];
}

/// A set of ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ways(u32);

impl Ways {
    /// As a word.
    #[must_use]
    pub fn encode(self) -> u64 {
        u64::from(self.0)
    }

    /// From a word, if it means something.
    #[must_use]
    pub fn decode(word: u64) -> Option<Self> {
        (word >> Way::BEST_FIRST.len() == 0).then_some(Self(word as u32))
    }

    /// With `way` too.
    #[must_use]
    pub fn with(self, way: Way) -> Self {
        Self(self.0 | 1 << way as u32)
    }

    /// Without `way`.
    #[must_use]
    pub fn without(self, way: Way) -> Self {
        Self(self.0 & !(1 << way as u32))
    }

    /// Whether `way` is among them.
    #[must_use]
    pub fn contains(self, way: Way) -> bool {
        self.0 & (1 << way as u32) != 0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that are in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The one that costs least.
    #[must_use]
    pub fn best(self) -> Option<Way> {
        Way::BEST_FIRST.into_iter().find(|way| self.contains(*way))
    }
}
