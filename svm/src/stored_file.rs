//! A file as it lies in stores, to be read by somebody who takes part in no job.
//!
//! One that is on a single node alone is opened as that node's programs open it. One that several nodes share is only
//! looked at: it is not brought up, nobody sees a reader come or go, and a job can open it, or have it open, at the
//! same time. What such a reader sees of a file that is being written is then what the stores hold at that moment.

mod part;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use crate::error::{Error, Result};
use crate::file::File;
use crate::manifest::{self, Manifest};
use crate::name::FileName;
use crate::node::NodeName;
use crate::object::Storage;
use crate::open_options::OpenOptions;
use crate::placement::{Placement, SizeReason};
use crate::store::Store;
use crate::store_set::{Known, Member, StoreSet, merged};
use crate::units::{FileId, FileOffset, SegmentIndex, SegmentSize};

pub(crate) use part::{Part, PartHere, Piece, Whereabouts};

/// A file in one or several stores, open for reading.
#[derive(Debug)]
pub struct StoredFile {
    name: FileName,
    /// What all stores know together.
    manifest: Manifest,
    /// By position among the manifest's nodes: what its store holds, where it is within reach.
    parts: Vec<Option<Part>>,
    /// Where the file is on one node alone, and that one is this.
    attached: Option<File>,
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
    /// As [`Store::open_file`](crate::Store::open_file); [`Error::TwoFiles`].
    pub fn open(&self, name: &FileName) -> Result<StoredFile> {
        self.open_or_look(name, |store| match store.open_file(name, &OpenOptions::reading()) {
            Err(Error::OpenInAnotherJob { .. }) => Ok(None),
            opened => opened.map(Some),
        })
    }

    /// The same, but nobody sees of any file that it is read: what is told of one that is being written is how it is at
    /// this moment.
    ///
    /// # Errors
    /// As [`StoreSet::open`].
    pub fn look(&self, name: &FileName) -> Result<StoredFile> {
        self.open_or_look(name, |_| Ok(None))
    }

    /// The same, where a file of one node alone whose store is here is opened by `open`, if it likes.
    fn open_or_look(
        &self,
        name: &FileName,
        open: impl Fn(&Store) -> Result<Option<File>>,
    ) -> Result<StoredFile> {
        loop {
            let id = self.lookup(name)?;
            let known = self.known(id, name)?;
            let Some(manifest) = merged(name, &known)? else {
                // Its remover took the name away first: look again.
                if let Some((member, _)) = self.find(name)?.filter(|(_, found)| *found == id) {
                    return Err(member.lost_object(name));
                }
                continue;
            };
            let attached = match sole_member(&known) {
                Some(Member::Here(store)) => open(store)?,
                Some(Member::There(_)) | None => None,
            };
            let parts = self.parts(name, &manifest, &known);
            return Ok(StoredFile { name: name.clone(), manifest, parts, attached });
        }
    }

    /// The same of a file of which `manifest` tells all that there is to know, whoever else has parts of it.
    ///
    /// # Errors
    /// What is wrong with what the stores know.
    pub(crate) fn open_known(&self, name: &FileName, manifest: Manifest) -> Result<StoredFile> {
        let parts = self.parts(name, &manifest, &self.known(manifest.id, name)?);
        Ok(StoredFile { name: name.clone(), manifest, parts, attached: None })
    }

    /// What the store of each of the manifest's nodes holds, where it is within reach.
    fn parts(&self, name: &FileName, manifest: &Manifest, known: &[Known<'_>]) -> Vec<Option<Part>> {
        let of = Whereabouts { id: manifest.id, name: name.clone(), segment_size: manifest.segment_size };
        let part = |node| {
            let own = known.iter().find(|known| known.member.node() == node);
            self.member_of(node).map(|member| member.part(&of, own.map(|known| &known.manifest)))
        };
        manifest.nodes.iter().map(part).collect()
    }
}

/// The store that alone knows the file and is the only one that is to know it.
pub(crate) fn sole_member<'s>(known: &[Known<'s>]) -> Option<Member<'s>> {
    match known {
        [Known { member, manifest, .. }] if manifest.nodes == [member.node().clone()] => Some(*member),
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

    /// Why segments have their size; `None` for a file of a release that did not keep it.
    pub fn segment_size_reason(&self) -> Option<SizeReason> {
        self.manifest.segment_size_reason
    }

    /// Where new segments go, unless who opens the file asks for something else; `None` as above.
    pub fn placement(&self) -> Option<&Placement> {
        self.manifest.placement.as_ref()
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
        let is_missing = |home: u32| self.part_of(home).is_none();
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
            let piece = &mut buffer[from..from + bytes];
            match self.manifest.home_of(index).map(|home| self.part_of(home)) {
                Some(Some(part)) => part.read(index, within, piece)?,
                // A hole: what is out of reach was asked for above.
                _ => piece.fill(0),
            }
            at += bytes as u64;
        }
        Ok(end.saturating_sub(offset.0) as usize)
    }

    /// The first range at or behind `from` that is not a hole, or `None` up to the end of the file. What is out of
    /// reach is none.
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
            let Some(part) = self.part_of(home) else {
                return Ok(Some(FileOffset(wanted.start)..FileOffset(wanted.end)));
            };
            let piece = Piece { segment: index, within: wanted.start - start..wanted.end - start };
            if let Some(data) = part.next_data(&piece)? {
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
        let mut stored = HashMap::new();
        for (home, segments) in self.by_home() {
            if let Some(part) = self.part_of(home) {
                let bytes = part.stored(&segments)?;
                stored.extend(segments.into_iter().zip(bytes));
            }
        }
        let look = |(index, home): (SegmentIndex, u32)| StoredSegment {
            index,
            home: self.manifest.nodes[home as usize].clone(),
            stored: stored.get(&index).copied(),
        };
        Ok(self.manifest.homes().map(look).collect())
    }

    /// What the parts of the file that are within reach take up, and when one of them was last changed.
    ///
    /// # Errors
    /// What is wrong with a part that cannot be looked at.
    pub fn storage(&self) -> Result<Storage> {
        let segments = self.by_home();
        let parts = self.parts.iter().enumerate();
        let mut parts = parts.filter_map(|(home, part)| Some((home as u32, part.as_ref()?)));
        parts.try_fold(Storage::default(), |sum, (home, part)| {
            let segments = segments.get(&home).map(Vec::as_slice).unwrap_or_default();
            Ok(sum.and(part.storage(segments)?))
        })
    }

    /// The segments of each home.
    pub(crate) fn by_home(&self) -> BTreeMap<u32, Vec<SegmentIndex>> {
        let mut by_home = BTreeMap::<_, Vec<_>>::new();
        self.manifest.homes().for_each(|(index, home)| by_home.entry(home).or_default().push(index));
        by_home
    }

    /// What all that is known of the file tells.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What the store of a home holds, where it is within reach.
    pub(crate) fn part_of(&self, home: u32) -> Option<&Part> {
        self.parts.get(home as usize)?.as_ref()
    }
}
