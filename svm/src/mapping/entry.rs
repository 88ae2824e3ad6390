//! Entry consistency: values bound to a lock, brought up to date when the lock is entered and sent when it is left.
//!
//! After Bershad, Zekauskas, Sawdon, *The Midway Distributed Shared Memory System*, 1993: what a lock guards is said
//! beforehand, so that nothing else has to be looked at, sent or fetched when it changes hands. The values lie in
//! memory of the guard, not in a mapping: no load or store is a fault, no page is shared with others' values, and what
//! is bound may begin and end at any byte. Changes are found by comparison with a copy, as Midway's second
//! implementation does.
//!
//! The bytes come and go past no mapping but by the file, under a lock of their range. Where the node keeps that lock
//! (`cluster/keeping.rs`), whichever process of it enters next finds the values in the node's page cache, without a
//! message.

use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use bytemuck::Pod;

use crate::error::{Error, Result};
use crate::file::File;
use crate::locks::Mode;
use crate::range_lock::RangeLock;
use crate::units::FileOffset;

use super::difference;

/// Changed bytes no further apart are written together: those between are the guard's own, too.
const GAP: usize = 64;

/// A row of values in a file, bound to a lock of their own: who has a guard has the values as the last one left them
/// who had an exclusive guard, on whatever node.
///
/// Nothing else is brought up to date by a guard, and nothing else sent by its release. So what belongs together is
/// bound together, and what is used apart is bound apart, be it in one page. A guard copies all its values; for a part
/// of many at a time a [`Region`](super::Region) is better.
///
/// Bytes that overlap others that are bound, or that are accessed by [`File`], are locked against those: all take
/// [`File::lock`]s of their ranges. Who reads them without a lock finds what was stored under a guard after its
/// release, a [`File::flush`] on the node of that guard, and a [`File::refresh`] on his own.
///
/// ```
/// use std::sync::Arc;
/// use svmio_svm::mapping::Bound;
/// use svmio_svm::{FileName, FileOffset, OpenOptions, Store};
///
/// # let directory = tempfile::tempdir()?;
/// let store = Store::open(directory.path())?;
/// let file = store.open_file(&FileName::new("/accounts")?, &OpenOptions::read_write().create(true))?;
/// let file = Arc::new(file);
/// let savings = Bound::<u64>::new(&file, FileOffset(0), 1)?;
/// let history = Bound::<u64>::new(&file, FileOffset(8), 100)?;
/// let mut guard = savings.exclusive()?;
/// guard[0] += 5;
/// guard.release()?;
/// assert_eq!(savings.shared()?[0], 5);
/// assert!(history.shared()?.iter().all(|entry| *entry == 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Who may only look cannot store:
///
/// ```compile_fail
/// # fn look(savings: &svmio_svm::mapping::Bound<u64>) {
/// savings.shared().unwrap()[0] = 7;
/// # }
/// ```
pub struct Bound<T> {
    file: Arc<File>,
    range: Range<FileOffset>,
    /// A value that all bytes are 0 of; and what the values are.
    zero: T,
}

/// Values that nobody changes as long as this is there.
#[must_use = "the values are unlocked when this is dropped"]
pub struct SharedGuard<'b, T: Pod> {
    values: Vec<T>,
    lock: RangeLock,
    _bound: &'b Bound<T>,
}

/// Values that nobody else has as long as this is there.
#[must_use = "the values are unlocked when this is dropped"]
pub struct ExclusiveGuard<'b, T: Pod> {
    values: Vec<T>,
    /// As they were.
    before: Vec<T>,
    lock: Option<RangeLock>,
    bound: &'b Bound<T>,
}

impl<T: Pod> Bound<T> {
    /// Binds the `count` values from byte `start` of a file on, which need not be aligned. All processes bind the same:
    /// of ranges that overlap in part only, the common bytes are found as they were left last, too, but each guard
    /// waits for the others.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::NotOpenedFor`] reading or writing: a shared guard, too, takes a lock that others
    /// heed.
    pub fn new(file: &Arc<File>, start: FileOffset, count: usize) -> Result<Bound<T>> {
        let (may_read, may_write) = file.access();
        if !may_read || !may_write {
            let what = if may_read { "writing" } else { "reading" };
            return Err(Error::NotOpenedFor { name: file.name().into(), what });
        }
        let limit = file.attachment().limit();
        let bytes = count.checked_mul(size_of::<T>()).and_then(|bytes| start.0.checked_add(bytes as u64));
        match bytes.filter(|end| *end <= limit) {
            Some(end) => {
                Ok(Bound { file: Arc::clone(file), range: start..FileOffset(end), zero: T::zeroed() })
            }
            None => {
                let (name, segment_size) = (file.name().into(), file.segment_size());
                let offset = FileOffset(bytes.unwrap_or(u64::MAX));
                Err(Error::TooLarge { name, offset, segment_size, limit })
            }
        }
    }

