//! Buffers of a program, as rows of bytes: as they are where the datatype has its data in a row, else packed by MPI.

use std::ffi::{c_int, c_void};
use std::ops::{Deref, Range};

use svmio_adio::abi::{Abi, Datatype};

use crate::error::Result;
use crate::family::Family;
use crate::operator::Kind;
use crate::stock::{Elements, Stock};

/// Where the data of a datatype lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout<A: Abi> {
    elements: Elements<A>,
    /// Whether all bytes of several elements lie one behind the other, in order.
    is_row: bool,
}

impl<A: Family> Layout<A> {
    /// That of `datatype`; `None` where it is none.
    #[inline]
    pub(crate) fn of(stock: &Stock<A>, datatype: Datatype<A>) -> Option<Self> {
        let kind = stock.kind(datatype);
        if let Some(width) = kind.and_then(Kind::width) {
            return Some(Self {
                elements: Elements { datatype, size: width, extent: width as isize },
                is_row: true,
            });
        }
        if kind == Some(Kind::Null) {
            return None;
        }
        let (size, extent) = (stock.mpi.type_size(datatype) as usize, stock.mpi.extent(datatype) as isize);
        let may_be_row = size as isize == extent && A::is_described(datatype);
        let is_row = size == 0 || (may_be_row && svmio_adio::is_one_run(stock.mpi, datatype));
        Some(Self { elements: Elements { datatype, size, extent }, is_row })
    }

    fn at(&self, start: *mut c_void, element: isize) -> *mut c_void {
        start.wrapping_byte_offset(element * self.elements.extent)
    }
}

/// Bytes to be sent.
#[derive(Debug)]
pub(crate) enum Data<'b> {
    /// Where the program has them.
    Here(&'b [u8]),
    /// Copied.
    Packed(Vec<u8>),
}

impl Data<'_> {
    /// The same, of its own.
    pub(crate) fn into_own(self) -> Vec<u8> {
        match self {
            Self::Here(bytes) => bytes.to_vec(),
            Self::Packed(bytes) => bytes,
        }
    }
}

impl Deref for Data<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Here(bytes) => bytes,
            Self::Packed(bytes) => bytes,
        }
    }
}

/// A buffer: an address, a number of elements, their datatype.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffer<A: Abi> {
    at: *mut c_void,
    count: usize,
    layout: Layout<A>,
}

impl<A: Family> Buffer<A> {
    /// That of a call; `None` where an argument is wrong.
    ///
    /// # Safety
    /// As long as the buffer is used, it is one as MPI wants it.
    #[inline]
    pub(crate) unsafe fn of(
        stock: &Stock<A>,
        at: *const c_void,
        count: c_int,
        datatype: Datatype<A>,
    ) -> Option<Self> {
        let (count, layout) = (usize::try_from(count).ok()?, Layout::of(stock, datatype)?);
        let buffer = Self { at: at.cast_mut(), count, layout };
        let is_missing = A::is_in_place(at) || (layout.is_row && at.is_null());
        (buffer.len() == 0 || !is_missing).then_some(buffer)
    }

