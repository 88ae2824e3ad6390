//! Strided, collective and nonblocking accesses, by the host ROMIO's generic functions for now.
//!
//! Those call [`crate::contiguous`] for each piece. Around them is done what they leave undone for us:
//!
//! * A collective access is carried out by every rank for itself. ROMIO's own exchange between ranks was made
//!   for file systems that cannot do many small accesses; here it costs several copies, leaves ranks waiting
//!   for ever when one fails, and rewrites the gaps between pieces, which may be somebody else's. At the end
//!   the ranks agree on whether it worked. Before a write to a file of several nodes, [`placing`] gives new segments
//!   their homes.
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
use crate::placing;
use crate::synchronisation;

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// A user's buffer, the part of the file, and the status to fill, as ROMIO hands them over.
#[derive(Clone, Copy)]
pub(crate) struct Access<A: Abi> {
    pub(crate) direction: Direction,
    pub(crate) buffer: *mut c_void,
    pub(crate) count: i64,
    pub(crate) datatype: Datatype<A>,
    /// The offset in etypes of the view.
    pub(crate) position: Position,
    pub(crate) status: *mut A::Status,
}

/// One rank's access to a view; returns the bytes that were moved, and tells them in the status.
///
/// # Safety
/// The parts of `access` are as ROMIO gave them.
pub(crate) unsafe fn independently<A: Abi>(
    mpi: &Mpi<A>,
    host: &Host<A>,
    fd: *mut RomioFile<A>,
    access: &Access<A>,
) -> Result<u64, Failure> {
    // SAFETY: ROMIO's file is valid, and nothing else refers to it while a field is read.
    let (handle, atomic) = unsafe { (handle::of(&*fd)?, (*fd).atomicity != 0) };
    let (depth, before) = (handle.lock_depth(), handle.moved());
    if atomic {
        // Exclusive for reads, too: ROMIO takes exclusive locks for them within.
        handle.lock(0..u64::MAX, LockMode::Exclusive)?;
    }
    // SAFETY: the caller vouches for the arguments.
    let outcome = unsafe { in_portions(mpi, host, fd, access) };
    let unlocked = handle.unlock_beyond(depth);
    outcome.and(unlocked)?;
    // ROMIO tells of all that was asked for, also where the file ended before.
    let moved = handle.moved() - before;
    // SAFETY: the caller vouches for the status.
    unsafe { mpi.set_status(access.status, moved) };
    Ok(moved)
}

/// The generic function, with as much at a time as its 32-bit lengths bear.
///
/// # Safety
/// As [`independently`].
unsafe fn in_portions<A: Abi>(
    mpi: &Mpi<A>,
    host: &Host<A>,
    fd: *mut RomioFile<A>,
    access: &Access<A>,
) -> Result<(), Failure> {
    const PORTION: u64 = 1 << 30;
    let mut access = *access;
    if host.is_contiguous(mpi, access.datatype) {
        // As bytes, so that a single large element can be divided, too.
        access.count = access.count.saturating_mul(mpi.type_size(access.datatype) as i64);
        access.datatype = mpi.constants.byte;
    }
    let size = mpi.type_size(access.datatype).max(1);
    // SAFETY: ROMIO's file is valid.
    let etype_size = unsafe { (*fd).etype_size().max(1) };
    // As many elements as are whole etypes together, and at least one such group.
    let group = etype_size / gcd(etype_size, size);
    let elements = ((PORTION / (size * group)).max(1) * group) as i64;
    let mut done = 0;
    while done < access.count {
        let count = elements.min(access.count - done);
        let offset = access.position.offset + done * size as i64 / etype_size as i64;
        let portion = Access {
            buffer: access.buffer.wrapping_byte_offset((done * mpi.extent(access.datatype)) as isize),
            count,
            position: Position { pointer: access.position.pointer, offset },
            ..access
        };
        // SAFETY: the caller vouches for the access, of which this is a part.
        unsafe { host.strided(fd, &portion) }?;
        done += count;
    }
    Ok(())
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
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
    unsafe {
        let placed = match access.direction {
            Direction::Read => Ok(()),
            Direction::Write => placing::place_new(mpi, host, fd, access),
        };
        let mine = placed.and_then(|()| whole(mpi, host, fd, access)).map(|_| ());
        match access.direction {
            Direction::Read => agreement::all(mpi, (*fd).comm, mine),
            Direction::Write => synchronisation::end_of_write(mpi, (*fd).comm, handle::of(&*fd)?, mine),
        }
    }
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
    if bytes > 0 && !(host.is_contiguous(mpi, access.datatype) && host.is_contiguous_in_file(mpi, filetype)) {
        // SAFETY: the caller vouches for the arguments.
        return unsafe { independently(mpi, host, fd, access) };
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
