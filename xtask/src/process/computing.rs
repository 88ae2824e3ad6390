//! What the cores have spent on a process and on those that came from it: where several share the cores, time alone says
//! little.

use std::fs;
use std::time::Duration;

use rustix::process::Pid;

/// The time of this process and of all that it, and they, have waited for; nothing where the kernel does not tell.
pub(crate) fn so_far() -> Duration {
    told_by("/proc/self/stat")
}

/// The same of another one, which may have ended if nobody has waited for it.
pub(super) fn of(pid: Pid) -> Duration {
    told_by(&format!("/proc/{}/stat", pid.as_raw_nonzero()))
}

fn told_by(file: &str) -> Duration {
    let stat = fs::read_to_string(file).unwrap_or_default();
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
    use std::process::Command;

    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::*;

    #[test]
    fn own_time_and_that_of_children_are_added() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4000 20 0 1 0";
        assert_eq!(ticks(stat), Some(4123));
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn one_that_has_ended_still_tells() {
        let mut child = Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done"])
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), options).unwrap();
        assert!(of(pid) > Duration::ZERO);
        child.wait().unwrap();
    }

    #[test]
    fn time_goes_on() {
        let before = so_far();
        while so_far() <= before {
            std::hint::black_box(0);
        }
    }
}
