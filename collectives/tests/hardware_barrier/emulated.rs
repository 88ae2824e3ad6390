//! Emulated controllers, nodes as threads.

use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use svmio_collectives::hardware::{Barrier, EmulatedLines, Emulator, Error, Lines, MOST_NODES, Trial, trial};

use crate::Register;

/// How long a controller may take to answer whose thread a busy machine holds up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A group's lines, by node.
fn lines(directory: &std::path::Path, nodes: usize) -> Vec<EmulatedLines> {
    let first = EmulatedLines::claim(directory, nodes).unwrap();
    let ticket = first.ticket();
    let others = (1..nodes).map(|node| EmulatedLines::attach(directory, ticket, node).unwrap());
    std::iter::once(first).chain(others.collect::<Vec<_>>()).collect()
}

/// What `attempt` comes to once the locks of who has gone are free. A process that another test starts has copies of
/// our locks from its fork to its exec.
fn once_unlocked<T>(
    attempt: impl Fn() -> Result<T, Error>,
    is_locked: impl Fn(&Result<T, Error>) -> bool,
) -> Result<T, Error> {
    let started = Instant::now();
    loop {
        let outcome = attempt();
        if !is_locked(&outcome) || started.elapsed() > Duration::from_secs(10) {
            return outcome;
        }
        thread::yield_now();
    }
}

#[test]
fn sixty_nodes_in_two_groups_at_once_and_in_halves_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let controller = Emulator::create(directory.path(), 4).unwrap().spawn().unwrap();
    // Two groups of all nodes, and their even and odd halves: each node is in three of four.
    let sizes = [MOST_NODES, MOST_NODES, MOST_NODES / 2, MOST_NODES / 2];
    let mut groups = sizes.map(|nodes| lines(directory.path(), nodes).into_iter());
    let registers = sizes.map(Register::new);
    thread::scope(|scope| {
        for node in 0..MOST_NODES {
            let numbers = [0, 1, 2 + node % 2];
            let lines = numbers.map(|number| groups[number].next().unwrap());
            let registers = numbers.map(|number| &registers[number]);
            scope.spawn(move || {
                let barriers = lines.map(|lines| Barrier::new(Box::new(lines), MOST_NODES));
                let mut barriers: Vec<_> = registers.into_iter().zip(barriers).collect();
                for round in 1..=60 {
                    barriers.iter_mut().for_each(|(register, barrier)| register.attend_one(barrier, round));
                }
            });
        }
    });
    controller.stop();
}

#[test]
fn groups_of_different_threads_do_not_wait_for_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let _controller = Emulator::create(directory.path(), 2).unwrap().spawn().unwrap();
    let idle = lines(directory.path(), 2);
    let register = Register::new(3);
    thread::scope(|scope| {
        for lines in lines(directory.path(), 3) {
            let register = &register;
            scope.spawn(move || register.attend(&mut Barrier::new(Box::new(lines), 3), 500));
        }
    });
    drop(idle);
}

#[test]
fn a_circuit_is_free_again_when_its_last_node_has_gone() {
    let directory = tempfile::tempdir().unwrap();
    let _controller = Emulator::create(directory.path(), 1).unwrap().spawn().unwrap();
    let mut group = lines(directory.path(), 3);
    let stale = group[0].ticket();
    for _ in 0..3 {
        let refused = EmulatedLines::claim(directory.path(), 2);
        assert!(matches!(refused, Err(Error::NoCircuit { circuits: 1, .. })), "{refused:?}");
        group.remove(0);
    }
    let claim = || EmulatedLines::claim(directory.path(), 2);
    let first = once_unlocked(claim, |claimed| matches!(claimed, Err(Error::NoCircuit { .. }))).unwrap();
    let second = EmulatedLines::attach(directory.path(), first.ticket(), 1).unwrap();
    let register = Register::new(2);
    thread::scope(|scope| {
        for lines in [first, second] {
            let register = &register;
            scope.spawn(move || register.attend(&mut Barrier::new(Box::new(lines), 2), 3));
        }
    });
    let refused = EmulatedLines::attach(directory.path(), stale, 1);
    assert!(matches!(refused, Err(Error::Revoked { circuit: 0, .. })), "{refused:?}");
}

