//! Where processes stand that do not end: what a reader needs to find out why a job hangs.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long it may take to find the calls of one process, and of all. Half a second is usual, and ten are not enough
/// where thirty others want the cores.
const LIMIT_OF_ONE: Duration = Duration::from_secs(60);
const LIMIT_OF_ALL: Duration = Duration::from_secs(120);

/// How many calls of a thread are told, inlined ones among them.
const CALLS: &str = "60";

/// How many lines are told of one process, how many of all, and how many characters of each.
const LINES_OF_ONE: usize = 200;
const LINES_OF_ALL: usize = 3000;
const WIDTH: usize = 300;

/// For every process: its command line, and each thread's name, state, what it waits for in the kernel, and the calls
/// that led there. Those that began last come first, for ranks begin after what launches them.
///
/// All are stopped first, lest some fail because others are held up, and stay so: they are there to be killed.
pub(crate) fn of_processes(ids: &[i32]) -> String {
    let mut processes: Vec<_> = ids.iter().filter_map(|id| Process::seen(*id)).collect();
    processes.sort_by_key(|process| std::cmp::Reverse((process.begun, process.id)));
    for process in &processes {
        // One that has ended meanwhile has nothing more to tell.
        let _ = Pid::from_raw(process.id).map(|pid| kill_process(pid, Signal::STOP));
    }
    let deadline = Instant::now() + LIMIT_OF_ALL;
    let mut told = Vec::new();
    for process in processes {
        let left = deadline.saturating_duration_since(Instant::now()).min(LIMIT_OF_ONE);
        let is_enough = left.is_zero() || told.len() >= LINES_OF_ALL;
        let threads = if is_enough { process.without_calls() } else { process.with_calls(left) };
        told.push(format!("process {}: {}", process.id, process.command));
        told.extend(threads.into_iter().take(LINES_OF_ONE));
    }
    told.iter().flat_map(|line| line.chars().take(WIDTH).chain(['\n'])).collect()
}

/// A process, as the kernel tells of it.
struct Process {
    id: i32,
    command: String,
    /// Since the machine started, in the kernel's ticks.
    begun: u64,
    /// By their ids: name, state and place in the kernel.
    threads: BTreeMap<String, String>,
}

impl Process {
    /// Nothing of one that has ended.
    fn seen(id: i32) -> Option<Process> {
        let place = format!("/proc/{id}");
        let begun = fields_of_stat(&place)?.nth(19)?.parse().ok()?;
        let command = fs::read(format!("{place}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ").trim_end().to_owned();
        let tasks = fs::read_dir(format!("{place}/task")).ok()?.flatten();
        let threads = tasks.filter_map(|task| {
            let place = task.path().display().to_string();
            let read = |name| fs::read_to_string(format!("{place}/{name}")).unwrap_or_default();
            let state = fields_of_stat(&place)?.next()?;
            let told = format!("{}, state {state}, in {}", read("comm").trim(), read("wchan").trim());
            Some((task.file_name().into_string().ok()?, told))
        });
        Some(Process { id, command, begun, threads: threads.collect() })
    }

    fn without_calls(&self) -> Vec<String> {
        self.threads.iter().map(|(id, told)| format!("  thread {id}: {told}")).collect()
    }

    fn with_calls(&self, limit: Duration) -> Vec<String> {
        let mut tracer = Command::new("timeout");
        tracer.args(["--signal=KILL", &limit.as_secs_f64().to_string()]);
        tracer.args(["eu-stack", "--inlines", "--source", "-n", CALLS, "-p", &self.id.to_string()]);
        // Nobody is asked elsewhere for what this machine does not know of its libraries.
        let output = match tracer.env_remove("DEBUGINFOD_URLS").stdin(Stdio::null()).output() {
            Ok(output) => output,
            Err(error) => return [self.without_calls(), vec![format!("  timeout: {error}")]].concat(),
        };
        let mut told = self.retold(&String::from_utf8_lossy(&output.stdout));
        if told.is_empty() {
            told = self.without_calls();
        }
        if !output.status.success() {
            told.push(format!("  {}", complaint(&output)));
        }
        told
    }

    /// What `eu-stack` says, with a line for each call, and with what is known of the threads.
    fn retold(&self, said: &str) -> Vec<String> {
        let mut told = Vec::new();
        for line in said.lines() {
            if let Some(id) = line.strip_prefix("TID ").map(|id| id.trim_end_matches(':')) {
                let known = self.threads.get(id).map_or("", String::as_str);
                told.push(format!("  thread {id}: {known}"));
            } else if line.starts_with('#') {
                told.push(format!("    {line}"));
            } else if let (true, Some(call)) = (line.starts_with(' '), told.last_mut()) {
                *call += &format!(" at {}", line.trim());
            }
        }
        told
    }
}

fn complaint(output: &Output) -> String {
    // The status of `timeout` where there is no such program.
    if output.status.code() == Some(127) {
        return "eu-stack is not installed: run `cargo xtask setup`".into();
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    format!("eu-stack: {}, {}", output.status, errors.lines().last().unwrap_or_default())
}

/// What the kernel tells of a process or thread behind its name, which is in parentheses.
fn fields_of_stat(place: &str) -> Option<impl Iterator<Item = String>> {
    let text = fs::read_to_string(format!("{place}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(") ")?;
    Some(fields.split_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_waiting_process_is_told_of_and_one_that_has_ended_is_not() {
        let mut waiting = Command::new("cat");
        let mut waiting = waiting.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut to, mut from) = (waiting.stdin.take().unwrap(), waiting.stdout.take().unwrap());
        // Once it has answered, it is no copy of this process any more.
        to.write_all(b"!").unwrap();
        from.read_exact(&mut [0]).unwrap();
        let id = i32::try_from(waiting.id()).unwrap();
        let told = of_processes(&[id]);
        waiting.kill().unwrap();
        waiting.wait().unwrap();
        assert!(told.starts_with(&format!("process {id}: cat -\n  thread {id}: cat, state ")), "{told}");
        assert!(told.contains("\n    #0 "), "{told}");
        assert_eq!(of_processes(&[id]), "");
    }
}
