//! Who is in process groups.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Handles, which can be read when their processes have ended, of up to `most` processes that are in the groups of
/// these leaders and have not ended; not of the leaders.
///
/// # Errors
/// What the system says.
pub(super) fn members(leaders: &[u32], most: usize) -> io::Result<Vec<OwnedFd>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        if found.len() == most {
            break;
        }
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let is_member = || group_of(id).is_some_and(|group| leaders.contains(&group));
        if leaders.contains(&id) || !is_member() {
            continue;
        }
        let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) else { continue };
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => continue,
            handle => handle?,
        };
        // The number may have been another process's until now.
        if is_member() && !has_ended(&handle)? {
            found.push(handle);
        }
    }
    Ok(found)
}

/// The group of the process of that id, if there is one.
fn group_of(id: u32) -> Option<u32> {
    let line = fs::read(format!("/proc/{id}/stat")).ok()?;
    // The name, in parentheses, may have anything in it. State, parent and group follow it.
    let behind_name = line.iter().rposition(|&byte| byte == b')')? + 1;
    str::from_utf8(&line[behind_name..]).ok()?.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// Whether the process has ended, waited for or not.
fn has_ended(handle: &OwnedFd) -> io::Result<bool> {
    let mut asked = [PollFd::new(handle, PollFlags::IN)];
    Ok(retry_on_intr(|| poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })))? > 0)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use rustix::process::{Signal, kill_process_group};

    use super::*;

    #[test]
    fn those_are_in_a_group_who_have_neither_ended_nor_gone() {
        // The one that has gone ends with the input.
        let script = "setsid cat <&3 & sleep 600 & sh -c exit & wait $!; echo ready; wait";
        let mut leader = Command::new("sh")
            .args(["-c", &format!("exec 3<&0; {script}")])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(leader.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let id = leader.id();
        let mut found = members(&[id], 8).unwrap();
        // The one that leaves may not have done so yet.
        while found.len() > 1 {
            std::thread::yield_now();
            found = members(&[id], 8).unwrap();
        }
        assert_eq!((found.len(), members(&[id], 0).unwrap().len()), (1, 0));
        assert!(!has_ended(&found[0]).unwrap());
        kill_process_group(Pid::from_child(&leader), Signal::KILL).unwrap();
        poll(&mut [PollFd::new(&found[0], PollFlags::IN)], None).unwrap();
        assert!(members(&[id], 8).unwrap().is_empty());
        leader.wait().unwrap();
    }
}
