//! A handle on an open file: reading, writing, sizes, locks, durability.

mod contents;
mod contiguous;
mod likely;
mod mapped;
mod nodes;
mod placing;
mod strided;

pub use contents::SegmentInfo;
pub use strided::{StridedRead, StridedWrite};

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::attachment::{self, Attachment, Filling, Home};
use crate::cluster::{Foresight, SharedFile};
use crate::error::{Error, Result};
use crate::open_options::OpenOptions;
use crate::placement::{Placement, SizeReason};
use crate::segment::Segment;
use crate::state::State;
use crate::units::{FileId, FileOffset, SegmentIndex, SegmentSize};

/// How many segments a handle holds on to.
const LASTING: usize = 8;

/// An open file. Handles are independent of each other; all see each other's writes at once.
pub struct File {
    attachment: Arc<Attachment>,
    /// Where other nodes take part.
    shared: Option<Arc<SharedFile>>,
    placement: Placement,
    read: bool,
    write: bool,
    /// The segment that was used last: most accesses follow one another.
    recent: Mutex<Option<Arc<Segment>>>,
    /// Some that were used first, by number: found without a lock, and there as long as the handle.
    lasting: [OnceLock<Arc<Segment>>; LASTING],
    /// What the reads so far tell of the next ones, where other nodes share the file.
    foresight: Foresight,
    /// The same of reads of many pieces: others may go on between them.
    foresight_of_pieces: Foresight,
    /// How long the file was when the last write of many pieces by this handle ended, or at opening.
    seen: AtomicU64,
}

impl File {
    pub(crate) fn new(attachment: Arc<Attachment>, options: &OpenOptions) -> Result<File> {
        if options.write {
            attachment.writable()?;
        }
        let (read, write) = (options.read, options.write);
        let own_node = attachment.own().and_then(|own| attachment.nodes().get(own as usize));
        let nodes = own_node.map(std::slice::from_ref).unwrap_or_default();
        let placement = options.enforce_placement(&mut attachment.policies(), nodes);
        let (recent, lasting) = (Mutex::new(None), Default::default());
        let (foresight, foresight_of_pieces) = <(Foresight, Foresight)>::default();
        let (shared, seen) = (None, AtomicU64::new(attachment.size()));
        let file = File {
            attachment,
            shared,
            placement,
            read,
            write,
            recent,
            lasting,
            foresight,
            foresight_of_pieces,
            seen,
        };
        Ok(file)
    }

    pub(crate) fn new_shared(
        attachment: Arc<Attachment>,
        options: &OpenOptions,
        shared: SharedFile,
    ) -> Result<File> {
        let placement = options.enforce_placement(&mut attachment.policies(), shared.node_names());
        Ok(File { shared: Some(Arc::new(shared)), placement, ..File::new(attachment, options)? })
    }

    /// The same handle, by which nothing is written any more.
    pub(crate) fn for_reading(self) -> File {
        File { write: false, ..self }
    }

    /// The same handle, for which `placement` is in force; the file's own one stays as it is.
    pub fn placed_by(self, placement: Placement) -> File {
        File { placement, ..self }
    }

    /// Closes the file, and keeps what it takes to [open it again](crate::Store::reopen) soon, or by the same cluster
    /// as before: for the files that were closed last. To others it is as closed as if this were just dropped.
    pub fn keep(self) {
        let File { attachment, shared, .. } = self;
        drop(shared);
        attachment::keep(attachment);
    }

    /// Whether the manifest tells all that is to be told of the file, and is known to have reached the storage device.
    pub fn is_committed(&self) -> bool {
        self.shared.is_none() && self.attachment.state().is_none_or(State::is_durable)
    }

    /// Whether the file has been removed: it lasts until all who have it open have closed it.
    pub fn is_removed(&self) -> bool {
        self.attachment.state().is_some_and(State::is_deleted)
    }

    pub(crate) fn attachment(&self) -> &Arc<Attachment> {
        &self.attachment
    }

    pub(crate) fn shared(&self) -> Option<&Arc<SharedFile>> {
        self.shared.as_ref()
    }

    /// Whether it was opened for reading, and for writing.
    pub(crate) fn access(&self) -> (bool, bool) {
        (self.read, self.write)
    }

    /// The file's identity.
    pub fn id(&self) -> FileId {
        self.attachment.id()
    }

    /// The name under which the file was opened first in this process.
    pub fn name(&self) -> &str {
        self.attachment.name()
    }

    /// The size of each of the file's segments.
    pub fn segment_size(&self) -> SegmentSize {
        self.attachment.segment_size()
    }

    /// Why segments have their size; `None` for a file of a release that did not keep it.
    pub fn segment_size_reason(&self) -> Option<SizeReason> {
        self.attachment.policies().size_reason
    }

    /// Which placement is in force: what was asked for at opening, else the file's own; [`Placement::FirstTouch`] where
    /// that is a node that takes no part. Or what [`File::placed_by`] was given.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The logical size, bytes.
    pub fn size(&self) -> u64 {
        self.attachment.size()
    }

    /// Sets the logical size. What lies beyond a smaller one is gone and reads as zero if the file grows again.
    ///
    /// # Errors
    /// [`Error::NotOpenedFor`] writing, [`Error::TooLarge`], or what the operating system says.
    pub fn set_size(&self, size: u64) -> Result<()> {
        let (state, presence) = self.changing()?;
        if size > self.attachment.limit() {
            return Err(self.too_large(size));
        }
        if let Some(shared) = &self.shared {
            return shared.set_size(size);
        }
        let failed = |e| self.io(format!("setting the size of {}", self.name()), e);
        let _gate = presence.gate().map_err(failed)?;
        let old = state.size();
        state.set_size(size);
        if size >= old {
            return Ok(());
        }
        self.attachment.punch_beyond(state, size)
    }

