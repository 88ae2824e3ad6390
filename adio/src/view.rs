//! What a rank sees of a file: which bytes of the file its data are.

use std::ops::Range;
use std::sync::Arc;

use crate::abi::Abi;
use crate::calls::Mpi;
use crate::failure::{ErrorClass, Failure};
use crate::flatten::{self, Cursor, Runs, Shape};
use crate::handle;
use crate::layout::{INDIVIDUAL, RomioFile};

/// A view: the file type, repeated from the displacement on.
#[derive(Debug)]
pub(crate) struct View {
    /// All of it, as far as offsets go.
    shape: Shape,
    /// One file type, and what there is from one to the next.
    filetype: Arc<Shape>,
    extent: i64,
    /// Bytes.
    displacement: i64,
    /// Bytes of an etype.
    etype: i64,
    /// Bytes.
    individual_pointer: i64,
    /// Which byte of the data that is, if it is known.
    position: Option<i64>,
}

/// A part of a view: so many bytes of its data, from a position on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) position: i64,
    pub(crate) bytes: i64,
}

impl View {
    pub(crate) fn of<A: Abi>(mpi: &Mpi<A>, fd: &RomioFile<A>) -> Result<View, Failure> {
        let (filetype, extent) = (flatten::of(mpi, fd.filetype)?, mpi.extent(fd.filetype));
        let displacement = fd.byte_offset(0);
        let shape = repeated(&filetype, extent, displacement).ok_or_else(|| {
            let name = fd.name().to_string_lossy();
            let message = format!("svm:{name}: a view whose displacement and extent are out of range");
            Failure::new(ErrorClass::Argument, message)
        })?;
        let etype = i64::try_from(fd.etype_size()).unwrap_or(i64::MAX);
        let position = handle::of(fd)?.position_of(fd.fp_ind);
        Ok(View { shape, filetype, extent, displacement, etype, individual_pointer: fd.fp_ind, position })
    }

    /// All bytes of the file, one by one; none where the file type has no data.
    pub(crate) fn of_bytes<A: Abi>(mpi: &Mpi<A>, fd: &RomioFile<A>) -> View {
        let bytes = if fd.shows_nothing(mpi) { 0 } else { i64::MAX };
        let (shape, filetype) = (Shape::run(bytes), Arc::new(Shape::run(1)));
        let individual_pointer = fd.fp_ind;
        View { shape, filetype, extent: 1, displacement: 0, etype: 1, individual_pointer, position: None }
    }

