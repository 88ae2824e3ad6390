//! How much memory there is.

use std::fs;

use anyhow::{Context, Result, bail};

/// Fails where the machine has not that much memory available: the kernel would kill what it finds.
pub(crate) fn demand(gibibytes: u64) -> Result<()> {
    let text = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    let available: u64 = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next()?.parse().ok())
        .context("/proc/meminfo has no MemAvailable")?;
    if available >> 20 < gibibytes {
        bail!("the program needs {gibibytes} GiB of memory, and {} are available", available >> 20);
    }
    Ok(())
}
