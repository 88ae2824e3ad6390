//! Which memory is exported, by the ids of segments and by the providers' keys.
//!
//! A key need not be that of one export alone: a provider that keeps registrations for later, as `verbs` does, gives
//! that of a registration which has the memory within it already. So all that has a key is kept beside each other, and
//! a peer says where in it something is to go, counted as the registration counts. If that is within several, it is
//! the same memory.

use std::collections::HashMap;
use std::sync::Mutex;

use super::Place;
use super::ground::Ground;
use crate::memory::{SharedMemory, UserMemory};
use crate::units::{Rank, SegmentId};

/// All that is exported, registered by `R`.
pub(super) struct Tables<R> {
    /// Each segment's key, and which of those that have it.
    segments: HashMap<SegmentId, (u64, u64)>,
    by_key: HashMap<u64, Grounds<R>>,
    /// How many exports there were.
    count: u64,
}

/// All memory of one key.
pub(in crate::ofi) struct Grounds<R>(Vec<Exported<R>>);

/// Memory that is exported.
pub(super) struct Exported<R> {
    // Before the memory: dropped before it.
    pub(super) registration: R,
    pub(super) ground: Ground,
    /// Where it begins, as its registration counts.
    pub(super) base: u64,
    /// Unmaps a segment when it goes and nobody else holds it.
    pub(super) segment: Option<SharedMemory>,
    /// Who was told of the segment.
    pub(super) told: Mutex<Vec<Rank>>,
    /// No other export's.
    number: u64,
}

impl<R> Default for Tables<R> {
    fn default() -> Self {
        Self { segments: HashMap::new(), by_key: HashMap::new(), count: 0 }
    }
}

impl<R> Tables<R> {
    /// Enters memory of the user, or a segment.
    pub(super) fn enter(
        &mut self,
        registration: R,
        Place { key, base }: Place,
        memory: UserMemory,
        segment: Option<(SegmentId, SharedMemory)>,
    ) {
        self.count += 1;
        let number = self.count;
        let segment = segment.map(|(id, memory)| {
            self.segments.insert(id, (key, number));
            memory
        });
        let (ground, told) = (Ground(memory), Mutex::default());
        let exported = Exported { registration, ground, base, segment, told, number };
        self.by_key.entry(key).or_insert_with(|| Grounds(Vec::with_capacity(1))).0.push(exported);
    }

    /// Whether a segment is exported under `id`.
    pub(super) fn has(&self, id: SegmentId) -> bool {
        self.segments.contains_key(&id)
    }

    /// A segment, and its key.
    pub(super) fn segment(&self, id: SegmentId) -> Option<(u64, &Exported<R>)> {
        let &(key, number) = self.segments.get(&id)?;
        let exported = self.by_key.get(&key)?.0.iter().find(|exported| exported.number == number)?;
        Some((key, exported))
    }

    /// Takes a segment out.
    pub(super) fn remove_segment(&mut self, id: SegmentId) -> Option<Exported<R>> {
        let (key, number) = self.segments.remove(&id)?;
        self.remove(key, |exported| exported.number == number)
    }

    /// Takes memory of the user out: one export of it, where there are several.
    pub(super) fn remove_memory(&mut self, Place { key, base }: Place, length: u64) -> Option<Exported<R>> {
        self.remove(key, |exported| {
            let is_of_that_length = exported.ground.0.length as u64 == length;
            exported.segment.is_none() && exported.base == base && is_of_that_length
        })
    }

    fn remove(&mut self, key: u64, is_it: impl Fn(&Exported<R>) -> bool) -> Option<Exported<R>> {
        let grounds = self.by_key.get_mut(&key)?;
        let removed = grounds.0.swap_remove(grounds.0.iter().position(is_it)?);
        if grounds.0.is_empty() {
            self.by_key.remove(&key);
        }
        Some(removed)
    }

    /// All memory of a key.
    pub(super) fn grounds(&self, key: u64) -> Option<&Grounds<R>> {
        self.by_key.get(&key)
    }

    /// The segment within which `memory` lies.
    pub(super) fn segment_around(&self, memory: UserMemory) -> Option<(&R, &SharedMemory)> {
        let first = memory.start.as_ptr() as usize;
        let is_within = |exported: &&Exported<R>| {
            let UserMemory { start, length } = exported.ground.0;
            let start = start.as_ptr() as usize;
            start <= first && first + memory.length <= start + length
        };
        let all = self.by_key.values().flat_map(|grounds| &grounds.0);
        let exported = all.filter(|exported| exported.segment.is_some()).find(is_within)?;
        Some((&exported.registration, exported.segment.as_ref()?))
    }

    /// All exports, taken out.
    pub(super) fn into_all(self) -> impl Iterator<Item = Exported<R>> {
        self.by_key.into_values().flat_map(|grounds| grounds.0)
    }
}

