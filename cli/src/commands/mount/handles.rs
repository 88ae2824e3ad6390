//! Numbers for what is open, which the kernel gives back with each access.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use fuser::FileHandle;

/// What is open, by number.
#[derive(Debug)]
pub(super) struct Handles<T> {
    open: RwLock<HashMap<u64, Arc<T>>>,
    last: AtomicU64,
}

impl<T> Handles<T> {
    pub(super) fn new() -> Handles<T> {
        Handles { open: RwLock::default(), last: AtomicU64::new(0) }
    }

    /// Gives it a number.
    pub(super) fn enter(&self, open: Arc<T>) -> FileHandle {
        // Relaxed: the number alone counts.
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        // A panic elsewhere, here and below, leaves the map whole.
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(number, open);
        FileHandle(number)
    }

    /// What has the number.
    pub(super) fn get(&self, handle: FileHandle) -> Option<Arc<T>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).get(&handle.0).cloned()
    }

    /// Takes the number back.
    pub(super) fn remove(&self, handle: FileHandle) -> Option<Arc<T>> {
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&handle.0)
    }

    /// All that is open.
    pub(super) fn all(&self) -> Vec<Arc<T>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Takes all numbers back.
    pub(super) fn clear(&self) -> Vec<Arc<T>> {
        let open = std::mem::take(&mut *self.open.write().unwrap_or_else(PoisonError::into_inner));
        open.into_values().collect()
    }
}
