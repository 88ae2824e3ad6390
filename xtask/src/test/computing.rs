//! What the cores have spent on this process and on those that came from it: where stages share the cores, time alone
//! says little.

use std::fs;
use std::time::Duration;

/// The time of this process and of all that it, and they, have waited for; nothing where the kernel does not tell.
pub(super) fn so_far() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = ticks(&stat).unwrap_or(0);
    Duration::from_millis(1000 * ticks / rustix::param::clock_ticks_per_second())
}

/// The sum of the fields 14 to 17: user and system time, the process's own and that of its children.
fn ticks(stat: &str) -> Option<u64> {
    // Behind the program's name, which is in parentheses and may hold anything, comes the third field.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_time_and_that_of_children_are_added() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4000 20 0 1 0";
        assert_eq!(ticks(stat), Some(4123));
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn time_goes_on() {
        let before = so_far();
        while so_far() <= before {
            std::hint::black_box(0);
        }
    }
}
