//! A file as it lies in stores, to be read by somebody who takes part in no job.
//!
//! One that is on a single node alone is opened as that node's programs open it. One that several nodes share is only
//! looked at: it is not brought up, nobody sees a reader come or go, and a job can open it, or have it open, at the same
//! time. What such a reader sees of a file that is being written is then what the stores hold at that moment.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::file::File;
use crate::manifest::{self, Manifest};
use crate::name::FileName;
use crate::node::NodeName;
use crate::object;
use crate::open_options::OpenOptions;
use crate::presence;
use crate::segment;
use crate::store::Store;
use crate::store_set::{Known, StoreSet, merged};
use crate::units::{FileId, FileOffset, SegmentIndex, SegmentSize};

/// A file in one or several stores, open for reading.
#[derive(Debug)]
pub struct StoredFile {
    name: FileName,
    /// What all stores know together.
    manifest: Manifest,
    /// By position among the manifest's nodes: the store, where it is within reach.
    stores: Vec<Option<Store>>,
    /// Where the file is on one node alone.
    attached: Option<File>,
    /// The segment that was read last: most reads follow one another.
    recent: Mutex<Option<(SegmentIndex, fs::File)>>,
}

/// One segment of a file, as [`StoredFile::segments`] tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSegment {
    /// Which segment.
    pub index: SegmentIndex,
    /// The node that holds it.
    pub home: NodeName,
    /// How many of its bytes have storage; `None` where that node's store is not within reach.
    pub stored: Option<u64>,
}

impl StoreSet {
    /// Opens the file `name` for reading. It may have parts on nodes whose stores are not here:
    /// [`StoredFile::check_whole`] tells.
    ///
    /// # Errors
    /// As [`Store::open_file`]; [`Error::TwoFiles`].
    pub fn open(&self, name: &FileName) -> Result<StoredFile> {
        loop {
            let id = self.lookup(name)?;
            let known = self.known(id, name)?;
            let Some(manifest) = merged(name, &known)? else {
                // Its remover took the name away first: look again.
                if self.lookup(name)? == id {
                    return Err(self.first().lost_object(name));
                }
                continue;
            };
            let attached = match sole_store(&known) {
                Some(store) => match store.open_file(name, &OpenOptions::reading()) {
                    Err(Error::OpenInAnotherJob { .. }) => None,
                    opened => Some(opened?),
                },
                None => None,
            };
            let stores = manifest.nodes.iter().map(|node| self.store_of(node).cloned()).collect();
            return Ok(StoredFile {
                name: name.clone(),
                manifest,
                stores,
                attached,
                recent: Mutex::new(None),
            });
        }
    }
}

/// The store that alone knows the file and is the only one that is to know it.
pub(crate) fn sole_store<'s>(known: &[Known<'s>]) -> Option<&'s Store> {
    match known {
        [Known { store, manifest, .. }] if manifest.nodes == [store.node().clone()] => Some(store),
        _ => None,
    }
}

impl StoredFile {
    /// The file's identity.
    pub fn id(&self) -> FileId {
        self.manifest.id
    }

    /// The size of each of the file's segments.
    pub fn segment_size(&self) -> SegmentSize {
        self.manifest.segment_size
    }

    /// The logical size, bytes.
    pub fn size(&self) -> u64 {
        self.attached.as_ref().map_or(self.manifest.size, File::size)
    }

    /// That all of the file is within reach.
    ///
    /// # Errors
    /// [`Error::StoresMissing`] names what is not, and where it is.
    pub fn check_whole(&self) -> Result<()> {
        self.check_range(FileOffset(0)..FileOffset(u64::MAX))
    }

