//! The copy of a file that is staged: a file without a name, of which all members bring what they can reach.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use crate::cluster::NodeIndex;
use crate::error::{Error, Result};
use crate::file::File;
use crate::manifest::Manifest;
use crate::name::FileName;
use crate::node::NodeName;
use crate::open_options::OpenOptions;
use crate::placement::Placement;
use crate::store_set::StoreSet;
use crate::stored_file::{Part, Piece, StoredFile};
use crate::team::{Found, Opening, Place, Team};
use crate::units::{FileId, FileOffset, SegmentIndex};

use super::Sought;

/// Large enough that asking costs little beside the bytes.
const BUFFER_BYTES: u64 = 4 << 20;

/// What is to be copied, and for whom.
pub(super) struct Copy<'c> {
    pub(super) team: &'c Team,
    pub(super) place: &'c Place,
    /// The file, and all that is known of it.
    pub(super) name: &'c FileName,
    pub(super) manifest: &'c Manifest,
    /// The members' nodes.
    pub(super) nodes: &'c [NodeName],
    /// The hosts, on the first member.
    pub(super) sought: Option<&'c Sought>,
}

impl Copy<'_> {
    /// Makes it, of what is in `stores` as this member reaches them; by all members.
    pub(super) fn make(&self, stores: &StoreSet) -> Result<(File, Vec<u8>)> {
        let (file, introduction) = self.unnamed()?;
        match self.fill(&file, stores) {
            Ok(()) => Ok((file.for_reading(), introduction)),
            Err(error) => {
                drop(file);
                if self.team.member() == 0 {
                    self.place.give_up(&introduction, self.name);
                }
                Err(error)
            }
        }
    }

    /// A file without bytes, and by now without a name.
    fn unnamed(&self) -> Result<(File, Vec<u8>)> {
        let failed = |e| Error::io("drawing a name for a copy", self.place.store().path(), e);
        // Messages show of what it is a copy.
        let called = |id: FileId| {
            let name = Path::new(&format!("staged-{id}")).join(self.name.as_path());
            name.into_os_string().into_vec()
        };
        // As the first member has it: all take it, or none.
        let told = self.team.told(0, FileId::random().map_err(failed).map(called))?;
        let name = &FileName::new(OsString::from_vec(told))?;
        let options = OpenOptions::read_write().create(true).exclusive(true).temporary(true);
        let options = options.segment_size(Some(self.manifest.segment_size)).placement(Placement::FirstTouch);
        let opened = self.team.open(&mut Making { copy: self, name, options }, []);
        if opened.is_err() && self.team.member() == 0 {
            // Given up already by then: with its name the file goes.
            self.place.take_back(name);
        }
        let (opened, []) = opened?;
        let removed = if self.team.member() == 0 { self.place.remove(name) } else { Ok(()) };
        match self.team.outcome_of(0, removed.map_err(|error| self.located(error))) {
            Ok(()) => Ok(opened),
            Err(error) => {
                let (file, introduction) = opened;
                drop(file);
                if self.team.member() == 0 {
                    self.place.give_up(&introduction, name);
                }
                Err(error)
            }
        }
    }

    fn fill(&self, file: &File, stores: &StoreSet) -> Result<()> {
        let placed = if self.team.member() == 0 { self.spread(file) } else { Ok(()) };
        self.team.outcome_of(0, placed.map_err(|error| self.located(error)))?;
        let copied = if self.team.local().is_first() { self.copy(file, stores) } else { Ok(()) };
        let copied = copied.map_err(|error| match self.sought {
            Some(sought) => sought.failed(error),
            None => error,
        });
        self.team.agree(copied.map_err(|error| self.located(error)))?;
        self.team.set_size(file, self.manifest.size)
    }

    /// Gives what comes from hosts homes on all nodes, in blocks, so that none has to hold all of it. What is on the
    /// members' nodes already stays there.
    fn spread(&self, file: &File) -> Result<()> {
        let nodes = self.place.nodes();
        let from_hosts =
            |(_, home): &(SegmentIndex, u32)| !self.nodes.contains(&self.manifest.nodes[*home as usize]);
        let coming: Vec<SegmentIndex> =
            self.manifest.homes().filter(from_hosts).map(|(index, _)| index).collect();
        if nodes.len() < 2 || coming.is_empty() {
            return Ok(());
        }
        let node = |at: usize| nodes[at * nodes.len() / coming.len()];
        let homes: Vec<(SegmentIndex, NodeIndex)> =
            coming.iter().enumerate().map(|(at, index)| (*index, node(at))).collect();
        file.place(&homes, self.manifest.segment_size.bytes()).map(drop)
    }

    fn copy(&self, file: &File, stores: &StoreSet) -> Result<()> {
        let stored = stores.open_known(self.name, self.manifest.clone())?;
        let mut buffer = Vec::new();
        for (index, home) in self.manifest.homes() {
            if let Some(part) = stored.part_of(home) {
                copy_segment(&stored, part, index, file, &mut buffer)?;
            }
        }
        Ok(())
    }

    fn located(&self, error: Error) -> Error {
        self.team.located_on_node(error)
    }
}

/// Copies what a segment has storage for, up to the end of the file.
fn copy_segment(
    stored: &StoredFile,
    part: &Part,
    segment: SegmentIndex,
    file: &File,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    let (size, bytes) = (stored.manifest().size, stored.segment_size().bytes());
    let start = stored.segment_size().start_of(segment).0;
    let mut within = 0..size.saturating_sub(start).min(bytes);
    while !within.is_empty() {
        let Some(data) = part.next_data(&Piece { segment, within: within.clone() })? else { break };
        let mut at = data.start;
        while at < data.end {
            let length = (data.end - at).min(BUFFER_BYTES);
            buffer.resize(length as usize, 0);
            part.read(segment, at, buffer)?;
            file.write_at(FileOffset(start + at), buffer)?;
            at += length;
        }
        within.start = data.end;
    }
    Ok(())
}

/// Making the copy together.
struct Making<'m> {
    copy: &'m Copy<'m>,
    name: &'m FileName,
    options: OpenOptions,
}

impl Opening for Making<'_> {
    type Opened = (File, Vec<u8>);
    type Error = Error;

    fn find(&mut self) -> Result<Found<(File, Vec<u8>)>> {
        let made = self.copy.place.open(self.name, &self.options);
        let (file, introduction) = made.map_err(|error| self.copy.located(error))?;
        Ok(Found::Here((file, introduction.clone()), introduction))
    }

    fn attach(&mut self, introduction: &[u8]) -> Result<(File, Vec<u8>)> {
        let attached = self.copy.place.attach(introduction, self.name, &self.options);
        attached.map(|file| (file, introduction.to_vec())).map_err(|error| self.copy.located(error))
    }

    fn give_up(&mut self, introduction: &[u8]) {
        self.copy.place.give_up(introduction, self.name);
    }
}
