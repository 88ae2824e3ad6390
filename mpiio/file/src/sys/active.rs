//! Whether MPI may be called.

use mpi::Threading;
use mpi::environment;

use super::*;

/// That MPI may be called by this thread: safe code can come with what it had from an MPI that has ended since, or, by
/// [`delete`], with nothing at all.
pub(super) fn demand_active(call: &'static str) -> Result<(), Failure> {
    if is_initialized() && !is_finalized() && is_for_this_thread() {
        return Ok(());
    }
    Err(Failure { call, reason: Reason::Inactive })
}

/// Whether MPI can be called no more.
pub(super) fn is_finalized() -> bool {
    let mut is_finalized = 0;
    // SAFETY: it may be called at any time; the place of the answer is ours.
    unsafe { ffi::MPI_Finalized(&mut is_finalized) };
    is_finalized != 0
}

fn is_initialized() -> bool {
    let mut is_initialized = 0;
    // SAFETY: it may be called at any time; the place of the answer is ours.
    unsafe { ffi::MPI_Initialized(&mut is_initialized) };
    is_initialized != 0
}

/// Whether this thread may call MPI: that which initialized it, or any where MPI allows several.
fn is_for_this_thread() -> bool {
    if environment::threading_support() >= Threading::Serialized {
        return true;
    }
    let mut is_main = 0;
    // SAFETY: MPI is active; the place of the answer is ours.
    unsafe { ffi::MPI_Is_thread_main(&mut is_main) };
    is_main != 0
}