    /// Brings everything that this process wrote to the storage device. The size follows with [`File::commit`].
    ///
    /// # Errors
    /// [`Error::Unsynced`] where the storage device does not take something: then, and each time
    /// until this process has closed the file. Otherwise what the operating system says; the data is then still to be
    /// synced.
    pub fn sync_data(&self) -> Result<()> {
        self.attachment.sync_segments()
    }

    /// As [`File::sync_data`], and brings there what processes of this node wrote and did not sync that have closed the
    /// file since, or died when nobody else had it open.
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub fn sync_left(&self) -> Result<()> {
        self.attachment.sync_left_segments()
    }

    /// Whether another process has the file open, or may have.
    pub(crate) fn has_others(&self) -> Result<bool> {
        self.attachment.has_others().map_err(|e| self.io(format!("looking who has {} open", self.name()), e))
    }

    /// Where the file's manifest and segments lie.
    pub(crate) fn directory(&self) -> PathBuf {
        self.attachment.path()
    }

    /// The piece of `at..end` that lies in one segment, of that size: which, where in it, and how many bytes.
    fn piece(&self, size: SegmentSize, at: u64, end: u64) -> Result<(SegmentIndex, u64, usize)> {
        let (index, within) = size.locate(FileOffset(at)).ok_or_else(|| self.too_large(end))?;
        Ok((index, within, (end - at).min(size.bytes() - within) as usize))
    }

    fn segment(&self, index: SegmentIndex) -> Result<Option<Arc<Segment>>> {
        if let Some(segment) = self.recent(index) {
            return Ok(Some(segment));
        }
        Ok(self.attachment.segment(index)?.map(|segment| self.remember(segment)))
    }

    /// Where a segment is to be written, which was counted by `size`; it gets a home where it has none. `end` is where
    /// the access ends, which writes so many bytes without large gaps.
    fn segment_to_write(
        &self,
        index: SegmentIndex,
        size: SegmentSize,
        end: u64,
        dense: u64,
    ) -> Result<Target<'_>> {
        let target = self.counted_to_write(index, size, end, dense)?;
        // Once a segment has a home, the size of all stays.
        Ok(if self.segment_size() == size { target } else { Target::CountAnew })
    }

    fn counted_to_write(
        &self,
        index: SegmentIndex,
        size: SegmentSize,
        end: u64,
        dense: u64,
    ) -> Result<Target<'_>> {
        let homes = self.shared.as_ref().map(|shared| (shared, self.attachment.home(index)));
        if let Some((shared, Home::There(home))) = homes {
            return Ok(Target::There(shared, home));
        }
        if let Some(segment) = self.recent(index) {
            return Ok(Target::Here(segment));
        }
        let filling = Filling::of(dense, size);
        if let Some((shared, Home::Hole)) = homes {
            match shared.claim(index, size, self.home_for(shared, index, end), filling)? {
                Some(Home::There(home)) => return Ok(Target::There(shared, home)),
                Some(Home::Here | Home::Hole) => {}
                None => return Ok(Target::CountAnew),
            }
        }
        Ok(Target::Here(self.remember(self.attachment.segment_or_new(index, filling)?)))
    }

    fn lasting(&self, index: SegmentIndex) -> Option<&Segment> {
        let segment = self.lasting[index.0 as usize % LASTING].get()?;
        (segment.index() == index).then_some(segment)
    }

    fn recent(&self, index: SegmentIndex) -> Option<Arc<Segment>> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.as_ref().filter(|segment| segment.index() == index).cloned()
    }

    fn remember(&self, segment: Arc<Segment>) -> Arc<Segment> {
        // Where another segment has the place, this one stays the recent one.
        let _ = self.lasting[segment.index().0 as usize % LASTING].set(Arc::clone(&segment));
        *self.recent.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&segment));
        segment
    }

    fn changing(&self) -> Result<(&State, &crate::presence::Presence)> {
        if !self.write {
            return Err(Error::NotOpenedFor { name: self.name().into(), what: "writing" });
        }
        self.attachment.writable()
    }

    fn check_read(&self) -> Result<()> {
        if self.read {
            return Ok(());
        }
        Err(Error::NotOpenedFor { name: self.name().into(), what: "reading" })
    }

    /// That bytes up to `end` can be written.
    fn check_write(&self, end: u64) -> Result<&State> {
        let (state, _) = self.changing()?;
        // A file's limit is less than the largest offset.
        if end > self.attachment.limit() { Err(self.too_large(end)) } else { Ok(state) }
    }

    fn punches(&self) -> u64 {
        self.attachment.state().map_or(0, State::punches)
    }

    fn too_large(&self, end: u64) -> Error {
        Error::TooLarge {
            name: self.name().into(),
            offset: FileOffset(end),
            segment_size: self.segment_size(),
            limit: self.attachment.limit(),
        }
    }

    fn io(&self, subject: String, error: io::Error) -> Error {
        Error::io(subject, &self.attachment.path(), error)
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("name", &self.name()).field("id", &self.id()).finish_non_exhaustive()
    }
}

/// Where bytes are to be written.
enum Target<'f> {
    Here(Arc<Segment>),
    /// On another node: its position in the file's list.
    There(&'f SharedFile, u32),
    /// Nowhere: segments are of another size than that by which this one was counted, or about to be.
    CountAnew,
}
