//! What a rank sees of a file, and which bytes of the file an access to it touches.

use std::ops::Range;

use crate::abi::{Abi, Datatype};
use crate::calls::Mpi;
use crate::flatten::Piece;
use crate::host::Host;
use crate::layout::{INDIVIDUAL, RomioFile};

/// What a rank sees of a file, as far as bounds need it; in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    displacement: i64,
    etype: i64,
    /// The data in one file type.
    data: i64,
    /// From one file type to the next.
    extent: i64,
    /// Where data begins in a file type, and where it ends.
    data_at: (i64, i64),
    /// Whether all bytes are data, from the displacement on.
    pub(crate) contiguous: bool,
    individual_pointer: i64,
}

impl View {
    pub(crate) fn of<A: Abi>(mpi: &Mpi<A>, host: &Host<A>, fd: &RomioFile<A>) -> View {
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
    pub(crate) fn bounds(&self, pointer: i32, offset: i64, bytes: u64) -> Range<u64> {
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

    /// Calls `each` with the first byte and the length of everything that an access touches, in the order of its data;
    /// `filetype` are the pieces of the file type. The access is as with [`View::bounds`]. Returns whether that is
    /// all: `false` where it is too much to go through one by one, or where the pointer is not within the data.
    pub(crate) fn each_run(
        &self,
        filetype: &[Piece],
        (pointer, offset, bytes): (i32, i64, u64),
        mut each: impl FnMut(u64, u64),
    ) -> bool {
        /// As many pieces in an access take some ten milliseconds.
        const MOST: i64 = 1 << 22;
        let Ok(mut left) = i64::try_from(bytes) else { return false };
        let tiles = left / self.data.max(1);
        if tiles.saturating_add(2).saturating_mul(filetype.len() as i64) > MOST {
            return false;
        }
        let Some((mut tile, mut skipped)) = self.start(filetype, pointer, offset) else { return false };
        while left > 0 && !filetype.is_empty() {
            let base = self.displacement.saturating_add(tile.saturating_mul(self.extent));
            for piece in filetype {
                let before = skipped.min(piece.length);
                skipped -= before;
                let length = (piece.length - before).min(left);
                let at = u64::try_from(base.saturating_add(piece.at + before));
                if let (Ok(at), true) = (at, length > 0) {
                    each(at, length.unsigned_abs());
                }
                left -= length;
            }
            tile += 1;
        }
        true
    }

    /// In which copy of the file type an access begins, and how many bytes of its data lie before that.
    fn start(&self, filetype: &[Piece], pointer: i32, offset: i64) -> Option<(i64, i64)> {
        if pointer != INDIVIDUAL {
            let at = offset.saturating_mul(self.etype);
            return Some((at.checked_div(self.data)?, at % self.data));
        }
        let first = filetype.first()?.at;
        let from_first = self.individual_pointer - self.displacement - first;
        let tile = from_first.max(0).checked_div(self.extent)?;
        let within = self.individual_pointer - self.displacement - tile * self.extent;
        let mut before = 0;
        for piece in filetype {
            if (piece.at..piece.at + piece.length).contains(&within) {
                return Some((tile, before + within - piece.at));
            }
            before += piece.length;
        }
        // Behind a piece's last byte rather than on the next one's first: wherever that is, no byte lies between.
        let ends = |piece: &Piece| piece.at + piece.length == within;
        let last = filetype.iter().position(ends)?;
        Some((tile, filetype[..=last].iter().map(|piece| piece.length).sum()))
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
        fn runs_are_the_bytes((view, bytes) in views(), offset in 0i64..50, length in 1i64..50) {
            let expected: Vec<i64> =
                (offset..offset + length).map(|number| position(&view, &bytes, number)).collect();
            let pieces: Vec<Piece> = (0..)
                .zip(&bytes)
                .filter(|(_, is_data)| **is_data)
                .map(|(at, _)| Piece { at, length: 1 })
                .collect();
            let told = |view: View, pieces: &[Piece], pointer, offset| {
                let mut told = Vec::new();
                let each = |at: u64, length: u64| told.extend(at as i64..(at + length) as i64);
                assert!(view.each_run(pieces, (pointer, offset, length as u64), each));
                told
            };
            prop_assert_eq!(&told(view, &pieces, EXPLICIT, offset), &expected);
            let view = View { individual_pointer: expected[0], ..view };
            prop_assert_eq!(&told(view, &pieces, INDIVIDUAL, 0), &expected);
            // The same where neighbours are joined, and the pointer is where the access before ended.
            let mut joined: Vec<Piece> = Vec::new();
            for piece in pieces {
                match joined.last_mut() {
                    Some(last) if last.at + last.length == piece.at => last.length += 1,
                    _ => joined.push(piece),
                }
            }
            prop_assert_eq!(&told(view, &joined, INDIVIDUAL, 0), &expected);
            if offset > 0 {
                let view = View { individual_pointer: position(&view, &bytes, offset - 1) + 1, ..view };
                prop_assert_eq!(&told(view, &joined, INDIVIDUAL, 0), &expected);
            }
        }
    }
}
