//! Buffers of a program, as rows of bytes: as they are where the datatype has its data in a row, else packed by MPI.

use std::ffi::{c_int, c_void};
use std::ops::Deref;

use svmio_adio::abi::{Abi, Datatype};
use svmio_collectives::executor::LentMemory;

use crate::error::Result;
use crate::family::Family;
use crate::operator::Kind;
use crate::stock::{Described, Elements, Stock};

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
        (buffer.len() == 0 || !(A::is_in_place(at) || buffer.is_none(stock))).then_some(buffer)
    }

    /// Whether there is no buffer, as MPI takes it: elements that begin elsewhere than where they are put may have
    /// their place from the beginning of memory on.
    #[inline]
    fn is_none(&self, stock: &Stock<A>) -> bool {
        let Layout { elements, is_row } = &self.layout;
        self.at.is_null() && (*is_row || stock.mpi.true_extent(elements.datatype).0 == 0)
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

    /// The bytes, where they lie in a row, to be read.
    ///
    /// # Safety
    /// Nobody writes them for as long as the answer is used: MPI has programs leave what is sent alone.
    #[inline]
    unsafe fn row<'b>(&self) -> Option<&'b [u8]> {
        if self.len() == 0 {
            return Some(&[]);
        }
        // SAFETY: the buffer has so many bytes in a row, as `of` was promised; the caller vouches for the rest.
        self.layout.is_row.then(|| unsafe { std::slice::from_raw_parts(self.at.cast(), self.len()) })
    }

    /// The same, to be written.
    ///
    /// # Safety
    /// It is what a call receives in, and nothing else refers to it for as long as the answer is used.
    #[inline]
    unsafe fn row_mut<'b>(&self) -> Option<&'b mut [u8]> {
        if self.len() == 0 {
            return Some(&mut []);
        }
        // SAFETY: as above. What is received in, is the call's alone.
        self.layout.is_row.then(|| unsafe { std::slice::from_raw_parts_mut(self.at.cast(), self.len()) })
    }

    /// The data, to be sent in the background.
    pub(crate) fn lend(&self, stock: &Stock<A>) -> Result<Bytes> {
        // SAFETY: MPI has programs leave what is sent alone until the request is complete, and after an error, too.
        if let Some(bytes) = unsafe { self.row() } {
            // SAFETY: as above.
            return Ok(Bytes::Lent(unsafe { LentMemory::new(bytes.as_ptr().cast_mut(), bytes.len()) }));
        }
        Ok(Bytes::Own(self.read(stock)?.into_own()))
    }

    /// Memory for what is received in the background, and what [fills](Room::fill) the buffer with it.
    pub(crate) fn room(self, stock: &'static Stock<A>) -> Result<(Bytes, Room<A>)> {
        // SAFETY: what a call receives in is the call's alone until its request is complete.
        if let Some(bytes) = unsafe { self.row_mut() } {
            // SAFETY: as above.
            return Ok((
                Bytes::Lent(unsafe { LentMemory::new(bytes.as_mut_ptr(), bytes.len()) }),
                Room::Here,
            ));
        }
        let datatype = stock.duplicate(self.layout.elements.datatype)?;
        Ok((Bytes::Own(vec![0; self.len()]), Room::There { stock, buffer: self, datatype }))
    }

    /// The data, to be sent.
    #[inline]
    pub(crate) fn read(&self, stock: &Stock<A>) -> Result<Data<'_>> {
        // SAFETY: what is sent in place is copied before it is written, see `Data::into_own`; all else nobody writes.
        if let Some(bytes) = unsafe { self.row() } {
            return Ok(Data::Here(bytes));
        }
        let mut packed = vec![0; self.len()];
        // SAFETY: the buffer has so many elements, as `of` was promised.
        unsafe { stock.pack(self.at, &self.layout.elements, &mut packed) }?;
        Ok(Data::Packed(packed))
    }

    /// Has `body` fill the buffer, which is one that a call receives in. What is there before, it does not see.
    #[inline]
    pub(crate) fn write(self, stock: &Stock<A>, body: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        // SAFETY: what a call sends lies elsewhere, or was copied.
        if let Some(bytes) = unsafe { self.row_mut() } {
            return body(bytes);
        }
        let mut packed = vec![0; self.len()];
        let ended = body(&mut packed);
        self.unpack(stock, &mut kept_after_errors(packed, ended)?)
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

/// Memory of an operation in the background.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// Where the program has it.
    Lent(LentMemory),
    Own(Vec<u8>),
}

impl Bytes {
    pub(crate) const NONE: Bytes = Bytes::Own(Vec::new());
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Lent(memory) => memory.as_ref(),
            Self::Own(bytes) => bytes,
        }
    }
}

impl AsMut<[u8]> for Bytes {
    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Lent(memory) => memory.as_mut(),
            Self::Own(bytes) => bytes,
        }
    }
}

/// Where what was received in the background is to be.
pub(crate) enum Room<A: Family> {
    /// It is there.
    Here,
    /// In a buffer with gaps.
    There { stock: &'static Stock<A>, buffer: Buffer<A>, datatype: Described<'static, A> },
}

