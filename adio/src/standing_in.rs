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
use crate::split;

thread_local! {
    static HAS_BEGUN: Cell<bool> = const { Cell::new(false) };
}

/// Notes that this thread's collective access has reached the device.
#[inline]
pub(crate) fn note_begun() {
    HAS_BEGUN.set(true);
}

/// Runs the stock function `stock` of a collective access. Where it returns before the device has heard of the access
/// to the file that `opened` tells, if that is one of the device's, MPI has refused the rank's part: no MPI has done
/// with such an access earlier, not even for a count of zero. The rank takes part without any bytes then. The code
/// alone does not tell: MPICH 5 returns success where a handler of the program's has been called.
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
    // An error handler that is called meanwhile may access other files.
    let outer = HAS_BEGUN.replace(false);
    let code = split::set_aside(stock);
    if HAS_BEGUN.replace(outer) {
        return code;
    }
    let Some(fd) = opened() else { return code };
    // SAFETY: the caller vouches for the file.
    let refusal = refusal(unsafe { &*fd }, code);
    // SAFETY: the caller's promise.
    let taken = unsafe { take_turn(mpi, fd, direction, &refusal) };
    // The program gets an error anyway, that of its own part.
    let _ = taken.inspect_err(|failure| tracing::debug!("{}", failure.message));
    if code == SUCCESS { refusal.to_code(mpi) } else { code }
}

/// Why MPI refuses a rank's part, with `code`.
fn refusal<A: Abi>(fd: &RomioFile<A>, code: c_int) -> Failure {
    failure::behind(code).unwrap_or_else(|| {
        let name = fd.name().to_string_lossy();
        let message = format!("{name}: MPI refuses the rank's part of a collective access");
        Failure::new(ErrorClass::Argument, message)
    })
}

/// Does what an access does but for moving bytes; `refusal` is why there are none.
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
    refusal: &Failure,
) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the file.
    let handle = handle::of(unsafe { &*fd })?;
    handle.begin_access(direction)?;
    let placed = match direction {
        Direction::Read => Ok(()),
        // SAFETY: the caller's promise.
        Direction::Write => unsafe { placing::place_new(mpi, fd, None) },
    };
    // SAFETY: the caller vouches for the file.
    let handle = handle::of(unsafe { &*fd })?;
    handle.end_access(direction, placed.and(Err(refusal.clone())))
}
