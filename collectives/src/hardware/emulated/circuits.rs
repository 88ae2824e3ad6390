//! A node's end of an emulated controller, and how a group gets a circuit.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::files;
use super::memory::{Claimed, LineIn, LineOut, Memory, check_controller};
use super::wire::Claim;
use crate::hardware::MOST_NODES;
use crate::hardware::error::{Error, Result};
use crate::hardware::lines::Lines;
use crate::hardware::machine::Level;

/// What is said where there is no controller.
const HINT: &str = "`svmio barrier controller DIRECTORY` starts one";

/// Which circuit a group has, for its nodes to tell each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The circuit's number.
    pub circuit: u32,
    /// The number of the group's claim.
    pub claim: u32,
    /// How many nodes the group has.
    pub nodes: u32,
}

/// A node's end of the lines of an emulated controller.
#[derive(Debug)]
pub struct EmulatedLines {
    memory: Memory,
    /// That of the memory, which the controller has locked.
    file: File,
    path: PathBuf,
    circuit: usize,
    claim: Claim,
    nodes: usize,
    node: usize,
    // Locked by all nodes of the group.
    _lock: File,
}

impl EmulatedLines {
    /// Whether there is a controller in a directory that this process may use.
    ///
    /// # Errors
    /// Why not.
    pub fn check(directory: &Path) -> Result<()> {
        let (file, path) = open(directory)?;
        Memory::open(&file, &path).map(drop)
    }

    /// Claims a free circuit for a group of `nodes`, of which the caller is node 0. The circuit is the group's as long
    /// as one of its nodes has it.
    ///
    /// # Errors
    /// [`Error::NoCircuit`], [`Error::NoController`], [`Error::Nodes`]; the system's.
    pub fn claim(directory: &Path, nodes: usize) -> Result<Self> {
        if nodes == 0 || nodes > MOST_NODES {
            return Err(Error::Nodes { nodes, node: 0 });
        }
        let (file, path) = open(directory)?;
        let memory = Memory::open(&file, &path)?;
        for circuit in 0..memory.circuits() {
            let lock = open_lock(directory, circuit)?;
            if !locked(&lock, directory, FlockOperation::NonBlockingLockExclusive)? {
                continue;
            }
            let claim = hand_over(&memory, circuit, nodes);
            // From exclusive to shared is no single step: another group may have come in between, which shows below.
            if locked(&lock, directory, FlockOperation::NonBlockingLockShared)?
                && memory.circuit(circuit).setup.read() == (Claimed { claim: Some(claim), nodes })
            {
                return Ok(Self { memory, file, path, circuit, claim, nodes, node: 0, _lock: lock });
            }
        }
        Err(Error::NoCircuit { device: directory.display().to_string(), circuits: memory.circuits() })
    }

    /// Becomes node `node` of the group that has a ticket, whose node 0 still has the circuit.
    ///
    /// # Errors
    /// [`Error::Revoked`], [`Error::NoController`], [`Error::Nodes`]; the system's.
    pub fn attach(directory: &Path, ticket: Ticket, node: usize) -> Result<Self> {
        let (circuit, nodes) = (ticket.circuit as usize, ticket.nodes as usize);
        if node >= nodes || nodes > MOST_NODES {
            return Err(Error::Nodes { nodes, node });
        }
        let revoked = || Error::Revoked { device: directory.display().to_string(), circuit };
        let claim = Claim::new(ticket.claim).ok_or_else(revoked)?;
        let (file, path) = open(directory)?;
        let memory = Memory::open(&file, &path)?;
        if circuit >= memory.circuits() {
            return Err(revoked());
        }
        let lock = open_lock(directory, circuit)?;
        let is_locked = locked(&lock, directory, FlockOperation::NonBlockingLockShared)?;
        if !is_locked || memory.circuit(circuit).setup.read() != (Claimed { claim: Some(claim), nodes }) {
            return Err(revoked());
        }
        Ok(Self { memory, file, path, circuit, claim, nodes, node, _lock: lock })
    }

    /// What the other nodes attach by.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        Ticket { circuit: self.circuit as u32, claim: self.claim.number(), nodes: self.nodes as u32 }
    }

    #[inline]
    fn line_in(&self) -> &LineIn {
        &self.memory.circuit(self.circuit).lines_in[self.node]
    }

    #[inline]
    fn line_out(&self) -> &LineOut {
        &self.memory.circuit(self.circuit).lines_out[self.node]
    }

    fn revoked(&self) -> Error {
        Error::Revoked { device: self.path.display().to_string(), circuit: self.circuit }
    }
}

impl Lines for EmulatedLines {
    #[inline]
    fn drive(&mut self, level: Level) -> Result<()> {
        if !self.line_out().wire.drive(self.claim, level) {
            return Err(self.revoked());
        }
        self.memory.head().bell.ring();
        Ok(())
    }

    #[inline]
    fn sense(&mut self) -> Result<Level> {
        self.line_in().wire.level(self.claim).ok_or_else(|| self.revoked())
    }

    fn sleep(&mut self, awaited: Level, limit: Duration) -> Result<()> {
        let line = self.line_in();
        let waits = || line.wire.level(self.claim) == Some(!awaited);
        line.bell.sleep(limit, || !waits());
        if waits() { check_controller(&self.file, &self.path) } else { Ok(()) }
    }
}

/// Gives a circuit to a new claim, whose lines are all low. The caller has locked it.
fn hand_over(memory: &Memory, number: usize, nodes: usize) -> Claim {
    let circuit = memory.circuit(number);
    let claim = Claim::after(circuit.setup.read().claim.map_or(0, Claim::number));
    // In this order: the controller looks at no line of a claim before all are handed over.
    circuit.setup.write(claim, 0);
    for (line_out, line_in) in circuit.lines_out.iter().zip(&circuit.lines_in) {
        line_out.wire.hand_over(claim);
        line_in.wire.hand_over(claim);
    }
    circuit.setup.write(claim, nodes);
    memory.head().bell.ring();
    claim
}

fn open(directory: &Path) -> Result<(File, PathBuf)> {
    let path = directory.join(files::LINES);
    let file = OpenOptions::new().read(true).write(true).open(&path).map_err(Error::device(
        "opening the lines of an emulated controller,",
        &path,
        HINT,
    ))?;
    Ok((file, path))
}

fn open_lock(directory: &Path, circuit: usize) -> Result<File> {
    let path = directory.join(files::circuit(circuit));
    File::open(&path).map_err(Error::device("opening", path, HINT))
}

fn locked(file: &File, directory: &Path, operation: FlockOperation) -> Result<bool> {
    match flock(file, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(Error::device("locking a circuit of", directory, "")(errno.into())),
    }
}
