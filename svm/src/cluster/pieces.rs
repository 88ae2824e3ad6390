//! Many small pieces of other nodes' segments, past the page cache: written pieces go home packed into few messages,
//! and the home scatters them; pieces that are read come gathered by the home.
//!
//! What is cached of the pages that they touch has to agree with that, message by message. Bytes that are not home yet
//! go home before; pages are dropped once what was written there is home. Should this process be killed in between,
//! the others of its node find that it was writing, and drop them. Pages that lie between pieces stay as they are.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::blocks::{self, Blocks};
use crate::cache::{PageSet, WritePast};
use crate::error::{Error, Result};
use crate::units::{SegmentIndex, SegmentSize};

use super::wire::{LONGEST_DATA, Part, Reply, Request};
use super::{Asked, NodeIndex, SharedFile};

/// How many messages of one access are under way at a time.
const UNDER_WAY: usize = 4;
/// The most parts in a message; each takes some ten bytes to describe.
const MOST_PARTS: usize = 1 << 16;

/// Pieces that are on their way home.
pub(crate) struct Scatter<'f> {
    shared: &'f SharedFile,
    packed: BTreeMap<NodeIndex, Packed>,
    /// With the pages that it touches.
    under_way: VecDeque<(Asked, PageSet)>,
    failed: Option<Error>,
    /// Until all pages are dropped.
    _noted: Option<WritePast<'f>>,
}

/// Pieces for one node.
#[derive(Default)]
struct Packed {
    parts: Vec<Part>,
    data: Vec<u8>,
}

