//! Writing straight into other nodes' segments.
//!
//! The first long write to a part of a segment has the home give that part storage and export the segment; from then
//! on bytes go there without anybody's help. A full file system answers when storage is asked for, and not by a signal
//! when bytes arrive. A home that has ended the export since, because the file was made shorter, gets the bytes by
//! message.
//!
//! Where adapters pin what is exported, such a home hands out another export. Setting the size may return before the
//! adapters of all writers know that the first one has ended (`svmio_transport`'s `ofi::drains`): it does not wait for
//! that, as a writer that stands still would keep it waiting. Until then a straight write may succeed that ends up in
//! pages that are not the file's any more, and is lost: of a process that has not heard that the file was made shorter,
//! or has heard of it and asked the home while that was under way. Who hears of it by a refresh afterwards asks the
//! home anew, and loses nothing: so does everybody where the size is set by the members of a team together.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use svmio_transport::back_end::Sequence;
use svmio_transport::{RemoteSegment, SegmentId};

use crate::error::{Error, Result};
use crate::units::SegmentIndex;

use super::wire::{Reply, Request, WINDOWS_SPACE};
use super::{NodeIndex, SharedFile};

/// The segments of one file into which this process writes straight.
#[derive(Default)]
pub(super) struct Windows {
    open: Mutex<Open>,
    /// Held while homes are told: who finds nothing to tell must not go on before another thread has told it.
    telling: Mutex<()>,
}

#[derive(Default)]
struct Open {
    windows: HashMap<SegmentIndex, Option<Arc<Window>>>,
    /// Written to since their homes were last told.
    untold: BTreeMap<NodeIndex, BTreeSet<SegmentIndex>>,
    /// The count of truncations at which what is known of storage held.
    truncations: u64,
}

struct Window {
    remote: RemoteSegment,
    /// Adjacent ranges that have storage, by their beginnings.
    stored: Mutex<BTreeMap<u64, u64>>,
}

impl SharedFile {
    /// Writes bytes straight to position `within` of a segment of `node`; returns when they are there. False where that
    /// cannot be done.
    pub(super) fn write_through_window(
        &self,
        node: NodeIndex,
        index: SegmentIndex,
        within: u64,
        data: &[u8],
    ) -> Result<bool> {
        let range = within..within + data.len() as u64;
        let Some(window) = self.window(node, index, &range)? else { return Ok(false) };
        let (fabric, peer) = (&self.cluster().context().fabric, window.remote.owner());
        let longest = usize::try_from(fabric.capabilities().largest_transfer).unwrap_or(usize::MAX).max(1);
        let write = || {
            let mut portions = data.chunks(longest).zip((within..).step_by(longest));
            portions.try_for_each(|(portion, at)| window.remote.write(at, portion))
        };
        let written = if fabric.capabilities().is_reliable {
            let mark = fabric.mark(peer);
            write().and_then(|()| fabric.check_sequence(peer, mark))
        } else {
            fabric.write_checked(peer, write).map(|()| Sequence::Intact)
        };
        // Also where it failed: some of it may have arrived.
        self.windows().open().untold.entry(node).or_default().insert(index);
        match written {
            Ok(Sequence::Intact) => Ok(true),
            // Not of the segment: of an export that has ended, by who made the file shorter and has not told yet. What
            // travels as messages is refused without an error here; only the sequence tells. It tells of other threads'
            // writes to that home, too, which costs this one a needless write by message.
            Ok(Sequence::Broken) | Err(svmio_transport::Error::OutOfBounds { .. }) => {
                self.windows().open().forget(index, &window);
                Ok(false)
            }
            Err(source) => Err(Error::Fabric {
                subject: format!("writing segment {index} of {}", self.attachment().name()),
                source,
            }),
        }
    }

    /// Whether a part of a segment is known to have storage, so that it can be written straight without asking its
    /// home.
    pub(super) fn is_known_stored(&self, index: SegmentIndex, range: &Range<u64>) -> bool {
        let Ok((state, _)) = self.attachment().writable() else { return false };
        let window = {
            let open = self.windows().open();
            if open.truncations != state.truncations() {
                return false;
            }
            open.windows.get(&index).cloned().flatten()
        };
        window.is_some_and(|window| window.has_storage(range))
    }

    /// Tells homes which of their segments this process has written to straight.
    pub(super) fn tell_homes(&self) -> Result<()> {
        self.tell_those(|_| true)
    }

    /// The same of those homes where segments in `range` are among them.
    pub(super) fn tell_homes_in(&self, range: &Range<u64>) -> Result<()> {
        let (first, last) = self.segments_of(range);
        let Ok(first) = u32::try_from(first) else { return Ok(()) };
        let segments = SegmentIndex(first)..=SegmentIndex(u32::try_from(last).unwrap_or(u32::MAX));
        self.tell_those(|untold| untold.range(segments.clone()).next().is_some())
    }

