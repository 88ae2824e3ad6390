//! All interleavings of two nodes and the controller, where all sleep at once: whoever sleeps through a change of its
//! line would sleep for ever, which loom reports; and what came before a barrier is seen after it.

use std::cell::Cell;
use std::time::Duration;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::controller::run;
use super::memory::{LineIn, LineOut};
use super::wire::{Bell, Claim};
use crate::hardware::machine::{Controller, Node, NodeStep};

const NODES: usize = 2;

struct Circuit {
    bell: Bell,
    lines_out: Vec<LineOut>,
    lines_in: Vec<LineIn>,
    /// What each node writes before the barrier. Relaxed: the barrier orders it.
    written: Vec<AtomicU32>,
}

impl Circuit {
    fn new(claim: Claim) -> Self {
        let circuit = Self {
            bell: Bell::default(),
            lines_out: (0..NODES).map(|_| LineOut::default()).collect(),
            lines_in: (0..NODES).map(|_| LineIn::default()).collect(),
            written: (0..NODES).map(|_| AtomicU32::new(0)).collect(),
        };
        circuit.lines_out.iter().for_each(|line| line.wire.hand_over(claim));
        circuit.lines_in.iter().for_each(|line| line.wire.hand_over(claim));
        circuit
    }

    fn barrier(&self, own: usize, claim: Claim) {
        let (out, into) = (&self.lines_out[own], &self.lines_in[own]);
        let mut node = Node::come();
        loop {
            match node.next() {
                NodeStep::Sense => {
                    let level = into.wire.level(claim).expect("nobody else claims it");
                    let before = node;
                    node = node.sensed(level);
                    if node == before {
                        into.bell.sleep(Duration::MAX, || into.wire.level(claim) != Some(level));
                    }
                }
                NodeStep::Drive(level) => {
                    assert!(out.wire.drive(claim, level));
                    self.bell.ring();
                    node = node.driven();
                }
                NodeStep::Leave => return,
            }
        }
    }

    fn control(&self, claim: Claim) {
        let mut machine = Controller::new(NODES);
        let has_changed = Cell::new(false);
        let mut goes_on = || {
            let before = machine.level();
            let goes_on = run(&mut machine, claim, &self.lines_out, &self.lines_in);
            has_changed.set(has_changed.get() || machine.level() != before);
            goes_on
        };
        while !has_changed.get() {
            if !goes_on() {
                self.bell.sleep(Duration::MAX, &mut goes_on);
            }
        }
    }
}

#[test]
fn loom_finds_nobody_asleep_for_ever_and_nothing_unseen() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let claim = Claim::after(0);
        let circuit = Arc::new(Circuit::new(claim));
        let node = |own: usize, circuit: Arc<Circuit>| {
            move || {
                circuit.written[own].store(1, Ordering::Relaxed);
                circuit.barrier(own, claim);
                for written in &circuit.written {
                    assert_eq!(written.load(Ordering::Relaxed), 1);
                }
            }
        };
        let other = thread::spawn(node(1, Arc::clone(&circuit)));
        let controller = thread::spawn({
            let circuit = Arc::clone(&circuit);
            move || circuit.control(claim)
        });
        node(0, Arc::clone(&circuit))();
        other.join().expect("it ends");
        controller.join().expect("it ends");
    });
}
