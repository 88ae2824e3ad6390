//! Memory of this process that peers reach: segments, and registered memory of the user.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::domain::{Descriptor, Registration};
use crate::back_end::{MemoryKey, Provider};
use crate::copying::copy_bytes;
use crate::error::{Error, Result};
use crate::memory::{SharedMemory, UserMemory};
use crate::units::{Rank, SegmentId};

/// All that is exported, by id and by key.
#[derive(Default)]
pub(super) struct Exports {
    tables: RwLock<Tables>,
    providers: RwLock<HashMap<u32, Arc<dyn Provider>>>,
}

#[derive(Default)]
struct Tables {
    segments: HashMap<SegmentId, u64>,
    by_key: HashMap<u64, Exported>,
}

/// Memory that is exported.
struct Exported {
    // Before the memory: dropped before it.
    registration: Registration,
    ground: Ground,
    // Unmaps a segment when it goes and nobody else holds it.
    segment: Option<SharedMemory>,
    /// Who was told of the segment.
    told: Mutex<Vec<Rank>>,
}

/// A segment, as those who connect to it are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Description {
    /// Its registration's key.
    pub(super) key: u64,
    /// Where it begins, as its registration counts.
    pub(super) base: u64,
    /// Bytes.
    pub(super) length: u64,
}

impl Exports {
    /// Exports a segment.
    ///
    /// # Errors
    /// `SegmentExists`.
    pub(super) fn add_segment(
        &self,
        id: SegmentId,
        memory: SharedMemory,
        registration: Registration,
    ) -> Result<()> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        if tables.segments.contains_key(&id) {
            return Err(Error::SegmentExists { id });
        }
        let Some(start) = NonNull::new(memory.as_ptr()) else { return Err(Error::SegmentExists { id }) };
        let ground = Ground(UserMemory { start, length: memory.len() });
        let key = registration.key();
        tables.segments.insert(id, key);
        tables
            .by_key
            .insert(key, Exported { registration, ground, segment: Some(memory), told: Mutex::default() });
        Ok(())
    }

    /// Whether a segment is exported under `id`.
    pub(super) fn has(&self, id: SegmentId) -> bool {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).segments.contains_key(&id)
    }

    /// Ends the export of a segment; returns its registration, its memory, and who was told of it and may be writing
    /// there.
    pub(super) fn remove_segment(&self, id: SegmentId) -> Option<(Registration, SharedMemory, Vec<Rank>)> {
        let removed = {
            let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
            tables.segments.remove(&id).and_then(|key| tables.by_key.remove(&key))
        };
        let Exported { registration, segment, told, .. } = removed?;
        Some((registration, segment?, told.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Makes memory of the user reachable.
    ///
    /// # Safety
    /// It must stay valid, and be left to the peers, until what [`remove_memory`](Self::remove_memory) returns is
    /// dropped.
    pub(super) unsafe fn add_memory(&self, memory: UserMemory, registration: Registration) -> MemoryKey {
        let key = registration.key();
        let description = MemoryKey([key, registration.base(memory.start), memory.length as u64]);
        let (ground, told) = (Ground(memory), Mutex::default());
        let exported = Exported { registration, ground, segment: None, told };
        self.tables.write().unwrap_or_else(PoisonError::into_inner).by_key.insert(key, exported);
        description
    }

    /// Ends that: no message changes the memory once it returns, and no write that begins to arrive after the
    /// registration, which is returned, has ended.
    pub(super) fn remove_memory(&self, key: MemoryKey) -> Option<Registration> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.by_key.remove(&key.0[0]).map(|removed| removed.registration)
    }

    /// What `asker` is told, who connects to `id`.
    pub(super) fn describe(&self, id: SegmentId, asker: Rank) -> Option<Description> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let key = *tables.segments.get(&id)?;
        let Exported { registration, ground, told, .. } = tables.by_key.get(&key)?;
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if !told.contains(&asker) {
            told.push(asker);
        }
        Some(Description { key, base: registration.base(ground.0.start), length: ground.0.length as u64 })
    }

    /// Lets `work` reach exported memory; it stays exported meanwhile.
    pub(super) fn with<R>(&self, key: u64, work: impl FnOnce(&Ground) -> R) -> Option<R> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.by_key.get(&key).map(|exported| work(&exported.ground))
    }

    /// What the provider wants to know of local memory, where it lies within exported memory.
    pub(super) fn descriptor(&self, memory: UserMemory) -> Option<Descriptor> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let first = memory.start.as_ptr() as usize;
        let is_within = |ground: &Ground| {
            let start = ground.0.start.as_ptr() as usize;
            start <= first && first + memory.length <= start + ground.0.length
        };
        let exported = tables.by_key.values().find(|exported| is_within(&exported.ground))?;
        Some(exported.registration.descriptor())
    }

    /// Who makes segments of `space` on demand.
    pub(super) fn set_provider(&self, space: u32, provider: Arc<dyn Provider>) {
        self.providers.write().unwrap_or_else(PoisonError::into_inner).insert(space, provider);
    }

    /// Who does, where anybody does.
    pub(super) fn provider(&self, space: u32) -> Option<Arc<dyn Provider>> {
        self.providers.read().unwrap_or_else(PoisonError::into_inner).get(&space).cloned()
    }

    /// Ends all exports. Segments stay mapped as long as the answer is held.
    pub(super) fn clear(&self) -> Vec<SharedMemory> {
        self.providers.write().unwrap_or_else(PoisonError::into_inner).clear();
        let tables = std::mem::take(&mut *self.tables.write().unwrap_or_else(PoisonError::into_inner));
        tables.by_key.into_values().filter_map(|exported| exported.segment).collect()
    }
}

