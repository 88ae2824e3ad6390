//! ROMIO's shared file pointers: eight bytes in a file of their own, read, increased and written back.
//!
//! Newer releases of ROMIO lock around that (`SetLock`). Older ones lock a system file descriptor that we do
//! not have, which means not at all; there the read takes the lock and the write that follows gives it
//! back. Where no write follows (the pointer is only asked for, or increased by nothing) the lock is given
//! back by the thread's next call into the device, or when its MPI call returns: [`settle`]. Where all ranks ask for it
//! and then wait for each other, none keeps the lock: [`asking`].
//!
//! ROMIO does not look what became of locking. Where it cannot have the pointer it keeps other ranks waiting, or the
//! MPI ends the job, or it goes on as if the pointer were 0, depending on the call. So it does not hear of that: within
//! a call of MPI's that has [missed](missed_in) a pointer this is left alone, and the access to the data fails.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use svmio_svm::{FileId, FileOffset, LockMode, RangeLock};

use crate::failure::Failure;
use crate::handle::Handle;
use crate::noted::{Noted, Notes};

/// Whether this process's ROMIO locks by itself.
static ROMIO_LOCKS: AtomicBool = AtomicBool::new(true);

/// The lock of this thread's that is to be settled.
static PENDING: Notes<(FileId, RangeLock)> = Notes::new(&PENDING_HERE);

/// Why this thread has not got at a shared pointer in the stock function that it is in.
static MISSED: Notes<Failure> = Notes::new(&MISSED_HERE);

thread_local! {
    static PENDING_HERE: Noted<(FileId, RangeLock)> = const { Noted::nothing() };
    static MISSED_HERE: Noted<Failure> = const { Noted::nothing() };
    static IS_ASKING: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread is in a stock function whose caller hears what was missed in it.
    static IS_HEARD: Cell<bool> = const { Cell::new(false) };
}

/// Runs a stock function. Returns its code, and why it could not do with the shared pointer what it had to.
pub(crate) fn missed_in(stock: impl FnOnce() -> c_int) -> (c_int, Option<Failure>) {
    // Within an error handler, that is another function's.
    let outer = (IS_HEARD.replace(true), MISSED.take());
    let code = stock();
    IS_HEARD.set(outer.0);
    (code, MISSED.replace(outer.1))
}

/// Notes why the stock function which this thread is in cannot do with a shared pointer what it has to. The first
/// reason counts.
pub(crate) fn note_missed(failure: &Failure) {
    if IS_HEARD.get() {
        MISSED.set(MISSED.take().unwrap_or_else(|| failure.clone()));
    }
}

/// What ROMIO is told of an access to a shared pointer: nothing where it has failed in a stock function whose caller
/// will hear of it.
pub(crate) fn withheld<T: Default>(outcome: Result<T, Failure>) -> Result<T, Failure> {
    outcome.or_else(|failure| {
        note_missed(&failure);
        if demand().is_ok() { Err(failure) } else { Ok(T::default()) }
    })
}

/// Before an access of any kind.
///
/// # Errors
/// What the stock function that it belongs to has missed a shared pointer for.
#[inline]
pub(crate) fn demand() -> Result<(), Failure> {
    MISSED.get().map_or(Ok(()), Err)
}

/// Says that this process's ROMIO has no `SetLock`.
pub(crate) fn romio_does_not_lock() {
    // Relaxed: set before the first file is opened, by a thread that then tells others of the file.
    ROMIO_LOCKS.store(false, Ordering::Relaxed);
}

/// Runs what only asks for a shared pointer, while no rank moves it, and has the ranks wait for each other after that:
/// a lock that one kept until then would hold up the others.
pub(crate) fn asking<T>(ask: impl FnOnce() -> T) -> T {
    let before = IS_ASKING.replace(true);
    let answer = ask();
    IS_ASKING.set(before);
    answer
}

/// Before a shared pointer is read.
pub(crate) fn before_read(handle: &Handle) -> Result<(), Failure> {
    if !ROMIO_LOCKS.load(Ordering::Relaxed) {
        settle();
        let mode = if IS_ASKING.get() { LockMode::Shared } else { LockMode::Exclusive };
        let lock = handle.file.lock(FileOffset(0)..FileOffset(8), mode)?;
        if IS_ASKING.get() {
            // What another node has moved it to is seen by whoever has had the lock.
            return Ok(());
        }
        PENDING.set((handle.file.id(), lock));
    }
    Ok(())
}

/// Writes a shared pointer: under the lock that the read before took, or under one of its own.
pub(crate) fn write(handle: &Handle, write: impl FnOnce() -> Result<u64, Failure>) -> Result<u64, Failure> {
    if ROMIO_LOCKS.load(Ordering::Relaxed) {
        return write();
    }
    let lock = match PENDING.take() {
        Some((file, lock)) if file == handle.file.id() => lock,
        _ => handle.file.lock(FileOffset(0)..FileOffset(8), LockMode::Exclusive)?,
    };
    let outcome = write();
    let released = lock.release().map_err(Failure::from);
    outcome.and_then(|written| released.map(|()| written))
}

/// Gives back a lock that a read took and no write followed.
#[inline]
pub fn settle() {
    drop(PENDING.take());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::ErrorClass;

    fn failure(text: &str) -> Failure {
        Failure::new(ErrorClass::Io, text)
    }

    #[test]
    fn nothing_is_accessed_in_a_call_that_has_missed_the_pointer() {
        let (code, missed) = missed_in(|| {
            assert_eq!(demand(), Ok(()));
            note_missed(&failure("no lock"));
            note_missed(&failure("what comes of that"));
            assert_eq!(demand(), Err(failure("no lock")));
            7
        });
        assert_eq!((code, missed), (7, Some(failure("no lock"))));
        assert_eq!(demand(), Ok(()), "the next call is another one");
        assert_eq!(missed_in(|| 0), (0, None));
    }

    #[test]
    fn a_call_within_an_error_handler_is_one_of_its_own() {
        let (_, missed) = missed_in(|| {
            note_missed(&failure("outer"));
            assert_eq!(missed_in(|| demand().map_or(1, |()| 0)), (0, None));
            assert_eq!(demand(), Err(failure("outer")));
            0
        });
        assert_eq!(missed, Some(failure("outer")));
    }

    #[test]
    fn outside_of_a_call_nothing_is_noted_or_withheld() {
        note_missed(&failure("nobody is told"));
        assert_eq!(demand(), Ok(()));
        assert_eq!(withheld::<u64>(Err(failure("told"))), Err(failure("told")));
        let (_, missed) = missed_in(|| withheld::<u64>(Err(failure("told later"))).map_or(1, |_| 0));
        assert_eq!(missed, Some(failure("told later")));
    }
}
