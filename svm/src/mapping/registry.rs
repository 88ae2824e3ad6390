//! Which addresses of this process are mappings: bytes are not copied from and to them while a lock is held that
//! whoever serves the fault may need.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

static RANGES: RwLock<Vec<Range<usize>>> = RwLock::new(Vec::new());
/// How many there are, for programs that have none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether any of `length` bytes from `start` on lies in a mapping.
pub(crate) fn is_mapped(start: *const u8, length: usize) -> bool {
    // Relaxed: who passes an address of a mapping on does so in an order of its own.
    if COUNT.load(Ordering::Relaxed) == 0 || length == 0 {
        return false;
    }
    let (start, end) = (start.addr(), start.addr().saturating_add(length));
    let ranges = RANGES.read().unwrap_or_else(PoisonError::into_inner);
    ranges.iter().any(|range| range.start < end && start < range.end)
}

/// Addresses that count as a mapping until this is dropped.
pub(super) struct Registration(Range<usize>);

impl Registration {
    pub(super) fn new(start: *const u8, length: usize) -> Registration {
        let range = start.addr()..start.addr() + length;
        RANGES.write().unwrap_or_else(PoisonError::into_inner).push(range.clone());
        COUNT.fetch_add(1, Ordering::Relaxed);
        Registration(range)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        RANGES.write().unwrap_or_else(PoisonError::into_inner).retain(|range| *range != self.0);
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}
