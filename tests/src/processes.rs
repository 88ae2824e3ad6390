//! Ending processes, by their ids, and waiting until they have ended.

use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, kill_process, pidfd_open, set_parent_process_death_signal,
};

/// Has a command that is to be started asked to end when the thread that starts it is no more: a group of its own does
/// not hear the terminal's Ctrl-C. Launchers of MPI jobs end their ranks then.
pub fn end_with_us(command: &mut Command) {
    let parent = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // The parent may have ended just before.
        if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec the closure makes two system calls and touches no memory but its own.
    unsafe { command.pre_exec(ask) };
}

/// Kills the processes `ids`, as much at once as that is possible, and waits until they have ended.
///
/// # Panics
/// Where one does not end.
pub fn kill_all(ids: &[i32]) {
    let pids = ids.iter().map(|id| Pid::from_raw(*id).unwrap_or_else(|| panic!("{id} is no process")));
    // No handle, or no signal: it has ended already.
    let handles: Vec<_> =
        pids.filter_map(|pid| Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?))).collect();
    let killed: Vec<_> = handles.iter().filter(|(pid, _)| kill_process(*pid, Signal::KILL).is_ok()).collect();
    for (pid, handle) in killed {
        assert!(ended_within(handle, Duration::from_secs(10)), "process {pid} outlives being killed");
    }
}

/// Whether the first thread of the process `id` sleeps until another process wakes it, by a futex, at this moment:
/// where it is on its way there it may sleep for other reasons.
pub fn waits_for_others(id: i32) -> bool {
    futex_operation(id).is_some_and(|operation| operation & libc::FUTEX_PRIVATE_FLAG == 0)
}

/// Whether it sleeps until another thread of its own process wakes it, by a futex, at this moment.
pub fn waits_for_its_own(id: i32) -> bool {
    futex_operation(id).is_some_and(|operation| operation & libc::FUTEX_PRIVATE_FLAG != 0)
}

/// By what operation of a futex the first thread of the process `id` sleeps, if it does so by one.
fn futex_operation(id: i32) -> Option<i32> {
    // Of what does not sleep, it says just so.
    let system_call = std::fs::read_to_string(format!("/proc/{id}/syscall")).unwrap_or_default();
    let mut words = system_call.split_whitespace();
    let number = words.next().and_then(|word| word.parse::<i64>().ok());
    let operation = words.nth(1).and_then(|word| i32::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    operation.filter(|_| number == Some(libc::SYS_futex))
}

/// The processes whose environment has `variable` set to `value`.
///
/// # Panics
/// Where the processes cannot be listed.
pub fn marked(variable: &str, value: &str) -> Vec<i32> {
    let wanted = format!("{variable}={value}");
    let entries = std::fs::read_dir("/proc").expect("/proc can be read").flatten();
    let ids = entries.filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        // What cannot be read belongs to others, or has ended.
        let environment = std::fs::read(entry.path().join("environ")).ok()?;
        environment.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes()).then_some(id)
    });
    ids.collect()
}

/// Kills every process whose environment has `variable` set to `value`, and waits for their ends.
pub fn kill_marked(variable: &str, value: &str) {
    // Until none is found: one that was about to start another had a moment for it.
    loop {
        let ids = marked(variable, value);
        if ids.is_empty() {
            return;
        }
        ids.into_iter().for_each(|id| kill_all(&[id]));
    }
}

/// Waits until the process behind `handle` (a pidfd) has ended; false where `limit` passes before.
pub fn ended_within(handle: &impl AsFd, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut events = [PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)];
        match poll(&mut events, Some(&timeout)) {
            Ok(count) => return count > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll on a process: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_group_of_its_own_ends_with_who_started_it() {
        let start = || {
            let mut command = Command::new("sleep");
            command.arg("infinity").process_group(0);
            end_with_us(&mut command);
            command.spawn().unwrap()
        };
        let mut child = std::thread::spawn(start).join().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
    }
}
