//! A word that is changed in one step: the processor's, or loom's, so that loom runs what programs run.

use std::sync::atomic::Ordering;

/// A word of eight bytes.
pub(super) trait Atomic {
    /// What is in it.
    fn load(&self, order: Ordering) -> u64;

    /// Changes it.
    fn store(&self, value: u64, order: Ordering);
}

impl Atomic for std::sync::atomic::AtomicU64 {
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }
}

#[cfg(all(test, loom))]
impl Atomic for loom::sync::atomic::AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }
}
