//! What goes wrong with byte-range locks.

use std::io;
use std::ops::Range;

use super::LockTable;
use crate::presence::ProcessSlot;

/// Why a lock was not acquired or not released.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The range ends before it starts.
    #[error("bytes {}..{} end before they start", .0.start, .0.end)]
    Inverted(Range<u64>),
    /// The request waits, perhaps by way of others' requests, for a lock of the same thread.
    #[error(
        "waiting for bytes {}..{} would never end: this thread itself holds bytes {}..{}, \
         which must be released first", requested.start, requested.end, held.start, held.end
    )]
    WouldDeadlock {
        /// What the thread asks for.
        requested: Range<u64>,
        /// What it holds that is in the way.
        held: Range<u64>,
    },
    /// There is no room for one more lock, and who asks holds one: somebody else may be waiting for that.
    #[error(
        "there is no room for a lock on bytes {}..{}: as many locks of this file are held or waited for as a node has \
         room for ({}), and waiting for room might never end, as this thread itself holds bytes {}..{}, which must be \
         released first", requested.start, requested.end, LockTable::CAPACITY, held.start, held.end
    )]
    NoRoom {
        /// What the thread asks for.
        requested: Range<u64>,
        /// What it holds.
        held: Range<u64>,
    },
    /// The owner's slot was taken for that of a dead process, and its lock given away.
    #[error(
        "the lock on this range was taken away: the process was taken for dead, \
         or its slot was cleared while it was in use"
    )]
    TakenAway,
    /// It could not be found out whether a process lives.
    #[error("cannot tell whether the process in slot {} lives", slot.0)]
    Liveness {
        /// The slot of that process.
        slot: ProcessSlot,
        /// What was reported.
        source: io::Error,
    },
    /// The table's mutex cannot be locked.
    #[error("cannot lock the table of byte-range locks; its memory is damaged")]
    Mutex(#[source] io::Error),
    /// The operating system refuses to let a thread sleep.
    #[error("cannot sleep until a byte-range lock is granted")]
    Sleep(#[source] io::Error),
    /// The memory is too small for a table, or not aligned for it.
    #[error(
        "a table of byte-range locks needs {} bytes aligned to {}, not {len} bytes at {address:#x}",
        LockTable::BYTES,
        LockTable::ALIGN
    )]
    Memory {
        /// Where the memory starts.
        address: usize,
        /// Its bytes.
        len: usize,
    },
    /// The memory holds something else, or a table of another version of this library.
    #[error("the shared state holds no table of byte-range locks that this version understands")]
    NotATable,
}