impl<R> Grounds<R> {
    /// As [`Ground::write`], at a place that is counted as the registration counts.
    pub(in crate::ofi) fn write(&self, place: u64, bytes: &[u8]) -> bool {
        self.at(place).any(|(ground, offset)| ground.write(offset, bytes))
    }

    /// As [`Ground::read`].
    pub(in crate::ofi) fn read(&self, place: u64, into: &mut [u8]) -> bool {
        self.at(place).any(|(ground, offset)| ground.read(offset, into))
    }

    /// As [`Ground::word`].
    pub(in crate::ofi) fn word(&self, place: u64) -> Option<&std::sync::atomic::AtomicU64> {
        self.at(place).find_map(|(ground, offset)| ground.word(offset))
    }

    /// Those that begin at `place` or before, and where it is in them.
    fn at(&self, place: u64) -> impl Iterator<Item = (&Ground, u64)> {
        self.0.iter().filter_map(move |exported| Some((&exported.ground, place.checked_sub(exported.base)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::{self, Pages};

    const KEY: u64 = 7;

    fn place(memory: UserMemory) -> Place {
        Place { key: KEY, base: memory.start.as_ptr() as u64 }
    }

    fn write(tables: &Tables<&str>, memory: UserMemory, offset: u64, bytes: &[u8]) -> bool {
        tables.grounds(KEY).is_some_and(|grounds| grounds.write(place(memory).base + offset, bytes))
    }

    #[test]
    fn memory_of_one_key_is_kept_beside_each_other() {
        let mut bytes = [0_u64; 32];
        let all = UserMemory { start: std::ptr::NonNull::from(&mut bytes).cast(), length: 256 };
        let [first, second] = [all.part(0, 64), all.part(128, 64)];
        let mut tables = Tables::default();
        tables.enter("first", place(first), first, None);
        tables.enter("second", place(second), second, None);
        assert!(write(&tables, first, 8, &[1; 8]) && write(&tables, second, 8, &[2; 8]));
        // Between them there is nothing, nor over the end of one.
        assert!(!write(&tables, first, 64, &[3; 8]) && !write(&tables, second, 60, &[3; 8]));
        let grounds = tables.grounds(KEY).unwrap();
        let word = |memory, offset| grounds.word(place(memory).base + offset);
        assert_eq!(
            word(second, 8).unwrap().load(std::sync::atomic::Ordering::Relaxed),
            0x0202_0202_0202_0202
        );
        assert!(word(first, 64).is_none());
        let mut read = [0; 8];
        assert!(grounds.read(place(first).base + 8, &mut read) && read == [1; 8]);
        assert_eq!(tables.remove_memory(place(first), 64).unwrap().registration, "first");
        assert!(!write(&tables, first, 8, &[4; 8]) && write(&tables, second, 8, &[4; 8]));
        assert_eq!(tables.remove_memory(place(second), 64).unwrap().registration, "second");
        assert!(tables.grounds(KEY).is_none() && tables.remove_memory(place(second), 64).is_none());
    }

    #[test]
    fn the_same_memory_may_be_exported_twice_and_once_more_as_a_segment() {
        let segment = mapping::anonymous("a test", 4096, Pages::Touched).unwrap();
        let memory =
            UserMemory { start: std::ptr::NonNull::new(segment.as_ptr()).unwrap(), length: segment.len() };
        let id = SegmentId::new(1, 2);
        let mut tables = Tables::default();
        tables.enter("segment", place(memory), memory, Some((id, segment)));
        tables.enter("once", place(memory), memory, None);
        tables.enter("twice", place(memory), memory, None);
        let length = memory.length as u64;
        let users = [(); 2].map(|()| tables.remove_memory(place(memory), length).unwrap().registration);
        assert!(users.contains(&"once") && users.contains(&"twice"), "{users:?}");
        assert!(tables.remove_memory(place(memory), length).is_none());
        assert!(tables.has(id) && write(&tables, memory, 0, &[1]));
        assert_eq!(tables.segment(id).unwrap().1.registration, "segment");
        assert_eq!(tables.remove_segment(id).unwrap().registration, "segment");
        assert!(!tables.has(id) && !write(&tables, memory, 0, &[1]));
    }

    #[test]
    fn writes_begin_in_segments_and_not_in_what_the_user_takes_back() {
        let segment = mapping::anonymous("a test", 4096, Pages::Touched).unwrap();
        let start = std::ptr::NonNull::new(segment.as_ptr()).unwrap();
        let memory = UserMemory { start, length: segment.len() };
        let mut tables = Tables::default();
        tables.enter("user's", place(memory), memory, None);
        assert!(tables.segment_around(memory).is_none());
        tables.enter("segment", place(memory), memory.part(0, 2048), Some((SegmentId::new(1, 2), segment)));
        let found = |from, length| tables.segment_around(memory.part(from, length)).map(|(found, _)| *found);
        assert_eq!([found(0, 2048), found(2040, 8), found(2048, 0)], [Some("segment"); 3]);
        assert_eq!([found(2040, 16), found(2048, 8)], [None; 2]);
    }
}
