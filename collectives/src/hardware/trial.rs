//! Whether a controller answers as one should.
//!
//! A port may have no controller behind it but a printer or nothing, a cable may be missing, and a controller may have
//! lines of nodes that are not in the group: then a barrier would not hold, or never end. So a group tries its circuit
//! before it relies on it.

use std::time::{Duration, Instant};

use super::error::{Error, Result};
use super::lines::Lines;
use super::machine::Level;

/// How long a controller may take to answer.
const LIMIT: Duration = Duration::from_secs(1);

/// How long a line in has to keep its level, for it to count as settled: far more than a circuit takes.
const SETTLING: Duration = Duration::from_millis(2);

/// Tries a circuit, in all nodes of its group at once, and leaves it ready for a first barrier. `rendezvous` returns
/// when all nodes have called it, by other means; it is called the same number of times whatever the lines do. The node
/// that `is_last` drives its line later than all others, so that a controller is found out that does not wait for it.
///
/// # Errors
/// [`Error::Trial`]; the device's; what `rendezvous` returns.
pub fn trial<E: From<Error>>(
    lines: &mut dyn Lines,
    is_last: bool,
    mut rendezvous: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    let mut outcome = lines.drive(Level::Low);
    rendezvous()?;
    outcome =
        outcome.and_then(|()| follows(lines, Level::Low, "a line in stays high with all lines out low"));
    for level in [Level::High, Level::Low] {
        rendezvous()?;
        if !is_last {
            outcome = outcome.and_then(|()| lines.drive(level));
        }
        rendezvous()?;
        outcome = outcome.and_then(|()| keeps(lines, !level));
        rendezvous()?;
        if is_last {
            outcome = outcome.and_then(|()| lines.drive(level));
        }
        outcome = outcome.and_then(|()| follows(lines, level, "a line in does not follow all lines out"));
    }
    rendezvous()?;
    Ok(outcome?)
}

/// That the line in comes to a level and keeps it.
fn follows(lines: &mut dyn Lines, level: Level, otherwise: &'static str) -> Result<()> {
    let began = Instant::now();
    while lines.sense()? != level {
        if began.elapsed() >= LIMIT {
            return Err(Error::Trial { problem: otherwise });
        }
        lines.sleep(level)?;
    }
    keeps(lines, level)
}

/// That the line in keeps a level for a while.
fn keeps(lines: &mut dyn Lines, level: Level) -> Result<()> {
    let began = Instant::now();
    loop {
        if lines.sense()? != level {
            return Err(Error::Trial { problem: "a line in changes before all lines out have changed" });
        }
        if began.elapsed() >= SETTLING {
            return Ok(());
        }
        std::thread::sleep(SETTLING / 4);
    }
}
