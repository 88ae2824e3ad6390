//! A new file whose segments are placed on the nodes of a set of stores, made whole before anybody sees it.
//!
//! ```text
//!   written, piece by piece ─► settled: whole and durable, in every store ─► named in every store ─► confirmed
//!        └── dropped, or failed: gone everywhere ──────┴─────────────────────────┴─ taken back everywhere ─┘
//! ```
//!
//! Each step is done in all stores at once, and the next one begins when all are through. A store of another host
//! undoes by itself what was not confirmed when the connection to it ends.
//!
//! An older file of the name is set aside where the new one gets it, or where there is to be none, and is removed when
//! the new one is confirmed in every store: until then, taking back restores it. In a single store of this machine the
//! name goes from one to the other at once.

mod new_part;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;

use crate::cluster::NodeIndex;
use crate::error::{Error, Result};
use crate::name::FileName;
use crate::node::NodeName;
use crate::open_options::OpenOptions;
use crate::placement::{Placement, SizeReason};
use crate::state::MAX_SEGMENTS;
use crate::store::aside::Over;
use crate::store_set::{Member, StoreSet};
use crate::units::{FileId, FileOffset, SegmentIndex, SegmentSize};

use new_part::{NewPart, Whole};

/// A file that only this process can reach, in one or several stores. It is gone when this is dropped, unless it was
/// given its name.
#[derive(Debug)]
pub struct SpreadFile {
    set: StoreSet,
    name: FileName,
    options: OpenOptions,
    placement: Placement,
    id: FileId,
    /// The nodes that may hold parts, and what has been made in the store of each.
    nodes: Vec<NodeName>,
    parts: Vec<Option<NewPart>>,
    homes: BTreeMap<SegmentIndex, u32>,
    /// The last segment that is going to be written, for placement in blocks.
    last: SegmentIndex,
    segment_size: SegmentSize,
    replacing: bool,
    /// It is to stay: it has its name everywhere.
    is_kept: bool,
}

