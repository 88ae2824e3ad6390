//! The locks in a file's shared state, and where ranges are to be locked.

use std::sync::atomic::Ordering;

use crate::kept_locks::KeptLocks;
use crate::locks::{LockError, LockTable};

use super::{KEPT_AT, LOCKS_AT, State};

impl State {
    /// The file's locks.
    ///
    /// # Errors
    /// [`LockError::NotATable`] where something other than svmio changed the state, or where this process
    /// may only read.
    pub(crate) fn locks(&self) -> Result<&LockTable, LockError> {
        if !self.writable {
            return Err(LockError::NotATable);
        }
        // SAFETY: `revive` has made the table before the state was published, the mapping lives as long as
        // `self`, and nobody writes there but through a table.
        unsafe { LockTable::from_ptr(self.locks_ptr(), LockTable::BYTES) }
    }

    /// The locks of other nodes that this one keeps.
    ///
    /// # Errors
    /// As [`State::locks`].
    pub(crate) fn kept_locks(&self) -> Result<KeptLocks<'_>, LockError> {
        if !self.writable {
            return Err(LockError::NotATable);
        }
        // SAFETY: as in `locks`; the place begins a page.
        unsafe { KeptLocks::from_ptr(self.kept_ptr()) }
    }

    /// Whether ranges of the file are locked at the master node, too, whatever homes their segments have: some of them
    /// got theirs while they were locked there. Ask only after the homes that the answer is wanted for.
    pub(crate) fn are_also_locked_at_master(&self) -> bool {
        // Relaxed: it is set before the homes for which it counts are stored, which releases, and asked for after they
        // were loaded, which acquires.
        self.header().also_locked_at_master.load(Ordering::Relaxed) != 0
    }

    /// Has all who lock ranges of the file lock them at the master node, too. To be called before the homes are entered
    /// for which that is.
    pub(crate) fn set_also_locked_at_master(&self) {
        self.header().also_locked_at_master.store(1, Ordering::Relaxed);
    }

    /// Notes that homes are about to be entered of which the master has not told this node: it has not told either
    /// whether ranges are locked at it, too.
    pub(crate) fn add_unasked_homes(&self) {
        // Relaxed, also below: as above.
        self.header().unasked_homes.fetch_add(1, Ordering::Relaxed);
    }

    /// How often there were such homes; read it before the master is asked.
    pub(crate) fn unasked_homes(&self) -> u64 {
        self.header().unasked_homes.load(Ordering::Relaxed)
    }

    /// Notes that the master has been asked since there were such homes so often.
    pub(crate) fn set_asked_homes(&self, unasked: u64) {
        // Release: whoever sees this sees what the master has told.
        self.header().asked_homes.fetch_max(unasked, Ordering::Release);
    }

    /// Whether the master has been asked since the last such homes. Ask only after the homes that the answer is wanted
    /// for.
    pub(crate) fn are_homes_asked(&self) -> bool {
        self.header().asked_homes.load(Ordering::Acquire) >= self.unasked_homes()
    }

    pub(super) fn kept_ptr(&self) -> *mut u8 {
        // SAFETY: KEPT_AT lies within the mapping, which is LENGTH bytes long.
        unsafe { self.map.as_mut_ptr().add(KEPT_AT as usize) }
    }

    pub(super) fn locks_ptr(&self) -> *mut u8 {
        // SAFETY: LOCKS_AT lies within the mapping, which is LENGTH bytes long.
        unsafe { self.map.as_mut_ptr().add(LOCKS_AT as usize) }
    }
}