    /// Bytes of data.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count * self.layout.elements.size
    }

    /// So many of these, one behind the other.
    pub(crate) fn times(mut self, number: usize) -> Self {
        self.count *= number;
        self
    }

    /// The one of that number behind this one.
    pub(crate) fn next(mut self, number: usize) -> Self {
        self.at = self.layout.at(self.at, (number * self.count) as isize);
        self
    }

    /// The bytes, where they lie in a row.
    #[inline]
    pub(crate) fn row(&mut self) -> Option<&mut [u8]> {
        if self.len() == 0 {
            return Some(&mut []);
        }
        // SAFETY: the buffer has so many bytes in a row, which are the call's, as `of` was promised. Where the program
        // only lends them for reading, no group writes there.
        self.layout.is_row.then(|| unsafe { std::slice::from_raw_parts_mut(self.at.cast(), self.len()) })
    }

    /// The data, to be sent.
    #[inline]
    pub(crate) fn read(&self, stock: &Stock<A>) -> Result<Data<'_>> {
        if self.len() == 0 {
            return Ok(Data::Here(&[]));
        }
        if self.layout.is_row {
            // SAFETY: as in `row`.
            return Ok(Data::Here(unsafe { std::slice::from_raw_parts(self.at.cast(), self.len()) }));
        }
        let mut packed = vec![0; self.len()];
        // SAFETY: the buffer has so many elements, as `of` was promised.
        unsafe { stock.pack(self.at, &self.layout.elements, &mut packed) }?;
        Ok(Data::Packed(packed))
    }

    /// Has `body` fill the buffer. What is there before, it does not see.
    #[inline]
    pub(crate) fn write(
        mut self,
        stock: &Stock<A>,
        body: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        if let Some(bytes) = self.row() {
            return body(bytes);
        }
        let mut packed = vec![0; self.len()];
        body(&mut packed)?;
        self.unpack(stock, &mut packed)
    }

    /// Fills the buffer.
    pub(crate) fn unpack(&self, stock: &Stock<A>, packed: &mut [u8]) -> Result<()> {
        if packed.is_empty() {
            return Ok(());
        }
        // SAFETY: as in `read`.
        unsafe { stock.unpack(packed, &self.layout.elements, self.at) }
    }
}

/// A buffer of blocks, one for each member.
#[derive(Debug)]
pub(crate) struct Blocks<A: Abi> {
    blocks: Vec<Buffer<A>>,
    /// Whether all are of one datatype.
    is_uniform: bool,
}

impl<A: Family> Blocks<A> {
    /// Those of a call, of `size` blocks of one datatype, each `places[i]` extents from `at` on; `None` where an
    /// argument is wrong.
    ///
    /// # Safety
    /// As long as the blocks are used, they are as MPI wants them.
    pub(crate) unsafe fn of(
        stock: &Stock<A>,
        at: *const c_void,
        counts: *const c_int,
        places: *const c_int,
        datatype: Datatype<A>,
        size: usize,
    ) -> Option<Self> {
        // SAFETY: the caller vouches for the arrays.
        let (counts, places) = unsafe { (array(counts, size)?, array(places, size)?) };
        let layout = Layout::of(stock, datatype)?;
        let block = |(&count, &place): (&c_int, &c_int)| {
            let count = usize::try_from(count).ok()?;
            Some(Buffer { at: layout.at(at.cast_mut(), place as isize), count, layout })
        };
        let blocks: Vec<_> = counts.iter().zip(places).map(block).collect::<Option<_>>()?;
        let blocks = Self { blocks, is_uniform: true };
        (!(at.is_null() || A::is_in_place(at)) || !layout.is_row || blocks.are_empty()).then_some(blocks)
    }

    /// The same of many datatypes, each `places[i]` bytes from `at` on.
    ///
    /// # Safety
    /// As for [`of`](Self::of).
    pub(crate) unsafe fn of_many(
        stock: &Stock<A>,
        at: *const c_void,
        counts: *const c_int,
        places: *const c_int,
        datatypes: *const Datatype<A>,
        size: usize,
    ) -> Option<Self> {
        // SAFETY: the caller vouches for the arrays.
        let (counts, places, datatypes) =
            unsafe { (array(counts, size)?, array(places, size)?, array(datatypes, size)?) };
        let block = |((&count, &place), &datatype): ((&c_int, &c_int), &Datatype<A>)| {
            let count = usize::try_from(count).ok()?;
            // Where nothing is sent, the datatype does not matter.
            let layout = if count == 0 {
                Layout { elements: Elements { datatype, size: 0, extent: 0 }, is_row: true }
            } else {
                Layout::of(stock, datatype)?
            };
            Some(Buffer { at: at.cast_mut().wrapping_byte_offset(place as isize), count, layout })
        };
        let blocks: Vec<_> = counts.iter().zip(places).zip(datatypes).map(block).collect::<Option<_>>()?;
        let blocks = Self { blocks, is_uniform: false };
        (!A::is_in_place(at) || blocks.are_empty()).then_some(blocks)
    }

    /// The block for a member.
    pub(crate) fn block(&self, member: usize) -> Buffer<A> {
        self.blocks[member]
    }

