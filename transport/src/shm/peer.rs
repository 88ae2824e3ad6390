//! What a process knows of a peer: its address, and what it has connected to so far.

use std::io;
use std::sync::OnceLock;

use crate::error::{Error, Result};
use crate::membership::Membership;
use crate::units::Rank;

use super::control::ControlSegment;
use super::process_memory::{self, ProcessMemory};
use super::wire::Address;

/// A peer.
#[derive(Debug)]
pub(super) struct Peer {
    rank: Rank,
    address: Address,
    control: OnceLock<ControlSegment>,
    memory: OnceLock<ProcessMemory>,
}

impl Peer {
    /// The one at `address`, to which nothing is connected yet.
    pub(super) fn new(rank: Rank, address: Address) -> Self {
        Self { rank, address, control: OnceLock::new(), memory: OnceLock::new() }
    }

    /// Where it is.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Its control segment, if it is connected.
    #[inline]
    pub(super) fn control(&self) -> Option<&ControlSegment> {
        self.control.get()
    }

    /// Keeps its control segment, unless another thread was quicker.
    pub(super) fn keep_control(&self, control: ControlSegment) -> &ControlSegment {
        self.control.get_or_init(|| control)
    }

    /// Its private memory.
    ///
    /// # Errors
    /// `PeerLost`; `System` where the kernel refuses.
    pub(super) fn memory(&self, membership: &Membership) -> Result<&ProcessMemory> {
        if let Some(memory) = self.memory.get() {
            return Ok(memory);
        }
        let memory = ProcessMemory::open(&self.address).map_err(|error| self.refused(membership, error))?;
        Ok(self.memory.get_or_init(|| memory))
    }

    /// Whether its process has ended, with all its threads. One that only stands still has not.
    pub(super) fn has_ended(&self) -> bool {
        if let Some(memory) = self.memory.get() {
            return memory.has_ended();
        }
        match ProcessMemory::open(&self.address) {
            Ok(memory) => self.memory.get_or_init(|| memory).has_ended(),
            // It has ended, or the kernel refuses: whoever asks may have to wait until it says yes.
            Err(_) => process_memory::is_gone(&self.address),
        }
    }

    /// Has its process go on if it was stopped.
    pub(super) fn rouse(&self) {
        match self.memory.get() {
            Some(memory) => memory.rouse(),
            None => process_memory::rouse(&self.address),
        }
    }

    fn refused(&self, membership: &Membership, error: io::Error) -> Error {
        let (rank, process) = (self.rank, self.address.process);
        if error.raw_os_error() == Some(libc::ESRCH) {
            let reason = format!("its process {process} has ended");
            return Error::PeerLost { rank, node: membership.node(rank).into(), reason };
        }
        let hint = match error.raw_os_error() {
            Some(libc::EPERM) => {
                "; /proc/sys/kernel/yama/ptrace_scope must be 0 or 1 and both processes of one user"
            }
            _ => "",
        };
        let node = membership.node(rank);
        let doing =
            format!("copying from or to the memory of rank {rank} on node {node} (process {process}){hint}");
        Error::system(doing, error)
    }
}
