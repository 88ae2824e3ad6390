//! Byte-range locks between the processes of one node, in memory that they share.
//!
//! A [`LockTable`] belongs to one file and lies in that file's shared state. Each lock that is held
//! or waited for has an entry there, with a ticket that tells the order of arrival. One rule decides
//! (module `order`): *a request is granted when no earlier one conflicts with it*, be that one held
//! or itself waiting. So nobody is overtaken by a request that conflicts with his own, and a writer
//! is not starved by a stream of readers.
//!
//! Entries change only under the table's mutex (module `update`). It is a robust one: it survives
//! the death of its owner, and the next to lock it repairs the table. Whoever releases a lock
//! grants, right there, the requests that were waiting for it, and wakes exactly those. A waiter
//! offers its core to others a few times, then sleeps on the state of its own entry (module
//! `sleep`). A lock for which nobody contends costs no system call.
//!
//! Every tenth of a second a waiter asks which owners of entries still live, and drops the entries
//! of those that do not. So the death of a holder, or of a waiter further in front, delays the
//! others by at most two such periods.
//!
//! The table has room for [`LockTable::CAPACITY`] locks. While it is full, requests queue outside
//! (modules `room` and `queue`), but for those of owners who hold a lock already: they are refused.
//!
//! ```text
//! identity | mutex | next ticket, live entries, queue | entry 0 | entry 1 | ...
//!                                                       └ owner, range, mode, ticket, state
//! ```

mod claim;
mod error;
mod layout;
mod order;
mod queue;
mod room;
mod sleep;
mod update;

use std::io;
use std::ops::Range;
use std::ptr;

pub use claim::{Claim, Mode, Owner, Standing, ThreadId, Ticket};
pub use error::LockError;

use crate::presence::ProcessSlot;
use crate::robust_mutex::RobustMutex;
use layout::{CAPACITY, Entry, Header, Identity, State};
use sleep::{Deadline, Woken, Yields};
use update::Locked;

/// Tells whether the process in a slot still lives, as [`crate::presence::Presence::alive`] does.
///
/// It is called with the table's mutex locked: it must be quick and must not use the table.
pub type Liveness<'a> = dyn Fn(ProcessSlot) -> io::Result<bool> + 'a;

/// The locks of one file on one node. It is used where it lies, in shared memory: see
/// [`LockTable::init_at`] and [`LockTable::from_ptr`].
#[repr(C)]
pub struct LockTable {
    identity: Identity,
    mutex: RobustMutex,
    header: Header,
    entries: [Entry; CAPACITY],
}

/// An acquired lock, to be given back to [`LockTable::release`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the lock stays held until its token is released"]
pub struct LockToken(Option<Place>);

#[cfg(test)]
impl LockToken {
    /// That of a lock of nothing, which stands in no table.
    pub(crate) fn of_nothing() -> LockToken {
        LockToken(None)
    }
}

/// Which entry, and which of its successive occupants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    index: usize,
    ticket: Ticket,
}

impl LockTable {
    /// How many locks can be held or waited for at once; more requests than that queue for room.
    pub const CAPACITY: usize = CAPACITY;
    /// The memory that a table takes, in bytes.
    pub const BYTES: usize = size_of::<LockTable>();
    /// What the address of a table must be a multiple of.
    pub const ALIGN: usize = align_of::<LockTable>();

    /// Makes an empty table in the `len` bytes at `memory`.
    ///
    /// # Errors
    /// [`LockError::Memory`] for too little or misaligned memory, [`LockError::Mutex`] where the
    /// system knows no robust mutexes.
    ///
    /// # Safety
    /// `memory` points to `len` writable bytes that nobody, in whatever process, uses meanwhile.
    pub unsafe fn init_at(memory: *mut u8, len: usize) -> Result<(), LockError> {
        let table: *mut LockTable = room_for_table(memory, len)?;
        // SAFETY: the caller promises the memory, and its size was checked. Zeros are a value for
        // everything but the mutex.
        unsafe {
            ptr::write_bytes(memory, 0, Self::BYTES);
            RobustMutex::init_at(&raw mut (*table).mutex).map_err(LockError::Mutex)?;
            // Last, so that a table half made is not taken for one.
            let identity = &(*table).identity;
            identity.write();
        }
        Ok(())
    }

