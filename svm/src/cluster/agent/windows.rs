//! Segments that other nodes write into without the agent's help.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use svmio_transport::back_end::Backing;
use svmio_transport::{LocalSegment, SegmentId};

use crate::cluster::wire::WINDOWS_SPACE;
use crate::error::{Error, Result};
use crate::segment::Segment;
use crate::units::SegmentIndex;

use super::Agent;
use super::files::Served;

/// The most segments of one file that are exported. Each is mapped once more, and a process may have 65,530 mappings;
/// what is written to further ones comes by message.
const MOST: usize = 4096;

/// The exported segments of one file.
#[derive(Default)]
pub(super) struct Windows(Mutex<HashMap<SegmentIndex, (u32, LocalSegment)>>);

impl Agent {
    /// Exports a segment; `None` where bytes should not be stored into it through a mapping, or too many are exported.
    pub(super) fn window(&self, served: &Served, segment: &Segment) -> Result<Option<u32>> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut windows = served.windows.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((number, _)) = windows.get(&segment.index()) {
            return Ok(Some(*number));
        }
        if windows.len() >= MOST || !segment.may_be_stored_into() {
            return Ok(None);
        }
        let index = segment.index();
        let failed = |e| Error::io(format!("exporting segment {index}"), &served.attachment.path(), e);
        let file = segment.reopened().map_err(failed)?;
        let length = served.attachment.segment_size().bytes();
        let backing = Backing::File { file: file.into(), offset: 0, length };
        // Relaxed: only uniqueness counts.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let exported = self.context.fabric.create(SegmentId::new(WINDOWS_SPACE, number), &backing);
        let exported = exported.map_err(|source| Error::Fabric {
            subject: format!("exporting segment {index} of {}", served.attachment.name()),
            source,
        })?;
        windows.insert(index, (number, exported));
        Ok(Some(number))
    }
}