// SAFETY: the buffer is the call's alone; all else are handles, and of MPI's threads those do not care that hold them.
unsafe impl<A: Family> Send for Room<A> {}

impl<A: Family> Room<A> {
    /// Puts it there.
    pub(crate) fn fill(self, bytes: Bytes) -> Result<()> {
        match (self, bytes) {
            (Self::There { stock, mut buffer, datatype }, Bytes::Own(mut packed)) => {
                buffer.layout.elements.datatype = datatype.handle;
                buffer.unpack(stock, &mut packed)
            }
            _ => Ok(()),
        }
    }
}

/// A buffer of blocks, one for each member. What is between them is none of the call's business.
#[derive(Debug)]
pub(crate) struct Blocks<A: Abi> {
    blocks: Vec<Buffer<A>>,
}

/// Where a block is filled.
enum Space<'b> {
    /// Where the program wants it.
    Here(&'b mut [u8]),
    /// Here first.
    Packed(Vec<u8>),
}

impl Space<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Here(bytes) => bytes,
            Self::Packed(packed) => packed,
        }
    }
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
        let blocks = Self { blocks };
        let whole = Buffer { at: at.cast_mut(), count: 1, layout };
        (!(A::is_in_place(at) || whole.is_none(stock)) || blocks.are_empty()).then_some(blocks)
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
        let blocks = Self { blocks };
        let is_missing = |block: &Buffer<A>| block.len() > 0 && block.is_none(stock);
        let are_missing = A::is_in_place(at) || blocks.blocks.iter().any(is_missing);
        (!are_missing || blocks.are_empty()).then_some(blocks)
    }

    /// The block for a member.
    pub(crate) fn block(&self, member: usize) -> Buffer<A> {
        self.blocks[member]
    }

    /// The data, to be sent, block by block.
    pub(crate) fn read(&self, stock: &Stock<A>) -> Result<Vec<Data<'_>>> {
        self.blocks.iter().map(|block| block.read(stock)).collect()
    }

    /// Bytes of data of the longest block.
    pub(crate) fn longest(&self) -> usize {
        self.blocks.iter().map(Buffer::len).max().unwrap_or(0)
    }

    /// The data, to be sent in the background, block by block.
    pub(crate) fn lend(&self, stock: &Stock<A>) -> Result<Vec<Bytes>> {
        self.blocks.iter().map(|block| block.lend(stock)).collect()
    }

    /// Memory for what is received in the background, block by block.
    pub(crate) fn rooms(&self, stock: &'static Stock<A>) -> Result<(Vec<Bytes>, Vec<Room<A>>)> {
        self.blocks.iter().map(|block| block.room(stock)).collect()
    }

    /// Has `body` fill the blocks, which are those that a call receives in. What is there before, it sees only of the
    /// block `kept`.
    pub(crate) fn write(
        &self,
        stock: &Stock<A>,
        kept: Option<usize>,
        body: impl FnOnce(&mut [&mut [u8]]) -> Result<()>,
    ) -> Result<()> {
        let space = |(member, block): (usize, &Buffer<A>)| {
            // SAFETY: what a call receives in is the call's alone, and by MPI's rules no two blocks share a byte; what
            // the call sends lies elsewhere, or was copied.
            if let Some(bytes) = unsafe { block.row_mut() } {
                return Ok(Space::Here(bytes));
            }
            let is_kept = kept == Some(member);
            Ok(Space::Packed(if is_kept { block.read(stock)?.into_own() } else { vec![0; block.len()] }))
        };
        let mut spaces: Vec<_> = self.blocks.iter().enumerate().map(space).collect::<Result<_>>()?;
        let ended = body(&mut spaces.iter_mut().map(Space::bytes).collect::<Vec<_>>());
        for (block, space) in self.blocks.iter().zip(kept_after_errors(spaces, ended)?) {
            if let Space::Packed(mut packed) = space {
                block.unpack(stock, &mut packed)?;
            }
        }
        Ok(())
    }

    fn are_empty(&self) -> bool {
        self.blocks.iter().all(|block| block.len() == 0)
    }
}

/// What is in blocks, as a group wants it.
pub(crate) fn bytes_of<'b>(blocks: &'b [Data<'_>]) -> Vec<&'b [u8]> {
    blocks.iter().map(|block| &**block).collect()
}

/// # Safety
/// `at` is null or has `length` values, which nobody changes.
unsafe fn array<'a, T>(at: *const T, length: usize) -> Option<&'a [T]> {
    // SAFETY: the caller vouches for the values.
    (!at.is_null()).then(|| unsafe { std::slice::from_raw_parts(at, length) })
}

/// `memory`, into which other processes write while an operation goes on, once that has `ended`. After an error it stays
/// for ever: who goes on may still write there.
fn kept_after_errors<M>(memory: M, ended: Result<()>) -> Result<M> {
    if let Err(error) = ended {
        std::mem::forget(memory);
        return Err(error);
    }
    Ok(memory)
}
