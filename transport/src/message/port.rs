//! Which messenger of a process.

use crate::units::Interrupt;

/// Which of a process's messengers: those of the same port of all processes talk to each other.
///
/// Where processes close a messenger and open the next on the same port, the first of one belongs to the first of each
/// other one, the second to the second, and so on: who waits for a peer that has closed as many, and has none open,
/// learns that it has closed it.
///
/// Port `n` uses the segment space `0x6d67_0000 + n` and the interrupt `63 - n`. [Silent](Self::silent) port `n` uses
/// the segment space `0x8000_0000 + n`, and shares the interrupt of the last port that is not silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Port(u32);

/// The segment space of the first port.
const SPACES: u32 = 0x6d67_0000;

impl Port {
    /// How many there are.
    pub const COUNT: u32 = 32;

    /// Port `number`, which is less than [`COUNT`](Self::COUNT).
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        if number < Self::COUNT { Some(Self(number)) } else { None }
    }

    /// How many silent ones there are.
    pub const SILENT: u32 = 1 << 31;

    /// Silent port `number`, which is less than [`SILENT`](Self::SILENT): one without an interrupt of its own, for
    /// messages that go on only while both programs are in calls.
    #[must_use]
    pub const fn silent(number: u32) -> Option<Self> {
        if number < Self::SILENT { Some(Self(Self::SILENT | number)) } else { None }
    }

    pub(super) fn is_silent(self) -> bool {
        self.0 >= Self::SILENT
    }

    /// The one that a program's own messages take.
    pub const FIRST: Self = Self(0);

    pub(super) fn space(self) -> u32 {
        if self.is_silent() { self.0 } else { SPACES + self.0 }
    }

    /// The number of the port that uses `space`.
    pub(super) fn of_space(space: u32) -> u32 {
        if space >= Self::SILENT { space - Self::SILENT } else { space.wrapping_sub(SPACES) }
    }

    pub(super) fn interrupt(self) -> Interrupt {
        // Others trigger that of a silent one at most for nothing.
        Interrupt(Interrupt::COUNT as u32 - 1 - self.0.min(Self::COUNT - 1))
    }
}
