//! A file's segments in this node's store: finding, making, mapping and shortening them.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::error::{Error, Result};
use crate::mapping_cache::{self, Key};
use crate::object;
use crate::segment::{Inode, Segment};
use crate::spare;
use crate::state::{MAX_SEGMENTS, State};
use crate::units::{SegmentIndex, SegmentSize};

use super::{AttachError, Attachment, Home, View};

/// How much of a new segment is about to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filling {
    /// Little, as far as is known: it gets storage as it is written.
    Sparse,
    /// So much that it may have storage for all of it, which a file that is gone has left.
    Much,
}

impl Filling {
    /// Of a segment of `size`, for an access that writes so many bytes at about the same place.
    pub(crate) fn of(bytes: u64, size: SegmentSize) -> Filling {
        /// One part in so many: programs write checkpoints a mebibyte at a time, too.
        const SHARE: u64 = 16;
        if bytes >= size.bytes() / SHARE { Filling::Much } else { Filling::Sparse }
    }
}

impl Attachment {
    /// The segment `index`, mapped, or `None` where this node does not have it.
    pub(crate) fn segment(&self, index: SegmentIndex) -> Result<Option<Arc<Segment>>> {
        (self.home(index) == Home::Here).then(|| self.mapping(index)).transpose()
    }

    /// The segment `index`, mapped; made where it is a hole. Its home is not another node.
    pub(crate) fn segment_or_new(&self, index: SegmentIndex, filling: Filling) -> Result<Arc<Segment>> {
        let (state, _) = self.writable()?;
        if state.home(index).is_none() {
            self.make_segment(index, filling)?;
            let own = self.own.unwrap_or_default();
            state.add_segment(index, own).map_err(|e| self.adding(index, e))?;
        }
        self.mapping(index)
    }

    /// Makes the storage of a segment, which is not in the table yet or has this node for its home. Several processes
    /// may make the same one.
    pub(crate) fn make_segment(&self, index: SegmentIndex, filling: Filling) -> Result<()> {
        let (name, bytes) = (object::segment_name(index), self.segment_size().bytes());
        if filling == Filling::Much && spare::take(&self.store, bytes, self.directory.as_fd(), &name) {
            return Ok(());
        }
        // Whoever else makes it does the same.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        mapping_cache::with_descriptor(|| rustix::fs::openat(&self.directory, name.as_str(), flags, mode))
            .map_err(io::Error::from)
            .and_then(|file| File::from(file).set_len(bytes))
            .map_err(|e| self.adding(index, e))
    }

    /// That a segment which this process only looks at, and has read from, was there until then: once its file is gone,
    /// its storage may be another one's.
    pub(crate) fn check_looked_at(&self, segment: &Segment) -> Result<()> {
        if matches!(self.view, View::Full { .. }) {
            // Others see this process, and leave the file as it is.
            return Ok(());
        }
        let name = object::segment_name(segment.index());
        let found = rustix::fs::statat(&self.directory, name, AtFlags::empty());
        match found.map(|found| Inode { device: found.st_dev, number: found.st_ino }) {
            Ok(inode) if inode == segment.inode() => Ok(()),
            _ => Err(AttachError::Gone.into_error(self.id)),
        }
    }

    /// Removes the storage of a segment that was made here, and has got another home.
    pub(crate) fn unmake_segment(&self, index: SegmentIndex) {
        match rustix::fs::unlinkat(&self.directory, object::segment_name(index), AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            // Recovery removes it when the file is opened next.
            Err(e) => tracing::debug!("segment {index} of {} stays beside its home: {e}", self.name),
        }
    }

    /// Enters the homes of segments, as far as they are not known; those that this node is the home of are made.
    /// Returns the homes in force.
    pub(crate) fn enter_homes(
        &self,
        homes: &[(SegmentIndex, u32)],
        filling: Filling,
    ) -> Result<Vec<(SegmentIndex, u32)>> {
        let (state, _) = self.writable()?;
        let enter = |&(index, home): &(SegmentIndex, u32)| {
            if let Some(known) = state.home(index) {
                return Ok((index, known));
            }
            if Some(home) == self.own {
                self.make_segment(index, filling)?;
            }
            state.add_segment(index, home).map_err(|e| self.adding(index, e))?;
            Ok((index, state.home(index).unwrap_or(home)))
        };
        homes.iter().map(enter).collect()
    }

    pub(super) fn adding(&self, index: SegmentIndex, error: io::Error) -> Error {
        Error::io(format!("adding segment {index} to {}", self.name), &self.path(), error)
    }

    /// Takes the storage back of all of this node's segments that lies beyond `size`.
    pub(crate) fn punch_beyond(&self, state: &State, size: u64) -> Result<()> {
        // Before and after, and whatever becomes of it: nobody may trust pages that are gone.
        state.add_punch();
        let outcome = self.punch_segments_beyond(size);
        state.add_punch();
        outcome
    }

    fn punch_segments_beyond(&self, size: u64) -> Result<()> {
        let bytes = self.segment_size().bytes();
        for (index, _) in self.homes() {
            let start = self.segment_size().start_of(index).0;
            if start + bytes > size
                && let Some(segment) = self.segment(index)?
            {
                let punched = segment.punch(size.saturating_sub(start)..bytes);
                punched
                    .map_err(|e| Error::io(format!("setting the size of {}", self.name), &self.path(), e))?;
                self.mark_dirty(&segment);
            }
        }
        Ok(())
    }

    /// The largest size that this file can have, bytes.
    pub(crate) fn limit(&self) -> u64 {
        u64::from(MAX_SEGMENTS) * self.segment_size().bytes()
    }

    pub(super) fn mapping(&self, index: SegmentIndex) -> Result<Arc<Segment>> {
        let writable = matches!(self.view, View::Full { .. });
        let key = Key { store: Arc::clone(&self.store), file: self.id, segment: index, writable };
        mapping_cache::get(key, || {
            let path = || self.path().join(object::segment_name(index));
            let subject = || format!("mapping segment {index} of {}", self.name);
            let flags = if writable { OFlags::RDWR } else { OFlags::RDONLY } | OFlags::CLOEXEC;
            let name = object::segment_name(index);
            let opened = mapping_cache::with_descriptor(|| {
                rustix::fs::openat(&self.directory, name.as_str(), flags, Mode::empty())
            });
            let file = File::from(opened.map_err(|e| match e {
                rustix::io::Errno::NOENT => Error::MissingSegment {
                    name: self.name.clone(),
                    segment: index,
                    offset: self.segment_size().start_of(index),
                    path: path(),
                },
                e => Error::io(subject(), &path(), e),
            })?);
            let metadata = file.metadata().map_err(|e| Error::io(subject(), &path(), e))?;
            let found = metadata.len();
            let expected = self.segment_size().bytes();
            if found != expected {
                let name = self.name.clone();
                return Err(Error::DamagedSegment { name, segment: index, found, expected, path: path() });
            }
            // This process may have had it mapped when it was another one's, if it was a spare one since.
            if let Some(before) = mapping_cache::take(Inode::of(&metadata), writable) {
                return Ok(before.renewed(index));
            }
            Segment::map(index, file, expected, writable).map_err(|e| Error::io(subject(), &path(), e))
        })
    }
}
