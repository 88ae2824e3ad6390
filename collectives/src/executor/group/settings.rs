//! The numbers of a group.

use crate::executor::patience::PatienceSettings;

/// Bytes of a cache line.
const LINE: usize = 64;

/// The largest slot that anybody can want, bytes.
const LARGEST_SLOT: usize = 64 << 20;

/// Sizes and thresholds of a [`Group`](super::Group), the same for all its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupSettings {
    /// Bytes of a slot; each member has 16, one of two 40. What is longer goes in pieces of this size.
    pub slot: usize,
    /// From this length on, in bytes, what is different for each member is copied straight between the private memories
    /// of two processes, where the kernel allows it. What all get goes through slots at any length where there are
    /// more than two members: a copy that stays in the caches costs less than the kernel's looking after pages (1 MiB
    /// to 4 and 8 members: 47 and 110 µs, 185 and 390). From this length on, two members try both
    /// ways, and keep to the faster one.
    pub direct: usize,
    /// Up to this many bytes of all members together, each member reduces all by itself: that saves a second exchange.
    pub reduced_alone: usize,
    /// How members wait.
    pub patience: PatienceSettings,
}

impl Default for GroupSettings {
    fn default() -> Self {
        Self {
            slot: 64 << 10,
            direct: 256 << 10,
            reduced_alone: 8 << 10,
            patience: PatienceSettings::default(),
        }
    }
}

impl GroupSettings {
    /// With a slot of whole cache lines, and room in it for each of `members`.
    pub(super) fn fitting(mut self, members: usize) -> Self {
        self.slot = self.slot.min(LARGEST_SLOT).max(LINE * members).next_multiple_of(LINE);
        self
    }

    /// Bytes of a slot for each of `members`, whole cache lines, where it is a [fitting](Self::fitting) one.
    pub(super) fn portion(&self, members: usize) -> usize {
        self.slot / members / LINE * LINE
    }

    /// Bytes of the longest element that every function of a group of so many takes.
    pub(in crate::executor) fn longest_element(self, members: usize) -> usize {
        self.fitting(members).portion(members)
    }
}
