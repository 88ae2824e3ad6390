//! A new file whose segments are placed on the nodes of a set of stores, made whole before anybody sees it.

use std::collections::BTreeMap;
use std::io;

use crate::cluster::NodeIndex;
use crate::error::{Error, Result};
use crate::name::FileName;
use crate::node::NodeName;
use crate::open_options::OpenOptions;
use crate::placement::Placement;
use crate::store::Store;
use crate::store_set::StoreSet;
use crate::units::{FileId, FileOffset, SegmentIndex, SegmentSize};
use crate::unnamed::UnnamedFile;

/// A file that only this process can reach, in one or several stores. It is gone when this is dropped, unless it was
/// given its name.
#[derive(Debug)]
pub struct SpreadFile {
    set: StoreSet,
    name: FileName,
    options: OpenOptions,
    id: FileId,
    /// The nodes that may hold parts, and what has been made in the store of each.
    nodes: Vec<NodeName>,
    parts: Vec<Option<UnnamedFile>>,
    homes: BTreeMap<SegmentIndex, u32>,
    /// The last segment that is going to be written, for placement in blocks.
    last: SegmentIndex,
    segment_size: SegmentSize,
    replacing: bool,
}

impl StoreSet {
    /// Makes a file that gets the name `name` later. Its segments are placed as `options` say: in the first of the
    /// stores, unless a policy spreads them. With `replacing` it takes the place of the file that has the name.
    /// `size` is how long it is going to be, bytes, as far as that is known; [`Placement::Block`] goes by it.
    ///
    /// # Errors
    /// [`Error::NodeNotGiven`]; [`Error::NotHere`]; with `replacing`, as [`StoreSet::remove`]; otherwise as [`Store::create_unnamed`].
    pub fn create(
        &self,
        name: &FileName,
        options: &OpenOptions,
        size: Option<u64>,
        replacing: bool,
    ) -> Result<SpreadFile> {
        let first = self.first(name)?;
        if replacing {
            match self.check_removable(name, false) {
                Ok(()) | Err(Error::NoSuchFile { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        let all = || self.stores().iter().map(|store| store.node().clone()).collect();
        let nodes = match &options.placement {
            Placement::FirstTouch => vec![first.node().clone()],
            Placement::Node(node) if self.store_of(node).is_some() => vec![node.clone()],
            Placement::Node(node) => return Err(Error::NodeNotGiven { node: node.clone() }),
            Placement::RoundRobin | Placement::Block => all(),
        };
        let segment_size = options.segment_size.unwrap_or(SegmentSize::DEFAULT);
        let last = size.and_then(|size| segment_size.locate(FileOffset(size.saturating_sub(1))));
        let failed = |e: io::Error| Error::io(format!("creating {name}"), first.path(), e);
        Ok(SpreadFile {
            set: self.clone(),
            name: name.clone(),
            options: options.clone(),
            id: FileId::random().map_err(failed)?,
            parts: nodes.iter().map(|_| None).collect(),
            nodes,
            homes: BTreeMap::new(),
            last: last.map_or(SegmentIndex(0), |(last, _)| last),
            segment_size,
            replacing,
        })
    }
}

impl SpreadFile {
    /// Writes all of `data` at `offset`.
    ///
    /// # Errors
    /// As [`File::write_at`](crate::File::write_at).
    pub fn write_at(&mut self, offset: FileOffset, data: &[u8]) -> Result<()> {
        let mut rest = data;
        let mut at = offset;
        while !rest.is_empty() {
            let Some((index, within)) = self.segment_size.locate(at) else {
                // The one error that a part gives by itself here: the offset is too large.
                return self.part(0)?.file().write_at(at, rest);
            };
            let bytes = rest.len().min((self.segment_size.bytes() - within) as usize);
            let home = self.home(index);
            self.part(home)?.file().write_at(at, &rest[..bytes])?;
            self.homes.insert(index, home);
            at = FileOffset(at.0 + bytes as u64);
            rest = &rest[bytes..];
        }
        Ok(())
    }

    /// Makes the file `size` bytes long, brings it to the storage devices and gives it its name in all stores that hold
    /// parts of it.
    ///
    /// # Errors
    /// [`Error::Exists`] where a file has the name that is not to be replaced; otherwise as [`StoreSet::remove`] and
    /// [`Store::open_file`]. The file is gone then.
    pub fn finish(mut self, size: u64) -> Result<()> {
        if self.parts.iter().all(Option::is_none) {
            self.part(0)?;
        }
        let homes: Vec<_> = self.homes.iter().map(|(index, home)| (*index, *home)).collect();
        for part in self.parts.iter().flatten() {
            part.file().attachment().enter_homes(&homes)?;
            part.file().set_size(size)?;
            part.file().sync_data()?;
            part.file().commit(true)?;
        }
        self.enter_names()
    }

    fn enter_names(mut self) -> Result<()> {
        let mut named: Vec<&Store> = Vec::new();
        for store in self.set.stores().iter().filter(|store| self.is_empty_at(store)) {
            let removed = match store.lookup(&self.name) {
                Ok(_) if !self.replacing => {
                    return Err(Error::Exists { name: self.name.to_string(), store: store.path().into() });
                }
                Ok(_) => store.remove(&self.name),
                Err(e) => Err(e),
            };
            match removed {
                Ok(()) | Err(Error::NoSuchFile { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        let mut parts = std::mem::take(&mut self.parts);
        for (node, part) in self.nodes.iter().zip(&mut parts) {
            let (Some(part), Some(store)) = (part.take(), self.set.store_of(node)) else { continue };
            let entered = if self.replacing { part.replace() } else { part.persist() };
            match entered {
                Ok(_) => named.push(store),
                Err(error) => {
                    // What a copy that fails leaves is nothing.
                    for store in named {
                        if store.lookup(&self.name).is_ok_and(|id| id == self.id) {
                            store.remove(&self.name)?;
                        }
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn is_empty_at(&self, store: &Store) -> bool {
        let at = self.nodes.iter().position(|node| node == store.node());
        at.and_then(|at| self.parts.get(at)).is_none_or(Option::is_none)
    }

    fn home(&self, index: SegmentIndex) -> u32 {
        let place = || match self.options.placement {
            Placement::RoundRobin | Placement::Block => {
                self.options.placement.home(index, self.last, &self.nodes, NodeIndex(0)).0
            }
            Placement::FirstTouch | Placement::Node(_) => 0,
        };
        self.homes.get(&index).copied().unwrap_or_else(place)
    }

    fn part(&mut self, home: u32) -> Result<&UnnamedFile> {
        let part = &mut self.parts[home as usize];
        if part.is_none() {
            let store = self.set.store_of(&self.nodes[home as usize]);
            let store =
                store.ok_or_else(|| Error::NodeNotGiven { node: self.nodes[home as usize].clone() })?;
            let made = store.create_unnamed_as(self.id, &self.name, &self.options, &self.nodes, 0)?;
            *part = Some(made);
        }
        Ok(part.as_ref().expect("it was made above"))
    }
}
