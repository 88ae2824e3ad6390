//! The words of the lock table: who claims which bytes how.

use std::cell::Cell;
use std::ops::Range;

use crate::presence::ProcessSlot;

/// Who waits for a lock and will release it.
///
/// Locks are not re-entrant: what an owner holds is in the way of its own further requests. While a
/// thread waits it is taken to release nothing; so let a lock that will be released by another
/// thread than the one that acquired it have an owner of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The process. It must be the slot of a live process, else the lock is taken away.
    pub slot: ProcessSlot,
    /// The thread in that process.
    pub thread: ThreadId,
}

/// A thread among those of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u32);

impl ThreadId {
    /// The calling thread, by the kernel's number for it.
    ///
    /// The number is remembered: a forked child goes by that of the thread that forked it.
    pub fn current() -> ThreadId {
        thread_local!(static CURRENT: Cell<Option<ThreadId>> = const { Cell::new(None) });
        CURRENT.with(|current| {
            current.get().unwrap_or_else(|| {
                let number = rustix::thread::gettid().as_raw_nonzero().get();
                let id = ThreadId(number.unsigned_abs());
                current.set(Some(id));
                id
            })
        })
    }
}

/// Whether a lock admits others beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// For reading: may overlap with other shared locks.
    Shared,
    /// For writing: overlaps with no other lock.
    Exclusive,
}

/// The place of a request in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Whether a request has been granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Not yet.
    Waiting,
    /// Its owner holds the lock.
    Held,
}

/// A lock that somebody holds or waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Whose it is.
    pub owner: Owner,
    /// The first byte.
    pub start: u64,
    /// The byte after the last one; `u64::MAX` means that the range never ends.
    pub end: u64,
    /// Shared or exclusive.
    pub mode: Mode,
    /// The order of arrival.
    pub ticket: Ticket,
    /// Held or waiting.
    pub standing: Standing,
}

impl Claim {
    /// The bytes claimed.
    pub fn range(&self) -> Range<u64> {
        self.start..self.end
    }
}
