//! Pages of other nodes' segments that a process has mapped: fetched past the page cache, and brought home by difference.
//!
//! What the node's cache has of these pages agrees with that, as in `pieces`. Versions are told by how often a segment
//! was changed by anybody: what another process of this node brought home is news to a mapping, too.

use std::ops::Range;
use std::sync::Arc;

use crate::cache::WritePast;
use crate::error::Result;
use crate::units::SegmentIndex;

use super::natively::{Fetching, Patience};
use super::pieces::touched;
use super::wire::{LONGEST_DATA, Part, Reply, Request};
use super::{Asked, Attending, Mailbox, NodeIndex, SharedFile};

/// Bytes of one segment that are read together.
pub(crate) struct Runs {
    /// On its way, from that node.
    asked: (NodeIndex, Asked),
    bytes: usize,
}

/// Bytes that go home together.
pub(crate) struct Merge<'f> {
    shared: &'f SharedFile,
    node: NodeIndex,
    parts: Vec<Part>,
    data: Vec<u8>,
}

/// The most parts in a message; each takes some ten bytes to describe.
const MOST_PARTS: usize = 1 << 16;

/// Bytes that are on their way home.
pub(crate) struct Merging<'f> {
    merge: Merge<'f>,
    asked: Result<Asked>,
    _noted: Option<WritePast<'f>>,
}

impl SharedFile {
    /// Asks for `runs` of a segment, counted from its beginning, all together no more bytes than a message
    /// has. What processes of this node wrote there before goes home first.
    pub(crate) fn begin_runs(&self, home: u32, index: SegmentIndex, runs: &[Range<u64>]) -> Result<Runs> {
        let node = self.node_at(home)?;
        self.cluster().check_home(node)?;
        let part = |run: &Range<u64>| Part::one(index, run.start, (run.end - run.start) as u32);
        let parts: Vec<_> = runs.iter().map(part).collect();
        self.flush_cached_among(&touched(self, &parts))?;
        self.ask_for_parts(node, parts)
    }

    /// Asks for what was [begun](SharedFile::begin_mapped).
    pub(crate) fn ask_for_runs(
        &self,
        fetching: &Fetching,
        runs: &[(SegmentIndex, Range<u64>)],
    ) -> Result<Runs> {
        self.ask_for_parts(fetching.home(), parts_of(runs))
    }

    fn ask_for_parts(&self, node: NodeIndex, parts: Vec<Part>) -> Result<Runs> {
        let bytes = parts.iter().map(Part::bytes).sum::<u64>() as usize;
        let asked = self.cluster().begin(node, &Request::Read { file: self.file(), parts }, &[])?;
        Ok(Runs { asked: (node, asked), bytes })
    }

    /// Waits for the bytes, one run after the other, and hands them to `take`.
    pub(crate) fn finish_runs<T>(&self, runs: Runs, take: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let Runs { asked: (node, asked), bytes } = runs;
        let (mut take, mut taken) = (Some(take), None);
        self.cluster().wait(asked, &mut |reply, data| {
            if *reply == Reply::Data && data.len() == bytes {
                taken = take.take().map(|take| take(data));
            }
        })?;
        taken.ok_or_else(|| self.cluster().context().out_of_place(node))
    }

    /// Begins to fetch `runs` of segments of one home, a page each, all together no more bytes than a message has. What
    /// processes of this node wrote there before goes home first; if there is any, that is waited for, after `before`.
    pub(crate) fn begin_mapped(
        &self,
        home: u32,
        runs: &[(SegmentIndex, Range<u64>)],
        before: impl FnOnce(),
    ) -> Result<Fetching> {
        let node = self.node_at(home)?;
        self.cluster().check_home(node)?;
        let parts = parts_of(runs);
        self.flush_cached_among_after(&touched(self, &parts), before)?;
        Ok(self.fetch_mapped(node, runs.len() as u64, parts.iter().map(Part::bytes).sum()))
    }

    /// The bytes, one run after the other, where this process is to read them, and can; otherwise their home is asked,
    /// for example [by mail](SharedFile::mail_for_runs).
    pub(crate) fn read_mapped(
        &self,
        fetching: &mut Fetching,
        runs: &[(SegmentIndex, Range<u64>)],
        patience: Patience,
    ) -> Option<Vec<u8>> {
        if !fetching.is_native() {
            return None;
        }
        let read = self.read_runs_natively(fetching, runs, patience);
        match read {
            Some(_) => self.end_pages(fetching),
            None => fetching.hold_up(),
        }
        read
    }

    /// Asks for what was [begun](SharedFile::begin_mapped); the answer goes to a mailbox, with the mark.
    pub(crate) fn mail_for_runs(
        &self,
        mail: (&Arc<Mailbox>, u64),
        home: u32,
        runs: &[(SegmentIndex, Range<u64>)],
    ) -> Result<()> {
        let request = Request::Read { file: self.file(), parts: parts_of(runs) };
        self.cluster().ask_by_mail(mail, self.node_at(home)?, &request)
    }

