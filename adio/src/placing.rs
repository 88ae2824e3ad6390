//! Collective writes to files of several nodes: all new segments get their homes before any byte moves, in one
//! exchange between the ranks, and only where there are new ones.

use std::ops::Range;

use svmio_svm::{FileOffset, NodeIndex, SegmentIndex};

use crate::abi::{Abi, Datatype};
use crate::agreement;
use crate::calls::Mpi;
use crate::failure::Failure;
use crate::handle::{self, Handle};
use crate::host::Host;
use crate::layout::{INDIVIDUAL, RomioFile};
use crate::placement::{self, Share};
use crate::strided::Access;

/// More new segments in one rank's bounds are not placed ahead; those that are written are placed one by one then.
const MOST_SEGMENTS: u64 = 1 << 18;

/// Places the new segments of a collective write, of which `access` is this rank's part.
///
/// # Errors
/// Those of the exchange and of the master, on all ranks; that this rank's node cannot note the homes.
///
/// # Safety
/// The parts of `access` are as ROMIO gave them, and every rank of the file makes the same call.
pub(crate) unsafe fn place_new<A: Abi>(
    mpi: &Mpi<A>,
    host: &Host<A>,
    fd: *mut RomioFile<A>,
    access: &Access<A>,
) -> Result<(), Failure> {
    // SAFETY: ROMIO's file is valid, and nobody changes it meanwhile.
    let fd = unsafe { &*fd };
    let handle = handle::of(fd)?;
    let Some(company) = handle.company() else {
        return Ok(());
    };
    let bytes = mpi.type_size(access.datatype).saturating_mul(access.count.unsigned_abs());
    let bounds = View::of(mpi, host, fd).bounds(access.position.pointer, access.position.offset, bytes);
    let mine = unplaced(handle, bounds.clone(), bytes);
    if mpi.maximum(fd.comm, i32::from(!mine.is_empty()))? == 0 {
        return Ok(());
    }
    let all = mpi.all_gather_equal(fd.comm, &to_bytes(&bounds, bytes, &mine))?;
    let placed = (handle.rank == 0).then(|| {
        let shares: Vec<Share> =
            all.iter().zip(company.nodes_of_ranks()).map(|(bytes, node)| from_bytes(*node, bytes)).collect();
        place(handle, &shares)
    });
    let homes = agreement::told(mpi, fd.comm, 0, placed.unwrap_or_else(|| Ok(Vec::new())))?;
    if handle.rank != 0 {
        handle.file.note_homes(&decoded(&homes))?;
    }
    Ok(())
}

/// Rank 0's part: enters homes at the master; returns those in force.
fn place(handle: &Handle, shares: &[Share]) -> Result<Vec<u8>, Failure> {
    let homes = placement::homes(&handle.rule, handle.file.segment_size(), shares);
    let placed = handle.file.place(&homes).map_err(|e| handle.located(e.into()))?;
    Ok(encoded(&placed))
}

/// Bounds of the segments within `range` that have no home as far as this node knows.
fn unplaced(handle: &Handle, range: Range<u64>, bytes: u64) -> Range<u32> {
    let segments = (range.end - range.start) / handle.file.segment_size().bytes();
    // Wide bounds of little data: most of the segments will not be written.
    if range.is_empty() || segments > bytes || segments > MOST_SEGMENTS {
        return 0..0;
    }
    let unplaced = handle.file.unplaced(FileOffset(range.start)..FileOffset(range.end));
    let numbers = || unplaced.iter().map(|segment| segment.0);
    match (numbers().min(), numbers().max()) {
        (Some(first), Some(last)) => first..last.saturating_add(1),
        _ => 0..0,
    }
}

/// Bytes of one home, encoded: segment and node.
const HOME: usize = 8;

fn encoded(homes: &[(SegmentIndex, NodeIndex)]) -> Vec<u8> {
    homes
        .iter()
        .flat_map(|(segment, node)| [segment.0.to_ne_bytes(), node.0.to_ne_bytes()].concat())
        .collect()
}

fn decoded(bytes: &[u8]) -> Vec<(SegmentIndex, NodeIndex)> {
    let four = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().expect("four bytes"));
    let home = |bytes: &[u8]| (SegmentIndex(four(&bytes[..4])), NodeIndex(four(&bytes[4..])));
    bytes.chunks_exact(HOME).map(home).collect()
}

