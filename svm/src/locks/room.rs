//! Room in the table for one more lock.
//!
//! Who finds none waits outside, in order of arrival (module `queue`). But not who holds a lock of this table already:
//! whoever has the room may be waiting for that lock, and others who hold one for room, so that nobody would ever go
//! on. He gets room out of turn, and where there is none, an error.

use std::ops::Range;

use super::claim::{Claim, Mode, Owner, Standing};
use super::sleep::{Deadline, Woken};
use super::update::Locked;
use super::{Liveness, LockError, LockTable, LockToken, is_empty};

impl LockTable {
    /// Like [`LockTable::acquire`] where there is room in the table; `None` where there is none, or others wait for it.
    ///
    /// # Errors
    /// As for `acquire`.
    pub(crate) fn acquire_if_room(
        &self,
        owner: Owner,
        range: Range<u64>,
        mode: Mode,
        alive: &Liveness<'_>,
    ) -> Result<Option<LockToken>, LockError> {
        if is_empty(&range)? {
            return Ok(Some(LockToken(None)));
        }
        let mut table = Locked::new(self)?;
        let may_enter = |table: &Locked<'_>| table.has_room() && self.header.queue.admits(None);
        if !may_enter(&table) {
            // There may be hundreds who come here.
            table.drop_dead_now_and_then(owner.slot, alive)?;
            if !may_enter(&table) {
                return Ok(None);
            }
        }
        self.enter(table, owner, range, mode, alive).map(Some)
    }

    /// Locks the table's mutex when there is room for one more entry, in order of arrival.
    pub(super) fn lock_with_room(
        &self,
        owner: Owner,
        range: &Range<u64>,
        alive: &Liveness<'_>,
    ) -> Result<Locked<'_>, LockError> {
        let queue = &self.header.queue;
        let mut turn = None;
        loop {
            let mut table = Locked::new(self)?;
            if table.has_room() && queue.admits(turn) {
                queue.admitted(turn);
                return Ok(table);
            }
            if turn.is_none()
                && let Some(held) = held_by(owner, &table)
            {
                if !table.has_room() {
                    let suspects = table.owners();
                    table.drop_dead(suspects, owner.slot, alive)?;
                }
                return match table.has_room() {
                    true => Ok(table),
                    false => Err(LockError::NoRoom { requested: range.clone(), held: held.range() }),
                };
            }
            let own = *turn.get_or_insert_with(|| queue.join());
            let (seen, had_room) = (queue.look(), table.has_room());
            drop(table);
            match queue.sleep(seen, own, Deadline::one_period())? {
                Woken::Changed => continue,
                Woken::DeadlinePassed => table = Locked::new(self)?,
            }
            if had_room && table.has_room() && queue.look().serving == seen.serving {
                // Those in front had a whole period to take the room. They are dead.
                queue.skip_to(own);
            } else {
                table.drop_dead_now_and_then(owner.slot, alive)?;
            }
        }
    }
}

#[cfg(test)]
impl LockTable {
    /// How many wait for room.
    pub(crate) fn queued(&self) -> u32 {
        self.header.queue.length()
    }
}

/// A lock that this owner holds.
fn held_by(owner: Owner, table: &Locked<'_>) -> Option<Claim> {
    table.claims().find(|claim| claim.owner == owner && claim.standing == Standing::Held)
}
