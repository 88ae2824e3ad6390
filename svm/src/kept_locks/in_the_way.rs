//! What is in the way of a request: what its thread uses itself, and what was taken away while it was in use.

use std::ops::Range;
use std::sync::atomic::{
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

use crate::locks::{Liveness, LockError, LockToken, Mode, Owner};

use super::{KeptLocks, PLACES, PlaceNumber, whole};

impl KeptLocks<'_> {
    /// Empties a place for good, though others may use what was kept there.
    pub(crate) fn take_away(&self, place: PlaceNumber) {
        if let Some(place) = self.place(place) {
            // Relaxed: who sees that the lock is gone sees this.
            place.is_taken_away.store(1, Relaxed);
            place.lock.store(0, Release);
        }
    }

    /// Whether a lock was taken away there.
    pub(super) fn is_taken_away(&self, place: PlaceNumber) -> bool {
        self.place(place).is_some_and(|place| place.is_taken_away.load(Relaxed) != 0)
    }

    /// Where locks of `home` seem to be kept, or to have been taken away, that are in the way of `range` in `mode`.
    pub(crate) fn in_the_way(
        &self,
        home: u32,
        range: &Range<u64>,
        mode: Mode,
    ) -> impl Iterator<Item = PlaceNumber> {
        let seems_so = move |place: &PlaceNumber| {
            let grant = self.grant_in(*place);
            let seems_so = (grant.is_some() || self.is_taken_away(*place))
                && self.is_in_the_way(*place, home, range, mode)
                && !range.is_empty();
            // After the rest, so that what is read of two locks, of which one came after the other, counts for nothing.
            fence(Acquire);
            seems_so && self.grant_in(*place) == grant
        };
        (0..PLACES as u32).map(PlaceNumber).filter(seems_so)
    }

    /// Whether a lock of `home` is kept there that is in the way of `range` in `mode`. Certain for who holds any of it.
    pub(crate) fn is_kept_in_the_way(
        &self,
        place: PlaceNumber,
        home: u32,
        range: &Range<u64>,
        mode: Mode,
    ) -> bool {
        self.grant_in(place).is_some() && self.is_in_the_way(place, home, range, mode)
    }

    /// Like [`KeptLocks::enter`], whatever is kept there.
    ///
    /// # Errors
    /// As [`super::LockTable::acquire`].
    pub(crate) fn enter_after(
        &self,
        owner: Owner,
        place: PlaceNumber,
        range: &Range<u64>,
        mode: Mode,
        alive: &Liveness<'_>,
    ) -> Result<Option<LockToken>, LockError> {
        self.enter(owner, place, range, mode, alive).map_err(|error| match error {
            LockError::WouldDeadlock { .. } => {
                LockError::WouldDeadlock { requested: range.clone(), held: self.range_in(place) }
            }
            error => error,
        })
    }

    /// The range of a kept lock of `home` that `owner` itself uses and that is in the way of `range`.
    ///
    /// # Errors
    /// As [`super::LockTable::claims`].
    pub(crate) fn in_own_way(
        &self,
        owner: Owner,
        home: u32,
        range: &Range<u64>,
        mode: Mode,
    ) -> Result<Option<Range<u64>>, LockError> {
        let places = (0..PLACES as u32).map(PlaceNumber);
        let in_the_way = |place: &PlaceNumber| self.is_kept_in_the_way(*place, home, range, mode);
        let mut places = places.filter(in_the_way).peekable();
        if places.peek().is_none() {
            return Ok(None);
        }
        let own: Vec<_> = self.users.claims()?.into_iter().filter(|claim| claim.owner == owner).collect();
        let is_used = |place: &PlaceNumber| {
            let stretch = whole(*place);
            own.iter().any(|claim| stretch.contains(&claim.start))
        };
        Ok(places.find(is_used).map(|place| self.range_in(place)))
    }

    /// Whether what is or was kept there is of `home`, and in the way of `range` in `mode`.
    fn is_in_the_way(&self, place: PlaceNumber, home: u32, range: &Range<u64>, mode: Mode) -> bool {
        let kept = self.range_in(place);
        self.place(place).is_some_and(|place| place.home.load(Relaxed) == home)
            && kept.start < range.end
            && range.start < kept.end
            && (self.mode_in(place) == Mode::Exclusive || mode == Mode::Exclusive)
    }
}
