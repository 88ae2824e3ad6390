//! A table by rank that grows with those who are talked to, read without a lock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::error::Result;
use crate::units::Rank;

const PAGE: usize = 64;

/// Entries in pages that are made when first used.
type Pages<T> = Box<[OnceLock<Box<[OnceLock<Arc<T>>; PAGE]>>]>;

/// An entry per rank, made at most once and never removed.
pub(super) struct Registry<T> {
    by_rank: Pages<T>,
    /// The same, in the order in which they were made.
    in_order: Pages<T>,
    count: AtomicUsize,
    making: Mutex<()>,
}

impl<T> Registry<T> {
    pub(super) fn new(size: u32) -> Self {
        let pages = || (0..(size as usize).div_ceil(PAGE)).map(|_| OnceLock::new()).collect();
        Self { by_rank: pages(), in_order: pages(), count: AtomicUsize::new(0), making: Mutex::new(()) }
    }

    /// The entry of `rank`, if there is one.
    #[inline]
    pub(super) fn get(&self, rank: Rank) -> Option<&Arc<T>> {
        at(&self.by_rank, rank.index())
    }

    /// The entry of `rank`, which exists in the job, made by `make` if there is none. `make` must not wait.
    ///
    /// # Errors
    /// What `make` returns.
    pub(super) fn get_or_make(&self, rank: Rank, make: impl FnOnce() -> Result<T>) -> Result<&Arc<T>> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = self.get(rank) {
            return Ok(entry);
        }
        let entry = Arc::new(make()?);
        let count = self.count.load(Ordering::Relaxed);
        place(&self.in_order, count).get_or_init(|| Arc::clone(&entry));
        // Release: whoever sees the count sees the entry.
        self.count.store(count + 1, Ordering::Release);
        Ok(place(&self.by_rank, rank.index()).get_or_init(|| entry))
    }

    /// Returns when nobody makes an entry who has begun before.
    pub(super) fn settle(&self) {
        drop(self.making.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// How many entries there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// All entries, in the order in which they were made.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        (0..self.len()).filter_map(|index| self.at(index))
    }

    /// The entry that was made as number `index`, counted from 0.
    #[inline]
    pub(super) fn at(&self, index: usize) -> Option<&Arc<T>> {
        at(&self.in_order, index)
    }
}

#[inline]
fn at<T>(pages: &Pages<T>, index: usize) -> Option<&Arc<T>> {
    pages.get(index / PAGE)?.get()?[index % PAGE].get()
}

fn place<T>(pages: &Pages<T>, index: usize) -> &OnceLock<Arc<T>> {
    &pages[index / PAGE].get_or_init(|| Box::new([const { OnceLock::new() }; PAGE]))[index % PAGE]
}
