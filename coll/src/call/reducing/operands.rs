//! What a reduction combines, where the program has it, and where it wants the result.

use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Deref;

use svmio_adio::abi::Datatype;
use svmio_collectives::executor::Operation;

use super::aligned::Aligned;
use super::local::Local;
use super::{Combined, Outcome};
use crate::error::Result;
use crate::family::Family;
use crate::group::Group;
use crate::layout::Addresses;
use crate::stock::{Elements, Stock};

/// How elements lie in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// Bytes from one element to the next.
    pub(super) extent: usize,
    /// Where the data of an element begins, counted from where the element is put.
    pub(super) lower: isize,
    /// Whether there are no gaps, and the data begins where the element is put.
    pub(super) is_dense: bool,
}

impl Span {
    /// That of a datatype; `None` where elements reach into each other.
    pub(super) fn of<A: Family>(stock: &Stock<A>, datatype: Datatype<A>) -> Option<Self> {
        let size = usize::try_from(stock.mpi.type_size(datatype)).ok()?;
        let extent = usize::try_from(stock.mpi.extent(datatype)).ok()?;
        let (lower, true_extent) = stock.mpi.true_extent(datatype);
        let (lower, true_extent) = (lower as isize, usize::try_from(true_extent).ok()?);
        let is_dense = lower == 0 && size == extent && true_extent == extent;
        (size > 0 && true_extent <= extent).then_some(Self { extent, lower, is_dense })
    }
}

/// What a call combines.
pub(super) struct Operands<'c, A: Family> {
    pub(super) stock: &'c Stock<A>,
    pub(super) call: Combined<A>,
    pub(super) count: usize,
    pub(super) span: Span,
}

