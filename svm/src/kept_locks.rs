//! Locks of other nodes that this one keeps, in memory that its processes share.
//!
//! A lock that another node has granted to this one as a whole stands in a *place*. Whoever of this node's processes
//! wants a range that a kept lock covers only has to agree with the others of the node, in a [`LockTable`] of its own,
//! in which each place has a stretch of the numbers: there the users of the kept lock stand, each with the part that it
//! uses.
//!
//! The content of a place changes only under the exclusive lock of its whole stretch, so it is certain for everybody
//! who holds any of it. Before that, it is a hint, to be looked at again. But for one case: when the node has lost its
//! leader, whatever is kept is forgotten, and who uses it finds that at the end. Until then he stands in its place, for
//! whoever gets the range from the home to wait for; so nothing else comes to that place.
//!
//! A process that asks for a lock takes a free place first. So the node is never asked to give back a lock of which it
//! has not heard yet: who has to give it back waits for the stretch. If that process dies, its hold on the place goes,
//! and with it, as the place is still empty, the lock.

mod in_the_way;

use std::ops::Range;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::locks::{Liveness, LockError, LockTable, LockToken, Mode, Owner};

/// How many locks a node can keep of one file.
const PLACES: usize = 64;

/// How much of the numbers belongs to a place: more than any file has bytes but for segments of the largest sizes,
/// whose last bytes count as one.
const STRETCH: u64 = 1 << 57;

/// The first number that belongs to no place.
const BEYOND: u64 = PLACES as u64 * STRETCH;

/// Where a lock is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlaceNumber(pub(crate) u32);

/// Which lock of which node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The number of the node that granted it.
    pub(crate) home: u32,
    /// The lock's number there, not 0.
    pub(crate) lock: u64,
}

/// The locks that a node keeps of one file.
pub(crate) struct KeptLocks<'m> {
    places: &'m [Place; PLACES],
    users: &'m LockTable,
}

/// Zeros are an empty place, and any content is a value.
#[repr(C, align(64))]
struct Place {
    /// 0 where no lock is kept here.
    lock: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
    uses: AtomicU64,
    home: AtomicU32,
    is_exclusive: AtomicU32,
    /// 1 where the lock that was kept here was forgotten, whoever used it. It stays so.
    is_taken_away: AtomicU32,
}

