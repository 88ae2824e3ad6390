//! What a member waits for, and how others read that while it sleeps.

use super::cards::Turn;

/// Of whom something is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::executor) enum Whom {
    /// All others.
    All,
    Member(usize),
}

/// What is awaited of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::executor) enum Deed {
    /// That they have published for the operation.
    Published,
    /// That they have come to the operation, which is a meeting.
    Met(Turn),
    /// That they read nothing more of the operation.
    Finished,
}

/// What a member waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::executor) struct Awaited {
    pub(in crate::executor) whom: Whom,
    pub(in crate::executor) deed: Deed,
    /// The operation, from 1.
    pub(in crate::executor) number: u64,
}

/// Bits of the number in a word; the member's and the deed's are above.
const NUMBER_BITS: u32 = 46;
const DEED_AT: u32 = 61;

impl Awaited {
    /// As a word that is not 0, for others to read.
    pub(super) fn encode(self) -> u64 {
        let whom = match self.whom {
            Whom::All => 0,
            Whom::Member(member) => member as u64 + 1,
        };
        let deed = match self.deed {
            Deed::Published => 0,
            Deed::Finished => 1,
            Deed::Met(turn) => 2 + u64::from(turn.index()),
        };
        deed << DEED_AT | whom << NUMBER_BITS | self.number
    }

    pub(super) fn decode(word: u64) -> Self {
        let deed = match word >> DEED_AT {
            0 => Deed::Published,
            1 => Deed::Finished,
            turn => Deed::Met(Turn::at(turn as u8 - 2)),
        };
        let whom = match (word & ((1 << DEED_AT) - 1)) >> NUMBER_BITS {
            0 => Whom::All,
            member => Whom::Member(member as usize - 1),
        };
        Self { whom, deed, number: word & ((1 << NUMBER_BITS) - 1) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Awaited, Deed, Turn, Whom};

    #[test]
    fn what_is_awaited_is_read_as_it_was_written() {
        for whom in [Whom::All, Whom::Member(0), Whom::Member(30_000)] {
            for deed in [Deed::Published, Deed::Finished, Deed::Met(Turn::at(0)), Deed::Met(Turn::at(3))] {
                let awaited = Awaited { whom, deed, number: (1 << 45) + 3 };
                assert_eq!(Awaited::decode(awaited.encode()), awaited);
                assert_ne!(awaited.encode(), 0);
            }
        }
    }
}
