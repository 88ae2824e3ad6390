//! What each process exports for being woken: its bell and its interrupts.

use crate::error::{Error, Result};
use crate::membership::Membership;
use crate::memory::SharedMemory;
use crate::units::{Interrupt, Rank};

use super::bell::{Bell, InterruptLine};
use super::storage::Storage;

/// The control segment as it lies in memory. All zeroes is a process that nobody has woken yet.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Control {
    /// For all who wait in this process for a condition on its memory.
    pub(super) bell: Bell,
    interrupts: [InterruptLine; Interrupt::COUNT],
}

impl Control {
    /// One of the interrupts.
    ///
    /// # Errors
    /// Where there is none of that number.
    #[inline]
    pub(super) fn line(&self, interrupt: Interrupt) -> Result<&InterruptLine> {
        self.interrupts.get(interrupt.0 as usize).ok_or_else(|| Error::OutOfBounds {
            what: "the interrupts of a process".into(),
            offset: interrupt.0.into(),
            length: 1,
            size: Interrupt::COUNT as u64,
        })
    }

    /// Triggers an interrupt of the process whose control this is.
    ///
    /// # Errors
    /// Where there is none of that number.
    #[inline]
    pub(super) fn trigger(&self, interrupt: Interrupt) -> Result<()> {
        self.line(interrupt)?.trigger(&self.bell);
        Ok(())
    }

    /// Has all who sleep here look again.
    pub(super) fn disturb(&self) {
        self.bell.alarm();
        for line in &self.interrupts {
            line.disturb();
        }
    }
}

/// A control segment, mapped.
#[derive(Debug, Clone)]
pub(super) struct ControlSegment(SharedMemory);

impl ControlSegment {
    /// Storage for a new one.
    ///
    /// # Errors
    /// `Memory`.
    pub(super) fn reserve() -> Result<Storage> {
        Storage::reserve("the control segment", size_of::<Control>() as u64)
    }

    /// Maps the one that `owner` keeps in `storage`.
    ///
    /// # Errors
    /// `Memory`; `Wire` where it is not of the size that this version has.
    pub(super) fn map(storage: &Storage, membership: &Membership, owner: Rank) -> Result<Self> {
        let memory = storage.map("the control segment")?;
        if memory.len() != size_of::<Control>() {
            let problem = format!("a control segment of {} bytes", memory.len());
            return Err(Error::wire(membership, owner, problem));
        }
        Ok(Self(memory))
    }

    /// What is in it.
    #[inline]
    pub(super) fn get(&self) -> &Control {
        // SAFETY: `map` checked the size; mappings begin at pages, which is more than the alignment asks for. The
        // memory is all atomics, for which any bytes are valid and which others may change; it stays mapped as
        // long as `self`.
        unsafe { &*self.0.as_ptr().cast::<Control>() }
    }
}