    /// The table that [`LockTable::init_at`] made in these `len` bytes, in whatever process.
    ///
    /// # Errors
    /// [`LockError::Memory`] for too little or misaligned memory, [`LockError::NotATable`] where
    /// there is no table of this version.
    ///
    /// # Safety
    /// `memory` points to `len` bytes, mapped shared and writable, that stay mapped for `'m` and
    /// that nobody writes to meanwhile but through a `LockTable`.
    pub unsafe fn from_ptr<'m>(memory: *mut u8, len: usize) -> Result<&'m LockTable, LockError> {
        let table: *mut LockTable = room_for_table(memory, len)?;
        // SAFETY: the caller promises the memory, and any content is a value for an `Identity`,
        // which is made of atomic integers.
        let identity = unsafe { &(*table).identity };
        if !identity.is_right() {
            return Err(LockError::NotATable);
        }
        // SAFETY: here lies a table, which consists of atomics and the mutex only.
        Ok(unsafe { &*table })
    }

    /// Locks the bytes of `range` for `owner`, waiting until all earlier conflicting requests have
    /// been granted and released, or their processes have died. An end of `u64::MAX` means that
    /// the range never ends. An empty range is granted at once and conflicts with nothing.
    ///
    /// # Errors
    /// [`LockError::WouldDeadlock`] where the wait would be for a lock of the owner himself,
    /// [`LockError::NoRoom`] where he holds one and the table is full,
    /// [`LockError::Inverted`] for a range that ends before it starts, [`LockError::TakenAway`]
    /// where another process took the owner for dead, and failures of `alive` and of the system.
    pub fn acquire(
        &self,
        owner: Owner,
        range: Range<u64>,
        mode: Mode,
        alive: &Liveness<'_>,
    ) -> Result<LockToken, LockError> {
        if is_empty(&range)? {
            return Ok(LockToken(None));
        }
        let table = self.lock_with_room(owner, &range, alive)?;
        self.enter(table, owner, range, mode, alive)
    }

    /// The same in a table that has room, whose mutex is locked.
    fn enter(
        &self,
        mut table: Locked<'_>,
        owner: Owner,
        range: Range<u64>,
        mode: Mode,
        alive: &Liveness<'_>,
    ) -> Result<LockToken, LockError> {
        let mut claim = Claim {
            owner,
            start: range.start,
            end: range.end,
            mode,
            ticket: table.next_ticket(),
            standing: Standing::Waiting,
        };
        loop {
            if order::grantable(table.claims(), &claim) {
                claim.standing = Standing::Held;
                return Ok(LockToken(Some(table.insert(&claim))));
            }
            let Some(held) = order::deadlock(table.claims(), &claim) else {
                break;
            };
            // Perhaps the circle closes only by way of a dead process.
            let suspects = table.owners();
            if !table.drop_dead(suspects, owner.slot, alive)? {
                return Err(LockError::WouldDeadlock { requested: range, held: held.range() });
            }
        }
        let place = table.insert(&claim);
        drop(table);
        self.wait(owner, place, alive)
    }

    /// Like [`LockTable::acquire`] where that would not wait; `None` where it would.
    ///
    /// # Errors
    /// As for `acquire`, but never [`LockError::WouldDeadlock`].
    pub fn try_acquire(
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
        let claim = Claim {
            owner,
            start: range.start,
            end: range.end,
            mode,
            ticket: table.next_ticket(),
            standing: Standing::Held,
        };
        loop {
            let suspects = if !table.has_room() {
                table.owners()
            } else if !order::grantable(table.claims(), &claim) {
                order::blockers(table.claims(), &claim).map(|blocker| blocker.owner.slot).collect()
            } else {
                return Ok(Some(LockToken(Some(table.insert(&claim)))));
            };
            if !table.drop_dead(suspects, owner.slot, alive)? {
                return Ok(None);
            }
        }
    }

    /// Gives a lock back, grants what waited for it, and wakes those waiters.
    ///
    /// # Errors
    /// [`LockError::TakenAway`] where another process took the owner for dead, so that the range
    /// was not protected to the end; [`LockError::Mutex`].
    pub fn release(&self, token: LockToken) -> Result<(), LockError> {
        match token.0 {
            None => Ok(()),
            Some(place) => self.withdraw(place),
        }
    }

