//! What was measured, as tables, JSON and diagrams.

mod interrupts;
mod messages;
mod overlap;

pub(super) use self::interrupts::Interrupts;
pub(super) use self::messages::Messages;
pub(super) use self::overlap::Overlap;

use super::super::byte_count::human;

/// A size as a column has it: `64 KiB`.
fn size(bytes: u64) -> String {
    human(bytes).replace(".00", "")
}

/// Seconds as microseconds, with as many digits as the measurement is worth.
pub(in crate::commands) fn microseconds(seconds: f64) -> String {
    let microseconds = seconds * 1e6;
    match microseconds.abs() {
        small if small < 10.0 => format!("{microseconds:.3}"),
        medium if medium < 1000.0 => format!("{microseconds:.1}"),
        _ => format!("{microseconds:.0}"),
    }
}

/// MB/s of `bytes` in so many seconds.
fn megabytes_per_second(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / 1e6 / seconds
}
