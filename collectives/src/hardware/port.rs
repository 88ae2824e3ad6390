//! Linux's parallel port as a node's end: data lines out, status lines in.
//!
//! | circuit | line out, pin | line in, pin | bit of the status register |
//! |---|---|---|---|
//! | 0 | D0, 2 | nFault, 15 | 3 |
//! | 1 | D1, 3 | Select, 13 | 4 |
//! | 2 | D2, 4 | PaperOut, 12 | 5 |
//! | 3 | D3, 5 | nAck, 10 | 6 |
//! | 4 | D4, 6 | Busy, 11 | 7, which is the opposite of its pin |
//!
//! Pins and bits are IEEE 1284's for the compatible mode, bits also those of linux/parport.h (Linux 6.1,
//! `PARPORT_STATUS_ERROR` to `PARPORT_STATUS_BUSY`). Which pins the paper took, the picture of its figure 3 tells and
//! its text does not, so this assignment is ours; a controller is wired to it.
//!
//! One process of a node has the port, and all circuits of it: the kernel lets one claim it at a time, and all lines
//! out are bits of one register. All nodes that are wired to a circuit are to be in its group, as the controller waits
//! for all their lines; [`trial`](super::trial()) finds out where they are not.
//!
//! **Never run on a real port.** The driver's answers were seen from a virtual machine's port, which has no lines in
//! that could be wired; circuits over [`Registers`] are tested with a model of ports and cables.
//!
//! **What polling costs.** A poll reads the status register: a system call, and a cycle of the bus at which the port
//! is. Nothing wakes a waiter, so one whose patience has ended sleeps between polls, 50 µs at first and 1 ms at most: a
//! late node is noticed that much later.

mod access;
mod ppdev;

use std::fmt::Debug;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::error::{Error, Result};
use super::lines::Lines;
use super::machine::Level;

pub use access::PortAccess;
pub use ppdev::Ppdev;

/// The first status bit that is a line in.
const FIRST_STATUS_BIT: usize = 3;

/// Status bits that are the opposite of their pins.
const INVERTED: u8 = 1 << 7;

/// How long a waiter sleeps between polls: at first, and at most.
const PAUSES: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(1)];

/// The two registers of a parallel port that matter here.
pub trait Registers: Debug + Send {
    /// Drives all eight data lines: bit *n* is line D*n*.
    ///
    /// # Errors
    /// The system's.
    fn write_data(&mut self, data: u8) -> io::Result<()>;

    /// The status register as it is: bits 3 to 7 are lines, bit 7 is the opposite of its line.
    ///
    /// # Errors
    /// The system's.
    fn read_status(&mut self) -> io::Result<u8>;
}

/// A parallel port, which belongs to this process. Clones are the same port.
#[derive(Debug, Clone)]
pub struct Port {
    state: Arc<Mutex<State>>,
    path: PathBuf,
}

#[derive(Debug)]
struct State {
    registers: Box<dyn Registers>,
    /// What all data lines carry.
    data: u8,
    /// Which circuits belong to groups.
    taken: u8,
}

impl Port {
    /// How many circuits a port has.
    pub const CIRCUITS: usize = 5;

    /// A port with these registers, of which errors speak as `path`. All lines out are driven low.
    ///
    /// # Errors
    /// The device's.
    pub fn new(mut registers: Box<dyn Registers>, path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        registers.write_data(0).map_err(Error::device("driving the lines of", &path, ""))?;
        Ok(Self { state: Arc::new(Mutex::new(State { registers, data: 0, taken: 0 })), path })
    }

    /// Which circuits are free: bit *n* is circuit *n*.
    #[must_use]
    pub fn free(&self) -> u8 {
        !self.state().taken & ((1 << Self::CIRCUITS) - 1)
    }

    /// A circuit, which is in use until the lines are dropped. The line out keeps its level.
    ///
    /// # Errors
    /// [`Error::NoCircuit`] where there are no free ones, [`Error::Revoked`] where this one is in use or is none.
    pub fn claim(&self, circuit: usize) -> Result<PortLines> {
        let mut state = self.state();
        let device = || self.path.display().to_string();
        if state.taken == (1 << Self::CIRCUITS) - 1 {
            return Err(Error::NoCircuit { device: device(), circuits: Self::CIRCUITS });
        }
        if circuit >= Self::CIRCUITS || state.taken >> circuit & 1 == 1 {
            return Err(Error::Revoked { device: device(), circuit });
        }
        state.taken |= 1 << circuit;
        drop(state);
        let [pause, _] = PAUSES;
        Ok(PortLines { port: self.clone(), circuit, pause })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Who panicked has left no register half written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A node's end of a circuit of a parallel port.
#[derive(Debug)]
pub struct PortLines {
    port: Port,
    circuit: usize,
    /// How long the next sleep is.
    pause: Duration,
}

impl Lines for PortLines {
    fn drive(&mut self, level: Level) -> Result<()> {
        [self.pause, _] = PAUSES;
        let mut state = self.port.state();
        let bit = 1 << self.circuit;
        state.data = if level == Level::High { state.data | bit } else { state.data & !bit };
        let data = state.data;
        state.registers.write_data(data).map_err(Error::device("driving a line of", &self.port.path, ""))
    }

    fn sense(&mut self) -> Result<Level> {
        let status = self.port.state().registers.read_status();
        let status = status.map_err(Error::device("sensing a line of", &self.port.path, ""))?;
        Ok(Level::from((status ^ INVERTED) >> (FIRST_STATUS_BIT + self.circuit) & 1 == 1))
    }

    fn sleep(&mut self, _awaited: Level, limit: Duration) -> Result<()> {
        std::thread::sleep(self.pause.min(limit));
        let [_, longest] = PAUSES;
        self.pause = (2 * self.pause).min(longest);
        Ok(())
    }
}

impl Drop for PortLines {
    fn drop(&mut self) {
        self.port.state().taken &= !(1 << self.circuit);
    }
}
