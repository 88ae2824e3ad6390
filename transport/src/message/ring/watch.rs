//! What a waiter looks at, without the turn.

use std::sync::atomic::{AtomicU32, Ordering};

use super::super::credits::FIRST;
use super::super::wire::Closing;
use super::mapped::Mapped;
use super::parts::Parts;

/// The part that a ring's reader waits for.
#[derive(Debug)]
pub(in super::super) struct Watch {
    parts: Parts<Mapped>,
    /// Its number, counted from 0, wrapping.
    missing: AtomicU32,
}

impl Watch {
    pub(super) fn of(parts: Parts<Mapped>) -> Self {
        Self { parts, missing: AtomicU32::new(0) }
    }

    /// Whether it has arrived.
    #[inline]
    pub(in super::super) fn has_arrived(&self) -> bool {
        // Relaxed: it is only a sign; who follows it reads the part anew.
        let number = self.missing.load(Ordering::Relaxed);
        Closing::id(self.parts.closing(number)) == number.wrapping_add(1)
    }

    /// Whether a part has ever come, as far as that can be told: now and then, after very many, it cannot.
    pub(in super::super) fn has_moved(&self) -> bool {
        self.missing.load(Ordering::Relaxed) != FIRST || self.has_arrived()
    }

    /// Which part is waited for from now on.
    #[inline]
    pub(in super::super) fn set(&self, missing: u32) {
        self.missing.store(missing, Ordering::Relaxed);
    }
}
