//! Bytes of other nodes' segments by way of the node's page cache: fetched when they are read, kept when they are
//! written, and brought home when it is time.

mod evicting;
mod fetching;
mod flushing;
mod giving_up;
mod kept;
mod past;

pub(super) use fetching::{Asking, Coming};

use std::collections::BTreeMap;
use std::ops::Range;

use crate::attachment::{Attachment, Home};
use crate::cache::{Overwrite, PageCache, PageKey, PageNumber, PageSet, SetVersion, WriteOutcome};
use crate::error::Result;
use crate::units::{FileOffset, SegmentIndex};

use super::wire::{LONGEST_DATA, Part, Reply, Request};
use super::{NodeIndex, SharedFile};

/// How many messages of one access are under way at a time: enough that the wire never waits for a round trip, which
/// takes less than the data of one.
const UNDER_WAY: usize = 4;

/// What an access has to wait for, if anything.
#[derive(Default)]
struct Obstacles {
    /// For which page there is no room, and which one could make room by being brought home.
    no_room: Option<(PageNumber, Option<PageKey>)>,
    changing: Option<SetVersion>,
}

impl Obstacles {
    fn no_room(&mut self, page: PageNumber, victim: Option<PageKey>) {
        self.no_room = Some((page, victim));
    }

    fn are_any(&self) -> bool {
        self.no_room.is_some() || self.changing.is_some()
    }
}

/// Whether it is worth to try again.
#[must_use]
enum Overcome {
    TryAgain,
    /// There will not be room for this page: it is to be accessed past the cache.
    NoRoomFor(PageNumber),
}

