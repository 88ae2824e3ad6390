//! Strided, collective and nonblocking accesses, by the host ROMIO's generic functions for now.
//!
//! Those call [`crate::contiguous`] for each piece. Around them is done what they leave undone for us:
//!
//! * A collective access is carried out by every rank for itself. ROMIO's own exchange between ranks was made
//!   for file systems that cannot do many small accesses; here it costs several copies, leaves ranks waiting
//!   for ever when one fails, and rewrites the gaps between pieces, which may be somebody else's. At the end
//!   the ranks agree on whether it worked.
//! * A nonblocking access, collective or not, depends on no other rank either, so that its request is complete
//!   when it starts.
//! * In atomic mode the whole file is locked for the access, since which bytes it touches only the generic
//!   functions know.

use std::ffi::c_void;

use svmio_svm::LockMode;

use crate::abi::{Abi, Datatype};
use crate::agreement;
use crate::calls::Mpi;
use crate::contiguous::{self, Position};
use crate::failure::Failure;
use crate::handle;
use crate::host::Host;
use crate::layout::{INDIVIDUAL, RomioFile};

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// A user's buffer, the part of the file, and the status to fill, as ROMIO hands them over.
pub(crate) struct Access<A: Abi> {
    pub(crate) direction: Direction,
    pub(crate) buffer: *mut c_void,
    pub(crate) count: i64,
    pub(crate) datatype: Datatype<A>,
    /// The offset in etypes of the view.
    pub(crate) position: Position,
    pub(crate) status: *mut A::Status,
}

/// One rank's access to a view.
///
/// # Safety
/// The parts of `access` are as ROMIO gave them.
pub(crate) unsafe fn independently<A: Abi>(
    host: &Host<A>,
    fd: *mut RomioFile<A>,
    access: &Access<A>,
) -> Result<(), Failure> {
    // SAFETY: ROMIO's file is valid, and nothing else refers to it while a field is read.
    let (handle, atomic) = unsafe { (handle::of(&*fd)?, (*fd).atomicity != 0) };
    let depth = handle.lock_depth();
    if atomic {
        // Exclusive for reads, too: ROMIO takes exclusive locks for them within.
        handle.lock(0..u64::MAX, LockMode::Exclusive)?;
    }
    // SAFETY: the caller vouches for the arguments.
    let outcome = unsafe { host.strided(fd, access) };
    handle.unlock_beyond(depth);
    outcome
}

/// All ranks' access to a view.
///
/// # Safety
/// The parts of `access` are as ROMIO gave them, and every rank of the file makes the same call.
pub(crate) unsafe fn collectively<A: Abi>(
    mpi: &Mpi<A>,
    host: &Host<A>,
    fd: *mut RomioFile<A>,
    access: &Access<A>,
) -> Result<(), Failure> {
    // SAFETY: ROMIO's file is valid, and the caller vouches for the arguments.
    let (comm, mine) = unsafe { ((*fd).comm, whole(mpi, host, fd, access)) };
    agreement::all(mpi, comm, mine.map(|_| ()))
}

/// One rank's access to a view that may as well be contiguous; returns the bytes that were moved.
///
/// # Safety
/// The parts of `access` are as ROMIO gave them.
pub(crate) unsafe fn whole<A: Abi>(
    mpi: &Mpi<A>,
    host: &Host<A>,
    fd: *mut RomioFile<A>,
    access: &Access<A>,
) -> Result<u64, Failure> {
    let bytes = mpi.type_size(access.datatype) * access.count.unsigned_abs();
    // SAFETY: ROMIO's file is valid.
    let filetype = unsafe { (*fd).filetype };
    if bytes > 0 && !(host.is_contiguous(mpi, access.datatype) && host.is_contiguous(mpi, filetype)) {
        // SAFETY: the caller vouches for the arguments.
        unsafe { independently(host, fd, access) }?;
        return Ok(bytes);
    }
    // SAFETY: ROMIO's file is valid, and nothing else refers to it meanwhile.
    let fd = unsafe { &mut *fd };
    let position = match access.position.pointer {
        INDIVIDUAL => access.position,
        pointer => Position { pointer, offset: fd.byte_offset(access.position.offset) },
    };
    // SAFETY: a contiguous datatype's `bytes` bytes begin at the buffer.
    let moved = unsafe {
        match access.direction {
            Direction::Read => contiguous::read(fd, access.buffer, bytes, position),
            Direction::Write => contiguous::write(fd, access.buffer, bytes, position),
        }
    }?;
    // SAFETY: the caller vouches for the status.
    unsafe { mpi.set_status(access.status, moved) };
    Ok(moved)
}