fn to_bytes(range: &Range<u64>, bytes: u64, unplaced: &Range<u32>) -> Vec<u8> {
    let numbers = [range.start, range.end, bytes, unplaced.start.into(), unplaced.end.into()];
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn from_bytes(node: NodeIndex, bytes: &[u8]) -> Share {
    let number = |i: usize| u64::from_ne_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes"));
    let segment = |i: usize| u32::try_from(number(i)).unwrap_or(u32::MAX);
    Share { node, range: number(0)..number(1), bytes: number(2), unplaced: segment(3)..segment(4) }
}

/// What a rank sees of a file, as far as bounds need it; in bytes.
#[derive(Debug, Clone, Copy)]
struct View {
    displacement: i64,
    etype: i64,
    /// The data in one file type.
    data: i64,
    /// From one file type to the next.
    extent: i64,
    /// Where data begins in a file type, and where it ends.
    data_at: (i64, i64),
    contiguous: bool,
    individual_pointer: i64,
}

impl View {
    fn of<A: Abi>(mpi: &Mpi<A>, host: &Host<A>, fd: &RomioFile<A>) -> View {
        let filetype: Datatype<A> = fd.filetype;
        let (start, length) = mpi.true_extent(filetype);
        View {
            displacement: fd.byte_offset(0),
            etype: i64::try_from(fd.etype_size()).unwrap_or(i64::MAX),
            data: i64::try_from(mpi.type_size(filetype)).unwrap_or(i64::MAX),
            extent: mpi.extent(filetype),
            data_at: (start, start.saturating_add(length)),
            contiguous: host.is_contiguous_in_file(mpi, filetype),
            individual_pointer: fd.fp_ind,
        }
    }

    /// Bounds of `bytes` bytes of data, `offset` etypes from the view's beginning or at the individual file pointer.
    /// No byte lies outside of them; those of strided views may be wider than need be.
    fn bounds(&self, pointer: i32, offset: i64, bytes: u64) -> Range<u64> {
        let Ok(bytes) = i64::try_from(bytes) else { return 0..0 };
        if bytes == 0 || self.data <= 0 {
            return 0..0;
        }
        let at_offset = offset.saturating_mul(self.etype);
        let tile = |number: i64| self.displacement.saturating_add(number.saturating_mul(self.extent));
        let (start, end) = if self.contiguous {
            let start = match pointer {
                INDIVIDUAL => self.individual_pointer,
                _ => self.displacement.saturating_add(at_offset),
            };
            (start, start.saturating_add(bytes))
        } else if pointer == INDIVIDUAL {
            // How much of its tile's data lies behind the pointer is not known: at least one byte.
            let start = self.individual_pointer;
            let first = (start - self.displacement - self.data_at.0).max(0) / self.extent.max(1);
            let begun = if start > tile(first).saturating_add(self.data_at.0) { self.data - 1 } else { 0 };
            let last = first + begun.saturating_add(bytes - 1) / self.data;
            (start, tile(last).saturating_add(self.data_at.1))
        } else {
            let (first, last) = (at_offset / self.data, at_offset.saturating_add(bytes - 1) / self.data);
            (tile(first).saturating_add(self.data_at.0), tile(last).saturating_add(self.data_at.1))
        };
        let (start, end) = (u64::try_from(start).unwrap_or(0), u64::try_from(end).unwrap_or(0));
        if start < end { start..end } else { 0..0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXPLICIT: i32 = 100;

    /// A view whose file type has data at some of its bytes.
    fn views() -> impl Strategy<Value = (View, Vec<bool>)> {
        let types = (proptest::collection::vec(any::<bool>(), 1..12), 0i64..4, 0i64..40);
        types.prop_filter_map("no data", |(bytes, more, displacement)| {
            let first = bytes.iter().position(|is_data| *is_data)? as i64;
            let last = bytes.iter().rposition(|is_data| *is_data)? as i64;
            let data = bytes.iter().filter(|is_data| **is_data).count() as i64;
            let extent = bytes.len() as i64 + more;
            let view = View {
                displacement,
                etype: 1,
                data,
                extent,
                data_at: (first, last + 1),
                contiguous: data == extent,
                individual_pointer: 0,
            };
            Some((view, bytes))
        })
    }

    /// The position in the file of the view's `number`-th byte of data.
    fn position(view: &View, bytes: &[bool], number: i64) -> i64 {
        let positions = || (0..).zip(bytes).filter(|(_, is_data)| **is_data).map(|(at, _)| at);
        let within: i64 = positions().nth((number % view.data) as usize).expect("as many bytes of data");
        view.displacement + number / view.data * view.extent + within
    }

    proptest! {
        #[test]
        fn bounds_hold_all_bytes((view, bytes) in views(), offset in 0i64..50, length in 1i64..50) {
            let (first, last) = (position(&view, &bytes, offset), position(&view, &bytes, offset + length - 1));
            let bounds = view.bounds(EXPLICIT, offset, length as u64);
            prop_assert!(bounds.start as i64 <= first && last < bounds.end as i64, "{bounds:?} {first} {last}");
            prop_assert!(last + view.extent >= bounds.end as i64 && bounds.start as i64 + view.extent >= first);
            let view = View { individual_pointer: first, ..view };
            let bounds = view.bounds(INDIVIDUAL, 0, length as u64);
            prop_assert!(bounds.start as i64 == first && last < bounds.end as i64, "{bounds:?} {first} {last}");
        }

        #[test]
        fn homes_survive_the_wire(homes in proptest::collection::vec((any::<u32>(), any::<u32>()), 0..20)) {
            let homes: Vec<_> = homes.iter().map(|(s, n)| (SegmentIndex(*s), NodeIndex(*n))).collect();
            prop_assert_eq!(decoded(&encoded(&homes)), homes);
        }
    }
}