impl KeptLocks<'_> {
    /// The memory that they take, in bytes.
    pub(crate) const BYTES: usize = size_of::<[Place; PLACES]>() + LockTable::BYTES;

    /// Makes empty places at `memory`.
    ///
    /// # Errors
    /// As [`LockTable::init_at`].
    ///
    /// # Safety
    /// `memory` points to [`KeptLocks::BYTES`] writable bytes that begin a page and that nobody uses meanwhile.
    pub(crate) unsafe fn init_at(memory: *mut u8) -> Result<(), LockError> {
        let places = size_of::<[Place; PLACES]>();
        // SAFETY: the caller promises the memory; the table's part of it is aligned, as a place is to a cache line.
        unsafe {
            memory.write_bytes(0, places);
            LockTable::init_at(memory.add(places), LockTable::BYTES)
        }
    }

    /// What [`KeptLocks::init_at`] has made.
    ///
    /// # Errors
    /// As [`LockTable::from_ptr`].
    ///
    /// # Safety
    /// As for [`LockTable::from_ptr`], with [`KeptLocks::BYTES`] bytes that begin a page.
    pub(crate) unsafe fn from_ptr<'m>(memory: *mut u8) -> Result<KeptLocks<'m>, LockError> {
        // SAFETY: the caller promises the memory; places are made of atomics, for which any content is a value.
        let places = unsafe { &*memory.cast::<[Place; PLACES]>() };
        // SAFETY: likewise.
        let users =
            unsafe { LockTable::from_ptr(memory.add(size_of::<[Place; PLACES]>()), LockTable::BYTES) }?;
        Ok(KeptLocks { places, users })
    }

    /// Where a lock of node `home` seems to be kept that covers `range` in `mode`.
    pub(crate) fn find(&self, home: u32, range: &Range<u64>, mode: Mode) -> Option<PlaceNumber> {
        let places = (0..PLACES as u32).map(PlaceNumber);
        places.into_iter().find(|place| !range.is_empty() && self.covers(*place, home, range, mode))
    }

    /// Whether the lock that is kept there covers `range` in `mode`.
    pub(crate) fn covers(&self, place: PlaceNumber, home: u32, range: &Range<u64>, mode: Mode) -> bool {
        let Some(place) = self.place(place) else { return false };
        place.lock.load(Acquire) != 0
            && place.home.load(Relaxed) == home
            && place.start.load(Relaxed) <= range.start
            && place.end.load(Relaxed) >= range.end
            && (mode == Mode::Shared || place.is_exclusive.load(Relaxed) != 0)
    }

    /// Waits until no user of the node is in the way of using `range` of the lock that is kept there. `None` where
    /// there is no room for one more user: the users are of locks of all homes, so to wait for room would be to wait
    /// for any of them, whatever the caller holds.
    ///
    /// # Errors
    /// As [`LockTable::acquire`].
    pub(crate) fn enter(
        &self,
        owner: Owner,
        place: PlaceNumber,
        range: &Range<u64>,
        mode: Mode,
        alive: &Liveness<'_>,
    ) -> Result<Option<LockToken>, LockError> {
        self.users.acquire_if_room(owner, part(place, range), mode, alive)
    }

    /// Counts one more time that the lock there was of use. The caller holds a part of it.
    pub(crate) fn count_use(&self, place: PlaceNumber) {
        if let Some(place) = self.place(place) {
            place.uses.fetch_add(1, Relaxed);
        }
    }

    /// A place for a lock of node `home`: it is empty, and others leave it alone until the token is released; `None`
    /// where there is none.
    ///
    /// # Errors
    /// As [`LockTable::try_acquire`].
    pub(crate) fn reserve(
        &self,
        owner: Owner,
        home: u32,
        alive: &Liveness<'_>,
    ) -> Result<Option<(PlaceNumber, LockToken)>, LockError> {
        let is_free = |number| self.grant_in(number).is_none() && !self.is_taken_away(number);
        for number in (0..PLACES as u32).map(PlaceNumber) {
            if !is_free(number) {
                continue;
            }
            if let Some(token) = self.users.try_acquire(owner, whole(number), Mode::Exclusive, alive)? {
                if is_free(number) {
                    if let Some(place) = self.place(number) {
                        // Relaxed: who asks about it was sent for by `home`, which was asked after this.
                        place.home.store(home, Relaxed);
                    }
                    return Ok(Some((number, token)));
                }
                self.users.release(token)?;
            }
        }
        Ok(None)
    }

    /// Puts a lock there. The caller has reserved the place, and is from now on a user of `range` in `mode`.
    ///
    /// # Errors
    /// As [`LockTable::narrow`].
    pub(crate) fn keep(
        &self,
        (number, token): (PlaceNumber, &LockToken),
        grant: Grant,
        range: &Range<u64>,
        mode: Mode,
    ) -> Result<(), LockError> {
        if let Some(place) = self.place(number) {
            place.start.store(range.start, Relaxed);
            place.end.store(range.end, Relaxed);
            place.uses.store(1, Relaxed);
            place.home.store(grant.home, Relaxed);
            place.is_exclusive.store(u32::from(mode == Mode::Exclusive), Relaxed);
            // Release: whoever sees the lock sees the rest.
            place.lock.store(grant.lock, Release);
        }
        self.users.narrow(token, part(number, range), mode).inspect_err(|_| {
            self.clear(number);
        })
    }

    /// Waits until nobody uses what is kept there, and holds others off.
    ///
    /// # Errors
    /// As [`LockTable::acquire`].
    pub(crate) fn enter_whole(
        &self,
        owner: Owner,
        place: PlaceNumber,
        alive: &Liveness<'_>,
    ) -> Result<LockToken, LockError> {
        self.users.acquire(owner, whole(place), Mode::Exclusive, alive)
    }

    /// Which lock is kept there. Certain for who holds any of it.
    pub(crate) fn grant_in(&self, place: PlaceNumber) -> Option<Grant> {
        let place = self.place(place)?;
        let lock = place.lock.load(Acquire);
        (lock != 0).then(|| Grant { home: place.home.load(Relaxed), lock })
    }

    /// Whether what was granted for that place cannot come to be kept there any more: it holds something else, or is
    /// reserved for a lock of another home. Whoever was to put it there has died.
    pub(crate) fn is_passed_on(&self, place: PlaceNumber, grant: Grant) -> bool {
        match self.grant_in(place) {
            Some(kept) => kept != grant,
            None => self.place(place).is_none_or(|place| place.home.load(Relaxed) != grant.home),
        }
    }

    /// The range of the lock that is kept there. The caller holds it.
    pub(crate) fn range_in(&self, place: PlaceNumber) -> Range<u64> {
        self.place(place).map_or(0..0, |place| place.start.load(Relaxed)..place.end.load(Relaxed))
    }

    /// The mode of the lock that is kept there. The caller holds it.
    pub(crate) fn mode_in(&self, place: PlaceNumber) -> Mode {
        let is_exclusive = self.place(place).is_some_and(|place| place.is_exclusive.load(Relaxed) != 0);
        if is_exclusive { Mode::Exclusive } else { Mode::Shared }
    }

    /// Empties the place, which the caller holds as a whole; returns how many times its lock was of use.
    pub(crate) fn clear(&self, place: PlaceNumber) -> u64 {
        self.place(place).map_or(0, |place| {
            place.lock.store(0, Release);
            place.uses.load(Relaxed)
        })
    }

    /// Empties all places that nobody uses.
    ///
    /// # Errors
    /// As [`LockTable::try_acquire`].
    pub(crate) fn clear_all(&self, owner: Owner, alive: &Liveness<'_>) -> Result<(), LockError> {
        for place in (0..PLACES as u32).map(PlaceNumber).filter(|place| self.grant_in(*place).is_some()) {
            if let Some(token) = self.users.try_acquire(owner, whole(place), Mode::Exclusive, alive)? {
                self.clear(place);
                self.users.release(token)?;
            }
        }
        Ok(())
    }

    /// Waits until nobody else is about to forget what is kept, whoever uses it.
    ///
    /// # Errors
    /// As [`LockTable::acquire`].
    pub(crate) fn enter_to_forget(&self, owner: Owner, alive: &Liveness<'_>) -> Result<LockToken, LockError> {
        self.users.acquire(owner, BEYOND..BEYOND + 1, Mode::Exclusive, alive)
    }

    /// Where something is kept.
    pub(crate) fn kept(&self) -> impl Iterator<Item = PlaceNumber> {
        (0..PLACES as u32).map(PlaceNumber).filter(|place| self.grant_in(*place).is_some())
    }

    /// Ends a use.
    ///
    /// # Errors
    /// As [`LockTable::release`].
    pub(crate) fn release(&self, token: LockToken) -> Result<(), LockError> {
        self.users.release(token)
    }

    /// The range of a kept lock, of whatever home, that `owner` uses.
    ///
    /// # Errors
    /// As [`LockTable::claims`].
    pub(crate) fn used_by(&self, owner: Owner) -> Result<Option<Range<u64>>, LockError> {
        let used = self.users.claims()?.into_iter().find(|claim| claim.owner == owner);
        Ok(used.map(|claim| self.range_in(PlaceNumber((claim.start / STRETCH) as u32))))
    }

    fn place(&self, number: PlaceNumber) -> Option<&Place> {
        self.places.get(number.0 as usize)
    }
}

#[cfg(test)]
impl KeptLocks<'_> {
    /// How many use what is kept or wait for that, and how many wait for room to do so.
    pub(crate) fn crowd(&self) -> (usize, u32) {
        (self.users.claims().unwrap().len(), self.users.queued())
    }

    /// How many wait for others to end their use.
    pub(crate) fn waiting(&self) -> usize {
        let claims = self.users.claims().unwrap();
        claims.iter().filter(|claim| claim.standing == crate::locks::Standing::Waiting).count()
    }
}

fn whole(place: PlaceNumber) -> Range<u64> {
    let start = u64::from(place.0) * STRETCH;
    start..start + STRETCH
}

/// Where `range` is in the stretch of a place.
fn part(place: PlaceNumber, range: &Range<u64>) -> Range<u64> {
    let stretch = whole(place);
    let start = range.start.min(STRETCH - 1);
    let end = range.end.clamp(start + 1, STRETCH);
    stretch.start + start..stretch.start + end
}

#[cfg(test)]
mod tests;
