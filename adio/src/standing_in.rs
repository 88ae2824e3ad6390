//! Collective accesses of which MPI refuses a rank's part, as for a negative count.
//!
//! It does so before the device hears of the access, and for that rank only: the others would wait for it where ranks
//! [wait for each other](crate::outcome). So the rank takes its turn without a part, and the others hear of its failure
//! as of any other one.

use std::cell::Cell;
use std::ffi::c_int;

use crate::abi::{Abi, SUCCESS};
use crate::access::Direction;
use crate::calls::Mpi;
use crate::failure::{self, ErrorClass, Failure};
use crate::handle;
use crate::layout::RomioFile;
use crate::placing;

thread_local! {
    static HAS_BEGUN: Cell<bool> = const { Cell::new(false) };
}

/// Notes that this thread's collective access has reached the device.
pub(crate) fn note_begun() {
    HAS_BEGUN.set(true);
}

/// Runs the stock function `stock` of a collective access. Where it fails before the device has heard of the access to
/// the file that `opened` tells, if that is one of the device's, the rank takes part without any bytes.
///
/// A split access whose outcome all ranks share ends on such a rank as it begins: when it ends on all others.
///
/// # Safety
/// What `opened` tells is ROMIO's structure of a file of the device's, of which nobody has references, and every rank of
/// the file makes the same call.
pub unsafe fn collective<A: Abi>(
    mpi: &Mpi<A>,
    direction: Direction,
    opened: impl FnOnce() -> Option<*mut RomioFile<A>>,
    stock: impl FnOnce() -> c_int,
) -> c_int {
    HAS_BEGUN.set(false);
    let code = stock();
    if code != SUCCESS
        && !HAS_BEGUN.get()
        && let Some(fd) = opened()
    {
        // SAFETY: the caller's promise.
        let taken = unsafe { take_turn(mpi, fd, direction, code) };
        // The program has an error already, that of its own part.
        let _ = taken.inspect_err(|failure| tracing::debug!("{}", failure.message));
    }
    code
}

/// Does what an access does but for moving bytes; `code` is why there are none.
///
/// # Errors
/// The reason, or what failed before.
///
/// # Safety
/// As [`collective`].
unsafe fn take_turn<A: Abi>(
    mpi: &Mpi<A>,
    fd: *mut RomioFile<A>,
    direction: Direction,
    code: c_int,
) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the file.
    let handle = handle::of(unsafe { &*fd })?;
    let refusal = failure::behind(code).unwrap_or_else(|| {
        let message = format!("{}: MPI refuses the rank's part of a collective access", handle.file.name());
        Failure::new(ErrorClass::Argument, message)
    });
    handle.begin_access(direction)?;
    let placed = match direction {
        Direction::Read => Ok(()),
        // SAFETY: the caller's promise.
        Direction::Write => unsafe { placing::place_new(mpi, fd, None) },
    };
    // SAFETY: the caller vouches for the file.
    let handle = handle::of(unsafe { &*fd })?;
    handle.end_access(direction, placed.and(Err(refusal)))
}
