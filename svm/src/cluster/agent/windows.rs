//! Segments that other nodes write into without the agent's help.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use svmio_transport::back_end::Backing;
use svmio_transport::{LocalSegment, Rank, SegmentId};

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
pub(super) struct Windows(Mutex<HashMap<SegmentIndex, Window>>);

struct Window {
    number: u32,
    /// The processes that were told of it, and may be writing at any time.
    writers: HashSet<Rank>,
    _exported: LocalSegment,
}

impl Windows {
    /// Strikes a process off the writers, and has `count` take note of each segment that it may have written to. Of
    /// threads that do so at the same time each returns only when all is counted, whoever has done it.
    pub(super) fn strike_off(&self, writer: Rank, mut count: impl FnMut(SegmentIndex)) {
        for (index, window) in self.windows().iter_mut() {
            if window.writers.remove(&writer) {
                count(*index);
            }
        }
    }

    /// Has `count` take note of each segment that somebody may write to.
    pub(super) fn written_to(&self, count: impl FnMut(SegmentIndex)) {
        let windows = self.windows();
        let written = windows.iter().filter(|(_, window)| !window.writers.is_empty());
        written.map(|(index, _)| *index).for_each(count);
    }

    fn windows(&self) -> MutexGuard<'_, HashMap<SegmentIndex, Window>> {
        // A panic elsewhere leaves the map whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Agent {
    /// Exports a segment for `writer`, among others; `None` where bytes should not be stored into it through a mapping,
    /// or too many are exported.
    pub(super) fn window(&self, writer: Rank, served: &Served, segment: &Segment) -> Result<Option<u32>> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut windows = served.windows.windows();
        if let Some(window) = windows.get_mut(&segment.index()) {
            window.writers.insert(writer);
            return Ok(Some(window.number));
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
        windows.insert(index, Window { number, writers: HashSet::from([writer]), _exported: exported });
        Ok(Some(number))
    }
}
