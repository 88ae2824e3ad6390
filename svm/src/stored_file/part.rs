//! What one store holds of a file, to be read by somebody who takes part in no job.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::name::FileName;
use crate::node::BootId;
use crate::object::{self, Storage};
use crate::presence;
use crate::remote_store::RemoteStore;
use crate::segment;
use crate::state::State;
use crate::store::Store;
use crate::units::{FileId, SegmentIndex, SegmentSize};

/// Which file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Whereabouts {
    pub(crate) id: FileId,
    pub(crate) name: FileName,
    pub(crate) segment_size: SegmentSize,
}

/// A range of a segment's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    pub(crate) segment: SegmentIndex,
    pub(crate) within: Range<u64>,
}

/// A part of a file.
#[derive(Debug)]
pub(crate) enum Part {
    Here(Box<PartHere>),
    There { store: Arc<RemoteStore>, of: Whereabouts },
}

/// A part of a file in a store of this machine.
#[derive(Debug)]
pub(crate) struct PartHere {
    store: Store,
    of: Whereabouts,
    /// What the manifest in that store tells.
    own: Option<Manifest>,
    /// The segment that was read last: most reads follow one another.
    recent: Mutex<Option<(SegmentIndex, fs::File)>>,
}

impl Part {
    pub(crate) fn here(store: &Store, of: &Whereabouts, own: Option<&Manifest>) -> Part {
        Part::Here(Box::new(PartHere::new(store, of, own)))
    }

    pub(crate) fn there(store: &Arc<RemoteStore>, of: &Whereabouts) -> Part {
        Part::There { store: Arc::clone(store), of: of.clone() }
    }

    /// Reads a piece; zeros where the segment is about to be made, or would have been.
    pub(crate) fn read(&self, segment: SegmentIndex, within: u64, to: &mut [u8]) -> Result<()> {
        match self {
            Part::Here(part) => part.read(segment, within, to),
            Part::There { store, of } => store.read(of, segment, within, to),
        }
    }

    /// The first range of a piece that has storage.
    pub(crate) fn next_data(&self, piece: &Piece) -> Result<Option<Range<u64>>> {
        match self {
            Part::Here(part) => part.next_data(piece),
            Part::There { store, of } => store.next_data(of, piece),
        }
    }

    /// How many bytes of each of the segments have storage.
    pub(crate) fn stored(&self, segments: &[SegmentIndex]) -> Result<Vec<u64>> {
        match self {
            Part::Here(part) => part.stored(segments),
            Part::There { store, of } => store.stored(of, segments),
        }
    }

    /// What it takes up, of which segments `segments` are. When it was last changed is not known of one on another host.
    pub(crate) fn storage(&self, segments: &[SegmentIndex]) -> Result<Storage> {
        match self {
            Part::Here(part) => part.storage(),
            Part::There { store, of } => {
                let allocated = store.stored(of, segments)?.into_iter().sum();
                Ok(Storage { allocated, modified: None })
            }
        }
    }

    /// That segments are there, as far as they have to be.
    pub(crate) fn check(&self, segments: &[SegmentIndex]) -> Result<()> {
        match self {
            Part::Here(part) => part.check(segments),
            Part::There { store, of } => store.check(of, segments),
        }
    }

    /// Whether the bytes of a piece are zero, unless a job has the file open there: it may be writing them.
    pub(crate) fn is_zero(&self, piece: &Piece) -> Result<bool> {
        match self {
            Part::Here(part) => part.is_zero(piece),
            Part::There { store, of } => store.is_zero(of, piece),
        }
    }
}

impl PartHere {
    pub(crate) fn new(store: &Store, of: &Whereabouts, own: Option<&Manifest>) -> PartHere {
        PartHere { store: store.clone(), of: of.clone(), own: own.cloned(), recent: Mutex::default() }
    }

    /// Which file it is a part of.
    pub(crate) fn of(&self) -> &Whereabouts {
        &self.of
    }