    /// Where its data is in the file.
    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Whether all bytes from the displacement on are data.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.shape.is_run() && self.shape.bytes() > 0 && self.shape.bounds().0 == self.displacement
    }

    /// The part that an access of `bytes` bytes touches: at the individual file pointer, or `offset` etypes from the
    /// beginning. `None` where it leaves the view.
    pub(crate) fn extent(&self, pointer: i32, offset: i64, bytes: u64) -> Option<Extent> {
        let position = match pointer {
            INDIVIDUAL => self.position_of_pointer(),
            _ => offset.checked_mul(self.etype)?,
        };
        let bytes = i64::try_from(bytes).ok()?;
        let is_within = position >= 0 && position.checked_add(bytes)? <= self.shape.bytes();
        is_within.then_some(Extent { position, bytes })
    }

    /// Bytes of the file between which all lie that `extent` touches; `None` for those before the file.
    pub(crate) fn bounds(&self, extent: Extent) -> Option<Range<u64>> {
        if extent.bytes == 0 {
            return Some(0..0);
        }
        let (first, last) = (extent.position, extent.position + extent.bytes - 1);
        let (low, high) = if self.is_ascending() {
            (self.shape.address(first), self.shape.address(last) + 1)
        } else {
            let (low, high) = self.filetype.bounds();
            (self.tile(first / self.filetype.bytes()) + low, self.tile(last / self.filetype.bytes()) + high)
        };
        Some(u64::try_from(low).ok()?..u64::try_from(high).ok()?)
    }

    /// As much of `extent` as comes before the first byte beyond the end of a file of `size` bytes.
    pub(crate) fn clipped(&self, extent: Extent, size: u64) -> Extent {
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        let end = extent.position + extent.bytes;
        if extent.bytes == 0 || self.bounds(extent).is_some_and(|bounds| bounds.end <= size.unsigned_abs()) {
            return extent;
        }
        let position = if self.is_ascending() {
            self.shape.position_within(extent.position..end, size)
        } else {
            self.first_beyond(extent, size)
        };
        Extent { bytes: position - extent.position, ..extent }
    }

    /// The position of the first byte of `extent` at or behind `size`; where it ends if there is none.
    fn first_beyond(&self, extent: Extent, size: i64) -> i64 {
        let (mut position, end) = (extent.position, extent.position + extent.bytes);
        let mut cursor = Cursor::at(&self.shape, position);
        while position < end {
            let Runs { at, length, stride, count } = cursor.ahead();
            let room = size - at;
            let whole = match stride {
                _ if room < length => 0,
                ..=0 => count,
                stride => ((room - length) / stride + 1).min(count),
            };
            position += whole * length;
            if whole < count {
                let into_next = (size - (at + whole * stride)).clamp(0, length);
                return (position + into_next).min(end);
            }
            cursor.advance(count * length);
        }
        end
    }

    /// Whether addresses never fall from one byte to the next. By MPI's rules they do not within a file type, but not
    /// every ROMIO looks.
    fn is_ascending(&self) -> bool {
        let (low, high) = self.filetype.bounds();
        self.filetype.is_ascending() && high.saturating_sub(low) <= self.extent
    }

    fn tile(&self, number: i64) -> i64 {
        self.displacement.saturating_add(number.saturating_mul(self.extent))
    }

    /// Where the individual file pointer is behind `position` bytes of data: at the byte that follows.
    pub(crate) fn pointer_at(&self, position: i64) -> i64 {
        if position < self.shape.bytes() { self.shape.address(position) } else { self.shape.bounds().1 }
    }

    /// Where `offset` etypes from the beginning is in the file, bytes, and which byte of the data that is; `None`
    /// outside of the view.
    pub(crate) fn place(&self, offset: i64) -> Option<(i64, i64)> {
        let position = offset.checked_mul(self.etype)?;
        (0..=self.shape.bytes()).contains(&position).then(|| (self.pointer_at(position), position))
    }

    /// How many etypes are before the individual file pointer.
    pub(crate) fn etypes_before_pointer(&self) -> i64 {
        self.position_of_pointer() / self.etype.max(1)
    }

    /// How many etypes begin before the end of a file of `size` bytes, those between included.
    pub(crate) fn etypes_before(&self, size: u64) -> i64 {
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        let (low, _) = self.filetype.bounds();
        let bytes = self.filetype.bytes();
        let position = if self.is_ascending() || self.extent <= 0 || self.shape.is_run() {
            self.shape.position(size)
        } else {
            // The last tile that begins before has more before it than any other one has.
            let last = (size - self.displacement - low - 1).div_euclid(self.extent);
            if last < 0 { 0 } else { last * bytes + self.filetype.position(size - self.tile(last)) }
        };
        let etype = self.etype.max(1);
        position / etype + i64::from(position % etype != 0)
    }

    fn position_of_pointer(&self) -> i64 {
        let pointer = self.individual_pointer;
        if let Some(position) = self.position {
            return position;
        }
        if self.shape.is_run() {
            return pointer - self.shape.bounds().0;
        }
        if self.extent <= 0 {
            return self.shape.position(pointer);
        }
        // All tiles before the first end before the pointer, all behind the last begin behind it.
        let (low, high) = self.filetype.bounds();
        let from_start = pointer - self.displacement;
        let (first, last) =
            ((from_start - high).div_euclid(self.extent), (from_start - low).div_euclid(self.extent));
        if self.is_ascending() {
            // Behind a piece's last byte rather than on the next one's first: wherever that is, no byte lies between.
            let position =
                |tile: i64| tile.max(0).saturating_mul(self.filetype.bytes()).min(self.shape.bytes());
            return self.shape.position_within(position(first)..position(last + 1), pointer);
        }
        let in_tile = |tile: i64| {
            let address = pointer - self.tile(tile);
            let position = self.filetype.position(address);
            let is_there = position < self.filetype.bytes() && self.filetype.address(position) == address;
            is_there.then(|| tile * self.filetype.bytes() + position)
        };
        (first.max(0)..=last).find_map(in_tile).unwrap_or_else(|| last.max(0) * self.filetype.bytes())
    }
}

