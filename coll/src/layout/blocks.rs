//! Buffers of blocks, one for each member of a group.

use std::ffi::c_void;

use svmio_adio::abi::{Abi, Datatype};

use super::{Addresses, Buffer, Bytes, Data, Layout, Room, kept_after_errors};
use crate::counts::Numbers;
use crate::error::Result;
use crate::family::Family;
use crate::stock::{Elements, Stock};

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
        counts: Numbers,
        places: Numbers,
        datatype: Datatype<A>,
        size: usize,
    ) -> Option<Self> {
        // SAFETY: the caller vouches for the arrays.
        let (counts, places) = unsafe { (counts.all(size)?, places.all(size)?) };
        let layout = Layout::of(stock, datatype)?;
        let block = |(count, place): (i64, i64)| {
            let count = usize::try_from(count).ok()?;
            Some(Buffer { at: layout.at(at.cast_mut(), place as isize), count, layout })
        };
        let blocks: Vec<_> = counts.zip(places).map(block).collect::<Option<_>>()?;
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
        counts: Numbers,
        places: Numbers,
        datatypes: *const Datatype<A>,
        size: usize,
    ) -> Option<Self> {
        // SAFETY: the caller vouches for the arrays.
        let (counts, places, datatypes) =
            unsafe { (counts.all(size)?, places.all(size)?, array(datatypes, size)?) };
        let block = |((count, place), &datatype): ((i64, i64), &Datatype<A>)| {
            let count = usize::try_from(count).ok()?;
            // Where nothing is sent, the datatype does not matter.
            let layout = if count == 0 {
                Layout { elements: Elements { datatype, size: 0, extent: 0 }, is_row: true }
            } else {
                Layout::of(stock, datatype)?
            };
            Some(Buffer { at: at.cast_mut().wrapping_byte_offset(place as isize), count, layout })
        };
        let blocks: Vec<_> = counts.zip(places).zip(datatypes).map(block).collect::<Option<_>>()?;
        let blocks = Self { blocks };
        let is_missing = |block: &Buffer<A>| block.len() > 0 && block.is_none(stock);
        let are_missing = A::is_in_place(at) || blocks.blocks.iter().any(is_missing);
        (!are_missing || blocks.are_empty()).then_some(blocks)
    }

    /// The block for a member.
    pub(crate) fn block(&self, member: usize) -> Buffer<A> {
        self.blocks[member]
    }

    /// Where their bytes are, from the first to the last, as of a [buffer](Buffer::addresses).
    pub(crate) fn addresses(&self) -> Addresses {
        self.blocks.iter().map(Buffer::addresses).fold(Addresses::NONE, Addresses::and)
    }

    /// The data, to be sent, block by block, by a call that receives at these addresses.
    pub(crate) fn read_beside(&self, stock: &Stock<A>, received: Addresses) -> Result<Vec<Data<'_>>> {
        self.blocks.iter().map(|block| block.read_beside(stock, received)).collect()
    }

    /// Bytes of data of the longest block.
    pub(crate) fn longest(&self) -> usize {
        self.blocks.iter().map(Buffer::len).max().unwrap_or(0)
    }

    /// The same, to be sent in the background.
    pub(crate) fn lend_beside(&self, stock: &Stock<A>, received: Addresses) -> Result<Vec<Bytes>> {
        self.blocks.iter().map(|block| block.lend_beside(stock, received)).collect()
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
