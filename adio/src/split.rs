//! Split collective accesses: what one function begins goes on in the background until another one ends it, in which
//! the ranks agree on the outcome, unless each is to hear of its own part only (`outcome`).
//!
//! ROMIO carries such an access out as it begins, by the same entry as any collective access. The preload library tells
//! us that it is one ([`beginning`]), and comes by when it ends ([`end`]).

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi::Abi;
use crate::access::Direction;
use crate::background::Operation;
use crate::calls::{Background, Mpi};
use crate::failure::Failure;
use crate::handle;
use crate::layout::RomioFile;
use crate::noted::{Noted, Notes};

/// That this thread begins a split collective access.
static BEGINNING: Notes<()> = Notes::new(&BEGINNING_HERE);

thread_local!(static BEGINNING_HERE: Noted<()> = const { Noted::nothing() });

/// Runs the stock function that begins a split collective access.
pub fn beginning(stock: impl FnOnce() -> c_int) -> c_int {
    noted_as(Some(()), stock)
}

/// Runs the stock function of a collective access, which begins no split one unless it comes to [`beginning`]: ROMIO may
/// call it from an error handler of the program's while another file's is beginning.
pub(crate) fn set_aside(stock: impl FnOnce() -> c_int) -> c_int {
    noted_as(None, stock)
}

fn noted_as(note: Option<()>, stock: impl FnOnce() -> c_int) -> c_int {
    let outer = BEGINNING.replace(note);
    let code = stock();
    BEGINNING.replace(outer);
    code
}

/// Whether this thread begins a split collective access; only once for each.
#[inline]
pub(crate) fn is_beginning() -> bool {
    BEGINNING.take().is_some()
}

/// A file's split collective access, if one has begun.
#[derive(Debug, Default)]
pub(crate) struct Split(Mutex<Option<Begun>>);

#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) operation: Arc<Operation>,
    pub(crate) direction: Direction,
    /// The address of ROMIO's status for it.
    pub(crate) status: usize,
}

impl Split {
    pub(crate) fn begin(&self, begun: Begun) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
    }

    fn take(&self) -> Option<Begun> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Before a split collective access of the file `fd` ends: it is over when this returns, on all ranks or, where outcomes
/// are each rank's own, on this one.
///
/// # Errors
/// What went wrong on any rank, on all; or on this one.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's, and every rank of the file makes the same call.
pub unsafe fn end<A: Abi>(mpi: &Mpi<A>, fd: *mut RomioFile<A>) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the file.
    let handle = unsafe { handle::of(&*fd)? };
    // None where none has begun, or an ordered one, which is over already: on all ranks.
    let Some(Begun { operation, direction, status }) = handle.split.take() else { return Ok(()) };
    operation.wait();
    let outcome = operation.outcome();
    if let Ok(moved) = &outcome {
        // SAFETY: the address is that of the status in ROMIO's structure, which is still there.
        unsafe { mpi.set_status(status as *mut A::Status, *moved) };
    }
    let mine = outcome.map(|_| ());
    handle.end_access(direction, mine)
}