impl SharedFile {
    /// Writes bytes to position `within` of segment `index`, whose home is another node: they stay in the cache.
    pub(super) fn write_cached(&self, index: SegmentIndex, within: u64, data: &[u8]) -> Result<()> {
        let cache = self.cache();
        let start = self.attachment().segment_size().start_of(index).0 + within;
        let range = start..start + data.len() as u64;
        for page in pages(&range, cache) {
            let (within, at) = overlap(page, &range, cache);
            let bytes = &data[at..at + within.len()];
            loop {
                // SAFETY: the slice has as many bytes and lies in no cache.
                let written = unsafe { cache.write(&self.key(page), within.clone(), bytes.as_ptr()) }?;
                let mut obstacles = Obstacles::default();
                match written {
                    WriteOutcome::Cached => break,
                    WriteOutcome::Crowded(victim) => obstacles.no_room(page, Some(victim)),
                    WriteOutcome::Busy(version) => obstacles.changing = Some(version),
                    WriteOutcome::NoRoom => obstacles.no_room(page, None),
                }
                if let Overcome::NoRoomFor(page) = self.overcome(&obstacles)? {
                    self.write_past(page, &within, bytes)?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Brings what is cached into agreement with bytes that are about to go home past the cache. Returns the versions
    /// of the pages, for [`SharedFile::overwrite_cached`].
    pub(super) fn announce_overwrite(
        &self,
        index: SegmentIndex,
        within: u64,
        data: &[u8],
    ) -> Result<Vec<Option<u64>>> {
        let mut versions = Vec::new();
        self.put_over(index, within, data, |key, within, from| {
            // SAFETY: as `put_over` calls it: the pointer has as many bytes, and lies in no cache.
            let put = unsafe { self.cache().announce_overwrite(key, within, from) }?;
            if let Overwrite::Done(version) = put {
                versions.push(version);
            }
            Ok(put)
        })?;
        Ok(versions)
    }

    /// The same once they are home.
    pub(super) fn overwrite_cached(
        &self,
        index: SegmentIndex,
        within: u64,
        data: &[u8],
        announced: &[Option<u64>],
    ) -> Result<()> {
        let mut rest = announced;
        self.put_over(index, within, data, |key, within, from| {
            let announced = rest.first().copied().flatten();
            // SAFETY: as `put_over` calls it: the pointer has as many bytes, and lies in no cache.
            let put = unsafe { self.cache().overwrite(key, within, from, announced) }?;
            if let Overwrite::Done(_) = put {
                rest = rest.get(1..).unwrap_or_default();
            }
            Ok(put)
        })
    }

    /// Has `put` put bytes over each page in turn.
    fn put_over(
        &self,
        index: SegmentIndex,
        within: u64,
        data: &[u8],
        mut put: impl FnMut(&PageKey, Range<u32>, *const u8) -> Result<Overwrite>,
    ) -> Result<()> {
        let cache = self.cache();
        let start = self.attachment().segment_size().start_of(index).0 + within;
        let range = start..start + data.len() as u64;
        for page in pages(&range, cache) {
            let (within, at) = overlap(page, &range, cache);
            let bytes = &data[at..at + within.len()];
            loop {
                match put(&self.key(page), within.clone(), bytes.as_ptr())? {
                    Overwrite::Done(_) => break,
                    Overwrite::Busy(version) => cache.wait_for_change(version)?,
                }
            }
        }
        Ok(())
    }

    /// Makes room, or waits for it. Where what is in the way cannot be brought home, there is none.
    fn overcome(&self, obstacles: &Obstacles) -> Result<Overcome> {
        let waited_for = match obstacles.no_room {
            Some((page, None)) => return Ok(Overcome::NoRoomFor(page)),
            Some((page, Some(victim))) => match self.bring_victim_home(&victim) {
                Ok(elsewhere) => elsewhere,
                Err(error) => {
                    tracing::debug!("a page of file {} stays in the way: {error}", victim.file);
                    return Ok(Overcome::NoRoomFor(page));
                }
            },
            None => obstacles.changing,
        };
        waited_for.map_or(Ok(()), |version| self.cache().wait_for_change(version))?;
        Ok(Overcome::TryAgain)
    }

    /// Sees to it that nothing old stays cached that processes of this node left which died while they wrote.
    pub(crate) fn bury_writers(&self) -> Result<()> {
        if self.is_cached() { self.cache().bury_writers() } else { Ok(()) }
    }

    /// Drops cached pages in `range` whose segments others have changed since they were fetched, and what may be old by
    /// the death of a process of this node.
    pub(super) fn drop_stale(&self, range: &Range<u64>) -> Result<()> {
        let (cache, segment_size) = (self.cache(), self.attachment().segment_size());
        cache.bury_writers()?;
        let page_size = u64::from(cache.page());
        let segment_of =
            |page: PageNumber| segment_size.locate(FileOffset(page.0 * page_size)).map(|(i, _)| i);
        let pages = PageSet::touched(range, cache.page());
        let mut segments: BTreeMap<NodeIndex, Vec<SegmentIndex>> = BTreeMap::new();
        let mut cached = Vec::new();
        cache.retain(self.file(), &pages, |page, _| {
            cached.extend(segment_of(page));
            true
        })?;
        cached.sort_unstable();
        cached.dedup();
        for index in cached {
            if let Home::There(home) = self.attachment().home(index) {
                segments.entry(self.node_at(home)?).or_default().push(index);
            }
        }
        let file = self.file();
        let ask = |(node, segments): (&NodeIndex, &Vec<SegmentIndex>)| {
            self.cluster().begin(*node, &Request::Versions { file, segments: segments.clone() }, &[])
        };
        let asked: Vec<_> = segments.iter().map(ask).collect();
        let mut current: BTreeMap<SegmentIndex, u64> = BTreeMap::new();
        let mut take = |asked: Result<_>, node, segments: &[SegmentIndex]| {
            match self.cluster().wait(asked?, &mut |_, _| {})? {
                Reply::Versions(versions) => current.extend(segments.iter().copied().zip(versions)),
                _ => return Err(self.cluster().context().out_of_place(node)),
            }
            Ok(())
        };
        // All answers are taken, also after a failure: each is kept until it is.
        let taken =
            asked.into_iter().zip(&segments).map(|(asked, (node, segments))| take(asked, *node, segments));
        taken.fold(Ok(()), Result::and)?;
        cache.retain(self.file(), &pages, |page, version| {
            let current = segment_of(page).and_then(|index| current.get(&index));
            // Fetched since they were asked: with a version that is as new.
            version.is_some_and(|version| current.is_some_and(|current| version >= *current))
        })
    }

    fn home_of(&self, attachment: &Attachment, key: &PageKey) -> Result<NodeIndex> {
        let offset = key.page.0 * u64::from(self.cache().page());
        let index = attachment.segment_size().locate(FileOffset(offset)).map(|(index, _)| index);
        match index.map(|index| attachment.home(index)) {
            Some(Home::There(home)) => self.node_called(attachment, home),
            _ => Err(self.cluster().context().out_of_place(self.own_node())),
        }
    }

    pub(super) fn part(&self, page: PageNumber, within: &Range<u32>) -> Part {
        part_of(self.attachment(), self.cache(), page, within)
    }

    pub(super) fn key(&self, page: PageNumber) -> PageKey {
        PageKey { file: self.file(), page }
    }

    fn pages_per_message(&self) -> usize {
        (LONGEST_DATA / self.cache().page() as usize).max(1)
    }
}

/// The pages that `range` touches.
fn pages(range: &Range<u64>, cache: &PageCache) -> impl Iterator<Item = PageNumber> + use<> {
    let size = u64::from(cache.page());
    (range.start / size..range.end.div_ceil(size)).map(PageNumber)
}

/// Which bytes of a page `range` has, and where they are in the range.
fn overlap(page: PageNumber, range: &Range<u64>, cache: &PageCache) -> (Range<u32>, usize) {
    let size = u64::from(cache.page());
    let begin = page.0 * size;
    let (from, to) = (range.start.max(begin), range.end.min(begin + size));
    ((from - begin) as u32..(to - begin) as u32, (from - range.start) as usize)
}

fn part_of(attachment: &Attachment, cache: &PageCache, page: PageNumber, within: &Range<u32>) -> Part {
    let size = attachment.segment_size().bytes();
    let offset = page.0 * u64::from(cache.page()) + u64::from(within.start);
    let segment = SegmentIndex((offset / size) as u32);
    Part::one(segment, offset % size, within.end - within.start)
}
