//! Parallel ports over a model: the registers of each node's port, the cables from them, and a controller behind these.
//!
//! The model knows the pins, not what the program makes of them: status bits are those of IEEE 1284, and the seventh is
//! the opposite of its pin.

use std::io;
use std::sync::{Arc, Barrier as Meeting, Mutex};
use std::thread;

use svmio_collectives::hardware::{Barrier, Error, Level, Lines, Port, Registers, Trial, settled, trial};

use crate::Register;

/// Pins of data lines and of status lines, by circuit, as the controller's cables are made.
const CABLE: [(u32, u32); 5] = [(2, 15), (3, 13), (4, 12), (5, 10), (6, 11)];

/// What stands behind the cables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// A controller.
    Controller,
    /// Nothing but the disjunction of all lines: it goes up too early.
    Or,
    /// Nothing but their conjunction: it comes down too early.
    And,
    /// A printer that is on, has paper, and is not busy: lines in that do not change.
    Printer,
}

/// All nodes' ports and what is behind them.
#[derive(Debug)]
struct Hall {
    behind: Behind,
    /// By node.
    data: Vec<u8>,
    /// By circuit.
    levels: [Level; 5],
}

/// One node's registers.
#[derive(Debug)]
struct Wired {
    hall: Arc<Mutex<Hall>>,
    node: usize,
}

impl Hall {
    /// The level at a data pin of a node.
    fn data_pin(&self, node: usize, pin: u32) -> Level {
        // Pin 2 is D0, and so on to pin 9.
        Level::from(self.data[node] & 1 << (pin - 2) != 0)
    }

    fn settle(&mut self) {
        for (circuit, (out, _)) in CABLE.iter().enumerate() {
            let mut lines = (0..self.data.len()).map(|node| self.data_pin(node, *out));
            self.levels[circuit] = match self.behind {
                Behind::Controller => settled(self.levels[circuit], lines),
                Behind::Or => lines.any(bool::from).into(),
                Behind::And => lines.all(bool::from).into(),
                Behind::Printer => Level::Low,
            };
        }
    }

    fn status_pin(&self, pin: u32) -> Level {
        if self.behind == Behind::Printer {
            // nFault, Select and nAck are high, PaperOut and Busy low.
            return Level::from(matches!(pin, 15 | 13 | 10));
        }
        let circuit = CABLE.iter().position(|(_, into)| *into == pin).unwrap();
        self.levels[circuit]
    }
}

impl Registers for Wired {
    fn write_data(&mut self, data: u8) -> io::Result<()> {
        let mut hall = self.hall.lock().unwrap();
        hall.data[self.node] = data;
        hall.settle();
        Ok(())
    }

    fn read_status(&mut self) -> io::Result<u8> {
        let hall = self.hall.lock().unwrap();
        // Bits 0 to 2 are not connected, and say what they like.
        let mut status = fastrand::u8(0..8);
        for (bit, pin) in [(3, 15), (4, 13), (5, 12), (6, 10), (7, 11)] {
            let level = hall.status_pin(pin);
            let level = if bit == 7 { !level } else { level };
            status |= u8::from(bool::from(level)) << bit;
        }
        Ok(status)
    }
}

/// The ports of so many nodes.
fn ports(nodes: usize, behind: Behind) -> Vec<Port> {
    let hall = Hall { behind, data: vec![0; nodes], levels: [Level::Low; 5] };
    let hall = Arc::new(Mutex::new(hall));
    let port = |node| {
        let registers = Wired { hall: Arc::clone(&hall), node };
        Port::new(Box::new(registers), format!("node {node}")).unwrap()
    };
    (0..nodes).map(port).collect()
}

/// What the nodes that are given find out of a circuit.
fn tried(ports: &[Port], circuit: usize) -> Vec<Result<(), Error>> {
    let meeting = Meeting::new(ports.len());
    thread::scope(|scope| {
        let tries: Vec<_> = ports
            .iter()
            .enumerate()
            .map(|(node, port)| {
                let meeting = &meeting;
                scope.spawn(move || {
                    let mut lines = port.claim(circuit)?;
                    let part = Trial::of_node(node, ports.len());
                    trial(&mut lines as &mut dyn Lines, part, || {
                        meeting.wait();
                        Ok(())
                    })
                })
            })
            .collect();
        tries.into_iter().map(|tried| tried.join().unwrap()).collect()
    })
}

#[test]
fn five_groups_at_once_on_one_port_per_node() {
    let ports = ports(6, Behind::Controller);
    let registers: [Register; 5] = std::array::from_fn(|_| Register::new(ports.len()));
    thread::scope(|scope| {
        for port in &ports {
            for (circuit, register) in registers.iter().enumerate() {
                let lines = port.claim(circuit).unwrap();
                // Odd numbers of barriers, and different ones: circuits are in different states at each time.
                let rounds = 21 + 10 * circuit as u64;
                scope.spawn(move || register.attend(&mut Barrier::new(Box::new(lines), 30), rounds));
            }
        }
    });
}

#[test]
fn a_controller_stands_its_trial_on_each_circuit() {
    let ports = ports(4, Behind::Controller);
    for circuit in 0..Port::CIRCUITS {
        for tried in tried(&ports, circuit) {
            tried.unwrap();
        }
    }
    assert_eq!(ports[0].free(), 0b1_1111);
}

#[test]
fn a_printer_does_not() {
    let ports = ports(2, Behind::Printer);
    for circuit in 0..Port::CIRCUITS {
        for tried in tried(&ports, circuit) {
            assert!(matches!(tried, Err(Error::Trial { .. })), "{tried:?}");
        }
    }
}

#[test]
fn nor_does_a_controller_with_one_state() {
    for behind in [Behind::Or, Behind::And] {
        for tried in tried(&ports(3, behind), 1) {
            assert!(matches!(tried, Err(Error::Trial { .. })), "{behind:?}: {tried:?}");
        }
    }
}

#[test]
fn nor_does_one_that_waits_for_nodes_outside_the_group() {
    let ports = ports(3, Behind::Controller);
    for tried in tried(&ports[..2], 0) {
        assert!(matches!(tried, Err(Error::Trial { .. })), "{tried:?}");
    }
}

#[test]
fn a_circuit_belongs_to_one_group_at_a_time() {
    let port = ports(1, Behind::Controller).remove(0);
    let held: Vec<_> = (1..5).map(|circuit| port.claim(circuit).unwrap()).collect();
    assert_eq!(port.free(), 1);
    assert!(matches!(port.claim(2), Err(Error::Revoked { circuit: 2, .. })));
    assert!(matches!(port.claim(5), Err(Error::Revoked { circuit: 5, .. })));
    let last = port.claim(0).unwrap();
    assert!(matches!(port.claim(0), Err(Error::NoCircuit { circuits: 5, .. })));
    drop((held, last));
    assert_eq!(port.free(), 0b1_1111);
}
