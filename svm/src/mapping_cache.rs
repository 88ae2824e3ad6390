//! Mapped segments, kept over close and open.
//!
//! A mapping costs some ten microseconds to make and keeps its page tables while it lives, so that a file
//! that is opened again finds its pages where they were. The least recently used ones go when there are
//! more than `SVMIO_MAPPINGS` (default 256); each holds one file descriptor. Fewer are kept once there was none left for
//! another one: what a program has open besides may leave room for few.

use std::ffi::OsString;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use lru::LruCache;
use rustix::io::Errno;

use crate::segment::{Inode, Segment};
use crate::units::{FileId, SegmentIndex};

const DEFAULT_CAPACITY: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");

/// Which mapping: the store's directory (stores may be copied, with their files' identities), the file, the
/// segment, and whether it may be written through.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) store: Arc<Path>,
    pub(crate) file: FileId,
    pub(crate) segment: SegmentIndex,
    pub(crate) writable: bool,
}

/// The mapping under `key`; `make` makes it where there is none yet.
pub(crate) fn get<E>(key: Key, make: impl FnOnce() -> Result<Segment, E>) -> Result<Arc<Segment>, E> {
    if let Some(segment) = cache().get(&key) {
        return Ok(Arc::clone(segment));
    }
    // Made without the cache's lock: another thread may do the same, which costs only a second mapping.
    let segment = Arc::new(make()?);
    #[cfg(test)]
    MADE.set(MADE.get() + 1);
    let replaced = cache().push(key, Arc::clone(&segment));
    // Unmapped only here, after the lock is free.
    drop(replaced);
    Ok(segment)
}

#[cfg(test)]
thread_local! {
    static MADE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many mappings this thread has made.
#[cfg(test)]
pub(crate) fn made_by_this_thread() -> u64 {
    MADE.get()
}

/// Has a descriptor opened: where there are none left, kept mappings give theirs back for it.
pub(crate) fn with_descriptor<T, E: TellsOfDescriptors>(open: impl Fn() -> Result<T, E>) -> Result<T, E> {
    loop {
        match open() {
            // Another thread may have had what was given back, or somebody uses what was kept.
            Err(error) if error.none_is_left() && keep_fewer() => {}
            opened => return opened,
        }
    }
}

/// What an open fails with.
pub(crate) trait TellsOfDescriptors {
    /// Whether that is for want of descriptors.
    fn none_is_left(&self) -> bool;
}

impl TellsOfDescriptors for Errno {
    fn none_is_left(&self) -> bool {
        matches!(*self, Errno::MFILE | Errno::NFILE)
    }
}

impl TellsOfDescriptors for io::Error {
    fn none_is_left(&self) -> bool {
        Errno::from_io_error(self).is_some_and(|errno| errno.none_is_left())
    }
}

/// Keeps a quarter less of the mappings from now on: what else is to be opened finds room, too. Says whether there were
/// any.
fn keep_fewer() -> bool {
    let mut cache = cache();
    let count = cache.len();
    let least_used: Vec<_> = (0..count.div_ceil(4)).map_while(|_| cache.pop_lru()).collect();
    if let Some(most) = NonZeroUsize::new(cache.len()) {
        cache.resize(most);
    }
    drop(cache);
    !least_used.is_empty()
}

/// The mapping through which this process may write to the file `inode`, whatever that is now.
pub(crate) fn of(inode: Inode) -> Option<Arc<Segment>> {
    let is_meant = |(key, segment): &(&Key, &Arc<Segment>)| key.writable && segment.inode() == inode;
    cache().iter().find(is_meant).map(|(_, segment)| Arc::clone(segment))
}

/// Takes the mapping of the file `inode` out, for somebody who has that file for another segment: what it was before is
/// gone. `None` where there is none, or where it is in use.
pub(crate) fn take(inode: Inode, writable: bool) -> Option<Segment> {
    let mut cache = cache();
    let is_meant = |(key, segment): &(&Key, &Arc<Segment>)| {
        segment.inode() == inode && key.writable == writable && Arc::strong_count(segment) == 1
    };
    let key = cache.iter().find(is_meant).map(|(key, _)| key.clone())?;
    let segment = cache.pop(&key);
    drop(cache);
    Arc::try_unwrap(segment?).ok()
}

/// Forgets all mappings of a file that is gone, but those of segments that are kept for others.
pub(crate) fn forget(store: &Path, file: FileId) {
    let mut cache = cache();
    let gone: Vec<Key> = cache
        .iter()
        .filter(|(key, segment)| key.file == file && *key.store == *store && !segment.has_name())
        .map(|(key, _)| key.clone())
        .collect();
    let mappings: Vec<_> = gone.iter().filter_map(|key| cache.pop(key)).collect();
    drop(cache);
    drop(mappings);
}

fn cache() -> MutexGuard<'static, LruCache<Key, Arc<Segment>>> {
    static CACHE: OnceLock<Mutex<LruCache<Key, Arc<Segment>>>> = OnceLock::new();
    // A panic elsewhere leaves the cache whole: its own operations do not panic half-way.
    CACHE
        .get_or_init(|| Mutex::new(LruCache::new(capacity(std::env::var_os("SVMIO_MAPPINGS")))))
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// How many mappings are kept, where the variable says this.
fn capacity(told: Option<OsString>) -> NonZeroUsize {
    let Some(text) = told.filter(|text| !text.is_empty()) else { return DEFAULT_CAPACITY };
    text.to_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        tracing::warn!(
            "SVMIO_MAPPINGS={} is no number from 1 on: {DEFAULT_CAPACITY} mappings are kept",
            PathBuf::from(text).display()
        );
        DEFAULT_CAPACITY
    })
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT_CAPACITY, capacity};

    #[test]
    fn as_many_are_kept_as_is_said() {
        assert_eq!(capacity(Some("7".into())).get(), 7);
        assert_eq!(capacity(None), DEFAULT_CAPACITY);
        for none in ["", "0", "many"] {
            assert_eq!(capacity(Some(none.into())), DEFAULT_CAPACITY, "{none}");
        }
    }
}
