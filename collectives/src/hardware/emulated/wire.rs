//! A wire, and where its reader sleeps.
//!
//! A word has the level in its lowest bit, above it the number of the claim for which it is driven. All zeroes is a
//! wire of nobody.
//!
//! Falling asleep is Dekker's question: the sleeper says that it sleeps, then looks; who drives a wire does it, then
//! looks whether anybody sleeps. Each has a sequentially consistent fence in between, so at least one sees the other.

use std::time::Duration;

use svmio_transport::futex::{self, AtomicU32, Ordering, fence};

use crate::hardware::machine::Level;

/// The number of a group's claim of a circuit: 31 bits, and never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim(u32);

impl Claim {
    /// Claim number `number`, if it may be one.
    pub(super) const fn new(number: u32) -> Option<Self> {
        if number != 0 && number < 1 << 31 { Some(Self(number)) } else { None }
    }

    /// The one after the claim of that number.
    pub(super) const fn after(number: u32) -> Self {
        match Self::new(number.wrapping_add(1)) {
            Some(claim) => claim,
            None => Self(1),
        }
    }

    /// Its number.
    pub(super) const fn number(self) -> u32 {
        self.0
    }

    fn word(self, level: Level) -> u32 {
        self.0 << 1 | u32::from(bool::from(level))
    }
}

/// A wire.
#[repr(transparent)]
#[derive(Debug, Default)]
pub(super) struct Wire(AtomicU32);

impl Wire {
    /// Hands the wire over to a claim, at low level.
    pub(super) fn hand_over(&self, claim: Claim) {
        // Release: whoever sees the new claim there sees what its group did before.
        self.0.store(claim.word(Level::Low), Ordering::Release);
    }

    /// What it carries for a claim; `None` where it belongs to another one.
    #[inline]
    pub(super) fn level(&self, claim: Claim) -> Option<Level> {
        // Acquire: pairs with the Release of who drove it; what came before a barrier is seen after it.
        let word = self.0.load(Ordering::Acquire);
        (word >> 1 == claim.0).then_some(Level::from(word & 1 == 1))
    }

    /// Drives it for a claim; tells whether it belongs to that.
    #[inline]
    pub(super) fn drive(&self, claim: Claim, level: Level) -> bool {
        // It has a single driver; only handing it over can come in between. Release: see `level`.
        let from = claim.word(!level);
        match self.0.compare_exchange(from, claim.word(level), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => true,
            Err(word) => word == claim.word(level),
        }
    }
}

/// Where one process or thread sleeps until somebody rings.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct Bell {
    /// How often it was rung: the word that is slept on.
    calls: AtomicU32,
    /// Whether somebody sleeps, or is about to.
    is_attended: AtomicU32,
}

impl Bell {
    /// Wakes who sleeps here, if anybody does. What was driven before is seen by who does not sleep yet.
    #[inline]
    pub(super) fn ring(&self) {
        // Dekker: after what was driven, before the look.
        fence(Ordering::SeqCst);
        if self.is_attended.load(Ordering::Relaxed) != 0 {
            self.ring_anyway();
        }
    }

    /// Wakes who sleeps here, or is about to.
    pub(super) fn ring_anyway(&self) {
        // Release: who reads the new count sees what was stored before.
        self.calls.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.calls);
    }

    /// Sleeps until it is rung, for `limit`, or for no reason; not at all where `is_ready` after all that was driven
    /// before a ring that this would miss.
    pub(super) fn sleep(&self, limit: Duration, is_ready: impl FnOnce() -> bool) {
        // Acquire, and before the announcement: who sees the announcement and rings changes this word after it was
        // read.
        let seen = self.calls.load(Ordering::Acquire);
        self.is_attended.store(1, Ordering::Relaxed);
        // Dekker: after the announcement, before the look.
        fence(Ordering::SeqCst);
        if !is_ready() {
            futex::wait(&self.calls, seen, Some(limit));
        }
        // Relaxed: who still sees the old value rings once too often.
        self.is_attended.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Claim, Wire};
    use crate::hardware::machine::Level;

    #[test]
    fn a_wire_obeys_only_who_has_claimed_it() {
        let (wire, first) = (Wire::default(), Claim::after(0));
        let second = Claim::after(first.number());
        assert!(!wire.drive(first, Level::High));
        wire.hand_over(first);
        assert_eq!((wire.level(first), wire.level(second)), (Some(Level::Low), None));
        assert!(wire.drive(first, Level::High) && wire.drive(first, Level::High));
        assert_eq!(wire.level(first), Some(Level::High));
        wire.hand_over(second);
        assert!(!wire.drive(first, Level::High) && !wire.drive(first, Level::Low));
        assert_eq!((wire.level(first), wire.level(second)), (None, Some(Level::Low)));
    }

    #[test]
    fn claims_have_31_bits_and_begin_again() {
        assert_eq!(Claim::new(0), None);
        assert_eq!(Claim::new(u32::MAX), None);
        assert_eq!(Claim::after((1 << 31) - 1).number(), 1);
    }
}
