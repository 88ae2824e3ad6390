//! Processes of the node that died with locks: what they changed without telling counts before their locks go.
//!
//! The kernel frees the place of a process as it dies, and whoever wants a lock sees that at once. That the process is
//! lost the node's agent hears only then, from the job's watchdog.

use std::io;

use crate::locks::LockError;
use crate::presence::{Presence, ProcessSlot};

use super::State;

impl State {
    /// Whether the process in `slot` lives, to be asked about those who stand in [`State::locks`]. Where it does not,
    /// what it may have changed of this node's segments without telling counts as changed from now on: its locks go
    /// next, and who gets one looks for changes.
    ///
    /// # Errors
    /// As [`Presence::alive`].
    pub(crate) fn is_alive(
        &self,
        presence: &Presence,
        slot: ProcessSlot,
        own: Option<u32>,
    ) -> io::Result<bool> {
        let is_alive = presence.alive(slot)?;
        if let (false, Some(own)) = (is_alive, own) {
            self.set_all_changed(own);
        }
        Ok(is_alive)
    }

    /// Drops the locks that a dead predecessor in `slot` left, after what it may have changed is counted, as by
    /// [`State::is_alive`].
    ///
    /// # Errors
    /// As [`State::locks`], and [`LockError::Mutex`].
    pub(crate) fn reap(&self, slot: ProcessSlot, own: Option<u32>) -> Result<(), LockError> {
        let locks = self.locks()?;
        if let Some(own) = own
            && locks.claims()?.iter().any(|claim| claim.owner.slot == slot)
        {
            self.set_all_changed(own);
        }
        locks.reap(slot)
    }

    /// Notes that processes of this node may have changed each segment whose home it is, as position `own` in the
    /// file's list of nodes.
    fn set_all_changed(&self, own: u32) {
        self.homes().filter(|(_, home)| *home == own).for_each(|(index, _)| self.set_changed(index));
    }
}