    pub(crate) fn read(&self, segment: SegmentIndex, within: u64, to: &mut [u8]) -> Result<()> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.as_ref().is_none_or(|(known, _)| *known != segment) {
            *recent = self.open(segment)?.map(|file| (segment, file));
        }
        match &*recent {
            Some((_, file)) => {
                file.read_exact_at(to, within).map_err(|e| self.failed("reading", segment, e))?
            }
            None => to.fill(0),
        }
        // A file that is being removed is renamed first, and loses its bytes then: what was read before that is right.
        if self.is_there() { Ok(()) } else { Err(self.gone()) }
    }

    pub(crate) fn next_data(&self, piece: &Piece) -> Result<Option<Range<u64>>> {
        let Some(file) = self.open(piece.segment)? else { return Ok(None) };
        self.next_data_in(&file, piece)
    }

    fn next_data_in(&self, file: &fs::File, piece: &Piece) -> Result<Option<Range<u64>>> {
        let data = segment::next_data(file, piece.within.clone())
            .map_err(|e| self.failed("looking at", piece.segment, e))?;
        // As after a read: what has lost its storage looks like a hole.
        if self.is_there() { Ok(data) } else { Err(self.gone()) }
    }

    pub(crate) fn stored(&self, segments: &[SegmentIndex]) -> Result<Vec<u64>> {
        segments.iter().map(|segment| self.stored_bytes(*segment)).collect()
    }

    fn storage(&self) -> Result<Storage> {
        match object::storage(&self.object()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.own.is_none() => Ok(Storage::default()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(self.gone()),
            storage => {
                storage.map_err(|e| Error::io(format!("looking at {}", self.of.name), &self.object(), e))
            }
        }
    }

    pub(crate) fn check(&self, segments: &[SegmentIndex]) -> Result<()> {
        segments.iter().try_for_each(|segment| self.open(*segment).map(drop))
    }

    fn stored_bytes(&self, index: SegmentIndex) -> Result<u64> {
        let Some(file) = self.open(index)? else { return Ok(0) };
        let (mut rest, mut stored) = (0..self.of.segment_size.bytes(), 0);
        while let Some(data) = self.next_data_in(&file, &Piece { segment: index, within: rest.clone() })? {
            stored += data.end - data.start;
            rest.start = data.end;
        }
        Ok(stored)
    }

    pub(crate) fn is_zero(&self, piece: &Piece) -> Result<bool> {
        let Some(file) = self.open(piece.segment)? else { return Ok(true) };
        let is_zero = segment::is_zero(&file, piece.within.clone())
            .map_err(|e| self.failed("reading", piece.segment, e))?;
        // What is gone may be another file's storage by now.
        Ok(is_zero || self.is_in_use() || !self.is_there())
    }

    /// A segment; `None` where a job is about to make it, or would have made it.
    fn open(&self, segment: SegmentIndex) -> Result<Option<fs::File>> {
        let path = self.path_of(segment);
        let file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return match self.is_there() {
                    false if self.has_lost_its_name() => Err(self.gone()),
                    true if self.may_be_unmade(segment) => Ok(None),
                    _ => Err(Error::MissingSegment {
                        name: self.of.name.to_string(),
                        segment,
                        offset: self.of.segment_size.start_of(segment),
                        path,
                    }),
                };
            }
            Err(e) => return Err(self.failed("opening", segment, e)),
        };
        let found = file.metadata().map_err(|e| self.failed("opening", segment, e))?.len();
        let expected = self.of.segment_size.bytes();
        if found != expected && !(found == 0 && (self.may_be_unmade(segment) || self.has_gone_down())) {
            let name = self.of.name.to_string();
            return Err(Error::DamagedSegment { name, segment, found, expected, path });
        }
        Ok((found == expected).then_some(file))
    }

    /// Whether a segment without storage is none that was lost: this node has never been told that it is its home, as
    /// [`recovery`](crate::recovery) has it, or a job is about to make it.
    fn may_be_unmade(&self, segment: SegmentIndex) -> bool {
        match &self.own {
            Some(own) => !own.promises(segment, self.store.node()),
            None => self.is_in_use(),
        }
    }

    /// Whether the node has gone down since it had the file open last: a segment that has not even its length then was
    /// never synced, and is made by whoever opens the file.
    fn has_gone_down(&self) -> bool {
        let state = match fs::File::open(self.object().join(object::STATE)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return true,
            state => state.and_then(State::map_for_reading),
        };
        let is_of_now = |state: State| BootId::current().map(|boot| state.is_valid(boot, self.of.id));
        state.is_ok_and(|state| state.is_none_or(|state| is_of_now(state).is_ok_and(|is_of_now| !is_of_now)))
    }

    /// Whether a job has the file open on this node.
    fn is_in_use(&self) -> bool {
        let state = fs::File::open(self.object().join(object::STATE));
        state.and_then(|state| presence::anybody_attached(&state)).unwrap_or(false)
    }

    fn object(&self) -> PathBuf {
        object::path(self.store.path(), self.of.id)
    }

    fn path_of(&self, segment: SegmentIndex) -> PathBuf {
        self.object().join(object::segment_name(segment))
    }

    fn is_there(&self) -> bool {
        self.object().exists()
    }

    fn has_lost_its_name(&self) -> bool {
        !self.store.lookup(&self.of.name).is_ok_and(|id| id == self.of.id)
    }

    fn gone(&self) -> Error {
        self.store.no_such_file(&self.of.name)
    }

    fn failed(&self, what: &str, segment: SegmentIndex, error: io::Error) -> Error {
        let subject = format!("{what} segment {segment} of {}", self.of.name);
        Error::io(subject, &self.path_of(segment), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileOffset, OpenOptions};

    #[test]
    fn storage_that_goes_with_its_file_is_no_hole() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let name = FileName::new("f").unwrap();
        let file = store.open_file(&name, &OpenOptions::read_write().create(true)).unwrap();
        file.write_at(FileOffset(0), &[1; 10]).unwrap();
        file.commit(false).unwrap();
        let of = Whereabouts { id: file.id(), name: name.clone(), segment_size: file.segment_size() };
        let own = Manifest::read(&file.directory(), "f").unwrap();
        drop(file);
        let part = PartHere::new(&store, &of, Some(&own));
        let piece = Piece { segment: SegmentIndex(0), within: 0..100 };
        let segment = part.open(piece.segment).unwrap().unwrap();
        let data = part.next_data_in(&segment, &piece).unwrap().unwrap();
        assert!(data.start == 0 && data.end >= 10);
        store.remove(&name).unwrap();
        let gone = part.next_data_in(&segment, &piece).unwrap_err();
        assert!(matches!(gone, Error::NoSuchFile { .. }), "{gone}");
    }
}
