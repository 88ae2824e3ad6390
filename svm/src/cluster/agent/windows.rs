//! Segments that other nodes write into without the agent's help.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, getrlimit};
use svmio_transport::back_end::Backing;
use svmio_transport::{LocalSegment, Rank, SegmentId};

use crate::cluster::wire::WINDOWS_SPACE;
use crate::error::{Error, Result};
use crate::segment::Segment;
use crate::units::SegmentIndex;

use super::Agent;
use super::files::Served;

/// The most segments that a process exports, of all files. Each is mapped once more, and a process may have 65,530
/// mappings; what is written to further ones comes by message.
const MOST: usize = 4096;

/// Which part of the descriptors that the process may have exported segments may take, where each keeps one: the program
/// has its own files.
const SHARE: usize = 4;

/// How many are exported.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The exported segments of one file.
#[derive(Default)]
pub(super) struct Windows(Mutex<HashMap<SegmentIndex, Window>>);

#[derive(Default)]
struct Window {
    /// The processes that were told of an export, and may be writing at any time.
    writers: HashSet<Rank>,
    /// The one in force.
    export: Option<Export>,
}

struct Export {
    number: u32,
    _exported: LocalSegment,
    _place: Place,
}

/// An exported segment's place among all of the process, which goes with this.
struct Place(());

impl Place {
    /// That of one more; `None` where there are as many as may be.
    fn take() -> Option<Place> {
        let most = most(getrlimit(Resource::Nofile).current);
        let one_more = |count| (count < most).then_some(count + 1);
        // Relaxed, also below: it counts, and orders nothing.
        COUNT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok().map(|_| Place(()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many segments are exported by a process that may have so many descriptors.
fn most(descriptors: Option<u64>) -> usize {
    let share = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX) / SHARE;
    descriptors.map_or(MOST, |limit| share(limit).min(MOST))
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

    /// Does `cut`, which takes storage from segments for which `is_cut` holds, and ends their exports, whose pages are
    /// not theirs any more. Who may have written there stays known.
    ///
    /// When this has returned, bytes may still come to those pages, and be lost: of writers who do not know yet that
    /// the file was made shorter, until their adapters are told that the export has ended.
    pub(super) fn withdraw<T>(&self, is_cut: impl Fn(SegmentIndex) -> bool, cut: impl FnOnce() -> T) -> T {
        // Held from before on: nobody is told of an export whose pages are about to go.
        let mut windows = self.windows();
        let outcome = cut();
        let of_cut = windows.iter_mut().filter(|(index, _)| is_cut(**index));
        let ended: Vec<_> = of_cut.filter_map(|(_, window)| window.export.take()).collect();
        drop(windows);
        drop(ended);
        outcome
    }

    fn windows(&self) -> MutexGuard<'_, HashMap<SegmentIndex, Window>> {
        // A panic elsewhere leaves the map whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Agent {
    /// Exports a segment for `writer`, among others; `None` where bytes should not be stored into it through a
    /// mapping, or past all of them where the fabric does that, too many are exported, or it cannot be: for lack of
    /// descriptors or of memory, bytes come by message.
    pub(super) fn window(&self, writer: Rank, served: &Served, segment: &Segment) -> Option<u32> {
        let mut windows = served.windows.windows();
        let index = segment.index();
        let known = windows.get(&index).and_then(|window| window.export.as_ref()).map(|export| export.number);
        let number = match known {
            Some(number) => number,
            None => {
                let export = self.export(served, segment)?;
                let number = export.number;
                windows.entry(index).or_default().export = Some(export);
                number
            }
        };
        windows.entry(index).or_default().writers.insert(writer);
        Some(number)
    }

    fn export(&self, served: &Served, segment: &Segment) -> Option<Export> {
        let may_be_exported = match self.context.fabric.capabilities().pins_memory {
            true => segment.may_be_pinned(),
            false => segment.may_be_stored_into(),
        };
        if !may_be_exported {
            return None;
        }
        let _place = Place::take()?;
        let exported = self.map_and_export(served, segment).inspect_err(|error| {
            tracing::debug!("what others write there comes by message: {error}");
        });
        let (number, _exported) = exported.ok()?;
        Some(Export { number, _exported, _place })
    }

    fn map_and_export(&self, served: &Served, segment: &Segment) -> Result<(u32, LocalSegment)> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let subject = format!("exporting segment {} of {}", segment.index(), served.attachment.name());
        let file = match segment.reopened() {
            Ok(file) => file.into(),
            Err(error) => return Err(Error::io(subject, &served.attachment.path(), error)),
        };
        let backing = Backing::File { file, offset: 0, length: served.attachment.segment_size().bytes() };
        // Relaxed: only uniqueness counts.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let exported = self.context.fabric.create(SegmentId::new(WINDOWS_SPACE, number), &backing);
        exported.map(|exported| (number, exported)).map_err(|source| Error::Fabric { subject, source })
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, most};

    #[test]
    fn exported_segments_take_a_quarter_of_the_descriptors_at_most() {
        assert_eq!([Some(0), Some(1024), Some(u64::MAX), None].map(most), [0, 256, MOST, MOST]);
    }
}