#[test]
fn without_a_controller_nobody_waits_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let absent = EmulatedLines::check(directory.path()).unwrap_err();
    assert!(absent.to_string().contains("svmio barrier controller"), "{absent}");
    let controller = Emulator::create(directory.path(), 1).unwrap();
    assert!(matches!(Emulator::create(directory.path(), 1), Err(Error::Taken { .. })));
    EmulatedLines::check(directory.path()).unwrap();
    let controller = controller.spawn().unwrap();
    let lines = lines(directory.path(), 1).remove(0);
    let mut barrier = Barrier::new(Box::new(lines), 1);
    barrier.wait(|| Ok::<(), Error>(())).unwrap();
    controller.stop();
    let gone = barrier.wait(|| Ok::<(), Error>(()));
    assert!(matches!(gone, Err(Error::NoController { .. })), "{gone:?}");
    let checked = once_unlocked(|| EmulatedLines::check(directory.path()), Result::is_ok);
    assert!(matches!(checked, Err(Error::NoController { .. })), "{checked:?}");
    // A new one comes to the same place, and what is left of the old one does not disturb it.
    let create = || Emulator::create(directory.path(), 1);
    let again = once_unlocked(create, |created| matches!(created, Err(Error::Taken { .. }))).unwrap();
    let _again = again.spawn().unwrap();
    EmulatedLines::check(directory.path()).unwrap();
    assert!(barrier.wait(|| Ok::<(), Error>(())).is_err());
}

#[test]
fn what_is_no_controller_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for bytes in [&b""[..], &[7; 128 * 122], &[0; 128 * 122]] {
        std::fs::write(directory.path().join("lines"), bytes).unwrap();
        assert!(matches!(EmulatedLines::check(directory.path()), Err(Error::Foreign { .. })));
    }
    for circuits in [0, 1025] {
        let refused = Emulator::create(directory.path(), circuits);
        assert!(matches!(refused, Err(Error::Circuits { .. })), "{refused:?}");
    }
    let _controller = Emulator::create(directory.path(), 1).unwrap().spawn().unwrap();
    for nodes in [0, MOST_NODES + 1] {
        assert!(matches!(EmulatedLines::claim(directory.path(), nodes), Err(Error::Nodes { .. })));
    }
}

#[test]
fn a_wait_ends_when_another_member_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let _controller = Emulator::create(directory.path(), 1).unwrap().spawn().unwrap();
    let mut group = lines(directory.path(), 2);
    let mut barrier = Barrier::new(Box::new(group.remove(0)), 2);
    let lost = || Err(Error::Trial { problem: "somebody is lost" });
    assert!(matches!(barrier.wait(lost), Err(Error::Trial { .. })));
}

#[test]
fn an_emulated_controller_stands_its_trial() {
    let directory = tempfile::tempdir().unwrap();
    let _controller = Emulator::create(directory.path(), 1).unwrap().spawn().unwrap();
    let (meeting, register) = (std::sync::Barrier::new(3), Register::new(3));
    thread::scope(|scope| {
        for (node, mut lines) in lines(directory.path(), 3).into_iter().enumerate() {
            let (meeting, register) = (&meeting, &register);
            scope.spawn(move || {
                let mut meet = || {
                    meeting.wait();
                    Ok::<(), Error>(())
                };
                let part = Trial { limit: PATIENCE, ..Trial::of_node(node, 3) };
                trial(&mut lines as &mut dyn Lines, part, &mut meet).unwrap();
                register.attend(&mut Barrier::new(Box::new(lines), 3), 5);
            });
        }
    });
}

/// Has so many nodes try a circuit. The last one is late by so much when it is to drive its line. Whether the controller
/// answers all of them within the limit.
fn stands_its_trial(nodes: usize, late: Duration) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let _controller = Emulator::create(directory.path(), 1).unwrap().spawn().unwrap();
    let meeting = std::sync::Barrier::new(nodes);
    thread::scope(|scope| {
        let attempt = |(node, mut lines): (usize, EmulatedLines)| {
            let meeting = &meeting;
            scope.spawn(move || {
                let mut meetings = 0;
                let meet = || {
                    meeting.wait();
                    meetings += 1;
                    // After the first one, and two more in which the others have driven theirs.
                    if node + 1 == nodes && meetings == 4 {
                        thread::sleep(late);
                    }
                    Ok::<(), Error>(())
                };
                let outcome = trial(&mut lines as &mut dyn Lines, Trial::of_node(node, nodes), meet);
                outcome.inspect_err(|error| println!("node {node} of {nodes}: {error}")).is_ok()
            })
        };
        let attempts: Vec<_> = lines(directory.path(), nodes).into_iter().enumerate().map(attempt).collect();
        let outcomes: Vec<bool> = attempts.into_iter().map(|attempt| attempt.join().unwrap()).collect();
        outcomes.into_iter().all(|is_answered| is_answered)
    })
}

/// A process that computes until the test is over.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        Self(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("install a shell (dash)"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_controller_stands_its_trial_among_slow_nodes_and_busy_processes() {
    let _busy: Vec<Busy> = (0..6).map(|_| Busy::start()).collect();
    // What else runs may hold up the controller itself for longer, but not each time.
    assert!((0..3).any(|_| stands_its_trial(MOST_NODES, Duration::ZERO)));
}

#[test]
fn what_a_node_takes_to_drive_its_line_is_not_the_controllers() {
    // Longer than the controller of so few nodes may take.
    let late = Trial::of_node(0, 2).limit + Duration::from_millis(100);
    assert!((0..3).any(|_| stands_its_trial(2, late)));
}
