//! The words of the fabric as types.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A process of a job: 0 up to the number of processes, exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rank(pub u32);

impl Rank {
    /// As an index into a table with an entry per rank.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

/// Under which id a process exports a segment: unique within that process.
///
/// A *space* belongs to one user of the fabric (a messenger, the agents), who numbers its segments in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SegmentId {
    /// Whose it is.
    pub space: u32,
    /// Which of the space's.
    pub number: u32,
}

impl SegmentId {
    /// Segment `number` of `space`.
    #[must_use]
    pub const fn new(space: u32, number: u32) -> Self {
        Self { space, number }
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.space, self.number)
    }
}

/// One of a process's remote interrupts, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Interrupt(pub u32);

impl Interrupt {
    /// How many interrupts a process has.
    pub const COUNT: usize = 64;
}

impl fmt::Display for Interrupt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

/// A point in the fabric's time, in nanoseconds since an origin of its own; virtual in the simulated fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// This point and `duration` more.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanoseconds))
    }

    /// How long after `earlier` this is; zero where it is before.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
