//! What of a file is there: its segments, and what of them holds data.

use std::ops::Range;
use std::time::SystemTime;

use super::File;
use crate::error::Result;
use crate::node::NodeName;
use crate::object::{self, Storage};
use crate::units::{FileOffset, SegmentIndex};

/// One segment of a file, as [`File::segments`] tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Which segment.
    pub index: SegmentIndex,
    /// The node that holds it.
    pub home: NodeName,
    /// How many of its bytes hold data; those that were only preallocated do not.
    pub stored: u64,
}

impl File {
    /// The segments that exist, in ascending order.
    ///
    /// # Errors
    /// What is wrong with a segment that cannot be looked at.
    pub fn segments(&self) -> Result<Vec<SegmentInfo>> {
        let mut segments = Vec::new();
        for (index, home) in self.attachment.homes() {
            let home = self.attachment.nodes()[home as usize].clone();
            let mut stored = 0;
            if let Some(segment) = self.attachment.segment(index)? {
                let mut rest = 0..self.segment_size().bytes();
                let failed = |e| self.io(format!("looking at segment {index} of {}", self.name()), e);
                while let Some(data) = segment.next_data(rest.clone()).map_err(failed)? {
                    stored += data.end - data.start;
                    rest.start = data.end;
                }
            }
            segments.push(SegmentInfo { index, home, stored });
        }
        Ok(segments)
    }

    /// The first range at or behind `from` that is not a hole, or `None` up to the end of the file.
    ///
    /// # Errors
    /// What is wrong with a segment that cannot be looked at.
    pub fn next_data(&self, from: FileOffset) -> Result<Option<Range<FileOffset>>> {
        let size = self.size();
        let Some((first, _)) = self.segment_size().locate(from) else { return Ok(None) };
        for index in self.attachment.segments_from(first) {
            let start = self.segment_size().start_of(index).0;
            let end = (start + self.segment_size().bytes()).min(size);
            if start >= size {
                break;
            }
            if end <= from.0 {
                continue;
            }
            if let Some(segment) = self.attachment.segment(index)? {
                let data = segment.next_data(from.0.saturating_sub(start)..end - start);
                let data =
                    data.map_err(|e| self.io(format!("looking at segment {index} of {}", self.name()), e))?;
                if let Some(data) = data {
                    return Ok(Some(FileOffset(start + data.start)..FileOffset(start + data.end)));
                }
            }
        }
        Ok(None)
    }

    /// What this node's part of the file takes up, and when it was last changed.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn storage(&self) -> Result<Storage> {
        let path = self.attachment.path();
        object::storage(&path).map_err(|e| self.io(format!("looking at {}", self.name()), e))
    }

    /// Has this node's part of the file have been changed at `time`, for whoever asks for its
    /// [storage](File::storage).
    ///
    /// # Errors
    /// What the operating system says.
    pub fn set_modified(&self, time: SystemTime) -> Result<()> {
        let path = self.attachment.path();
        object::set_modified(&path, time)
            .map_err(|e| self.io(format!("setting the time of {}", self.name()), e))
    }

    /// Has the file have been changed now: what is stored into memory that is there already is not seen by the system.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn touch(&self) -> Result<()> {
        let path = self.attachment.path();
        object::touch(&path).map_err(|e| self.io(format!("setting the time of {}", self.name()), e))
    }

    /// Reads bytes as they lie in the segments, also beyond the end of the file.
    pub(crate) fn peek(&self, offset: FileOffset, buffer: &mut [u8]) -> Result<usize> {
        let (index, within, bytes) =
            self.piece(self.segment_size(), offset.0, offset.0 + buffer.len() as u64)?;
        if let Some(segment) = self.segment(index)? {
            // SAFETY: the buffer has at least `bytes` bytes, and the piece ends within its segment.
            unsafe { segment.read(within, buffer.as_mut_ptr(), bytes, self.punches()) }
                .map_err(|e| self.io(format!("reading segment {index} of {}", self.name()), e))?;
        } else {
            buffer[..bytes].fill(0);
        }
        Ok(bytes)
    }
}
