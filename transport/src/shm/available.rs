//! How much memory may be reserved.
//!
//! The kernel grants a reservation of shared memory page by page and, when it runs out, kills a process instead of
//! refusing. So a large reservation is first compared with what the kernel thinks is available.

use std::io;
use std::path::Path;

/// Below this many bytes nobody asks: reading the kernel's tables takes longer than the reservation.
const WORTH_ASKING: u64 = 8 << 20;

/// Whether `length` bytes are likely to be had.
///
/// # Errors
/// `ENOMEM` where they are not.
pub(super) fn check(length: u64) -> io::Result<()> {
    if length < WORTH_ASKING {
        return Ok(());
    }
    match available_memory() {
        Some(available) if length > available => Err(rustix::io::Errno::NOMEM.into()),
        _ => Ok(()),
    }
}

/// How many bytes the machine has left, or this process's control group if that is less; none where neither tells.
#[must_use]
pub fn available_memory() -> Option<u64> {
    let of_machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_in(&text));
    let of_group = std::fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| left_in_group(&text));
    of_machine.into_iter().chain(of_group).min()
}

/// The available bytes of the machine, from the text of `/proc/meminfo`.
fn available_in(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes.saturating_mul(1024))
}

/// The bytes that this process's control group, and those around it, may still use, from the text of
/// `/proc/self/cgroup`; none where there is no limit.
fn left_in_group(text: &str) -> Option<u64> {
    let group = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let number = |path: &Path| -> Option<u64> { std::fs::read_to_string(path).ok()?.trim().parse().ok() };
    let left = |group: &Path| -> Option<u64> {
        let limit = number(&group.join("memory.max"))?;
        Some(limit.saturating_sub(number(&group.join("memory.current"))?))
    };
    root.join(group).ancestors().take_while(|group| group.starts_with(root)).filter_map(left).min()
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{available_in, check};

    #[test]
    fn the_kernels_table_is_understood() {
        let text = "MemTotal:       24684084 kB\nMemAvailable:        2 kB\n";
        assert_eq!(available_in(text), Some(2048));
        assert_eq!(available_in("MemTotal: 1 kB\n"), None);
        assert_eq!(available_in("MemAvailable: many kB\n"), None);
    }

    #[test]
    fn a_little_can_be_had_and_too_much_not() {
        check(9 << 20).unwrap();
        check(1 << 60).unwrap_err();
    }
}
