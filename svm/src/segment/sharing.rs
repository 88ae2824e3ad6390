//! Storage that several files have a part in.
//!
//! A copy can be made without copying (`cp --reflink`, which cp(1) tries by itself; deduplication): both files have the
//! same storage, until one of them is written. Then the file system finds other storage for what is written, or says that
//! there is none. Anybody who may read a segment can make such a copy of it, at any time.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::mem;
use std::ops::Range;

use rustix::ioctl::{Getter, Opcode, Updater, ioctl, opcode};

/// Extents that are asked for at a time: most segments have fewer.
const AT_ONCE: usize = 32;
/// Of an extent of which other files have a part: `FIEMAP_EXTENT_SHARED` of `linux/fiemap.h`.
const SHARED: u32 = 0x2000;
/// Of a file whose storage is on XFS's realtime device: `FS_XFLAG_REALTIME` of `linux/fs.h`.
const REALTIME: u32 = 1;

/// `struct fiemap` of `linux/fiemap.h`.
#[derive(Default)]
#[repr(C)]
struct Question {
    start: u64,
    length: u64,
    flags: u32,
    /// How many were found.
    mapped: u32,
    /// For how many there is room.
    count: u32,
    reserved: u32,
}

/// `struct fiemap_extent` of the same.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    more_reserved: [u32; 3],
}

/// What the kernel answers the question with lies behind it.
#[repr(C)]
struct Answer {
    question: Question,
    extents: [Extent; AT_ONCE],
}

/// `struct fsxattr` of `linux/fs.h`.
#[repr(C)]
struct Attributes {
    flags: u32,
    others: [u32; 4],
    padding: [u8; 8],
}

/// `FS_IOC_FIEMAP`, whose number has the size of the question alone.
const FIEMAP: Opcode = opcode::read_write::<Question>(b'f', 11);
/// `FS_IOC_FSGETXATTR`.
const GET_ATTRIBUTES: Opcode = opcode::read::<Attributes>(b'X', 31);
const _: () = assert!(mem::size_of::<Question>() == 32 && mem::size_of::<Attributes>() == 28);
const _: () = assert!(mem::size_of::<Extent>() == 56 && mem::align_of::<Answer>() == 8);

/// Up to where in `range` of `file` no other file has a part in its storage. Beyond `least` that is not asked to the end
/// where it takes long.
pub(super) fn sole_until(file: &File, range: Range<u64>, least: u64) -> io::Result<u64> {
    let mut at = range.start;
    while at < range.end.min(least) {
        let (start, length) = (at, range.end - at);
        let question = Question { start, length, count: AT_ONCE as u32, ..Question::default() };
        let mut answer = Answer { question, extents: [Extent::default(); AT_ONCE] };
        // SAFETY: the kernel reads the question, and writes to it and to no more extents behind it than it says.
        unsafe { ioctl(file, Updater::<FIEMAP, _>::new(&mut answer)) }?;
        let found = answer.extents.get(..answer.question.mapped as usize).unwrap_or(&answer.extents);
        if let Some(shared) = found.iter().find(|extent| extent.flags & SHARED != 0) {
            return Ok(shared.logical.max(at));
        }
        at = match found.last() {
            // There may be more behind it.
            Some(last) if found.len() == AT_ONCE => last.logical.saturating_add(last.length).max(at + 1),
            _ => range.end,
        };
    }
    Ok(at.min(range.end))
}

/// Whether `file` has its storage on XFS's realtime device, which may be one whose blocks cannot be written again.
pub(super) fn is_realtime(file: &File) -> io::Result<bool> {
    // SAFETY: the kernel writes one such structure.
    let attributes: Attributes = unsafe { ioctl(file, Getter::<GET_ATTRIBUTES, _>::new()) }?;
    Ok(attributes.flags & REALTIME != 0)
}

/// Pieces from which on it is worth asking whether they may be stored: that costs two system calls.
pub(super) const WORTH_ASKING: u64 = 4;

/// Where no other file has a part, as was found while a write of many pieces was going on: such a write asks once for
/// pieces that are near each other.
#[derive(Default)]
pub(crate) struct Sole {
    /// Where that was asked.
    known: Cell<Range<u64>>,
    is_sole: Cell<bool>,
    met: Met,
}

impl Sole {
    /// Up to where from `at` on the same holds, and whether no other file has a part there; as `find` tells, which is
    /// asked where that is not known, and may find that it is not worth it.
    pub(super) fn run(
        &self,
        at: u64,
        find: impl FnOnce(&Met) -> Option<(Range<u64>, bool)>,
    ) -> Option<(u64, bool)> {
        let known = self.known.take();
        let (known, is_sole) =
            if known.contains(&at) { (known, self.is_sole.get()) } else { find(&self.met)? };
        let end = known.end;
        self.known.set(known);
        self.is_sole.set(is_sole);
        Some((end, is_sole))
    }
}

/// In which page the last pieces lay, of which nothing was known, and how many there were in a row.
#[derive(Default)]
pub(super) struct Met(Cell<(u64, u64)>);

impl Met {
    /// Whether `pieces` in that page, with those before them, are worth asking for: of a write whose pieces lie far from
    /// each other, each would be asked for alone.
    pub(super) fn is_worth_asking(&self, page: u64, pieces: u64) -> bool {
        let (last, before) = self.0.get();
        let met = if last == page { before.saturating_add(pieces) } else { pieces };
        self.0.set((page, met));
        met >= WORTH_ASKING
    }
}

#[cfg(test)]
mod tests {
    use super::{Met, WORTH_ASKING};

    #[test]
    fn pieces_far_from_each_other_are_not_asked_for_one_by_one() {
        let met = Met::default();
        let asked = |pieces: &[(u64, u64)]| {
            pieces.iter().filter(|(page, count)| met.is_worth_asking(*page, *count)).count()
        };
        assert_eq!(asked(&[(1, 1), (2, 1), (1, 1), (2, 1), (1, 1), (2, 1)]), 0);
        assert_eq!(asked(&[(3, 1), (3, 1), (3, 1), (3, 1)]), 1);
        assert_eq!(asked(&[(4, WORTH_ASKING)]), 1);
    }
}