impl<'f> Scatter<'f> {
    /// For pieces of this file.
    pub(crate) fn begin(shared: &'f SharedFile) -> Scatter<'f> {
        let (packed, under_way) = (BTreeMap::new(), VecDeque::new());
        let noted = shared.is_cached().then(|| shared.cache().begin_past());
        Scatter { shared, packed, under_way, failed: None, _noted: noted }
    }

    /// Takes `blocks` of a segment, counted from its beginning, from memory in which they are `stride` bytes from each
    /// other. They are home after [`Scatter::finish`].
    ///
    /// # Safety
    /// Each block of memory is valid for reads.
    pub(crate) unsafe fn put(
        &mut self,
        home: u32,
        index: SegmentIndex,
        blocks: &Blocks,
        source: *const u8,
        stride: isize,
    ) -> Result<()> {
        let node = self.shared.node_at(home)?;
        let mut done = (0, 0);
        for (part, next) in parts(index, blocks) {
            let packed = self.packed.entry(node).or_default();
            let bytes = part.bytes() as usize;
            if packed.data.len() + bytes > LONGEST_DATA || packed.parts.len() >= MOST_PARTS {
                let full = std::mem::take(packed);
                self.send(node, full);
            }
            let packed = self.packed.entry(node).or_default();
            packed.data.reserve(bytes);
            // SAFETY: there is room for the part behind what is there, which is initialised when it counts; the caller
            // vouches for the blocks of memory. A part of a single block is the whole or a part of one.
            unsafe {
                let to = packed.data.as_mut_ptr().add(packed.data.len());
                let source = source.wrapping_offset(stride * done.0).wrapping_add(done.1);
                blocks::copy(
                    (to, part.length as isize),
                    (source, stride),
                    part.length as usize,
                    part.count as usize,
                );
                packed.data.set_len(packed.data.len() + bytes);
            }
            packed.parts.push(part);
            done = next;
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Returns when all pieces are home.
    pub(crate) fn finish(mut self) -> Result<()> {
        for (node, packed) in in_turn(self.shared, std::mem::take(&mut self.packed)) {
            self.send(node, packed);
        }
        self.wait_for_all();
        self.failed.take().map_or(Ok(()), Err)
    }

    fn send(&mut self, node: NodeIndex, Packed { parts, data }: Packed) {
        if parts.is_empty() {
            return;
        }
        while self.under_way.len() >= UNDER_WAY {
            self.wait_for_one();
        }
        let pages = touched(self.shared, &parts);
        let request = Request::Write { file: self.shared.file(), parts, cached: false };
        let flushed = self.shared.flush_cached_among(&pages);
        match flushed.and_then(|()| self.shared.cluster().begin(node, &request, &data)) {
            Ok(asked) => self.under_way.push_back((asked, pages)),
            Err(error) => {
                self.failed.get_or_insert(error);
                self.drop_cached(&pages);
            }
        }
    }

    fn wait_for_one(&mut self) {
        let Some((asked, pages)) = self.under_way.pop_front() else { return };
        if let Err(error) = self.shared.cluster().wait(asked, &mut |_, _| {}) {
            self.failed.get_or_insert(error);
        }
        self.drop_cached(&pages);
    }

    /// Whatever became of it, nobody may read what was there before.
    fn drop_cached(&mut self, pages: &PageSet) {
        if let Err(error) = self.shared.cache().expire(self.shared.file(), pages) {
            tracing::error!("pages that may be old stay cached: {error}");
            self.failed.get_or_insert(error);
        }
    }

    fn wait_for_all(&mut self) {
        while !self.under_way.is_empty() {
            self.wait_for_one();
        }
    }
}

impl Drop for Scatter<'_> {
    /// After an error: what is under way ends.
    fn drop(&mut self) {
        self.wait_for_all();
    }
}

/// Pieces that were asked for.
pub(crate) struct Gather<'f> {
    shared: &'f SharedFile,
    wanted: BTreeMap<NodeIndex, Wanted>,
    under_way: VecDeque<(NodeIndex, Asked, Vec<Place>)>,
}

/// Pieces of one node.
#[derive(Default)]
struct Wanted {
    parts: Vec<Part>,
    places: Vec<Place>,
    bytes: usize,
}

/// Where blocks go in memory.
struct Place {
    to: *mut u8,
    stride: isize,
    length: usize,
    count: usize,
}

impl<'f> Gather<'f> {
    /// For pieces of this file.
    pub(crate) fn begin(shared: &'f SharedFile) -> Gather<'f> {
        Gather { shared, wanted: BTreeMap::new(), under_way: VecDeque::new() }
    }

    /// Asks for `blocks` of a segment, counted from its beginning; in memory they are to be `stride` bytes from each
    /// other. They are there after [`Gather::finish`].
    ///
    /// # Safety
    /// Each place is valid for writes of a block, until then.
    pub(crate) unsafe fn get(
        &mut self,
        home: u32,
        index: SegmentIndex,
        blocks: &Blocks,
        to: *mut u8,
        stride: isize,
    ) -> Result<()> {
        let node = self.shared.node_at(home)?;
        let mut done = (0, 0);
        for (part, next) in parts(index, blocks) {
            let wanted = self.wanted.entry(node).or_default();
            let bytes = part.bytes() as usize;
            if wanted.bytes + bytes > LONGEST_DATA || wanted.parts.len() >= MOST_PARTS {
                let full = std::mem::take(wanted);
                self.ask(node, full)?;
            }
            let wanted = self.wanted.entry(node).or_default();
            let to = to.wrapping_offset(stride * done.0).wrapping_add(done.1);
            let (length, count) = (part.length as usize, part.count as usize);
            wanted.places.push(Place { to, stride, length, count });
            wanted.parts.push(part);
            wanted.bytes += bytes;
            done = next;
        }
        Ok(())
    }

    /// Returns when all pieces are there.
    pub(crate) fn finish(mut self) -> Result<()> {
        for (node, wanted) in in_turn(self.shared, std::mem::take(&mut self.wanted)) {
            self.ask(node, wanted)?;
        }
        while !self.under_way.is_empty() {
            self.take_one()?;
        }
        Ok(())
    }

    fn ask(&mut self, node: NodeIndex, Wanted { parts, places, .. }: Wanted) -> Result<()> {
        if parts.is_empty() {
            return Ok(());
        }
        while self.under_way.len() >= UNDER_WAY {
            self.take_one()?;
        }
        self.shared.flush_cached_among(&touched(self.shared, &parts))?;
        let request = Request::Read { file: self.shared.file(), parts };
        self.under_way.push_back((node, self.shared.cluster().begin(node, &request, &[])?, places));
        Ok(())
    }

    fn take_one(&mut self) -> Result<()> {
        let Some((node, asked, places)) = self.under_way.pop_front() else { return Ok(()) };
        let mut is_whole = false;
        self.shared.cluster().wait(asked, &mut |reply, data| {
            is_whole = data.len() == places.iter().map(|place| place.length * place.count).sum::<usize>();
            if !(is_whole && matches!(reply, Reply::Data)) {
                return;
            }
            let mut from = data.as_ptr();
            for Place { to, stride, length, count } in &places {
                // SAFETY: whoever called `get` vouches for the places; the data has as many bytes as all of them.
                unsafe {
                    blocks::copy((*to, *stride), (from, *length as isize), *length, *count);
                    from = from.add(length * count);
                }
            }
        })?;
        is_whole.then_some(()).ok_or_else(|| self.shared.cluster().context().out_of_place(node))
    }
}

impl Drop for Gather<'_> {
    /// After an error: answers that are under way are not of interest.
    fn drop(&mut self) {
        while let Some((_, asked, _)) = self.under_way.pop_front() {
            let _ = self.shared.cluster().wait(asked, &mut |_, _| {});
        }
    }
}

/// From the node behind the own one on: where all nodes do this at the same time, each has another one's link for
/// itself.
fn in_turn<T>(shared: &SharedFile, of_nodes: BTreeMap<NodeIndex, T>) -> impl Iterator<Item = (NodeIndex, T)> {
    let own = shared.own_node();
    let (before, behind): (Vec<_>, Vec<_>) = of_nodes.into_iter().partition(|(node, _)| *node < own);
    behind.into_iter().chain(before)
}

/// The pages that parts touch; none where pages are not cached.
pub(super) fn touched(shared: &SharedFile, parts: &[Part]) -> PageSet {
    if !shared.is_cached() {
        return PageSet::default();
    }
    let (segment_size, page) = (shared.attachment().segment_size(), u64::from(shared.cache().page()));
    PageSet::of(parts.iter().flat_map(|part| pages_of(part, segment_size, page)))
}

/// The pages, `page` bytes each, that a part touches, as runs that ascend.
fn pages_of(part: &Part, segment_size: SegmentSize, page: u64) -> impl Iterator<Item = Range<u64>> + use<> {
    let start = segment_size.start_of(part.segment).0 + part.within;
    let (length, stride, count) = (u64::from(part.length), u64::from(part.stride), u64::from(part.count));
    // Blocks that are less than a page from each other leave no page out.
    let (times, length) = if stride <= page { (1, stride * (count - 1) + length) } else { (count, length) };
    (0..times).map(move |number| {
        let at = start + stride * number;
        at / page..(at + length).div_ceil(page)
    })
}

/// Cuts blocks into parts that fit into messages: each with how many blocks, and how many bytes of the next one, are
/// done behind it.
fn parts(index: SegmentIndex, blocks: &Blocks) -> impl Iterator<Item = (Part, (isize, usize))> {
    let at_once = LONGEST_DATA as u64 / 4;
    let blocks = *blocks;
    let (mut number, mut within_block) = (0, 0);
    std::iter::from_fn(move || {
        if number == blocks.count {
            return None;
        }
        let start = blocks.start + blocks.stride * number + within_block;
        let part = if blocks.length > at_once {
            // Pieces of a long block.
            let length = (blocks.length - within_block).min(at_once);
            within_block += length;
            Part::one(index, start, length as u32)
        } else {
            let count = (at_once / blocks.length).min(blocks.count - number);
            number += count;
            let (length, stride) = (blocks.length as u32, if count == 1 { 0 } else { blocks.stride as u32 });
            Part { segment: index, within: start, length, stride, count: count as u32 }
        };
        if within_block == blocks.length {
            (number, within_block) = (number + 1, 0);
        }
        Some((part, (number as isize, within_block as usize)))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_are_the_blocks(start in 0u64..99, length in 1u64..800_000, gap in 0u64..9999, count in 1u64..2000) {
            let blocks = Blocks { start, length, stride: length + gap, count };
            let mut runs: Vec<(u64, u64)> = Vec::new();
            for (part, next) in parts(SegmentIndex(3), &blocks) {
                prop_assert!(part.bytes() <= LONGEST_DATA as u64 && part.count > 0);
                let told = part.blocks(u64::MAX).expect("it lies within");
                for number in 0..told.count {
                    let (at, bytes) = (told.start + number * told.stride, told.length);
                    match runs.last_mut() {
                        Some(last) if last.0 + last.1 == at && last.1 < length => last.1 += bytes,
                        _ => runs.push((at, bytes)),
                    }
                }
                let done = runs.iter().map(|(_, bytes)| bytes).sum::<u64>();
                prop_assert_eq!(done, next.0 as u64 * length + next.1 as u64);
            }
            let expected: Vec<_> = (0..count).map(|number| (start + number * blocks.stride, length)).collect();
            prop_assert_eq!(runs, expected);
        }
    }
}
