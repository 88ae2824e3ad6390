//! Memory of this process that peers reach: segments, and registered memory of the user.

mod ground;
mod tables;

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::domain::Registration;
use super::sources::Source;
use crate::back_end::{self, MemoryKey, Provider, Respondent};
use crate::error::{Error, Result};
use crate::memory::{SharedMemory, UserMemory};
use crate::units::{Rank, SegmentId};

use tables::{Exported, Grounds, Tables};

/// All that is exported, by id and by key.
#[derive(Default)]
pub(super) struct Exports {
    tables: RwLock<Tables<Arc<Registration>>>,
    providers: RwLock<HashMap<u32, Arc<dyn Provider>>>,
    respondent: RwLock<Option<Arc<dyn Respondent>>>,
}

/// Where memory is, in the provider's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// Its registration's key.
    key: u64,
    /// Where it begins, as its registration counts.
    base: u64,
}

impl Place {
    fn of(registration: &Registration, memory: UserMemory) -> Self {
        Self { key: registration.key(), base: registration.base(memory.start) }
    }
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

impl Description {
    /// Where the byte at `offset` is, as the registration counts. In messages it is told like that, too: of all memory
    /// that has the key, it says which is meant.
    pub(super) fn place(&self, offset: u64) -> u64 {
        self.base.wrapping_add(offset)
    }
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
        if tables.has(id) {
            return Err(Error::SegmentExists { id });
        }
        let Some(start) = NonNull::new(memory.as_ptr()) else { return Err(Error::SegmentExists { id }) };
        let all = UserMemory { start, length: memory.len() };
        let place = Place::of(&registration, all);
        tables.enter(Arc::new(registration), place, all, Some((id, memory)));
        Ok(())
    }

    /// Whether a segment is exported under `id`.
    pub(super) fn has(&self, id: SegmentId) -> bool {
        self.tables().has(id)
    }

    /// Ends the export of a segment; returns its registration, its memory, and who was told of it and may be writing
    /// there. Writes of this process that began there may hold both.
    pub(super) fn remove_segment(
        &self,
        id: SegmentId,
    ) -> Option<(Arc<Registration>, SharedMemory, Vec<Rank>)> {
        let removed = self.tables.write().unwrap_or_else(PoisonError::into_inner).remove_segment(id);
        let Exported { registration, segment, told, .. } = removed?;
        Some((registration, segment?, told.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Makes memory of the user reachable.
    ///
    /// # Safety
    /// It must stay valid, and be left to the peers, until what [`remove_memory`](Self::remove_memory) returns is
    /// dropped.
    pub(super) unsafe fn add_memory(&self, memory: UserMemory, registration: Registration) -> MemoryKey {
        let place = Place::of(&registration, memory);
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.enter(Arc::new(registration), place, memory, None);
        MemoryKey([place.key, place.base, memory.length as u64])
    }

    /// Ends that: no message changes the memory once it returns, and no write that begins to arrive after the
    /// registration, which is returned, has ended.
    pub(super) fn remove_memory(&self, key: MemoryKey) -> Option<Arc<Registration>> {
        let MemoryKey([key, base, length]) = key;
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.remove_memory(Place { key, base }, length).map(|removed| removed.registration)
    }

    /// What `asker` is told, who connects to `id`.
    pub(super) fn describe(&self, id: SegmentId, asker: Rank) -> Option<Description> {
        let tables = self.tables();
        let (key, Exported { ground, base, told, .. }) = tables.segment(id)?;
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if !told.contains(&asker) {
            told.push(asker);
        }
        Some(Description { key, base: *base, length: ground.0.length as u64 })
    }

    /// Lets `work` reach the exported memory of a key; it stays exported meanwhile.
    pub(super) fn with<R>(&self, key: u64, work: impl FnOnce(&Grounds<Arc<Registration>>) -> R) -> Option<R> {
        self.tables().grounds(key).map(work)
    }

    /// Local memory for a write to begin, where it lies within an exported segment. Memory of the user is not held so:
    /// its registration ends when the user says so, whatever is under way.
    pub(super) fn source(&self, memory: UserMemory) -> Option<Source> {
        let tables = self.tables();
        let (registration, segment) = tables.segment_around(memory)?;
        Some(Source::exported(Arc::clone(registration), segment.clone()))
    }

    /// Who makes segments of `space` on demand.
    pub(super) fn set_provider(&self, space: u32, provider: Arc<dyn Provider>) {
        let former = self.providers.write().unwrap_or_else(PoisonError::into_inner).insert(space, provider);
        // Without the lock: it may hold segments.
        drop(former);
    }

    /// Nobody does any more, if that is `provider` until now.
    pub(super) fn remove_provider(&self, space: u32, provider: &Arc<dyn Provider>) {
        let mut providers = self.providers.write().unwrap_or_else(PoisonError::into_inner);
        let former = back_end::take_provider(&mut providers, space, provider);
        drop(providers);
        // As above.
        drop(former);
    }

    /// Who does, where anybody does.
    pub(super) fn provider(&self, space: u32) -> Option<Arc<dyn Provider>> {
        self.providers.read().unwrap_or_else(PoisonError::into_inner).get(&space).cloned()
    }

    /// Who answers what peers inquire.
    pub(super) fn set_respondent(&self, respondent: Arc<dyn Respondent>) {
        let former = self.respondent.write().unwrap_or_else(PoisonError::into_inner).replace(respondent);
        // Without the lock: it calls foreign code.
        drop(former);
    }

    /// Who does, where anybody does.
    pub(super) fn respondent(&self) -> Option<Arc<dyn Respondent>> {
        self.respondent.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends all exports. Segments stay mapped as long as the answer is held.
    pub(super) fn clear(&self) -> Vec<SharedMemory> {
        self.providers.write().unwrap_or_else(PoisonError::into_inner).clear();
        let respondent = self.respondent.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(respondent);
        let tables = std::mem::take(&mut *self.tables.write().unwrap_or_else(PoisonError::into_inner));
        tables.into_all().filter_map(|exported| exported.segment).collect()
    }

    fn tables(&self) -> RwLockReadGuard<'_, Tables<Arc<Registration>>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }
}