/// A file type, repeated every `extent` bytes from `displacement` on as often as offsets of files allow.
fn repeated(filetype: &Shape, extent: i64, displacement: i64) -> Option<Shape> {
    let reach = extent.max(filetype.bytes()).max(filetype.bounds().1).max(1);
    let times = (i64::MAX - displacement.max(0)) / reach;
    // The last one's end, and what is one further on, are still numbers.
    filetype.clone().repeated((times - 2).max(1), extent)?.moved(displacement)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXPLICIT: i32 = 100;

    /// A view whose file type has data at some of its bytes, and those. Tiles may begin before the ones before them
    /// end.
    fn views() -> impl Strategy<Value = (View, Vec<i64>)> {
        let types = (proptest::collection::vec(any::<bool>(), 1..12), 0usize..16, 0i64..40);
        types.prop_filter_map("no data, or the same twice", |(bytes, extent, displacement)| {
            let is_data = (0i64..).zip(&bytes).filter(|(_, is_data)| **is_data);
            let data: Vec<i64> = is_data.map(|(at, _)| at).collect();
            let pieces = data.iter().map(|at| Shape::run(1).moved(*at).expect("it is small"));
            let filetype = pieces.fold(Shape::run(0), |all, piece| all.followed_by(piece));
            let extent = extent.max(1) as i64;
            let shape = repeated(&filetype, extent, displacement)?;
            let tiles = (0..200i64).map(|tile| displacement + tile * extent);
            let addresses = tiles.flat_map(|base| data.iter().map(move |at| base + at)).collect::<Vec<_>>();
            let different: std::collections::BTreeSet<i64> = addresses.iter().copied().collect();
            let is_good = !data.is_empty() && different.len() == addresses.len();
            let filetype = Arc::new(filetype);
            is_good.then_some((
                View {
                    shape,
                    filetype,
                    extent,
                    displacement,
                    etype: 1,
                    individual_pointer: 0,
                    position: None,
                },
                addresses,
            ))
        })
    }

    proptest! {
        #[test]
        fn an_extent_is_where_its_bytes_are((view, addresses) in views(), offset in 0i64..50, bytes in 1i64..50, size in 0u64..200) {
            let first = offset as usize;
            let touched = &addresses[first..first + bytes as usize];
            let expected = Extent { position: offset, bytes };
            prop_assert_eq!(view.extent(EXPLICIT, offset, bytes as u64), Some(expected));
            let bounds = view.bounds(expected).expect("it lies within the file");
            prop_assert!(touched.iter().all(|at| bounds.contains(&(*at as u64))));
            if touched.is_sorted() && view.is_ascending() {
                prop_assert_eq!(bounds, touched[0] as u64..touched[touched.len() - 1] as u64 + 1);
            }
            let before = touched.iter().take_while(|at| **at < size as i64).count();
            prop_assert_eq!(view.clipped(expected, size).bytes, before as i64);
            prop_assert_eq!(view.pointer_at(offset), touched[0]);
            let last = addresses.iter().rposition(|at| *at < size as i64);
            prop_assert_eq!(view.etypes_before(size), last.map_or(0, |last| last as i64 + 1));
            // The same at the pointer, also where that is behind the byte before.
            let behind = first.checked_sub(1).map_or(touched[0], |before| addresses[before] + 1);
            let behind = if view.is_ascending() { behind } else { touched[0] };
            for individual_pointer in [touched[0], behind] {
                let (shape, filetype) = (view.shape.clone(), Arc::clone(&view.filetype));
                let view = View { shape, filetype, individual_pointer, ..view };
                prop_assert_eq!(view.extent(INDIVIDUAL, 0, bytes as u64), Some(expected));
            }
        }
    }

    #[test]
    fn views_reach_as_far_as_offsets() {
        for displacement in [0, 1 << 40, i64::MAX / 2] {
            let whole = repeated(&Shape::run(8), 8, displacement).unwrap();
            assert!(whole.is_run() && whole.bounds().1 > i64::MAX - 64);
            let gaps = repeated(&Shape::run(8), 64, displacement).unwrap();
            assert_eq!(gaps.address(8 * 1000 + 3), displacement + 64 * 1000 + 3);
        }
        assert_eq!(repeated(&Shape::run(0), 0, 5).map(|shape| shape.bytes()), Some(0));
    }
}