    /// The data, to be sent, and where in it that for each member is.
    pub(crate) fn read(&self, stock: &Stock<A>) -> Result<(Data<'_>, Vec<Range<usize>>)> {
        if let Some((start, ranges)) = self.row() {
            let length = ranges.iter().map(|range| range.end).max().unwrap_or(0);
            // SAFETY: all blocks are between these bytes, which are the program's; only blocks are read.
            return Ok((Data::Here(unsafe { slice(start, length) }), ranges));
        }
        let (length, ranges) = self.one_behind_the_other();
        let mut packed = vec![0; length];
        for (block, range) in self.blocks.iter().zip(&ranges) {
            if !range.is_empty() {
                // SAFETY: the block has so many elements, as `of` was promised.
                unsafe { stock.pack(block.at, &block.layout.elements, &mut packed[range.clone()]) }?;
            }
        }
        Ok((Data::Packed(packed), ranges))
    }

    /// Has `body` fill the blocks, told where each is. What is there before, it sees only of the block `kept`.
    pub(crate) fn write(
        &self,
        stock: &Stock<A>,
        kept: Option<usize>,
        body: impl FnOnce(&mut [u8], &[Range<usize>]) -> Result<()>,
    ) -> Result<()> {
        if let Some((start, ranges)) = self.row() {
            let length = ranges.iter().map(|range| range.end).max().unwrap_or(0);
            // SAFETY: as in `read`; only blocks are written.
            return body(unsafe { slice_mut(start, length) }, &ranges);
        }
        let (length, ranges) = self.one_behind_the_other();
        let mut packed = vec![0; length];
        if let Some(kept) = kept {
            packed[ranges[kept].clone()].copy_from_slice(&self.blocks[kept].read(stock)?);
        }
        body(&mut packed, &ranges)?;
        for (block, range) in self.blocks.iter().zip(ranges) {
            block.unpack(stock, &mut packed[range])?;
        }
        Ok(())
    }

    fn are_empty(&self) -> bool {
        self.blocks.iter().all(|block| block.len() == 0)
    }

    /// Where the first byte is, and the blocks counted from there, where each lies in a row.
    fn row(&self) -> Option<(*mut u8, Vec<Range<usize>>)> {
        let full = || self.blocks.iter().filter(|block| block.len() > 0);
        if !self.is_uniform || !full().all(|block| block.layout.is_row) {
            return None;
        }
        let Some(start) = full().map(|block| block.at as usize).min() else {
            return Some((std::ptr::null_mut(), vec![0..0; self.blocks.len()]));
        };
        let range = |block: &Buffer<A>| match block.len() {
            0 => 0..0,
            length => block.at as usize - start..block.at as usize - start + length,
        };
        let first = full().map(|block| block.at).min()?;
        Some((first.cast(), self.blocks.iter().map(range).collect()))
    }

    fn one_behind_the_other(&self) -> (usize, Vec<Range<usize>>) {
        let mut end = 0;
        let range = |block: &Buffer<A>| {
            end += block.len();
            end - block.len()..end
        };
        let ranges = self.blocks.iter().map(range).collect();
        (end, ranges)
    }
}

/// # Safety
/// `at` is null or has `length` values, which nobody changes.
unsafe fn array<'a, T>(at: *const T, length: usize) -> Option<&'a [T]> {
    // SAFETY: the caller vouches for the values.
    (!at.is_null()).then(|| unsafe { std::slice::from_raw_parts(at, length) })
}

/// # Safety
/// There are `length` bytes from `start` on.
unsafe fn slice<'a>(start: *mut u8, length: usize) -> &'a [u8] {
    // SAFETY: the caller vouches for the bytes.
    if length == 0 { &[] } else { unsafe { std::slice::from_raw_parts(start, length) } }
}

/// # Safety
/// There are `length` bytes from `start` on, which are the caller's.
unsafe fn slice_mut<'a>(start: *mut u8, length: usize) -> &'a mut [u8] {
    // SAFETY: the caller vouches for the bytes.
    if length == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(start, length) } }
}