    /// Which bytes of the file are bound.
    pub fn range(&self) -> Range<FileOffset> {
        self.range.clone()
    }

    /// Waits until the values can be looked at, and gets them.
    ///
    /// # Errors
    /// As [`File::lock`] and [`File::read_at`].
    pub fn shared(&self) -> Result<SharedGuard<'_, T>> {
        let lock = self.file.lock(self.range.clone(), Mode::Shared)?;
        Ok(SharedGuard { values: self.values()?, lock, _bound: self })
    }

    /// Waits until nobody else has the values, and gets them.
    ///
    /// # Errors
    /// As [`File::lock`] and [`File::read_at`].
    pub fn exclusive(&self) -> Result<ExclusiveGuard<'_, T>> {
        let lock = self.file.lock(self.range.clone(), Mode::Exclusive)?;
        let values = self.values()?;
        Ok(ExclusiveGuard { before: values.clone(), values, lock: Some(lock), bound: self })
    }

    /// The values as the file has them; what lies behind its end is 0.
    fn values(&self) -> Result<Vec<T>> {
        let bytes = (self.range.end.0 - self.range.start.0) as usize;
        let mut values = vec![self.zero; bytes.checked_div(size_of::<T>()).unwrap_or_default()];
        self.file.read_at(self.range.start, bytemuck::cast_slice_mut(&mut values))?;
        Ok(values)
    }
}

impl<T: Pod> SharedGuard<'_, T> {
    /// Unlocks the values.
    ///
    /// # Errors
    /// As [`RangeLock::release`].
    pub fn release(self) -> Result<()> {
        self.lock.release()
    }
}

impl<T: Pod> ExclusiveGuard<'_, T> {
    /// Unlocks the values, for others to have as they are.
    ///
    /// # Errors
    /// As [`File::write_at`] and [`RangeLock::release`]: the values are unlocked, but what was changed of them may be
    /// lost in part.
    pub fn release(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let Some(lock) = self.lock.take() else { return Ok(()) };
        let (values, before) = (bytemuck::cast_slice(&self.values), bytemuck::cast_slice(&self.before));
        let (file, start) = (&self.bound.file, self.bound.range.start.0);
        let mut changes = together(difference::runs(values, before)).into_iter();
        let mut write = |run: Range<usize>| file.write_at(FileOffset(start + run.start as u64), &values[run]);
        // What was changed under a lock that was taken away must not go home over what its next holder changed.
        let written = lock.still_held().and_then(|()| changes.try_for_each(&mut write));
        written.and(lock.release())
    }
}

impl<T: Pod> Drop for ExclusiveGuard<'_, T> {
    fn drop(&mut self) {
        if let Err(e) = self.end() {
            tracing::error!("unlocking values of {}: {e}", self.bound.file.name());
        }
    }
}

impl<T: Pod> Deref for SharedGuard<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.values
    }
}

impl<T: Pod> Deref for ExclusiveGuard<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.values
    }
}

impl<T: Pod> DerefMut for ExclusiveGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values
    }
}

impl<T> std::fmt::Debug for Bound<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut bound = formatter.debug_struct("Bound");
        bound.field("file", &self.file.name()).field("range", &self.range).finish_non_exhaustive()
    }
}

/// Joins runs that are near to each other.
fn together(runs: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for run in runs {
        match joined.last_mut() {
            Some(last) if run.start - last.end <= GAP => last.end = run.end,
            _ => joined.push(run),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::together;

    #[test]
    fn runs_are_joined_over_small_gaps_only() {
        let runs = vec![0..1, 2..3, 67..68, 133..140, 300..301];
        assert_eq!(together(runs), [0..68, 133..140, 300..301]);
    }
}
