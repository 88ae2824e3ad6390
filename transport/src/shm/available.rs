//! How much memory may be reserved.
//!
//! The kernel grants a reservation of shared memory page by page and, when it runs out, kills a process instead of
//! refusing. So reservations are compared with what the kernel thinks is available: each large one, and of small ones
//! the one with which they become large together.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// As long as less than this many bytes were reserved since the last time, nobody asks: reading the kernel's tables
/// takes longer than a small reservation.
const WORTH_ASKING: u64 = 8 << 20;

/// How many bytes must be left over: for what is reserved until somebody asks again, here and in other processes.
const MARGIN: u64 = 2 * WORTH_ASKING;

/// What this process reserves.
static RESERVED: Reservations = Reservations::new();

/// Whether `length` bytes are likely to be had.
///
/// # Errors
/// `ENOMEM` where they are not.
pub(crate) fn check(length: u64) -> io::Result<()> {
    RESERVED.check(length, available_memory)
}

/// What was reserved since somebody last asked how much is available.
struct Reservations {
    since: AtomicU64,
}

impl Reservations {
    const fn new() -> Self {
        Self { since: AtomicU64::new(0) }
    }

    /// Whether `length` bytes more may be reserved, given how many are `available`, which is asked only now and then.
    fn check(&self, length: u64, available: impl FnOnce() -> Option<u64>) -> io::Result<()> {
        // Relaxed, here and below: only a number; who asks once too often does no harm.
        let since = self.since.fetch_add(length.min(WORTH_ASKING), Ordering::Relaxed);
        if since.saturating_add(length) < WORTH_ASKING {
            return Ok(());
        }
        match available() {
            // The number stays as it is: as long as memory is short, everybody asks.
            Some(available) if length.saturating_add(MARGIN) > available => {
                self.since.store(WORTH_ASKING, Ordering::Relaxed);
                Err(rustix::io::Errno::NOMEM.into())
            }
            _ => {
                self.since.store(0, Ordering::Relaxed);
                Ok(())
            }
        }
    }
}

/// How many bytes the machine has left, or this process's control group if that is less; none where neither tells.
fn available_memory() -> Option<u64> {
    let of_machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_in(&text));
    let of_group = std::fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| left_in_group(&text));
    of_machine.into_iter().chain(of_group).min()
}

/// How many bytes each of `processes` on this machine may take at most, if they share equally what it has left, but for
/// what has to be left over; none where it does not tell.
#[must_use]
pub fn memory_share(processes: u32) -> Option<u64> {
    available_memory().map(|available| share_of(available, processes))
}

fn share_of(available: u64, processes: u32) -> u64 {
    available.saturating_sub(MARGIN) / u64::from(processes.max(1))
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
        let statistics = std::fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let used = number(&group.join("memory.current"))?.saturating_sub(reclaimable_in(&statistics));
        Some(limit.saturating_sub(used))
    };
    root.join(group).ancestors().take_while(|group| group.starts_with(root)).filter_map(left).min()
}

/// The bytes of a control group that the kernel gives back when they are needed, from the text of its `memory.stat`:
/// cached parts of files on disks.
fn reclaimable_in(text: &str) -> u64 {
    let caches = ["active_file ", "inactive_file "];
    let bytes =
        |line: &str| caches.iter().find_map(|name| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    text.lines().filter_map(bytes).fold(0, u64::saturating_add)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{MARGIN, Reservations, WORTH_ASKING, available_in, check, reclaimable_in, share_of};

    #[test]
    fn the_kernels_table_is_understood() {
        let text = "MemTotal:       24684084 kB\nMemAvailable:        2 kB\n";
        assert_eq!(available_in(text), Some(2048));
        assert_eq!(available_in("MemTotal: 1 kB\n"), None);
        assert_eq!(available_in("MemAvailable: many kB\n"), None);
        let text = "anon 500\nfile 300\nshmem 90\ninactive_file 20\nactive_file 100\nworkingset_nodes 0\n";
        assert_eq!((reclaimable_in(text), reclaimable_in("")), (120, 0));
    }

    #[test]
    fn what_all_may_take_is_less_than_what_would_be_refused() {
        for (available, processes) in [(0, 3), (MARGIN, 1), (MARGIN + 7, 2), (100 << 20, 7), (u64::MAX, 0)] {
            let share = share_of(available, processes);
            assert!(
                share * u64::from(processes) <= available.saturating_sub(MARGIN),
                "{share} of {available}"
            );
            assert_eq!(
                share == 0,
                available < MARGIN + u64::from(processes.max(1)),
                "{share} of {available}"
            );
        }
    }

    #[test]
    fn a_little_can_be_had_and_too_much_not() {
        check(9 << 20).unwrap();
        check(1 << 60).unwrap_err();
        check(1 << 10).unwrap();
    }

    #[test]
    fn many_small_reservations_are_noticed_before_memory_ends() {
        const SMALL: u64 = 100 << 10;
        let reservations = Reservations::new();
        let (mut left, mut asked) = (100_u64 << 20, 0);
        let mut count = 0;
        while reservations
            .check(SMALL, || {
                asked += 1;
                Some(left)
            })
            .is_ok()
        {
            count += 1;
            left = left.checked_sub(SMALL).expect("it ends before memory does");
        }
        assert!(left > WORTH_ASKING - SMALL && left < MARGIN + SMALL, "{left} bytes left after {count}");
        assert!(asked < 20, "asked {asked} times for {count}");
        // As long as it is short, each is refused, and when it is not, none.
        reservations.check(1, || Some(left)).unwrap_err();
        reservations.check(1, || Some(1 << 30)).unwrap();
        reservations.check(1, || panic!("nobody asks again at once")).unwrap();
    }
}
