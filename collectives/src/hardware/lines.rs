//! A node's end of the two lines.

use std::fmt::Debug;
use std::time::Duration;

use super::error::Result;
use super::machine::Level;

/// For how long a node sleeps at most before it looks again whether all others are there.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// A node's end of the two lines of a circuit.
pub trait Lines: Debug + Send {
    /// Drives the line out, to stay at that level.
    ///
    /// # Errors
    /// The device's.
    fn drive(&mut self, level: Level) -> Result<()>;

    /// What the line in carries.
    ///
    /// # Errors
    /// The device's.
    fn sense(&mut self) -> Result<Level>;

    /// Sleeps until the line in may carry `awaited`, and for about `limit` at most.
    ///
    /// # Errors
    /// The device's: that there is no controller any more, where that can be known.
    fn sleep(&mut self, awaited: Level, limit: Duration) -> Result<()>;
}