impl<A: Family> Operands<'_, A> {
    fn are_in_place(&self) -> bool {
        A::is_in_place(self.call.send)
    }

    /// Where this member's operands are.
    fn source(&self) -> *const c_void {
        if self.are_in_place() { self.call.receive } else { self.call.send }
    }

    /// Whether MPI refuses the call, in which this member receives so many elements: it says what is wrong with no
    /// buffer.
    pub(super) fn lack_buffer(&self, received: i64) -> bool {
        // Elements that begin elsewhere than where they are put may have their place from the beginning of memory on.
        let is_none = |at: *const c_void| at.is_null() && self.span.lower == 0;
        let receive = self.call.receive.cast_const();
        self.count > 0 && is_none(self.source())
            || received > 0 && (is_none(receive) || A::is_in_place(receive))
    }

    /// What this member gives, which it only reads.
    ///
    /// # Safety
    /// The call's arguments are as MPI wants them, and the operands stay as they are for as long as the answer is used.
    #[inline]
    pub(super) unsafe fn sent(&self) -> Result<Operand<'_>> {
        let length = self.count * self.span.extent;
        if !self.span.is_dense {
            // SAFETY: as the caller vouches.
            return Ok(Operand::Copied(unsafe { self.copy() }?));
        }
        if length == 0 {
            return Ok(Operand::Here(&[]));
        }
        // SAFETY: the buffer has so many bytes in a row, which nobody writes.
        Ok(Operand::Here(unsafe { std::slice::from_raw_parts(self.source().cast(), length) }))
    }

    /// The same where the call receives so many elements: of what would be overwritten, a copy is given.
    ///
    /// # Safety
    /// As for [`sent`](Self::sent), but for what is received.
    pub(super) unsafe fn sent_beside(&self, received: usize) -> Result<Operand<'_>> {
        let extent = self.span.extent;
        let received = Addresses::of(self.call.receive, received * extent);
        // SAFETY: as the caller vouches.
        unsafe {
            if Addresses::of(self.source(), self.count * extent).overlap(received) {
                return Ok(Operand::Copied(self.copy()?));
            }
            self.sent()
        }
    }

    /// Combines them where the result is to be.
    ///
    /// # Safety
    /// The call's arguments are as MPI wants them.
    #[inline]
    pub(super) unsafe fn in_received(
        &self,
        group: &mut Group,
        body: impl FnOnce(&mut Group, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        if !self.span.is_dense {
            // SAFETY: as the caller vouches.
            let mut own = unsafe { self.copy() }?;
            body(group, own.bytes())?;
            // SAFETY: as above.
            return unsafe { self.spread(&own, self.count) };
        }
        let length = self.count * self.span.extent;
        if length == 0 {
            return body(group, &mut []);
        }
        // SAFETY: both buffers have so many bytes in a row, maybe the same ones. What is received in, is the call's
        // alone.
        let data = unsafe {
            if self.source() != self.call.receive.cast_const() {
                std::ptr::copy(self.source().cast::<u8>(), self.call.receive.cast(), length);
            }
            std::slice::from_raw_parts_mut(self.call.receive.cast::<u8>(), length)
        };
        body(group, data)
    }

    /// Has `body` make the first `count` elements of the result.
    ///
    /// # Safety
    /// As for [`in_received`](Self::in_received).
    pub(super) unsafe fn receive(
        &self,
        count: usize,
        body: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let length = count * self.span.extent;
        if self.span.is_dense && length > 0 {
            // SAFETY: the buffer has so many bytes in a row, which are the call's alone.
            return body(unsafe { std::slice::from_raw_parts_mut(self.call.receive.cast(), length) });
        }
        let mut own = Aligned::new(length, self.span.lower);
        body(own.bytes())?;
        // SAFETY: as the caller vouches.
        unsafe { self.spread(&own, count) }
    }

    /// The operands, laid out as the program's are, with zeroes between the data: the program's own gaps are not
    /// touched.
    ///
    /// # Safety
    /// The program's buffer has so many elements.
    unsafe fn copy(&self) -> Result<Aligned> {
        let Span { extent, is_dense, lower } = self.span;
        let mut own = Aligned::new(self.count * extent, lower);
        if self.count == 0 {
            return Ok(own);
        }
        if is_dense {
            // SAFETY: the operands have so many bytes in a row.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    self.source().cast::<u8>(),
                    own.bytes().as_mut_ptr(),
                    self.count * extent,
                );
            }
            return Ok(own);
        }
        let (elements, mut packed) = self.packing(self.count);
        // SAFETY: both have so many elements.
        unsafe {
            self.stock.pack(self.source(), &elements, &mut packed)?;
            self.stock.unpack(&mut packed, &elements, own.start_mut())?;
        }
        Ok(own)
    }

    /// Puts so many elements into the result, and leaves its gaps alone.
    ///
    /// # Safety
    /// The result has room for them.
    unsafe fn spread(&self, own: &Aligned, count: usize) -> Result<()> {
        let Span { extent, is_dense, .. } = self.span;
        if count == 0 {
            return Ok(());
        }
        if is_dense {
            // SAFETY: the result has so many bytes in a row.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    own.start().cast::<u8>(),
                    self.call.receive.cast(),
                    count * extent,
                );
            }
            return Ok(());
        }
        let (elements, mut packed) = self.packing(count);
        // SAFETY: both have so many elements.
        unsafe {
            self.stock.pack(own.start(), &elements, &mut packed)?;
            self.stock.unpack(&mut packed, &elements, self.call.receive)
        }
    }

    /// The call's elements, and room for the data of so many.
    fn packing(&self, count: usize) -> (Elements<A>, Vec<u8>) {
        let datatype = self.call.datatype;
        let size = usize::try_from(self.stock.mpi.type_size(datatype)).unwrap_or(0);
        (Elements { datatype, size, extent: self.span.extent as isize }, vec![0; count * size])
    }

    /// Gives `body` the operation as MPI does it.
    pub(super) fn locally(
        &self,
        is_commutative: bool,
        body: impl FnOnce(&dyn Operation) -> Result<()>,
    ) -> Outcome {
        let failure = Cell::new(None);
        let Self { stock, call, span, .. } = self;
        let operation = Local { stock, call, span: *span, is_commutative, failure: &failure };
        body(&operation)?;
        failure.take().map_or(Ok(true), Err)
    }
}

/// What a member gives.
pub(super) enum Operand<'c> {
    /// Where the program has it.
    Here(&'c [u8]),
    Copied(Aligned),
}

impl Deref for Operand<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Here(bytes) => bytes,
            Self::Copied(own) => own.as_bytes(),
        }
    }
}