    /// The same of those homes whose segments with something to tell of are meant.
    fn tell_those(&self, is_meant: impl Fn(&BTreeSet<SegmentIndex>) -> bool) -> Result<()> {
        let _telling = self.windows().telling.lock().unwrap_or_else(PoisonError::into_inner);
        let untold = {
            let mut open = self.windows().open();
            // Each release of a lock comes here, and hardly ever has anything to tell.
            if !open.untold.values().any(&is_meant) {
                return Ok(());
            }
            open.take_untold(is_meant)
        };
        let file = self.file();
        let ask = |(node, segments): (&NodeIndex, &BTreeSet<SegmentIndex>)| {
            let segments = segments.iter().copied().collect();
            self.cluster().begin(*node, &Request::Wrote { file, segments }, &[])
        };
        let asked: Vec<_> = untold.iter().map(ask).collect();
        let mut failed = None;
        for (asked, (node, segments)) in asked.into_iter().zip(&untold) {
            let told = asked.and_then(|asked| self.cluster().wait(asked, &mut |_, _| {}));
            if let Err(error) = told {
                self.windows().open().untold.entry(*node).or_default().extend(segments);
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The segment, with storage for `range`; `None` where its home does not let others write to it.
    fn window(
        &self,
        node: NodeIndex,
        index: SegmentIndex,
        range: &Range<u64>,
    ) -> Result<Option<Arc<Window>>> {
        let truncations = self.attachment().writable()?.0.truncations();
        let known = {
            let mut open = self.windows().open();
            if open.truncations != truncations {
                open.truncations = truncations;
                open.windows.clear();
            }
            open.windows.get(&index).cloned()
        };
        match known {
            Some(None) => return Ok(None),
            Some(Some(window)) if window.has_storage(range) => return Ok(Some(window)),
            _ => {}
        }
        let request = Request::Reserve { file: self.file(), part: (index, range.clone()), export: true };
        let number = match self.cluster().ask(node, &request)? {
            // Nothing is noted: the next long write asks again.
            Reply::Reserved { window: None, may_come: true } => return Ok(None),
            Reply::Reserved { window, .. } => window,
            _ => return Err(self.cluster().context().out_of_place(node)),
        };
        let window = match (number, known.flatten()) {
            (None, _) => None,
            (Some(number), Some(window)) if window.remote.id() == id_of(number) => Some(window),
            (Some(number), _) => match self.connect(node, index, number)? {
                Some(window) => Some(Arc::new(window)),
                None => return Ok(None),
            },
        };
        Ok(self.windows().open().note(truncations, index, window, range))
    }

    /// `None` where the export has ended meanwhile.
    fn connect(&self, node: NodeIndex, index: SegmentIndex, number: u32) -> Result<Option<Window>> {
        let context = self.cluster().context();
        match context.fabric.connect(context.roster.leader(node), id_of(number)) {
            Ok(remote) => Ok(Some(Window { remote, stored: Mutex::default() })),
            Err(svmio_transport::Error::UnknownSegment { .. }) => Ok(None),
            Err(source) => {
                let subject = format!("connecting to segment {index} of {}", self.attachment().name());
                Err(Error::Fabric { subject, source })
            }
        }
    }
}

/// Under which id a home exports a segment.
fn id_of(number: u32) -> SegmentId {
    SegmentId::new(WINDOWS_SPACE, number)
}

impl Windows {
    fn open(&self) -> MutexGuard<'_, Open> {
        // A panic elsewhere leaves the maps whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn take_untold(
        &mut self,
        is_meant: impl Fn(&BTreeSet<SegmentIndex>) -> bool,
    ) -> BTreeMap<NodeIndex, BTreeSet<SegmentIndex>> {
        let untold = std::mem::take(&mut self.untold);
        let (meant, others) = untold.into_iter().partition(|(_, segments)| is_meant(segments));
        self.untold = others;
        meant
    }

    /// Knows no more of a segment's window, unless there is another one by now.
    fn forget(&mut self, index: SegmentIndex, window: &Arc<Window>) {
        let is_known =
            |known: &Option<Arc<Window>>| known.as_ref().is_some_and(|known| Arc::ptr_eq(known, window));
        if self.windows.get(&index).is_some_and(is_known) {
            self.windows.remove(&index);
        }
    }

    /// Notes what was found out when so many truncations were known, with storage for `range`; returns what is to be
    /// used.
    fn note(
        &mut self,
        truncations: u64,
        index: SegmentIndex,
        found: Option<Arc<Window>>,
        range: &Range<u64>,
    ) -> Option<Arc<Window>> {
        if self.truncations != truncations {
            // It may have lost its storage since, and what this window had before: good for one write at most.
            return found;
        }
        // Another thread's, maybe, which has been told of other storage. By another id it is of an export that has
        // ended, or of the one after this.
        let is_the_same =
            |known: &Arc<Window>| found.as_ref().is_some_and(|found| found.remote.id() == known.remote.id());
        let known = self.windows.get(&index).cloned().flatten().filter(is_the_same);
        let window = found.map(|found| known.unwrap_or(found));
        if let Some(window) = &window {
            window.add_storage(range);
        }
        self.windows.insert(index, window.clone());
        window
    }
}

impl Window {
    fn has_storage(&self, range: &Range<u64>) -> bool {
        let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        stored.range(..=range.start).next_back().is_some_and(|(_, end)| *end >= range.end)
    }

    fn add_storage(&self, range: &Range<u64>) {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut start, mut end) = (range.start, range.end);
        let touching: Vec<_> =
            stored.range(..=end).filter(|(_, e)| **e >= start).map(|(s, e)| (*s, *e)).collect();
        for (s, e) in touching {
            stored.remove(&s);
            (start, end) = (start.min(s), end.max(e));
        }
        stored.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_out_before_a_truncation_is_not_noted_after_it() {
        let mut open = Open { truncations: 6, ..Open::default() };
        assert!(open.note(5, SegmentIndex(3), None, &(0..10)).is_none());
        assert!(open.windows.is_empty());
        assert!(open.note(6, SegmentIndex(3), None, &(0..10)).is_none());
        assert!(open.windows.contains_key(&SegmentIndex(3)));
    }
}
