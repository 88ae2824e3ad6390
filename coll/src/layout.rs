//! Buffers of a program, as rows of bytes: as they are where the datatype has its data in a row, else packed by MPI.

mod addresses;
mod blocks;

use std::ffi::c_void;
use std::ops::Deref;

use svmio_adio::abi::{Abi, Datatype};
use svmio_collectives::executor::LentMemory;

use crate::error::Result;
use crate::family::Family;
use crate::operator::Kind;
use crate::stock::{Described, Elements, Standing, Stock};
pub(crate) use addresses::Addresses;
pub(crate) use blocks::{Blocks, bytes_of};

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
        let standing = kind.map_or_else(|| stock.standing(datatype), |_| Standing::Usable);
        if kind == Some(Kind::Null) || standing == Standing::Unknown {
            return None;
        }
        let (size, extent) = (stock.mpi.type_size(datatype) as usize, stock.mpi.extent(datatype) as isize);
        let may_be_row = size as isize == extent && A::is_described(datatype);
        // What is not committed MPI refuses to pack, and all hear of that.
        let is_row = standing == Standing::Usable
            && (size == 0 || (may_be_row && svmio_adio::is_one_run(stock.mpi, datatype)));
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
        count: i64,
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

    /// Bytes of data of an element.
    pub(crate) fn element(&self) -> usize {
        self.layout.elements.size
    }

    /// Where its bytes are if they are sent from there, or received there: not where they are packed.
    #[inline]
    pub(crate) fn addresses(&self) -> Addresses {
        if self.layout.is_row { Addresses::of(self.at, self.len()) } else { Addresses::NONE }
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

    /// The same where the call receives at these addresses: of what would be overwritten, a copy is sent.
    pub(crate) fn lend_beside(&self, stock: &Stock<A>, received: Addresses) -> Result<Bytes> {
        if self.addresses().overlap(received) {
            return Ok(Bytes::Own(self.read(stock)?.into_own()));
        }
        self.lend(stock)
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
        // SAFETY: what lies where the call receives is copied before that, see `read_beside`; all else nobody writes.
        if let Some(bytes) = unsafe { self.row() } {
            return Ok(Data::Here(bytes));
        }
        let mut packed = vec![0; self.len()];
        // SAFETY: the buffer has so many elements, as `of` was promised.
        unsafe { stock.pack(self.at, &self.layout.elements, &mut packed) }?;
        Ok(Data::Packed(packed))
    }

    /// The same where the call receives at these addresses: of what would be overwritten, a copy is sent.
    #[inline]
    pub(crate) fn read_beside(&self, stock: &Stock<A>, received: Addresses) -> Result<Data<'_>> {
        let data = self.read(stock)?;
        Ok(if self.addresses().overlap(received) { Data::Packed(data.into_own()) } else { data })
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

/// `memory`, into which other processes write while an operation goes on, once that has `ended`. After an error it stays
/// for ever: who goes on may still write there.
fn kept_after_errors<M>(memory: M, ended: Result<()>) -> Result<M> {
    if let Err(error) = ended {
        std::mem::forget(memory);
        return Err(error);
    }
    Ok(memory)
}
