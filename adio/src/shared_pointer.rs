//! ROMIO's shared file pointers: eight bytes in a file of their own, read, increased and written back.
//!
//! Newer releases of ROMIO lock around that (`SetLock`). Older ones lock a system file descriptor that we do
//! not have, which means not at all; there the read takes the lock and the write that follows gives it
//! back. Where no write follows (the pointer is only asked for, or increased by nothing) the lock is given
//! back by the thread's next call into the device, or when its MPI call returns: [`settle`]. Where all ranks ask for it
//! and then wait for each other, none keeps the lock: [`asking`].

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use svmio_svm::{FileId, FileOffset, LockMode, RangeLock};

use crate::failure::Failure;
use crate::handle::Handle;
use crate::noted::Noted;

/// Whether this process's ROMIO locks by itself.
static ROMIO_LOCKS: AtomicBool = AtomicBool::new(true);

/// How many threads have a lock that is to be settled: hardly ever any, and every access asks.
static PENDING_LOCKS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static PENDING: Noted<(FileId, RangeLock)> = const { Noted::nothing() };
    static IS_ASKING: Cell<bool> = const { Cell::new(false) };
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
        // Relaxed, here and below: a thread asks for its own lock only.
        PENDING_LOCKS.fetch_add(1, Ordering::Relaxed);
        PENDING.with(|pending| pending.set((handle.file.id(), lock)));
    }
    Ok(())
}

/// Writes a shared pointer: under the lock that the read before took, or under one of its own.
pub(crate) fn write(handle: &Handle, write: impl FnOnce() -> Result<u64, Failure>) -> Result<u64, Failure> {
    if ROMIO_LOCKS.load(Ordering::Relaxed) {
        return write();
    }
    let lock = match take_pending() {
        Some((file, lock)) if file == handle.file.id() => lock,
        _ => handle.file.lock(FileOffset(0)..FileOffset(8), LockMode::Exclusive)?,
    };
    let outcome = write();
    let released = lock.release().map_err(Failure::from);
    outcome.and_then(|written| released.map(|()| written))
}

/// Gives back a lock that a read took and no write followed.
pub fn settle() {
    if PENDING_LOCKS.load(Ordering::Relaxed) != 0 {
        drop(take_pending());
    }
}

fn take_pending() -> Option<(FileId, RangeLock)> {
    PENDING.with(Noted::take).inspect(|_| {
        PENDING_LOCKS.fetch_sub(1, Ordering::Relaxed);
    })
}
