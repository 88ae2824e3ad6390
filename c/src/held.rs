//! Locks that C holds, until it unlocks them.

use std::ops::Range;
use std::sync::Arc;

use svmio_svm::mapping::{Mapping, MappingLock};
use svmio_svm::{FileOffset, LockMode, Result};

/// A range of a mapping that is locked, with the mapping.
pub(crate) struct HeldLock {
    // In this order: the lock goes before what it borrows.
    lock: MappingLock<'static>,
    mapping: Arc<Mapping>,
    range: Range<FileOffset>,
}

impl HeldLock {
    /// Waits until `range` can be had, and takes it.
    pub(crate) fn acquire(
        mapping: &Arc<Mapping>,
        range: Range<FileOffset>,
        mode: LockMode,
    ) -> Result<HeldLock> {
        let mapping = Arc::clone(mapping);
        // SAFETY: the mapping stays where the Arc has it for as long as the lock lives, which goes first, in `drop` as
        // in `release`; nobody gets the lock itself.
        let lasting: &'static Mapping = unsafe { &*Arc::as_ptr(&mapping) };
        Ok(HeldLock { lock: lasting.lock(range.clone(), mode)?, mapping, range })
    }

    /// Which bytes of the file.
    pub(crate) fn range(&self) -> &Range<FileOffset> {
        &self.range
    }

    /// Unlocks it, after what was stored there has got home.
    pub(crate) fn release(self) -> Result<()> {
        let HeldLock { lock, mapping, .. } = self;
        let released = lock.release();
        drop(mapping);
        released
    }
}
