//! Parts of a mapping as values of a type, under locks.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use bytemuck::Pod;

use crate::error::{Error, Result};
use crate::locks::Mode;
use crate::units::FileOffset;

use super::Mapping;
use super::lock::MappingLock;

/// A row of values in a mapping, which all processes access by guards: many read at a time, or one writes.
///
/// A guard locks the bytes of its elements, on all nodes ([`Mapping::lock`]): who has one sees what the writers before
/// it wrote. Elements are fetched when they are touched; where they are few and always guarded together,
/// [`Bound`](super::Bound) costs less.
///
/// ```
/// use std::sync::Arc;
/// use svmio_svm::mapping::{Mapping, Region};
/// use svmio_svm::{FileName, FileOffset, OpenOptions, Store};
///
/// # let directory = tempfile::tempdir()?;
/// let store = Store::open(directory.path())?;
/// let file = store.open_file(&FileName::new("/temperatures")?, &OpenOptions::read_write().create(true))?;
/// let mapping = Arc::new(Mapping::new(&Arc::new(file), FileOffset(0)..FileOffset(8000))?);
/// // SAFETY: the file is accessed in no other way.
/// let region = unsafe { Region::<f64>::new(&mapping, FileOffset(0), 1000) }?;
/// let mut row = region.write(100..200)?;
/// row.fill(1.5);
/// row.release()?;
/// assert_eq!(region.read(150..151)?[0], 1.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Region<T> {
    mapping: Arc<Mapping>,
    start: FileOffset,
    count: usize,
    of: PhantomData<T>,
}

/// Elements that nobody changes as long as this is there.
pub struct ReadGuard<'r, T> {
    elements: &'r [T],
    lock: MappingLock<'r>,
}

/// Elements that nobody else accesses as long as this is there.
pub struct WriteGuard<'r, T> {
    elements: &'r mut [T],
    lock: MappingLock<'r>,
}

impl<T: Pod> Region<T> {
    /// The `count` values from byte `start` of the file on.
    ///
    /// # Errors
    /// [`Error::BadRange`] where they do not lie in the mapping, or `start` is not where such values can lie.
    ///
    /// # Safety
    /// As long as the region is there, no process stores into its bytes but by guards of such regions: neither through
    /// a mapping nor by [`File::write_at`](crate::File::write_at), and nobody shortens the file.
    pub unsafe fn new(mapping: &Arc<Mapping>, start: FileOffset, count: usize) -> Result<Region<T>> {
        let region: Region<T> = Region { mapping: Arc::clone(mapping), start, count, of: PhantomData };
        let bytes = count.checked_mul(size_of::<T>()).and_then(|bytes| start.0.checked_add(bytes as u64));
        let range = start..FileOffset(bytes.unwrap_or(u64::MAX));
        mapping.pages(&range)?;
        if !region.at(0).is_aligned() {
            let reason = format!("values of {} lie at multiples of {}", size_of::<T>(), align_of::<T>());
            return Err(Error::BadRange { name: mapping.service().file.name().into(), range, reason });
        }
        Ok(region)
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Waits until some of the values can be read.
    ///
    /// # Errors
    /// As [`Mapping::lock`].
    pub fn read(&self, elements: Range<usize>) -> Result<ReadGuard<'_, T>> {
        let lock = self.mapping.lock(self.bytes(&elements)?, Mode::Shared)?;
        // SAFETY: the values lie in the mapping, aligned, and any bytes are values; whoever made the region vouches
        // that nobody changes them but under a lock that this one excludes.
        let elements = unsafe { std::slice::from_raw_parts(self.at(elements.start), elements.len()) };
        Ok(ReadGuard { elements, lock })
    }

    /// Waits until some of the values can be written.
    ///
    /// # Errors
    /// As [`Mapping::lock`]; [`Error::NotOpenedFor`] writing.
    pub fn write(&self, elements: Range<usize>) -> Result<WriteGuard<'_, T>> {
        if !self.mapping.is_writable() {
            let name = self.mapping.service().file.name().into();
            return Err(Error::NotOpenedFor { name, what: "writing" });
        }
        let lock = self.mapping.lock(self.bytes(&elements)?, Mode::Exclusive)?;
        // SAFETY: as in `read`; this lock excludes all others, also those of this thread.
        let elements = unsafe { std::slice::from_raw_parts_mut(self.at(elements.start), elements.len()) };
        Ok(WriteGuard { elements, lock })
    }

    fn bytes(&self, elements: &Range<usize>) -> Result<Range<FileOffset>> {
        let at = |element: usize| FileOffset(self.start.0.saturating_add((element * size_of::<T>()) as u64));
        if elements.start > elements.end || elements.end > self.count {
            let range = FileOffset(elements.start as u64)..FileOffset(elements.end as u64);
            let reason = format!("taken for elements: the region has {}", self.count);
            return Err(Error::BadRange { name: self.mapping.service().file.name().into(), range, reason });
        }
        Ok(at(elements.start)..at(elements.end))
    }

    fn at(&self, element: usize) -> *mut T {
        let before = (self.start.0 - self.mapping.range.start.0) as usize + element * size_of::<T>();
        self.mapping.as_mut_ptr().wrapping_add(before).cast()
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.elements
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.elements
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.elements
    }
}

impl<T> ReadGuard<'_, T> {
    /// Unlocks the elements.
    ///
    /// # Errors
    /// As [`MappingLock::release`].
    pub fn release(self) -> Result<()> {
        self.lock.release()
    }
}

impl<T> WriteGuard<'_, T> {
    /// Unlocks the elements, for others to see.
    ///
    /// # Errors
    /// As [`MappingLock::release`].
    pub fn release(self) -> Result<()> {
        self.lock.release()
    }
}
