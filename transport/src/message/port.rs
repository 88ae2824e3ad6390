//! Which messenger of a process.

use crate::units::Interrupt;

/// Which of a process's messengers: those of the same port of all processes talk to each other.
///
/// Port `n` uses the segment space `0x6d67_0000 + n` and the interrupt `63 - n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Port(u32);

impl Port {
    /// How many there are.
    pub const COUNT: u32 = 32;

    /// Port `number`, which is less than [`COUNT`](Self::COUNT).
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        if number < Self::COUNT { Some(Self(number)) } else { None }
    }

    /// The one that a program's own messages take.
    pub const FIRST: Self = Self(0);

    pub(super) fn space(self) -> u32 {
        0x6d67_0000 + self.0
    }

    /// The number of the port that uses `space`.
    pub(super) fn of_space(space: u32) -> u32 {
        space.wrapping_sub(Self::FIRST.space())
    }

    pub(super) fn interrupt(self) -> Interrupt {
        Interrupt(Interrupt::COUNT as u32 - 1 - self.0)
    }
}