/// Exported memory, to be written as peers ask. It is valid as long as it is in the table.
pub(super) struct Ground(UserMemory);

impl Ground {
    /// Writes `bytes` to `offset`, the last word after all others. Returns whether they are all within.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        let Some(to) = self.span(offset, bytes.len()) else { return false };
        if bytes.is_empty() {
            return true;
        }
        let end = to as usize + bytes.len();
        let last =
            [8, 4].into_iter().find(|word| bytes.len() >= *word && end.is_multiple_of(*word)).unwrap_or(1);
        let (first, last) = bytes.split_at(bytes.len() - last);
        // SAFETY: `span` checked the range, which is valid as long as it is exported; the message's buffer is apart
        // from it. The last word is aligned as its size demands.
        unsafe {
            copy_bytes(first.as_ptr(), to, first.len());
            let at = to.add(first.len());
            // Release: whoever sees the last word sees the others.
            if let Ok(word) = last.try_into() {
                AtomicU64::from_ptr(at.cast()).store(u64::from_ne_bytes(word), Ordering::Release);
            } else if let Ok(word) = last.try_into() {
                AtomicU32::from_ptr(at.cast()).store(u32::from_ne_bytes(word), Ordering::Release);
            } else {
                AtomicU8::from_ptr(at).store(last[0], Ordering::Release);
            }
        }
        true
    }

    /// Copies the bytes from `offset` on. Returns whether they are all within.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        let Some(from) = self.span(offset, into.len()) else { return false };
        // SAFETY: as in `write`; `into` is exclusively the caller's.
        unsafe { copy_bytes(from, into.as_mut_ptr(), into.len()) };
        true
    }

    /// Where `length` bytes from `offset` on are, if they are all within.
    pub(super) fn span(&self, offset: u64, length: usize) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(length)?;
        // SAFETY: within the range.
        (end <= self.0.length).then(|| unsafe { self.0.start.as_ptr().add(offset) })
    }

    /// The word at `offset`, if it is within and aligned.
    pub(super) fn word(&self, offset: u64) -> Option<&AtomicU64> {
        let at = self.span(offset, 8)?;
        // SAFETY: within the range, which is valid as long as `self` is borrowed, and aligned.
        (at as usize).is_multiple_of(8).then(|| unsafe { AtomicU64::from_ptr(at.cast()) })
    }
}

#[cfg(test)]
mod tests {
    use super::Ground;
    use crate::memory::UserMemory;

    #[test]
    fn writes_land_where_they_belong_at_any_alignment() {
        for offset in 0..24 {
            for length in 0..24 {
                let mut memory = [0_u8; 64];
                let ground = Ground(UserMemory::of_mut(&mut memory));
                let bytes: Vec<u8> = (1..=length as u8).collect();
                assert!(ground.write(offset, &bytes));
                let mut read = vec![0; length];
                assert!(ground.read(offset, &mut read));
                assert_eq!(read, bytes);
                let mut expected = [0; 64];
                expected[offset as usize..offset as usize + length].copy_from_slice(&bytes);
                assert_eq!(memory, expected);
            }
        }
    }

    #[test]
    fn nothing_lands_outside() {
        let mut memory = [0_u64; 4];
        let start = std::ptr::NonNull::from(&mut memory).cast();
        let ground = Ground(UserMemory { start, length: 32 });
        assert!(!ground.write(31, &[1, 2]) && !ground.write(u64::MAX, &[1]) && ground.write(32, &[]));
        assert!(ground.word(24).is_some() && ground.word(25).is_none() && ground.word(28).is_none());
    }
}
