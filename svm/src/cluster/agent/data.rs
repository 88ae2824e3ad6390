//! Bytes: what other nodes read from and write to the segments of this one.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, PoisonError};

use svmio_transport::{Rank, RemoteSegment, StreamingStores, WriteOrder};

use crate::attachment::{Filling, Home};
use crate::blocks::Blocks;
use crate::cache::CacheSettings;
use crate::cluster::shared_file::CACHE_SEGMENT;
use crate::cluster::wire::{LONGEST_DATA, Part, Reply};
use crate::copying::Course;
use crate::error::{Error, ErrorKind, Result};
use crate::segment::{Access, Place, Segment, Sole};
use crate::units::{FileId, SegmentIndex};

use super::Agent;
use super::files::Served;

impl Agent {
    pub(super) fn read(&self, file: FileId, parts: &[Part], out: &mut Vec<u8>) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        if parts.iter().map(Part::bytes).fold(0, u64::saturating_add) > LONGEST_DATA as u64 {
            return Err(self.cut_short());
        }
        parts.iter().try_for_each(|part| self.append(&served, part, out))?;
        Ok(Reply::Data)
    }

    pub(super) fn write(&self, from: Rank, file: FileId, parts: &[Part], data: &[u8]) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let node = self.context.roster.node_of(from);
        self.store(&served, parts, data, |index| served.add_change(index, node))?;
        Ok(Reply::Done)
    }

    /// The same with bytes out of the cache of the asker's node, which may be older than what is here.
    pub(super) fn write_cached(
        &self,
        from: Rank,
        file: FileId,
        parts: &[Part],
        data: &[u8],
    ) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let (node, size) = (self.context.roster.node_of(from), served.attachment.segment_size());
        let range = |part: &Part| {
            let start = size.start_of(part.segment).0.saturating_add(part.within);
            start..start.saturating_add(part.length.into())
        };
        // A page's bytes are blocks one by one.
        if parts.iter().any(|part| part.count != 1) {
            return Err(self.cut_short());
        }
        let is_stored = served.late().store(node, parts.iter().map(range), || {
            self.store(&served, parts, data, |index| served.add_change(index, node))
        })?;
        Ok(if is_stored { Reply::Done } else { Reply::TooLate })
    }

    pub(super) fn merge_bytes(&self, from: Rank, file: FileId, parts: &[Part], data: &[u8]) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let node = self.context.roster.node_of(from);
        let (own, mut changes) = (self.context.roster.own(), Vec::new());
        let count = |index| changes.push((index, served.count_change(index, node, own)));
        self.store(&served, parts, data, count)?;
        Ok(Reply::Merged(changes))
    }

    /// Stores parts, and tells once of each segment that has been changed, also where not all could be stored.
    pub(super) fn store(
        &self,
        served: &Served,
        parts: &[Part],
        data: &[u8],
        mut change: impl FnMut(SegmentIndex),
    ) -> Result<()> {
        let mut changed = BTreeSet::new();
        let stored = self.store_parts(served, parts, data, &mut changed);
        // After the bytes: who finds the segment entered or the change counted, finds them.
        for index in changed {
            served.attachment.mark_dirty_for_another(index);
            change(index);
        }
        stored
    }

    /// Stores parts; those segments are `changed` then whose bytes may not be the old ones any more.
    fn store_parts(
        &self,
        served: &Served,
        parts: &[Part],
        mut data: &[u8],
        changed: &mut BTreeSet<SegmentIndex>,
    ) -> Result<()> {
        let mut last: Option<Arc<Segment>> = None;
        let mut past_caches = StreamingStores::default();
        for part in parts {
            let (bytes, rest) =
                data.split_at_checked(part.bytes() as usize).ok_or_else(|| self.cut_short())?;
            data = rest;
            let blocks = self.blocks(served, part)?;
            let segment = match last.take() {
                Some(segment) if segment.index() == part.segment => segment,
                _ => self.own_segment(served, part.segment)?,
            };
            let punches = served.attachment.writable()?.0.punches();
            changed.insert(part.segment);
            let (place, sole) = (Place::New, Sole::default());
            let access = Access { bytes: part.bytes(), place, likely: 0..0, sole };
            let access = (&access, &mut past_caches);
            // SAFETY: the slice has as many bytes as the blocks and lies in no mapping; these lie within the segment,
            // which is mapped for writing, as `writable` has said.
            let written = unsafe {
                segment.write_blocks(&blocks, (bytes.as_ptr(), part.length as isize), access, punches)
            };
            written.map_err(|(_, e)| {
                let subject = format!("writing segment {} of {}", part.segment, served.attachment.name());
                Error::io(subject, &served.attachment.path(), e)
            })?;
            last = Some(segment);
        }
        Ok(())
    }

    pub(super) fn fetch(&self, from: Rank, file: FileId, pages: &[(Part, u64)]) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let cache = self.cache_of(from)?;
        let (node, own) = (self.context.roster.node_of(from), self.context.roster.own());
        let failed = |source| Error::Fabric { subject: format!("writing to rank {from}'s cache"), source };
        let mut bytes = Vec::new();
        let mut write = |(part, place): &(Part, u64)| {
            if part.bytes() > CacheSettings::LARGEST_PAGE {
                return Err(self.cut_short());
            }
            // Before the bytes are read: what changes later is news.
            let version = served.version(part.segment, node, own);
            bytes.clear();
            self.append(&served, part, &mut bytes)?;
            cache.write(*place, &bytes).map_err(failed)?;
            Ok(version)
        };
        let written: Result<Vec<_>> = pages.iter().map(&mut write).collect();
        // Also after a failure: whoever hears of it uses the places of all pages for others.
        let arrived = match self.context.fabric.capabilities().ordering {
            WriteOrder::Issued => Ok(()),
            _ => self.context.fabric.store_barrier(from).map_err(failed),
        };
        let versions = written?;
        arrived.map(|()| Reply::Fetched { versions })
    }

    /// The same for one into whose cache nothing can be written.
    pub(super) fn pages(&self, from: Rank, file: FileId, pages: &[Part], out: &mut Vec<u8>) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let (node, own) = (self.context.roster.node_of(from), self.context.roster.own());
        let bytes = pages.iter().map(Part::bytes).fold(0, u64::saturating_add);
        // A page may be longer than what else comes with an answer.
        let most = if pages.len() == 1 { CacheSettings::LARGEST_PAGE } else { LONGEST_DATA as u64 };
        if bytes > most {
            return Err(self.cut_short());
        }
        let append = |part: &Part| {
            // Before the bytes are read: what changes later is news.
            let version = served.version(part.segment, node, own);
            self.append(&served, part, out).map(|()| version)
        };
        let versions = pages.iter().map(append).collect::<Result<_>>()?;
        Ok(Reply::Fetched { versions })
    }

    pub(super) fn versions(&self, from: Rank, file: FileId, segments: &[SegmentIndex]) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let (node, own) = (self.context.roster.node_of(from), self.context.roster.own());
        Ok(Reply::Versions(segments.iter().map(|index| served.version(*index, node, own)).collect()))
    }

    pub(super) fn changes(&self, file: FileId, segments: &[SegmentIndex]) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let own = self.context.roster.own();
        Ok(Reply::Versions(segments.iter().map(|index| served.changes(*index, own)).collect()))
    }

    pub(super) fn reserve(
        &self,
        from: Rank,
        file: FileId,
        part: &(SegmentIndex, Range<u64>),
        export: bool,
    ) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let (index, range) = part;
        if range.end > served.attachment.segment_size().bytes() || range.is_empty() {
            return Err(self.cut_short());
        }
        let segment = self.own_segment(&served, *index)?;
        // Where there is no room for all that this takes, bytes can come by messages.
        let export = export && segment.allocate_to_map(range.clone()).is_ok();
        if !export {
            segment.allocate(range.clone()).map_err(|e| {
                let subject = format!("preallocating segment {index} of {}", served.attachment.name());
                Error::io(subject, &served.attachment.path(), e)
            })?;
        }
        served.attachment.mark_dirty_for_another(segment.index());
        // Pinning it gives all of it storage, and locks it: where there is little, that would be for the holes.
        let may_come = export
            && self.context.fabric.capabilities().pins_memory
            && segment.may_be_pinned()
            && !segment.is_mostly_stored();
        let window = if export && !may_come { self.window(from, &served, &segment) } else { None };
        Ok(Reply::Reserved { window, may_come })
    }

    pub(super) fn wrote(&self, from: Rank, file: FileId, segments: &[SegmentIndex]) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let node = self.context.roster.node_of(from);
        for index in segments {
            let segment = self.own_segment(&served, *index)?;
            served.attachment.mark_dirty_for_another(segment.index());
            served.add_change(*index, node);
        }
        Ok(Reply::Done)
    }

    pub(super) fn sync(&self, file: FileId) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        served.attachment.sync_left_segments().map(|()| Reply::Done)
    }

    pub(super) fn append(&self, served: &Served, part: &Part, out: &mut Vec<u8>) -> Result<()> {
        let blocks = self.blocks(served, part)?;
        let start = out.len();
        out.resize(start + part.bytes() as usize, 0);
        let index = part.segment;
        let segment = match served.attachment.home(index) {
            Home::Here => self.own_segment(served, index)?,
            Home::Hole => return Ok(()),
            Home::There(_) => return Err(self.not_the_home(served, index)),
        };
        let punches = served.attachment.state().map_or(0, crate::state::State::punches);
        // SAFETY: as many bytes from `start` on as the blocks have were just made; these lie within the segment.
        let read = unsafe {
            let to = (out.as_mut_ptr().add(start), part.length as isize);
            let course = (Course::ThroughCaches, &mut StreamingStores::default());
            segment.read_blocks(&blocks, to, course, punches)
        };
        read.map_err(|e| {
            let subject = format!("reading segment {index} of {}", served.attachment.name());
            Error::io(subject, &served.attachment.path(), e)
        })
    }

    /// A segment whose home this node is, by the asker's word, even if this node has not heard of it.
    pub(super) fn own_segment(&self, served: &Served, index: SegmentIndex) -> Result<Arc<Segment>> {
        match served.attachment.home(index) {
            Home::There(_) => Err(self.not_the_home(served, index)),
            Home::Here => served.attachment.segment_or_new(index, Filling::Sparse),
            Home::Hole => {
                served.attachment.writable()?.0.add_unasked_homes();
                served.attachment.segment_or_new(index, Filling::Sparse)
            }
        }
    }

    fn blocks(&self, served: &Served, part: &Part) -> Result<Blocks> {
        part.blocks(served.attachment.segment_size().bytes()).ok_or_else(|| self.cut_short())
    }

    fn cache_of(&self, rank: Rank) -> Result<Arc<RemoteSegment>> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = caches.get(&rank) {
            return Ok(Arc::clone(cache));
        }
        let connected = self.context.fabric.connect(rank, CACHE_SEGMENT);
        let cache = Arc::new(connected.map_err(|source| Error::Fabric {
            subject: format!("connecting to rank {rank}'s cache"),
            source,
        })?);
        caches.insert(rank, Arc::clone(&cache));
        Ok(cache)
    }

    fn not_the_home(&self, served: &Served, index: SegmentIndex) -> Error {
        self.told(format!("segment {index} of {} lies on another node", served.attachment.name()))
    }

    /// The error for a request that makes no sense.
    pub(super) fn cut_short(&self) -> Error {
        self.told("what was asked does not fit together".into())
    }

    pub(super) fn told(&self, message: String) -> Error {
        Error::OnNode { node: self.context.store.node().clone(), kind: ErrorKind::Other, message }
    }
}
