//! Changes of the lock table, under its mutex.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::claim::{Claim, Mode, Standing, Ticket};
use super::layout::{CAPACITY, EntrySet};
use super::{Liveness, LockError, LockTable, Place, order, sleep};
use crate::presence::ProcessSlot;
use crate::robust_mutex::{Died, Guard};

/// The table with its mutex locked. When it is dropped, the mutex is unlocked and then, so that
/// they do not run into it, those are woken for whom something has changed.
pub(super) struct Locked<'t> {
    table: &'t LockTable,
    guard: Option<Guard<'t>>,
    to_wake: EntrySet,
    called: Option<NonZeroU32>,
}

impl<'t> Locked<'t> {
    /// Locks the mutex, and repairs the table if its previous owner died over it.
    pub(super) fn new(table: &'t LockTable) -> Result<Self, LockError> {
        let (guard, died) = table.mutex.lock().map_err(LockError::Mutex)?;
        let mut locked = Locked { table, guard: Some(guard), to_wake: EntrySet::default(), called: None };
        if died == Died(true) {
            locked.repair();
        }
        Ok(locked)
    }

    /// What is held and waited for.
    pub(super) fn claims(&self) -> impl Iterator<Item = Claim> + Clone + use<'t> {
        let table = self.table;
        live_claims(table).map(|(_, claim)| claim)
    }

    /// What is claimed in this entry.
    pub(super) fn claim_at(&self, index: usize) -> Option<Claim> {
        self.table.entries[index].claim()
    }

    /// The processes whose claims these are.
    pub(super) fn owners(&self) -> Vec<ProcessSlot> {
        self.claims().map(|claim| claim.owner.slot).collect()
    }

    /// Whether an entry is free.
    pub(super) fn has_room(&self) -> bool {
        !self.table.header.live().is_full()
    }

    /// The ticket for a claim that is inserted before the mutex is unlocked.
    pub(super) fn next_ticket(&self) -> Ticket {
        Ticket(self.table.header.last_ticket().0 + 1)
    }

    /// Enters a claim. There must be room.
    pub(super) fn insert(&mut self, claim: &Claim) -> Place {
        let header = &self.table.header;
        let mut live = header.live();
        let index = live
            .first_absent()
            .unwrap_or_else(|| unreachable!("a claim is inserted only after a look whether there is room"));
        header.set_last_ticket(claim.ticket);
        self.table.entries[index].fill(claim);
        live.insert(index);
        header.set_live(live);
        if !live.is_full() {
            self.call_queue();
        }
        Place { index, ticket: claim.ticket }
    }

    /// Takes out the claim in this entry, and grants what waited for it.
    pub(super) fn remove(&mut self, index: usize) {
        let Some(gone) = self.claim_at(index) else {
            return;
        };
        self.empty(index);
        self.grant(|waiting| order::conflict(&gone, waiting));
    }

    /// Makes the claim in this entry one of less, and grants what waited for the rest.
    pub(super) fn narrow(&mut self, index: usize, range: Range<u64>, mode: Mode) {
        let Some(before) = self.claim_at(index) else {
            return;
        };
        self.table.entries[index].narrow(range, mode);
        self.grant(|waiting| order::conflict(&before, waiting));
    }

    /// Takes out all claims that are `unwanted`, and grants what can be; tells whether there were
    /// any.
    pub(super) fn remove_all(&mut self, unwanted: impl Fn(&Claim) -> bool) -> bool {
        let mut any = false;
        for (index, claim) in live_claims(self.table) {
            if unwanted(&claim) {
                self.empty(index);
                any = true;
            }
        }
        if any {
            self.grant(|_| true);
        }
        any
    }

    /// Takes out what belongs to those of the `suspects` that have died; tells whether there was
    /// anything. The process in slot `own` is not asked for.
    pub(super) fn drop_dead(
        &mut self,
        mut suspects: Vec<ProcessSlot>,
        own: ProcessSlot,
        alive: &Liveness<'_>,
    ) -> Result<bool, LockError> {
        suspects.sort_unstable();
        suspects.dedup();
        let mut dead = Vec::new();
        for slot in suspects {
            if slot != own && !alive(slot).map_err(|source| LockError::Liveness { slot, source })? {
                dead.push(slot);
            }
        }
        Ok(!dead.is_empty() && self.remove_all(|claim| dead.contains(&claim.owner.slot)))
    }

    /// The same for all owners, unless somebody did it just now: each waiter comes here once a
    /// period, and there may be hundreds.
    pub(super) fn drop_dead_now_and_then(
        &mut self,
        own: ProcessSlot,
        alive: &Liveness<'_>,
    ) -> Result<(), LockError> {
        let last = &self.table.header.looked_for_dead;
        let now = sleep::now();
        let since = now.checked_sub(Duration::from_nanos(last.load(Relaxed)));
        // A look in the future is one by a process whose clock is another: no look at all.
        if since.is_some_and(|since| since < sleep::PERIOD / 2) {
            return Ok(());
        }
        // 584 years fit.
        last.store(now.as_nanos() as u64, Relaxed);
        let suspects = self.owners();
        self.drop_dead(suspects, own, alive)?;
        Ok(())
    }

    /// Puts the table in order after a death in the middle of a change, from the entries alone. The
    /// dead one's own entries go later, when somebody finds them in his way: at this moment the
    /// kernel has given its mutex away, but perhaps not yet its slot.
    fn repair(&mut self) {
        let header = &self.table.header;
        let mut live = EntrySet::default();
        let mut last_ticket = header.last_ticket();
        for index in 0..CAPACITY {
            match self.claim_at(index) {
                Some(claim) => {
                    live.insert(index);
                    last_ticket = last_ticket.max(claim.ticket);
                }
                None => self.table.entries[index].clear(),
            }
        }
        header.set_live(live);
        header.set_last_ticket(last_ticket);
        self.grant(|_| true);
        // The dead one may have granted or freed without waking.
        self.to_wake = live;
        self.called = Some(header.queue.call_all());
    }

    fn empty(&mut self, index: usize) {
        let header = &self.table.header;
        self.table.entries[index].clear();
        let mut live = header.live();
        live.remove(index);
        header.set_live(live);
        self.call_queue();
    }

    /// Grants those of the waiting `candidates` that have nobody to wait for any more. To grant one
    /// changes nothing for the others, so the order does not matter.
    fn grant(&mut self, candidates: impl Fn(&Claim) -> bool) {
        for (index, claim) in live_claims(self.table) {
            if claim.standing == Standing::Waiting
                && candidates(&claim)
                && order::grantable(self.claims(), &claim)
                && self.table.entries[index].grant()
            {
                self.to_wake.insert(index);
            }
        }
    }

    fn call_queue(&mut self) {
        if let Some(kinds) = self.table.header.queue.call() {
            self.called = Some(self.called.map_or(kinds, |called| called | kinds));
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.guard = None;
        // Whoever dies here leaves sleepers unwoken; they look for themselves once a period.
        for index in self.to_wake {
            self.table.entries[index].wake();
        }
        if let Some(kinds) = self.called {
            self.table.header.queue.wake(kinds);
        }
    }
}

/// The entries that are not free. It reads them as it goes.
fn live_claims(table: &LockTable) -> impl Iterator<Item = (usize, Claim)> + Clone {
    table.header.live().filter_map(|index| Some((index, table.entries[index].claim()?)))
}
