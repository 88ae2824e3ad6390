//! What the component of Open MPI's `coll` framework knows of datatypes, and MPI's functions do not tell; and its
//! requests; and the end of MPI.
//!
//! Open MPI calls collectives of communicators for purposes of its own, too: to make communicators, and to do
//! collectives between two groups. Programs' calls never come with what it gives then, so a preload library never sees
//! it: datatypes that no function of MPI made. Asked how one was made, `MPI_Type_get_envelope` ends the program.

mod requests;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use svmio_adio::abi::Comm;
use svmio_adio::abi::openmpi::OpenMpi;

pub use requests::{Requests, complete_requests, give_requests};
pub(crate) use requests::{is_there, request_for};

/// Whether MPI can say how the datatype was made that a handle names.
///
/// # Safety
/// The handle is one of a datatype, not freed.
pub type IsDescribed = unsafe fn(handle: usize) -> bool;

static IS_DESCRIBED: OnceLock<IsDescribed> = OnceLock::new();

/// Has this crate ask `is_described` ahead of `MPI_Type_get_envelope`; data of other datatypes it packs. The first one
/// counts.
pub fn ask_before_envelope(is_described: IsDescribed) {
    let _ = IS_DESCRIBED.set(is_described);
}

/// Whether MPI can say how the datatype was made; true where nobody knows better.
pub(crate) fn is_described(handle: usize) -> bool {
    // SAFETY: handles come from the arguments of MPI's functions, for which the caller of the face vouches.
    IS_DESCRIBED.get().is_none_or(|is_described| unsafe { is_described(handle) })
}

static HEARS_OF_END: AtomicBool = AtomicBool::new(false);

/// Has this crate leave it to the component to call [`end`]. An attribute of `MPI_COMM_SELF` that is set at the first
/// collective goes before those that the program has set earlier, maybe on some processes only, and these may do
/// collectives when they go.
pub fn hear_of_end() {
    // Relaxed: called in MPI_Init, before any collective.
    HEARS_OF_END.store(true, Ordering::Relaxed);
}

/// Whether the component calls [`end`].
pub(crate) fn hears_of_end() -> bool {
    // Relaxed: as above.
    HEARS_OF_END.load(Ordering::Relaxed)
}

/// Forgets what is kept of a communicator. To be called when it is gone, before its handle is given again: attributes
/// that the program has of it may have done collectives after svmio's was gone.
pub fn gone(comm: Comm<OpenMpi>) {
    crate::kept::is_gone(comm);
}

/// Ends all groups. To be called by `MPI_Finalize` when the program's own attributes of `MPI_COMM_SELF` are gone.
pub fn end() {
    crate::kept::end::<OpenMpi>();
}
