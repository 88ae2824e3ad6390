//! The segments that this process exports, who makes more of them when they are asked for, and who answers peers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::back_end::{self, Backing, Provider, Respondent};
use crate::error::{Error, Result};
use crate::memory::SharedMemory;
use crate::units::{Rank, SegmentId};

use super::storage::Storage;

/// An exported segment.
#[derive(Debug, Clone)]
pub(super) struct Export {
    /// What peers get.
    pub(super) storage: Arc<Storage>,
    /// What this process sees.
    pub(super) memory: SharedMemory,
}

/// The table of exports.
#[derive(Default)]
pub(super) struct Exports {
    segments: Mutex<HashMap<SegmentId, Export>>,
    providers: Mutex<HashMap<u32, Arc<dyn Provider>>>,
    respondent: Mutex<Option<Arc<dyn Respondent>>>,
}

impl Exports {
    /// Creates a segment and exports it.
    ///
    /// # Errors
    /// `SegmentExists`, `Memory`, `OutOfBounds`, `System`.
    pub(super) fn create(&self, id: SegmentId, backing: &Backing) -> Result<SharedMemory> {
        if self.segments().contains_key(&id) {
            return Err(Error::SegmentExists { id });
        }
        // Without the lock: reserving takes its time.
        let what = format!("segment {id}");
        let storage = match backing {
            Backing::Anonymous { length } => Storage::reserve(&what, *length)?,
            Backing::File { file, offset, length } => Storage::of_file(file, *offset, *length)?,
        };
        let memory = storage.map(&what)?;
        match self.segments().entry(id) {
            Entry::Occupied(_) => Err(Error::SegmentExists { id }),
            Entry::Vacant(vacant) => {
                vacant.insert(Export { storage: Arc::new(storage), memory: memory.clone() });
                Ok(memory)
            }
        }
    }

    /// Ends an export.
    pub(super) fn remove(&self, id: SegmentId) {
        self.segments().remove(&id);
    }

    /// Who makes segments of `space` from now on.
    pub(super) fn set_provider(&self, space: u32, provider: Arc<dyn Provider>) {
        // Dropped without the lock, as in `clear`.
        let former = self.providers().insert(space, provider);
        drop(former);
    }

    /// Nobody does any more, if that is `provider` until now.
    pub(super) fn remove_provider(&self, space: u32, provider: &Arc<dyn Provider>) {
        // As above.
        let former = back_end::take_provider(&mut self.providers(), space, provider);
        drop(former);
    }

    /// The segment that `asker` wants; made now, where somebody makes it.
    pub(super) fn find(&self, asker: Rank, id: SegmentId) -> Option<Export> {
        if let Some(export) = self.segments().get(&id) {
            return Some(export.clone());
        }
        let provider = self.providers().get(&id.space).cloned()?;
        // Without a lock: it will call `create`.
        back_end::provide(&*provider, asker, id);
        self.segments().get(&id).cloned()
    }

    /// Who answers what peers inquire from now on.
    pub(super) fn set_respondent(&self, respondent: Arc<dyn Respondent>) {
        // Dropped without the lock, as in `clear`.
        let former = self.respondent().replace(respondent);
        drop(former);
    }

    /// What is answered to `question` of `asker`, where somebody answers.
    pub(super) fn respond(&self, asker: Rank, question: [u64; 2]) -> Option<u64> {
        let respondent = self.respondent().clone()?;
        back_end::respond(&*respondent, asker, question)
    }

    /// Ends all exports, and forgets who makes more, and who answers.
    pub(super) fn clear(&self) {
        // Dropped without the lock: what a provider holds may come back here when it goes.
        let providers = std::mem::take(&mut *self.providers());
        let segments = std::mem::take(&mut *self.segments());
        let respondent = self.respondent().take();
        drop((providers, segments, respondent));
    }

    fn segments(&self) -> MutexGuard<'_, HashMap<SegmentId, Export>> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn respondent(&self) -> MutexGuard<'_, Option<Arc<dyn Respondent>>> {
        self.respondent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn providers(&self) -> MutexGuard<'_, HashMap<u32, Arc<dyn Provider>>> {
        self.providers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