    /// That `range` of the file is within reach.
    ///
    /// # Errors
    /// As [`StoredFile::check_whole`].
    pub fn check_range(&self, range: Range<FileOffset>) -> Result<()> {
        let end = range.end.0.min(self.size());
        if range.start.0 >= end {
            return Ok(());
        }
        let Some((first, _)) = self.segment_size().locate(range.start) else { return Ok(()) };
        let within = |(index, _): &(SegmentIndex, u32)| self.segment_size().start_of(*index).0 < end;
        let is_missing = |home: u32| self.store_of(Some(home)).is_none();
        let missing =
            self.manifest.homes_from(first).take_while(within).filter(|(_, home)| is_missing(*home));
        let segments = manifest::runs(missing);
        if segments.is_empty() {
            return Ok(());
        }
        let missing = Manifest { segments, ..self.manifest.clone() };
        match missing.parts_on(|_| true) {
            Some(parts) => Err(Error::StoresMissing { name: self.name.to_string(), parts }),
            None => Ok(()),
        }
    }

    /// Reads from `offset` on until `buffer` is full or the file ends, and says how many bytes it read.
    ///
    /// # Errors
    /// [`Error::StoresMissing`]; what is wrong with the segment concerned; [`Error::NoSuchFile`] where the file was
    /// removed meanwhile.
    pub fn read_at(&self, offset: FileOffset, buffer: &mut [u8]) -> Result<usize> {
        if let Some(file) = &self.attached {
            return file.read_at(offset, buffer);
        }
        let end = self.size().min(offset.0.saturating_add(buffer.len() as u64));
        self.check_range(offset..FileOffset(end))?;
        let mut at = offset.0;
        while at < end {
            // Within the size: every such offset has a segment.
            let Some((index, within)) = self.segment_size().locate(FileOffset(at)) else { break };
            let bytes = (end - at).min(self.segment_size().bytes() - within) as usize;
            let from = (at - offset.0) as usize;
            self.read_piece(index, within, &mut buffer[from..from + bytes])?;
            at += bytes as u64;
        }
        Ok(end.saturating_sub(offset.0) as usize)
    }

    /// The first range at or behind `from` that is not a hole, or `None` up to the end of the file. What is out of reach
    /// is none.
    ///
    /// # Errors
    /// What is wrong with a segment that cannot be looked at.
    pub fn next_data(&self, from: FileOffset) -> Result<Option<Range<FileOffset>>> {
        if let Some(file) = &self.attached {
            return file.next_data(from);
        }
        let bytes = self.segment_size().bytes();
        let Some((first, _)) = self.segment_size().locate(from) else { return Ok(None) };
        for (index, home) in self.manifest.homes_from(first) {
            let start = self.segment_size().start_of(index).0;
            let end = (start + bytes).min(self.size());
            if start >= end {
                break;
            }
            if end <= from.0 {
                continue;
            }
            let wanted = from.0.max(start)..end;
            if self.store_of(Some(home)).is_none() {
                return Ok(Some(FileOffset(wanted.start)..FileOffset(wanted.end)));
            }
            let Some(file) = self.open_segment(index, home)? else { continue };
            let data = segment::next_data(&file, wanted.start - start..wanted.end - start)
                .map_err(|e| self.failed("looking at", index, home, e))?;
            if let Some(data) = data {
                return Ok(Some(FileOffset(start + data.start)..FileOffset(start + data.end)));
            }
        }
        Ok(None)
    }

    /// The segments that exist, in ascending order.
    ///
    /// # Errors
    /// What is wrong with a segment that cannot be looked at.
    pub fn segments(&self) -> Result<Vec<StoredSegment>> {
        if let Some(file) = &self.attached {
            let with_storage = |s: crate::SegmentInfo| StoredSegment {
                index: s.index,
                home: s.home,
                stored: Some(s.stored),
            };
            return Ok(file.segments()?.into_iter().map(with_storage).collect());
        }
        let look = |(index, home): (SegmentIndex, u32)| {
            let stored = match self.store_of(Some(home)) {
                Some(_) => Some(self.stored_bytes(index, home)?),
                None => None,
            };
            Ok(StoredSegment { index, home: self.manifest.nodes[home as usize].clone(), stored })
        };
        self.manifest.homes().map(look).collect()
    }

