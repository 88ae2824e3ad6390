//! Emulated controllers, nodes and the controller as processes: this test program again, in its ignored tests. Nodes
//! write down when they came to each barrier and when they left it, by the machine's clock; what they wrote is held
//! against each other afterwards.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::time::{ClockId, clock_gettime};
use svmio_collectives::hardware::{Barrier, EmulatedLines, Emulator, Error, MOST_NODES, Ticket};

/// What a process is to do, as words.
const ORDER: &str = "SVMIO_TEST_ORDER";

/// What lines of theirs begin with: the test harness writes others.
const MARK: &str = "svmio:";

/// A process, which is killed when the test fails.
struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(test: &str, order: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--test-threads=1", "--nocapture"])
            .env(ORDER, order)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// The next thing that it says.
    fn word(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the process has ended");
            if let Some((_, word)) = line.split_once(MARK) {
                return word.trim().to_owned();
            }
        }
    }

    /// Lets it go on.
    fn go(&mut self) {
        writeln!(self.child.stdin.as_mut().unwrap(), "go").unwrap();
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(word: &str) {
    println!("{MARK}{word}");
}

fn heard() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn order() -> Vec<String> {
    std::env::var(ORDER).unwrap().split(' ').map(str::to_owned).collect()
}

#[test]
#[ignore = "it is the body of processes that other tests start"]
fn controller_process() {
    let order = order();
    let controller =
        Emulator::create(Path::new(&order[0]), order[1].parse().unwrap()).unwrap().spawn().unwrap();
    say("ready");
    heard();
    controller.stop();
}

#[test]
#[ignore = "it is the body of processes that other tests start"]
fn node_process() {
    let order = order();
    let directory = PathBuf::from(&order[0]);
    let number = |at: usize| order[at].parse::<u32>().unwrap();
    let (node, nodes, rounds) = (number(1) as usize, number(2), number(3));
    let lines = if node == 0 {
        let lines = EmulatedLines::claim(&directory, nodes as usize).unwrap();
        let Ticket { circuit, claim, .. } = lines.ticket();
        say(&format!("{circuit} {claim}"));
        lines
    } else {
        let ticket = Ticket { circuit: number(4), claim: number(5), nodes };
        EmulatedLines::attach(&directory, ticket, node).unwrap()
    };
    let mut barrier = Barrier::new(Box::new(lines), nodes as usize);
    let mut all_are_there = || Ok::<(), Error>(());
    for _ in 0..rounds {
        let came = now();
        barrier.wait(&mut all_are_there).unwrap();
        say(&format!("{came} {}", now()));
    }
    // One more, which not all come to, until the controller is gone.
    heard();
    match barrier.wait(&mut all_are_there) {
        Err(Error::NoController { .. }) => say("gone"),
        other => say(&format!("{other:?}")),
    }
}

/// A group of node processes.
fn group(directory: &Path, nodes: usize, rounds: usize) -> Vec<Process> {
    let start = |node: usize, ticket: &str| {
        let order = format!("{} {node} {nodes} {rounds} {ticket}", directory.display());
        Process::start("processes::node_process", &order)
    };
    let mut first = start(0, "");
    let ticket = first.word();
    let others: Vec<_> = (1..nodes).map(|node| start(node, &ticket)).collect();
    std::iter::once(first).chain(others).collect()
}

/// That nobody left a barrier before the last one had come.
fn check(group: &mut [Process], rounds: usize) {
    for round in 0..rounds {
        let times = group.iter_mut().map(|process| {
            let word = process.word();
            let (came, left) = word.split_once(' ').unwrap();
            (came.parse::<u64>().unwrap(), left.parse::<u64>().unwrap())
        });
        let times: Vec<_> = times.collect();
        let last_to_come = times.iter().map(|(came, _)| *came).max();
        let first_to_leave = times.iter().map(|(_, left)| *left).min();
        assert!(last_to_come <= first_to_leave, "round {round}: {times:?}");
    }
}

#[test]
fn sixty_processes_in_two_groups_at_once_and_a_controller_that_is_killed() {
    const ROUNDS: usize = 50;
    let directory = tempfile::tempdir().unwrap();
    let order = format!("{} 2", directory.path().display());
    let mut controller = Process::start("processes::controller_process", &order);
    assert_eq!(controller.word(), "ready");
    let mut one = group(directory.path(), MOST_NODES / 2, ROUNDS);
    let mut other = group(directory.path(), MOST_NODES - MOST_NODES / 2, ROUNDS);
    check(&mut one, ROUNDS);
    check(&mut other, ROUNDS);
    // All but one of a group wait when the controller is killed.
    one[1..].iter_mut().for_each(Process::go);
    controller.kill();
    for process in &mut one[1..] {
        assert_eq!(process.word(), "gone");
    }
}

#[test]
fn a_group_that_was_killed_leaves_its_circuit() {
    let directory = tempfile::tempdir().unwrap();
    let _controller = Emulator::create(directory.path(), 1).unwrap().spawn().unwrap();
    let mut killed = group(directory.path(), 3, 2);
    check(&mut killed, 2);
    // One process is in a barrier at that time.
    killed[1].go();
    let refused = EmulatedLines::claim(directory.path(), 1);
    assert!(matches!(refused, Err(Error::NoCircuit { .. })), "{refused:?}");
    killed.iter_mut().for_each(Process::kill);
    let mut next = group(directory.path(), 2, 20);
    check(&mut next, 20);
}