    /// Has the caller take what comes into a mailbox, unless another thread does.
    pub(crate) fn attend_mail<'c>(&'c self, mailbox: &'c Mailbox) -> Option<Attending<'c>> {
        self.cluster().attend(mailbox)
    }

    /// Hands what came into a mailbox to `take`: so many bytes, one run after the other.
    pub(crate) fn open_mail<T>(
        &self,
        fetching: &Fetching,
        come: svmio_transport::Result<Vec<u8>>,
        bytes: usize,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        let node = fetching.home();
        let taken = self.cluster().open_mail(node, come, |reply, data| {
            (*reply == Reply::Data && data.len() == bytes).then(|| {
                self.end_pages(fetching);
                take(data)
            })
        })?;
        taken.ok_or_else(|| self.cluster().context().out_of_place(node))
    }

    /// Brings home what processes of this node wrote to `range` by way of the cache, where it may stay under a lock
    /// that the node keeps.
    pub(crate) fn bring_cached_home(&self, range: &Range<u64>) -> Result<()> {
        if self.is_cached() { self.flush_cached_in(range) } else { Ok(()) }
    }

    /// For bytes whose home is in a position of the file's list.
    pub(crate) fn begin_merge(&self, home: u32) -> Result<Merge<'_>> {
        let node = self.node_at(home)?;
        Ok(Merge { shared: self, node, parts: Vec::new(), data: Vec::new() })
    }

    /// How often segments were changed that have one home.
    pub(crate) fn changes(&self, homes: &[(u32, Vec<SegmentIndex>)]) -> Result<Vec<Vec<u64>>> {
        let file = self.file();
        let ask = |(home, segments): &(u32, Vec<SegmentIndex>)| {
            let node = self.node_at(*home)?;
            self.cluster().check_home(node)?;
            let request = Request::Changes { file, segments: segments.clone() };
            Ok((node, self.cluster().begin(node, &request, &[])?))
        };
        let asked: Vec<Result<_>> = homes.iter().map(ask).collect();
        // All are waited for, whatever comes of some.
        let answers = asked.into_iter().zip(homes).map(|(asked, (_, segments))| {
            let (node, asked) = asked?;
            match self.cluster().wait(asked, &mut |_, _| {})? {
                Reply::Versions(versions) if versions.len() == segments.len() => Ok(versions),
                _ => Err(self.cluster().context().out_of_place(node)),
            }
        });
        let answers: Vec<_> = answers.collect();
        answers.into_iter().collect()
    }
}

fn parts_of(runs: &[(SegmentIndex, Range<u64>)]) -> Vec<Part> {
    let part = |(index, run): &(SegmentIndex, Range<u64>)| {
        Part::one(*index, run.start, (run.end - run.start) as u32)
    };
    runs.iter().map(part).collect()
}

impl<'f> Merge<'f> {
    /// Whether so many more bytes in so many more runs go along.
    pub(crate) fn has_room_for(&self, bytes: usize, runs: usize) -> bool {
        self.data.len() + bytes <= LONGEST_DATA && self.parts.len() + runs <= MOST_PARTS
    }

    /// Takes bytes for position `within` of a segment.
    pub(crate) fn put(&mut self, index: SegmentIndex, within: u64, bytes: &[u8]) {
        self.parts.push(Part::one(index, within, bytes.len() as u32));
        self.data.extend_from_slice(bytes);
    }

    /// Sends what was put.
    pub(crate) fn send(self) -> Merging<'f> {
        let shared = self.shared;
        let noted = shared.is_cached().then(|| shared.cache().begin_past());
        let pages = touched(shared, &self.parts);
        let request = Request::Merge { file: shared.file(), parts: self.parts.clone() };
        let asked = shared
            .cluster()
            .check_home(self.node)
            .and_then(|()| shared.flush_cached_among(&pages))
            .and_then(|()| shared.cluster().begin(self.node, &request, &self.data));
        Merging { merge: self, asked, _noted: noted }
    }
}

impl Merging<'_> {
    /// Returns when the bytes are home: how often each segment was changed, this change, which made it one more,
    /// included.
    pub(crate) fn finish(self) -> Result<Vec<(SegmentIndex, u64)>> {
        let Merging { merge, asked, _noted } = self;
        let shared = merge.shared;
        let answer = asked.and_then(|asked| shared.cluster().wait(asked, &mut |_, _| {}));
        // Whatever became of it, nobody may read what was there before.
        shared.cache().expire(shared.file(), &touched(shared, &merge.parts))?;
        match answer? {
            Reply::Merged(changes) => Ok(changes),
            _ => Err(shared.cluster().context().out_of_place(merge.node)),
        }
    }
}
