//! Bringing dirty bytes home, gathered by node into few long messages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Instant;

use crate::attachment::Attachment;
use crate::cache::{Flush, FlushState, PageKey, PageNumber, PageSet, SetVersion};
use crate::cluster::wire::{LONGEST_DATA, Reply, Request};
use crate::cluster::{Asked, NodeIndex, SharedFile};
use crate::error::{Error, Result};

use super::{UNDER_WAY, part_of};

/// The most parts in a message; each takes some ten bytes to describe.
const MOST_PARTS: usize = 1 << 16;

/// Dirty bytes that are on their way home together.
struct Sending {
    node: NodeIndex,
    asked: Asked,
    flushes: Vec<Flush>,
}

/// What has kept dirty bytes from their homes.
#[derive(Default)]
struct Unbrought {
    failed: Option<Error>,
    /// Which homes refuse some of them, since they come too late.
    refused_by: BTreeSet<NodeIndex>,
}

/// Dirty bytes for one node.
#[derive(Default)]
struct Batch {
    flushes: Vec<Flush>,
}

impl Batch {
    fn has_room_for(&self, more: &Flush) -> bool {
        let all = || self.flushes.iter().chain([more]);
        self.flushes.is_empty()
            || all().map(|flush| flush.bytes.len()).sum::<usize>() <= LONGEST_DATA
                && all().map(|flush| flush.runs.len()).sum::<usize>() <= MOST_PARTS
    }
}

impl SharedFile {
    /// Brings home all dirty bytes of the file, whichever process of the node wrote them.
    pub(in crate::cluster) fn flush_cached(&self) -> Result<()> {
        self.flush_cached_in(&(0..u64::MAX))
    }

    /// The same where nobody hears of what does not get there, and stays.
    pub(in crate::cluster) fn settle_cached(&self) {
        if self.is_cached()
            && let Err(error) = self.flush_cached()
        {
            tracing::debug!("what others left of {} stays in the cache: {error}", self.attachment().name());
        }
    }

    /// Brings home the bytes in `range` that are dirty now, whichever process of the node wrote them.
    pub(in crate::cluster) fn flush_cached_in(&self, range: &Range<u64>) -> Result<()> {
        self.flush_cached_among(&PageSet::touched(range, self.cache().page()))
    }

    /// The same for the bytes of some pages.
    pub(in crate::cluster) fn flush_cached_among(&self, pages: &PageSet) -> Result<()> {
        self.flush_cached_among_after(pages, || {})
    }

    /// Likewise, after `before` where there are any, which are waited for.
    pub(in crate::cluster) fn flush_cached_among_after(
        &self,
        pages: &PageSet,
        before: impl FnOnce(),
    ) -> Result<()> {
        let dirty = self.cache().dirty_among(self.file(), pages)?;
        if !dirty.is_empty() {
            before();
        }
        self.flush_pages(dirty.into_iter())
    }

    fn flush_pages(&self, pages: impl Iterator<Item = PageNumber>) -> Result<()> {
        let mut keys: Vec<_> = pages.map(|page| self.key(page)).collect();
        // Bytes that are dirtied meanwhile are not waited for: whoever writes on would keep this from ending.
        loop {
            let elsewhere = self.bring_home(self.attachment(), &keys)?;
            let Some(&(_, version)) = elsewhere.first() else { return Ok(()) };
            self.cache().wait_for_change(version)?;
            keys = elsewhere.into_iter().map(|(key, _)| key).collect();
        }
    }

    /// Brings the dirty bytes of pages of one file home, but for those that homes refuse, which are given up; returns
    /// the pages where another one is at it.
    pub(super) fn bring_home(
        &self,
        attachment: &Attachment,
        keys: &[PageKey],
    ) -> Result<Vec<(PageKey, SetVersion)>> {
        loop {
            let mut refused_by = BTreeSet::new();
            let elsewhere = self.bring_taken_home(attachment, keys, &mut refused_by)?;
            let Some(node) = refused_by.first() else { return Ok(elsewhere) };
            if attachment.id() != self.file() {
                // The next flush of that file gives it up.
                return Err(self.cluster().context().refused(*node));
            }
            refused_by.iter().try_for_each(|node| self.give_up_late(*node))?;
        }
    }

