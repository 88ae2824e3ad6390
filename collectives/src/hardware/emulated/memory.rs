//! The memory of an emulated controller: what lies where, and that it is there.

use std::fs::File;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::MmapRaw;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use svmio_transport::SharedMemory;
use svmio_transport::futex::{AtomicU64, Ordering};

use super::MOST_CIRCUITS;
use super::wire::{Bell, Claim, Wire};
use crate::hardware::MOST_NODES;
use crate::hardware::error::{Error, Result};

/// What the memory begins with: "svmiohb" and the number of this layout.
const MAGIC: u64 = u64::from_be_bytes(*b"svmiohb\x01");

/// The beginning of the memory.
#[repr(C, align(128))]
#[derive(Debug)]
pub(super) struct Head {
    magic: AtomicU64,
    /// Where the controller sleeps.
    pub(super) bell: Bell,
}

/// A circuit in the memory.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Circuit {
    pub(super) setup: Setup,
    /// By node.
    pub(super) lines_out: [LineOut; MOST_NODES],
    /// By node.
    pub(super) lines_in: [LineIn; MOST_NODES],
}

/// For whom a circuit is: the number of the claim, and of the nodes below it.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(super) struct Setup(AtomicU64);

/// A node's line out. Two cache lines, because processors fetch them in pairs.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(super) struct LineOut {
    pub(super) wire: Wire,
}

/// A node's line in.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(super) struct LineIn {
    pub(super) wire: Wire,
    /// Where the node sleeps.
    pub(super) bell: Bell,
}

/// What a [`Setup`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claimed {
    /// By which claim; `None` before the first one.
    pub(super) claim: Option<Claim>,
    /// How many nodes take part; none while lines are handed over.
    pub(super) nodes: usize,
}

impl Setup {
    /// What it says.
    #[inline]
    pub(super) fn read(&self) -> Claimed {
        // Acquire: who sees that nodes take part sees their lines handed over.
        let word = self.0.load(Ordering::Acquire);
        Claimed { claim: Claim::new((word >> 32) as u32), nodes: (word as u32 as usize).min(MOST_NODES) }
    }

    /// Changes it.
    pub(super) fn write(&self, claim: Claim, nodes: usize) {
        // Release: as above.
        self.0.store(u64::from(claim.number()) << 32 | nodes as u64, Ordering::Release);
    }
}

/// The memory of a controller, mapped.
#[derive(Debug)]
pub(super) struct Memory {
    shared: SharedMemory,
    circuits: usize,
}

impl Memory {
    /// Bytes of one with so many circuits.
    pub(super) const fn length(circuits: usize) -> usize {
        size_of::<Head>() + circuits * size_of::<Circuit>()
    }

    /// Makes it in an empty file.
    ///
    /// # Errors
    /// Where there is no room.
    pub(super) fn create(file: &File, path: &Path, circuits: usize) -> Result<Self> {
        let length = Self::length(circuits) as u64;
        // With its storage: nobody is to find out by SIGBUS that there is none.
        rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, length)
            .map_err(|errno| Error::device("making room in", path, "")(errno.into()))?;
        let memory = Self::map(file, path)?;
        // Relaxed: the file gets its name after this, by which others find it.
        memory.head().magic.store(MAGIC, Ordering::Relaxed);
        Ok(memory)
    }

    /// Maps that of a controller, which is there.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::NoController`]; the system's.
    pub(super) fn open(file: &File, path: &Path) -> Result<Self> {
        let foreign = |problem: &str| Error::Foreign { path: path.into(), problem: problem.into() };
        let length = file.metadata().map_err(Error::device("looking at", path, ""))?.len() as usize;
        let circuits = length.saturating_sub(size_of::<Head>()) / size_of::<Circuit>();
        if circuits == 0 || circuits > MOST_CIRCUITS || length != Self::length(circuits) {
            return Err(foreign("it does not have the length of one"));
        }
        let memory = Self::map(file, path)?;
        // Relaxed: it was there before the file had its name.
        if memory.head().magic.load(Ordering::Relaxed) != MAGIC {
            return Err(foreign("it does not begin like one of this version"));
        }
        check_controller(file, path)?;
        Ok(memory)
    }

    fn map(file: &File, path: &Path) -> Result<Self> {
        let map = MmapRaw::map_raw(file).map_err(Error::device("mapping", path, ""))?;
        let (start, length) = (map.as_mut_ptr(), map.len());
        let circuits = (length - size_of::<Head>()) / size_of::<Circuit>();
        let start = NonNull::new(start).ok_or_else(|| Error::Foreign {
            path: path.into(),
            problem: "it is mapped at address 0".into(),
        })?;
        // SAFETY: the mapping is valid for reads and writes as long as `map`, which is what is kept; it begins with a
        // page; all access goes through atomics.
        let shared = unsafe { SharedMemory::new(start, length, Arc::new(map)) };
        Ok(Self { shared, circuits })
    }

    /// How many circuits there are.
    pub(super) fn circuits(&self) -> usize {
        self.circuits
    }

    /// The beginning.
    #[inline]
    pub(super) fn head(&self) -> &Head {
        // SAFETY: `open` and `create` see to the length; mappings begin with a page, which is more than the alignment
        // asks for. It is all atomics, for which any bytes are valid and which others may change; it stays mapped as
        // long as `self`.
        unsafe { &*self.shared.as_ptr().cast::<Head>() }
    }

    /// A circuit, of those that there are.
    #[inline]
    pub(super) fn circuit(&self, number: usize) -> &Circuit {
        assert!(number < self.circuits, "there is such a circuit");
        // SAFETY: as above; circuits lie one behind the other after the beginning, whose size is a multiple of their
        // alignment, and the number was just checked.
        unsafe { &*self.shared.as_ptr().add(size_of::<Head>()).cast::<Circuit>().add(number) }
    }
}

/// That a controller holds the lock of the file with its memory.
///
/// # Errors
/// [`Error::NoController`].
pub(super) fn check_controller(file: &File, path: &Path) -> Result<()> {
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Ok(()),
        Err(errno) => Err(Error::device("asking for the controller of", path, "")(errno.into())),
        Ok(()) => {
            // It makes no difference whether it is given back: no controller comes to this file again.
            let _ = flock(file, FlockOperation::Unlock);
            Err(Error::NoController { path: path.into() })
        }
    }
}
