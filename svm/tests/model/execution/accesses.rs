//! What a rank does with a file's bytes, and what it observes of it.

use svmio_svm::{Blocks, File, FileOffset, Result};

use super::Observed;
use crate::program::{Extent, Pieces, pattern};

pub(super) fn write(file: &File, extent: &Extent, tag: u8) -> Result<Observed> {
    let data: Vec<u8> = (extent.start..extent.end()).map(|at| pattern(tag, at)).collect();
    file.write_at(FileOffset(extent.start), &data).map(|()| Observed::Done)
}

pub(super) fn read(file: &File, extent: &Extent) -> Result<Observed> {
    // What must not stay.
    let mut bytes = vec![0xee; extent.length as usize];
    let count = file.read_at(FileOffset(extent.start), &mut bytes)?;
    bytes.truncate(count);
    Ok(Observed::Bytes(bytes))
}

pub(super) fn write_pieces(file: &File, pieces: &Pieces, tag: u8) -> Result<Observed> {
    let data: Vec<u8> =
        pieces.each().flat_map(|piece| (piece.start..piece.end()).map(|at| pattern(tag, at))).collect();
    let mut access = file.write_strided(range(&pieces.range()), data.len() as u64)?;
    // SAFETY: the vector has the bytes of all blocks, one after the other.
    unsafe { access.put(&blocks(pieces), data.as_ptr(), pieces.first.length as isize) }?;
    access.finish().map(|()| Observed::Done)
}

pub(super) fn read_pieces(file: &File, pieces: &Pieces) -> Result<Observed> {
    let size = file.size();
    let lengths = pieces.each().map(|piece| piece.length.min(size.saturating_sub(piece.start)));
    let mut bytes = vec![0xee; lengths.sum::<u64>() as usize];
    if bytes.is_empty() {
        return Ok(Observed::Bytes(bytes));
    }
    let all = pieces.range();
    let bounds = FileOffset(all.start)..FileOffset(all.end().min(size));
    let mut access = file.read_strided(bounds, bytes.len() as u64)?;
    let (length, count) = (pieces.first.length, bytes.len() as u64 / pieces.first.length);
    let rest = bytes.len() as u64 % length;
    if count > 0 {
        let whole = Blocks { count, ..blocks(pieces) };
        // SAFETY: the vector has the bytes of so many blocks.
        unsafe { access.get(&whole, bytes.as_mut_ptr(), length as isize) }?;
    }
    if rest > 0 {
        let last = Blocks::one(all.start + pieces.stride * count, rest);
        // SAFETY: the vector has so many bytes more.
        unsafe { access.get(&last, bytes.as_mut_ptr().add((length * count) as usize), 0) }?;
    }
    access.finish()?;
    Ok(Observed::Bytes(bytes))
}

fn blocks(pieces: &Pieces) -> Blocks {
    Blocks {
        start: pieces.first.start,
        length: pieces.first.length,
        stride: pieces.stride,
        count: pieces.count,
    }
}

pub(super) fn increment(file: &File, at: u64) -> Result<Observed> {
    let mut word = [0; 8];
    let count = file.read_at(FileOffset(at), &mut word)?;
    let observed = Observed::Bytes(word[..count].to_vec());
    word[count..].fill(0);
    let more = u64::from_le_bytes(word).wrapping_add(1);
    file.write_at(FileOffset(at), &more.to_le_bytes()).map(|()| observed)
}

pub(super) fn range(extent: &Extent) -> std::ops::Range<FileOffset> {
    FileOffset(extent.start)..FileOffset(extent.end())
}