    /// The same, but for giving up; says which homes refuse some of them.
    fn bring_taken_home(
        &self,
        attachment: &Attachment,
        keys: &[PageKey],
        refused_by: &mut BTreeSet<NodeIndex>,
    ) -> Result<Vec<(PageKey, SetVersion)>> {
        if attachment.id() == self.file() {
            self.forget_taken_away()?;
        }
        let cache = self.cache();
        let mut by_node: BTreeMap<NodeIndex, Batch> = BTreeMap::new();
        let mut under_way: VecDeque<Sending> = VecDeque::new();
        let (mut elsewhere, mut unbrought) = (Vec::new(), Unbrought::default());
        let (begun, mut bytes, mut runs) = (Instant::now(), 0, 0);
        for key in keys {
            let flush = match cache.begin_flush(key) {
                Ok(FlushState::Begun(flush)) => flush,
                Ok(FlushState::Clean) => continue,
                Ok(FlushState::Elsewhere(version)) => {
                    elsewhere.push((*key, version));
                    continue;
                }
                Err(error) => {
                    unbrought.failed.get_or_insert(error);
                    break;
                }
            };
            let node = match self.home_of(attachment, key) {
                Ok(node) => node,
                Err(error) => {
                    self.put_back(vec![flush]);
                    unbrought.failed.get_or_insert(error);
                    break;
                }
            };
            let batch = by_node.entry(node).or_default();
            if !batch.has_room_for(&flush) {
                let full = std::mem::take(batch);
                self.send(attachment, node, full, &mut under_way, &mut unbrought);
            }
            (bytes, runs) = (bytes + flush.bytes.len(), runs + flush.runs.len());
            batch.flushes.push(flush);
            while under_way.len() > UNDER_WAY {
                self.finish_one(&mut under_way, &mut unbrought);
            }
        }
        for (node, batch) in by_node {
            self.send(attachment, node, batch, &mut under_way, &mut unbrought);
        }
        while !under_way.is_empty() {
            self.finish_one(&mut under_way, &mut unbrought);
        }
        if let Some(error) = unbrought.failed {
            return Err(error);
        }
        self.cluster().long_writes.note_flush(bytes as u64, runs as u64, begun.elapsed());
        *refused_by = unbrought.refused_by;
        Ok(elsewhere)
    }

    fn send(
        &self,
        attachment: &Attachment,
        node: NodeIndex,
        batch: Batch,
        under_way: &mut VecDeque<Sending>,
        unbrought: &mut Unbrought,
    ) {
        if batch.flushes.is_empty() {
            return;
        }
        let (mut parts, mut data) = (Vec::new(), Vec::new());
        for flush in &batch.flushes {
            let runs = flush.runs.iter().map(|&(at, length)| at..at + length);
            parts.extend(runs.map(|run| part_of(attachment, self.cache(), flush.key.page, &run)));
            data.extend_from_slice(&flush.bytes);
        }
        let request = Request::Write { file: attachment.id(), parts, cached: true };
        match self.cluster().begin(node, &request, &data) {
            Ok(asked) => under_way.push_back(Sending { node, asked, flushes: batch.flushes }),
            Err(error) => {
                self.put_back(batch.flushes);
                unbrought.failed.get_or_insert(error);
            }
        }
    }

    fn finish_one(&self, under_way: &mut VecDeque<Sending>, unbrought: &mut Unbrought) {
        let Some(Sending { node, asked, flushes }) = under_way.pop_front() else { return };
        match self.cluster().wait(asked, &mut |_, _| {}) {
            Ok(Reply::TooLate) => {
                self.put_back(flushes);
                unbrought.refused_by.insert(node);
            }
            Ok(_) => {
                for flush in flushes {
                    if let Err(error) = self.cache().finish_flush(flush) {
                        unbrought.failed.get_or_insert(error);
                    }
                }
            }
            Err(error) => {
                self.put_back(flushes);
                unbrought.failed.get_or_insert(error);
            }
        }
    }

    fn put_back(&self, flushes: Vec<Flush>) {
        for flush in flushes {
            if let Err(e) = self.cache().fail_flush(flush) {
                tracing::error!("bytes that could not be brought home are lost: {e}");
            }
        }
    }
}