    fn stored_bytes(&self, index: SegmentIndex, home: u32) -> Result<u64> {
        let Some(file) = self.open_segment(index, home)? else { return Ok(0) };
        let (mut rest, mut stored) = (0..self.segment_size().bytes(), 0);
        while let Some(data) =
            segment::next_data(&file, rest.clone()).map_err(|e| self.failed("looking at", index, home, e))?
        {
            stored += data.end - data.start;
            rest.start = data.end;
        }
        Ok(stored)
    }

    fn store_of(&self, home: Option<u32>) -> Option<&Store> {
        self.stores.get(home? as usize)?.as_ref()
    }

    fn read_piece(&self, index: SegmentIndex, within: u64, to: &mut [u8]) -> Result<()> {
        let Some(home) = self.manifest.home_of(index) else {
            to.fill(0);
            return Ok(());
        };
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.as_ref().is_none_or(|(known, _)| *known != index) {
            *recent = self.open_segment(index, home)?.map(|file| (index, file));
        }
        match &*recent {
            Some((_, file)) => {
                file.read_exact_at(to, within).map_err(|e| self.failed("reading", index, home, e))?
            }
            None => to.fill(0),
        }
        // A file that is being removed is renamed first, and loses its bytes then: what was read before that is right.
        if self.is_there(home) { Ok(()) } else { Err(self.gone()) }
    }

    /// A segment whose home is within reach; `None` where a job is about to make it.
    pub(crate) fn open_segment(&self, index: SegmentIndex, home: u32) -> Result<Option<fs::File>> {
        let path = self.object(home).join(object::segment_name(index));
        let file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return match (self.is_there(home), self.is_in_use(home)) {
                    (false, _) if self.has_lost_its_name(home) => Err(self.gone()),
                    (true, true) => Ok(None),
                    _ => Err(Error::MissingSegment {
                        name: self.name.to_string(),
                        segment: index,
                        offset: self.segment_size().start_of(index),
                        path,
                    }),
                };
            }
            Err(e) => return Err(self.failed("opening", index, home, e)),
        };
        let found = file.metadata().map_err(|e| self.failed("opening", index, home, e))?.len();
        let expected = self.segment_size().bytes();
        if found != expected && !(found == 0 && self.is_in_use(home)) {
            let name = self.name.to_string();
            return Err(Error::DamagedSegment { name, segment: index, found, expected, path });
        }
        Ok((found == expected).then_some(file))
    }

    /// Whether a job has the file open on a node.
    pub(crate) fn is_in_use(&self, home: u32) -> bool {
        let state = fs::File::open(self.object(home).join(object::STATE));
        state.and_then(|state| presence::anybody_attached(&state)).unwrap_or(false)
    }

    /// Where the file lies in the store of a node that is within reach.
    fn object(&self, home: u32) -> PathBuf {
        self.store_of(Some(home)).map(|store| object::path(store.path(), self.id())).unwrap_or_default()
    }

    fn is_there(&self, home: u32) -> bool {
        self.object(home).exists()
    }

    fn has_lost_its_name(&self, home: u32) -> bool {
        let id = self.store_of(Some(home)).map(|store| store.lookup(&self.name));
        !matches!(id, Some(Ok(id)) if id == self.id())
    }

    fn gone(&self) -> Error {
        let reached: Vec<_> = self.stores.iter().flatten().map(|store| store.path().as_os_str()).collect();
        let store = PathBuf::from(reached.join(std::ffi::OsStr::new(", ")));
        Error::NoSuchFile { name: self.name.to_string(), store }
    }

    fn failed(&self, what: &str, index: SegmentIndex, home: u32, error: io::Error) -> Error {
        let path = self.object(home).join(object::segment_name(index));
        Error::io(format!("{what} segment {index} of {}", self.name), &path, error)
    }
}
