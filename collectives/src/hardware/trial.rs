//! Whether a controller answers as one should.
//!
//! A port may have no controller behind it but a printer or nothing, a cable may be missing, and a controller may have
//! lines of nodes that are not in the group: then a barrier would not hold, or never end. So a group tries its circuit
//! before it relies on it.

use std::time::{Duration, Instant};

use super::error::{Error, Result};
use super::lines::{LONGEST_SLEEP, Lines};
use super::machine::Level;

/// How long a controller may take to answer that has no nodes, and for each node more: an emulated one looks at them
/// one after the other, and may have to share its core with all of them.
const ANSWER: Duration = Duration::from_secs(1);
const ANSWER_PER_NODE: Duration = Duration::from_millis(100);

/// How long a line in has to keep its level, for it to count as settled: far more than a circuit takes.
const SETTLING: Duration = Duration::from_millis(2);

/// A node's part in a [`trial`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// Whether it drives its line later than all others, so that a controller is found out that does not wait for it:
    /// one of them does.
    pub is_last: bool,
    /// How long the controller may take to answer, once all have driven their lines and met.
    pub limit: Duration,
}

impl Trial {
    /// That of node `node` of so many: the last one drives last, and the controller has 1 s and 100 ms for each node.
    #[must_use]
    pub fn of_node(node: usize, nodes: usize) -> Self {
        let limit = ANSWER.saturating_add(ANSWER_PER_NODE.saturating_mul(nodes as u32));
        Self { is_last: node + 1 == nodes, limit }
    }
}

/// Tries a circuit, in all nodes of its group at once, and leaves it ready for a first barrier. `rendezvous` returns
/// when all nodes have called it, by other means; it is called the same number of times whatever the lines do. Time
/// runs only from such a meeting on, so it is the controller's alone, however slow the nodes are.
///
/// # Errors
/// [`Error::Trial`]; the device's; what `rendezvous` returns.
pub fn trial<E: From<Error>>(
    lines: &mut dyn Lines,
    part: Trial,
    mut rendezvous: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    let Trial { is_last, limit } = part;
    let mut outcome = lines.drive(Level::Low);
    rendezvous()?;
    outcome = outcome
        .and_then(|()| follows(lines, Level::Low, limit, "a line in stays high with all lines out low"));
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
        rendezvous()?;
        let problem = "a line in does not follow all lines out";
        outcome = outcome.and_then(|()| follows(lines, level, limit, problem));
    }
    rendezvous()?;
    Ok(outcome?)
}

/// That the line in comes to a level and keeps it.
fn follows(lines: &mut dyn Lines, level: Level, limit: Duration, otherwise: &'static str) -> Result<()> {
    let began = Instant::now();
    while lines.sense()? != level {
        if began.elapsed() >= limit {
            return Err(Error::Trial { problem: otherwise });
        }
        lines.sleep(level, LONGEST_SLEEP)?;
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