    /// Makes a lock that is held cover only `range`, a part of what it covers, and in a mode that is no stricter;
    /// grants what had to wait for more than that.
    ///
    /// # Errors
    /// [`LockError::TakenAway`] as for [`LockTable::release`]; [`LockError::Mutex`].
    pub fn narrow(&self, token: &LockToken, range: Range<u64>, mode: Mode) -> Result<(), LockError> {
        let Some(place) = token.0 else { return Ok(()) };
        self.locked_with(place)?.narrow(place.index, range, mode);
        Ok(())
    }

    /// Makes a lock that is held another owner's, whom this process answers for, too, and who waits for nothing.
    ///
    /// # Errors
    /// [`LockError::TakenAway`] as for [`LockTable::release`]; [`LockError::Mutex`].
    pub fn set_owner(&self, token: &LockToken, owner: Owner) -> Result<(), LockError> {
        let Some(place) = token.0 else { return Ok(()) };
        let _table = self.locked_with(place)?;
        self.entries[place.index].set_owner(owner);
        Ok(())
    }

    /// Drops whatever the dead predecessor in `slot` held or waited for. A process that takes a
    /// slot does so before it uses the table; until then the predecessor is taken to be alive.
    ///
    /// # Errors
    /// [`LockError::Mutex`].
    pub fn reap(&self, slot: ProcessSlot) -> Result<(), LockError> {
        Locked::new(self)?.remove_all(|claim| claim.owner.slot == slot);
        Ok(())
    }

    /// What is held and waited for just now, in order of arrival; for showing to people.
    ///
    /// # Errors
    /// [`LockError::Mutex`].
    pub fn claims(&self) -> Result<Vec<Claim>, LockError> {
        let mut claims: Vec<Claim> = Locked::new(self)?.claims().collect();
        claims.sort_by_key(|claim| claim.ticket);
        Ok(claims)
    }

    /// Waits until the waiting entry in `place` is granted.
    fn wait(&self, owner: Owner, place: Place, alive: &Liveness<'_>) -> Result<LockToken, LockError> {
        let entry = &self.entries[place.index];
        let mut yields = Yields::default();
        let mut deadline = Deadline::one_period();
        loop {
            match entry.state() {
                State::Held if entry.ticket() == place.ticket => {
                    return Ok(LockToken(Some(place)));
                }
                State::Waiting | State::Sleeping if entry.ticket() == place.ticket => {}
                _ => return Err(LockError::TakenAway),
            }
            if yields.take(sleep::now()) {
                std::thread::yield_now();
                continue;
            }
            match entry.sleep_while_waiting(deadline)? {
                Woken::Changed => {}
                Woken::DeadlinePassed => {
                    let dropped = Locked::new(self)?.drop_dead_now_and_then(owner.slot, alive);
                    if let Err(error) = dropped {
                        self.withdraw(place)?;
                        return Err(error);
                    }
                    deadline = Deadline::one_period();
                }
            }
        }
    }

    fn withdraw(&self, place: Place) -> Result<(), LockError> {
        self.locked_with(place)?.remove(place.index);
        Ok(())
    }

    /// The table with its mutex locked, where `place` has not got another occupant since.
    fn locked_with(&self, place: Place) -> Result<Locked<'_>, LockError> {
        let table = Locked::new(self)?;
        let occupied = table.claim_at(place.index).map(|claim| claim.ticket);
        if occupied == Some(place.ticket) { Ok(table) } else { Err(LockError::TakenAway) }
    }
}

fn is_empty(range: &Range<u64>) -> Result<bool, LockError> {
    if range.start > range.end {
        return Err(LockError::Inverted(range.clone()));
    }
    Ok(range.start == range.end)
}

fn room_for_table(memory: *mut u8, len: usize) -> Result<*mut LockTable, LockError> {
    let table: *mut LockTable = memory.cast();
    if len < LockTable::BYTES || table.is_null() || !table.is_aligned() {
        return Err(LockError::Memory { address: memory.addr(), len });
    }
    Ok(table)
}

#[cfg(test)]
mod tests;
