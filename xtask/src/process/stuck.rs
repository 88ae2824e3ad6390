//! Where processes stand that do not end: what a reader of a log needs to find out why a run hangs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Pid;

/// For every process, and every thread of it: its name, its state, and what it waits for in the kernel. With the calls
/// that led there, where `eu-stack` is installed.
pub(super) fn describe(processes: &[Pid]) -> String {
    processes.iter().map(|pid| of_process(*pid)).collect()
}

fn of_process(pid: Pid) -> String {
    let process = format!("/proc/{}", pid.as_raw_nonzero());
    let command = fs::read(format!("{process}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let mut told = format!("process {pid:?}: {}\n", command.trim_end());
    let tasks = fs::read_dir(format!("{process}/task")).into_iter().flatten().flatten();
    for task in tasks {
        told.push_str(&of_thread(&task.path()));
    }
    told.push_str(&calls(pid));
    told
}

fn of_thread(task: &Path) -> String {
    let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default().trim().to_owned();
    let name = read("comm");
    // Behind the name, which may hold anything, the state is the first field.
    let stat = read("stat");
    let state = stat.rsplit_once(") ").map_or("?", |(_, fields)| fields.get(..1).unwrap_or("?"));
    format!("  {name}: state {state}, in {}, system call {}\n", read("wchan"), read("syscall"))
}

/// Every thread's calls; nothing where there is no `eu-stack`, or where it takes longer than so many seconds.
fn calls(pid: Pid) -> String {
    const LIMIT: &str = "20";
    let mut tracer = Command::new("timeout");
    tracer.args(["--signal=KILL", LIMIT, "eu-stack", "--inlines", "--source", "-n", "40", "-p"]);
    tracer.arg(pid.as_raw_nonzero().to_string()).env_remove("DEBUGINFOD_URLS").stdin(Stdio::null());
    let Ok(output) = tracer.output() else { return String::new() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.starts_with(['#', 'T', ' '])).map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_waiting_process_is_described() {
        let mut waiting = Command::new("cat");
        let mut waiting = waiting.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut to, mut from) = (waiting.stdin.take().unwrap(), waiting.stdout.take().unwrap());
        // Once it has answered, it is no copy of this process any more.
        to.write_all(b"!").unwrap();
        from.read_exact(&mut [0]).unwrap();
        let told = describe(&[Pid::from_child(&waiting)]);
        drop(to);
        waiting.wait().unwrap();
        assert!(told.contains(": cat -\n") && told.contains("  cat: state "), "{told}");
    }
}
