//! Bringing home what was stored: of each page the bytes that are not in its twin, packed into few messages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::cluster::{Merge, Merging};
use crate::error::{Error, Result};
use crate::units::SegmentIndex;

use super::page::PageState;
use super::service::{Counters, Service};
use super::table::{Place, Table, runs};
use super::twins::Twin;

/// Pages that are brought home together.
const BATCH: usize = 512;
/// Messages that are under way at a time.
const UNDER_WAY: usize = 4;

/// What becomes of a page that was brought home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// It stays.
    Keep,
    /// It goes, unless somebody waits to store into it.
    Evict,
    /// It goes: it may lack what others have changed.
    Drop,
}

/// A page on its way home.
struct Leaving {
    page: u64,
    twin: Arc<Twin>,
    /// What is sent of it, or was.
    runs: Vec<Range<usize>>,
    is_home: bool,
}

/// What is sent to one node, and of which of the pages.
struct Sending<'s> {
    merging: Merging<'s>,
    pages: Vec<usize>,
}

impl Service {
    /// Brings home what was stored into `pages` until now.
    pub(super) fn write_back(&self, pages: &Range<u64>, after: After) -> Result<()> {
        let changed = self.table().changed(pages);
        self.bring_home(changed, after)
    }

    /// The same for some pages. What cannot be brought home stays, to be tried again.
    pub(super) fn bring_home(&self, mut todo: BTreeSet<u64>, after: After) -> Result<()> {
        let (mut failed, mut others) = (None, BTreeSet::new());
        while !(todo.is_empty() && others.is_empty()) {
            let mut table = self.table();
            let (mut batch, mut clean, mut others_now) = (Vec::new(), Vec::new(), Vec::new());
            let is_last = todo.is_empty();
            let looked_at = if is_last { &mut others } else { &mut todo };
            // No more than these are looked at while faults wait for the table.
            for page in std::iter::from_fn(|| looked_at.pop_first()).take(BATCH) {
                match table.state(page) {
                    Some(PageState::Dirty { .. }) => batch.push(page),
                    // Another thread is at it.
                    Some(PageState::WritingBack { .. }) if after != After::Evict => others_now.push(page),
                    Some(PageState::Clean | PageState::Ready(_)) if after != After::Keep => clean.push(page),
                    _ => {}
                }
            }
            // Only for what is under way while the table is held: of the end of what was before, nobody is told again.
            let is_to_wait = is_last && batch.is_empty() && clean.is_empty() && !others_now.is_empty();
            others.extend(others_now);
            if is_to_wait {
                drop(self.wait(table));
                continue;
            }
            self.drop_pages(&mut table, clean);
            if batch.is_empty() {
                continue;
            }
            let leaving = self.set_out(&mut table, batch);
            drop(table);
            match leaving {
                Ok(mut leaving) => {
                    let sent = self.send(&mut leaving);
                    self.come_home(leaving, after);
                    if let Err(error) = sent {
                        failed.get_or_insert(error);
                    }
                }
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
            self.notify();
        }
        failed.map_or(Ok(()), Err)
    }

    /// Protects dirty pages: no store changes them until they have come home.
    fn set_out(&self, table: &mut Table, pages: Vec<u64>) -> Result<Vec<Leaving>> {
        // Before the states change: where this fails, the pages are dirty still, and the next store into one that is
        // protected opens it.
        for run in runs(pages.iter().copied()) {
            self.memory.protect(&run).map_err(|e| self.failed("write-protecting pages".into(), e))?;
        }
        let mut leaving = Vec::with_capacity(pages.len());
        for page in pages {
            table.change(page, |state| match state {
                PageState::Dirty { twin } => {
                    let sent = Arc::clone(&twin);
                    leaving.push(Leaving { page, twin: sent, runs: Vec::new(), is_home: false });
                    PageState::WritingBack { twin, is_wanted: false }
                }
                other => other,
            });
        }
        Ok(leaving)
    }

    /// Sends the differences home and waits until they are there. Each page says whether it is.
    fn send(&self, leaving: &mut [Leaving]) -> Result<()> {
        let mut gathered: BTreeMap<u32, (Merge<'_>, Vec<usize>)> = BTreeMap::new();
        let mut under_way: VecDeque<Sending<'_>> = VecDeque::new();
        let mut failed: Option<Error> = None;
        for number in 0..leaving.len() {
            let page = leaving[number].page;
            let bytes = self.memory.copy_of(page);
            leaving[number].runs = leaving[number].twin.changes(&bytes);
            let runs = &leaving[number].runs;
            if runs.is_empty() {
                leaving[number].is_home = true;
                continue;
            }
            let changed: usize = runs.iter().map(|run| run.len()).sum();
            Counters::add(&self.counters.merged, changed as u64);
            let index = self.segment_of(page);
            let within = |run: &Range<usize>| self.within(page) + run.start as u64;
            let outcome = (|| match self.place_of_bytes(index)? {
                Place::There(home) => {
                    if let Some((merge, _)) = gathered.get(&home)
                        && !merge.has_room_for(changed, runs.len())
                        && let Some((merge, pages)) = gathered.remove(&home)
                    {
                        under_way.push_back(Sending { merging: merge.send(), pages });
                    }
                    let (merge, pages) = match gathered.entry(home) {
                        std::collections::btree_map::Entry::Occupied(there) => there.into_mut(),
                        std::collections::btree_map::Entry::Vacant(place) => {
                            place.insert((self.shared()?.begin_merge(home)?, Vec::new()))
                        }
                    };
                    runs.iter().for_each(|run| merge.put(index, within(run), &bytes[run.clone()]));
                    pages.push(number);
                    Ok(false)
                }
                _ => {
                    runs.iter()
                        .try_for_each(|run| self.write_here(index, within(run), &bytes[run.clone()]))?;
                    Ok(true)
                }
            })();
            match outcome {
                Ok(is_home) => leaving[number].is_home = is_home,
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
            while under_way.len() > UNDER_WAY {
                self.finish_one(&mut under_way, leaving, &mut failed);
            }
        }
        let rest = gathered.into_values().map(|(merge, pages)| Sending { merging: merge.send(), pages });
        under_way.extend(rest);
        while !under_way.is_empty() {
            self.finish_one(&mut under_way, leaving, &mut failed);
        }
        failed.map_or(Ok(()), Err)
    }

    fn finish_one(
        &self,
        under_way: &mut VecDeque<Sending<'_>>,
        leaving: &mut [Leaving],
        failed: &mut Option<Error>,
    ) {
        let Some(Sending { merging, pages }) = under_way.pop_front() else { return };
        match merging.finish() {
            Ok(changes) => {
                pages.into_iter().for_each(|number| leaving[number].is_home = true);
                let mut table = self.table();
                for (index, version) in changes {
                    if let Some(segment) = table.segments.get_mut(&index) {
                        segment.add_own(version);
                    }
                }
            }
            Err(error) => {
                failed.get_or_insert(error);
            }
        }
    }

    /// Gives pages that were on their way their next state.
    fn come_home(&self, leaving: Vec<Leaving>, after: After) {
        let mut table = self.table();
        let (mut open, mut clean, mut wake) = (Vec::new(), Vec::new(), Vec::new());
        for Leaving { page, twin, runs, is_home } in leaving {
            let Some(PageState::WritingBack { is_wanted, .. }) = table.state(page) else { continue };
            let is_wanted = *is_wanted;
            match (is_home, after) {
                (false, _) => {
                    twin.doubt(&runs);
                    let Some(record) = table.remove(page) else { continue };
                    if let PageState::WritingBack { twin, .. } = record.state {
                        // As one that was used last: others are tried before it.
                        table.set(page, PageState::Dirty { twin }, record.version);
                    }
                    open.push(page);
                }
                (true, After::Drop) => {
                    clean.push(page);
                    wake.push(page);
                }
                (true, After::Evict) if !is_wanted => clean.push(page),
                (true, _) if is_wanted => {
                    let twin = self.twin_of(page);
                    table.change(page, |_| PageState::Dirty { twin });
                    open.push(page);
                }
                (true, _) => table.change(page, |_| PageState::Clean),
            }
        }
        for page in &clean {
            table.change(*page, |_| PageState::Clean);
        }
        if after == After::Evict {
            Counters::add(&self.counters.evicted, clean.len() as u64);
        }
        self.drop_pages(&mut table, clean);
        let woken = runs(wake).into_iter().try_for_each(|run| self.memory.wake(&run));
        let opened = runs(open).into_iter().try_for_each(|run| self.memory.open(&run));
        if let Err(e) = woken.and(opened) {
            tracing::error!("threads that wait for pages of {} may hang: {e}", self.file.name());
        }
    }

    /// Where bytes of a segment go, which gets a home if it has none.
    fn place_of_bytes(&self, index: SegmentIndex) -> Result<Place> {
        let place = self.table().segments.get(&index).map(|segment| segment.place);
        match place {
            Some(place @ (Place::There(_) | Place::Here | Place::Direct)) => Ok(place),
            _ => self.claim_for_bytes(index),
        }
    }
}

#[cfg(test)]
mod tests;