impl StoreSet {
    /// Makes a file that gets the name `name` later. Its segments are placed as `options` say: in the first of the
    /// stores, unless a policy spreads them. With `replacing` it takes the place of the file that has the name.
    /// `size` is how long it is going to be, bytes, as far as that is known; [`Placement::Block`] goes by it, and so do
    /// segments whose size `options` leave open, where a policy spreads them: each store is to get some.
    ///
    /// # Errors
    /// [`Error::NodeNotGiven`]; with `replacing`, as [`StoreSet::remove`]; otherwise as
    /// [`Store::create_unnamed`](crate::Store::create_unnamed).
    pub fn create(
        &self,
        name: &FileName,
        options: &OpenOptions,
        size: Option<u64>,
        replacing: bool,
    ) -> Result<SpreadFile> {
        if replacing {
            match self.check_removable(name, false) {
                Ok(()) | Err(Error::NoSuchFile { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        let all = || self.members().map(|member| member.node().clone());
        let placement = options.placement.clone().unwrap_or_default();
        let nodes = match &placement {
            Placement::FirstTouch => all().take(1).collect(),
            Placement::Node(node) if self.member_of(node).is_some() => vec![node.clone()],
            Placement::Node(node) => return Err(self.not_given(node)),
            Placement::RoundRobin | Placement::Block => all().collect::<Vec<_>>(),
        };
        let spreading = match (&placement, size) {
            (Placement::RoundRobin | Placement::Block, Some(size)) => {
                SegmentSize::to_spread(size, nodes.len(), SegmentSize::DEFAULT)
            }
            _ => SegmentSize::DEFAULT,
        };
        let segment_size = options.segment_size.unwrap_or(spreading);
        let size_reason = match options.segment_size {
            Some(_) => Some(SizeReason::Asked),
            None if segment_size == SegmentSize::DEFAULT => Some(SizeReason::Default),
            None => Some(SizeReason::Spreading),
        };
        let last = size.and_then(|size| segment_size.locate(FileOffset(size.saturating_sub(1))));
        let failed = |e: io::Error| Error::io(format!("creating {name}"), &self.place_of(name), e);
        Ok(SpreadFile {
            set: self.clone(),
            name: name.clone(),
            options: OpenOptions {
                segment_size: Some(segment_size),
                size_reason,
                placement: Some(placement.clone()),
                ..options.clone()
            },
            placement,
            id: FileId::random().map_err(failed)?,
            parts: nodes.iter().map(|_| None).collect(),
            nodes,
            homes: BTreeMap::new(),
            last: last.map_or(SegmentIndex(0), |(last, _)| last),
            segment_size,
            replacing,
            is_kept: false,
        })
    }

    fn not_given(&self, node: &NodeName) -> Error {
        let given: Vec<_> = self.members().map(|member| member.node().to_string()).collect();
        Error::NodeNotGiven { node: node.clone(), given: given.join(", ") }
    }
}

impl SpreadFile {
    /// Writes all of `data` at `offset`. What goes wrong on another host may be told by a later call.
    ///
    /// # Errors
    /// As [`File::write_at`](crate::File::write_at); [`Error::OnHost`], [`Error::HostLost`].
    pub fn write_at(&mut self, offset: FileOffset, data: &[u8]) -> Result<()> {
        let mut rest = data;
        let mut at = offset;
        while !rest.is_empty() {
            let place = self.segment_size.locate(at).filter(|(index, _)| index.0 < MAX_SEGMENTS);
            let (index, within) = place.ok_or_else(|| self.too_large(at))?;
            let bytes = rest.len().min((self.segment_size.bytes() - within) as usize);
            let home = self.home(index);
            self.part(home)?.write_at(at, &rest[..bytes])?;
            self.homes.insert(index, home);
            at = FileOffset(at.0 + bytes as u64);
            rest = &rest[bytes..];
        }
        Ok(())
    }

    /// Makes the file `size` bytes long, brings it to the storage devices and gives it its name in all stores that hold
    /// parts of it. An older file that it replaces is removed then, and is as it was if this fails.
    ///
    /// # Errors
    /// [`Error::Exists`] where a file has the name that is not to be replaced; otherwise as [`StoreSet::remove`],
    /// [`Store::open_file`](crate::Store::open_file) and [`SpreadFile::write_at`]. The file is gone then, or
    /// [`Error::LeftBehind`] says where it may not be.
    pub fn finish(mut self, size: u64) -> Result<()> {
        if self.parts.iter().all(Option::is_none) {
            self.part(0)?;
        }
        let homes: Vec<_> = self.homes.iter().map(|(index, home)| (*index, *home)).collect();
        in_all(self.parts.iter_mut().flatten(), |part| part.settle(&homes, size))?;
        let over = self.prepare_to_replace()?;
        if let Some(single) = self.sole_part()
            && single.enter_name_alone(over.is_some())?
        {
            self.is_kept = true;
            return Ok(());
        }
        let named = in_all(self.parts.iter_mut().flatten(), |part| part.enter_name(over.as_ref()))
            .and_then(|()| in_all(self.parts.iter_mut().flatten(), NewPart::confirm));
        if let Err(error) = named {
            return Err(self.take_back(error));
        }
        self.is_kept = true;
        if let Some(over) = over
            && let Err(error) = self.release(&over)
        {
            tracing::warn!("what is left of the older {} stays until svmio verify: {error}", self.name);
        }
        Ok(())
    }

    /// Removes the older file: first where the new one has no part. There, nothing but the record tells of the new one,
    /// so the records of the other stores are to outlast it.
    fn release(&mut self, over: &Over) -> Result<()> {
        for is_cleared in [true, false] {
            let parts = self.parts.iter_mut().zip(&self.nodes);
            let parts = parts.filter(|(_, node)| over.cleared.contains(node) == is_cleared);
            in_all(parts.filter_map(|(part, _)| part.as_mut()), NewPart::release)?;
        }
        Ok(())
    }

    /// What the file is put over, if it is to replace what is there. Stores that get no part, and know a file of this
    /// name, have theirs stood for from here on.
    fn prepare_to_replace(&mut self) -> Result<Option<Over>> {
        let with_part = |(part, node): (&Option<NewPart>, &NodeName)| part.is_some().then(|| node.clone());
        let nodes = self.parts.iter().zip(&self.nodes).filter_map(with_part).collect();
        let mut over = Over { older: None, nodes, cleared: Vec::new() };
        let set = self.set.clone();
        set.remove_leftovers(&self.name, &set.removed()?)?;
        for member in set.members() {
            let gets_none = !over.nodes.contains(member.node());
            let is_there = match member.lookup(&self.name) {
                Ok(_) if !self.replacing && gets_none => {
                    return Err(Error::Exists { name: self.name.to_string(), store: member.label() });
                }
                Ok(id) => {
                    over.older = over.older.or(Some(id));
                    true
                }
                Err(Error::NoSuchFile { .. }) => false,
                // Nothing tells which file it was.
                Err(Error::CorruptManifest { .. } | Error::Unwritten { .. }) if self.replacing => true,
                // That is for whoever gives the name to say.
                Err(_) if !gets_none => false,
                Err(e) => return Err(e),
            };
            if is_there && gets_none {
                over.cleared.push(member.node().clone());
                let part = NewPart::absent(member, self.whole())?;
                match self.nodes.iter().position(|node| node == member.node()) {
                    Some(at) => self.parts[at] = Some(part),
                    None => {
                        self.nodes.push(member.node().clone());
                        self.parts.push(Some(part));
                    }
                }
            }
        }
        Ok(self.replacing.then_some(over))
    }

    /// The part, where no other store has to do with the file.
    fn sole_part(&mut self) -> Option<&mut NewPart> {
        let mut parts = self.parts.iter_mut().flatten();
        parts.next().filter(|_| parts.next().is_none())
    }

    /// Removes what has got its name already, for `error` kept the rest from it, and restores what had it before.
    fn take_back(&mut self, error: Error) -> Error {
        let mut places = Vec::new();
        for (part, node) in self.taken_back() {
            if part.is_err() {
                let place = self.set.member_of(&node).map(Member::label).unwrap_or_default();
                places.push(place.display().to_string());
            }
        }
        if places.is_empty() {
            return error;
        }
        let (name, places, replacing) = (self.name.to_string(), places.join(", "), self.replacing);
        Error::LeftBehind { name, places, replacing, source: Box::new(error) }
    }

    /// Takes all parts back, and says what became of that on each node.
    fn taken_back(&mut self) -> Vec<(Result<()>, NodeName)> {
        self.is_kept = true;
        let mut parts = std::mem::take(&mut self.parts);
        let both = parts.iter_mut().zip(&self.nodes);
        both.filter_map(|(part, node)| Some((part.as_mut()?.take_back(), node.clone()))).collect()
    }

    fn home(&self, index: SegmentIndex) -> u32 {
        let place = || match self.placement {
            Placement::RoundRobin | Placement::Block => {
                self.placement.home(index, self.last, &self.nodes, NodeIndex(0)).0
            }
            Placement::FirstTouch | Placement::Node(_) => 0,
        };
        self.homes.get(&index).copied().unwrap_or_else(place)
    }

    fn part(&mut self, home: u32) -> Result<&mut NewPart> {
        let at = home as usize;
        if self.parts[at].is_none() {
            let node = &self.nodes[at];
            let member = self.set.member_of(node).ok_or_else(|| self.set.not_given(node))?;
            self.parts[at] = Some(NewPart::create(member, self.whole())?);
        }
        Ok(self.parts[at].as_mut().expect("it was made above"))
    }

    fn whole(&self) -> Whole<'_> {
        let SpreadFile { id, name, options, nodes, .. } = self;
        Whole { id: *id, name, options, nodes }
    }

    fn too_large(&self, offset: FileOffset) -> Error {
        let limit = (u64::from(MAX_SEGMENTS) * self.segment_size.bytes()).min(FileOffset::MAX.0);
        Error::TooLarge { name: self.name.to_string(), offset, segment_size: self.segment_size, limit }
    }
}

impl Drop for SpreadFile {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        for (outcome, node) in self.taken_back() {
            if let Err(error) = outcome {
                tracing::warn!(
                    "what is left of {} on node {node} stays until svmio verify: {error}",
                    self.name
                );
            }
        }
    }
}

/// Does `act` in all stores at once; the first error counts.
fn in_all<'p>(
    parts: impl Iterator<Item = &'p mut NewPart>,
    act: impl Fn(&mut NewPart) -> Result<()> + Sync,
) -> Result<()> {
    let mut parts: Vec<_> = parts.collect();
    // There is nothing to wait for beside it.
    if let [single] = &mut parts[..] {
        return act(single);
    }
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let act = &act;
        let started: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || act(part))).collect();
        started.into_iter().map(|thread| thread.join()).collect()
    });
    outcomes.into_iter().try_for_each(|outcome| match outcome {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
