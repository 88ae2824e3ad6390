//! Data combined.
//!
//! A reduction's elements travel as they lie in memory, gaps included: by MPI's rules all members give the same
//! datatype. An element is an extent long and begins where its first byte of data is.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ops::Deref;

use svmio_adio::abi::{Datatype, Op};
use svmio_collectives::executor::{GroupSettings, Operation};

use super::{Call, Outcome, or_leave};
use crate::error::{Error, Result};
use crate::family::Family;
use crate::group::Group;
use crate::operator::with_native;
use crate::stock::{Elements, Stock};

/// What a call says of what it combines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Combined<A: Family> {
    pub(crate) send: *const c_void,
    pub(crate) receive: *mut c_void,
    pub(crate) datatype: Datatype<A>,
    pub(crate) op: Op<A>,
}

/// What MPI's functions combine is aligned so.
const ALIGNMENT: usize = 16;

/// How elements lie in memory.
#[derive(Debug, Clone, Copy)]
struct Span {
    /// Bytes from one element to the next.
    extent: usize,
    /// Where the data of an element begins, counted from where the element is put.
    lower: isize,
    /// Whether there are no gaps, and the data begins where the element is put.
    is_dense: bool,
}

impl<A: Family> Call<'_, A> {
    /// # Safety
    /// The arguments are those of `MPI_Allreduce`.
    pub(crate) unsafe fn allreduce(self, call: Combined<A>, count: c_int) -> Outcome {
        self.reduced(call, count, |group, operands, operation| {
            // SAFETY: the caller vouches for the arguments.
            unsafe { operands.in_received(group, |group, data| Ok(group.allreduce(data, operation)?)) }
        })
    }

    /// # Safety
    /// The arguments are those of `MPI_Reduce`.
    pub(crate) unsafe fn reduce(self, call: Combined<A>, count: c_int, root: c_int) -> Outcome {
        let root = or_leave!(self.root(root));
        self.reduced(call, count, |group, operands, operation| {
            // SAFETY: the caller vouches for the arguments.
            unsafe {
                if group.member() == root {
                    operands.in_received(group, |group, data| Ok(group.reduce(root, data, operation)?))
                } else {
                    Ok(group.reduce_to(root, &operands.sent()?, operation)?)
                }
            }
        })
    }

    /// # Safety
    /// The arguments are those of `MPI_Scan`.
    pub(crate) unsafe fn scan(self, call: Combined<A>, count: c_int) -> Outcome {
        self.reduced(call, count, |group, operands, operation| {
            // SAFETY: the caller vouches for the arguments.
            unsafe { operands.in_received(group, |group, data| Ok(group.scan(data, operation)?)) }
        })
    }

    /// # Safety
    /// The arguments are those of `MPI_Exscan`.
    pub(crate) unsafe fn exscan(self, call: Combined<A>, count: c_int) -> Outcome {
        self.reduced(call, count, |group, operands, operation| {
            // SAFETY: the caller vouches for the arguments. The first member receives nothing: it may have no buffer.
            unsafe {
                if group.member() == 0 {
                    Ok(group.exscan_from(&operands.sent()?, operation)?)
                } else {
                    operands.in_received(group, |group, data| Ok(group.exscan(data, operation)?))
                }
            }
        })
    }

    /// `counts` are the elements for each member.
    ///
    /// # Safety
    /// The arguments are those of `MPI_Reduce_scatter`.
    pub(crate) unsafe fn reduce_scatter(self, call: Combined<A>, counts: &[c_int]) -> Outcome {
        let elements = counts.iter().map(|&count| usize::try_from(count).ok()).collect::<Option<Vec<_>>>();
        let elements = or_leave!(elements);
        let all = or_leave!(c_int::try_from(elements.iter().sum::<usize>()).ok());
        self.reduced(call, all, |group, operands, operation| {
            let bytes: Vec<usize> = elements.iter().map(|count| count * operation.width()).collect();
            let own = elements[group.member()];
            // SAFETY: the caller vouches for the arguments. What is in place is overwritten from the beginning on.
            unsafe {
                let sent = if operands.are_in_place() {
                    Operand::Copied(operands.copy()?)
                } else {
                    operands.sent()?
                };
                operands.receive(own, |into| Ok(group.reduce_scatter(&sent, &bytes, into, operation)?))
            }
        })
    }

    /// Gives `body` a call's operands and operation, where it is one that svmio does.
    fn reduced(
        self,
        call: Combined<A>,
        count: c_int,
        body: impl FnOnce(&mut Group, &Operands<'_, A>, &dyn Operation) -> Result<()>,
    ) -> Outcome {
        let Self { stock, group } = self;
        let count = or_leave!(usize::try_from(count).ok());
        let (kind, operator) = (stock.kind(call.datatype), stock.operator(call.op));
        let width = kind.and_then(crate::operator::Kind::width);
        if let (Some(kind), Some(width), Some(operator)) = (kind, width, operator) {
            let span = Span { extent: width, lower: 0, is_dense: true };
            let operands = Operands { stock, call, count, span };
            if operator.is_for(kind) {
                // MPI says what is wrong with no buffer.
                if count > 0 && operands.source().is_null() {
                    return Ok(false);
                }
                let mut body = Some(body);
                let mut take = |operation: &dyn Operation| match body.take() {
                    Some(body) => body(group, &operands, operation),
                    None => Ok(()),
                };
                if let Some(outcome) = with_native(operator, kind, &mut take) {
                    return outcome.map(|()| true);
                }
                return operands.locally(true, take);
            }
            return Ok(false);
        }
        // A predefined operation of anything else is wrong, or not known here.
        let is_pair = kind == Some(crate::operator::Kind::Pair);
        let is_commutative = match operator {
            Some(operator) if is_pair && operator.is_for(crate::operator::Kind::Pair) => true,
            Some(_) => return Ok(false),
            None if kind == Some(crate::operator::Kind::Null) => return Ok(false),
            None => stock.is_commutative(call.op),
        };
        let span = match width {
            Some(width) => Span { extent: width, lower: 0, is_dense: true },
            None => or_leave!(Span::of(stock, call.datatype)),
        };
        // The longest element that every function of a group takes.
        if span.extent > GroupSettings::default().slot / group.size() / 64 * 64 {
            return Ok(false);
        }
        let operands = Operands { stock, call, count, span };
        operands.locally(is_commutative, |operation| body(group, &operands, operation))
    }
}

impl Span {
    /// That of a datatype; `None` where elements reach into each other.
    fn of<A: Family>(stock: &Stock<A>, datatype: Datatype<A>) -> Option<Self> {
        let size = usize::try_from(stock.mpi.type_size(datatype)).ok()?;
        let extent = usize::try_from(stock.mpi.extent(datatype)).ok()?;
        let (lower, true_extent) = stock.mpi.true_extent(datatype);
        let (lower, true_extent) = (lower as isize, usize::try_from(true_extent).ok()?);
        let is_dense = lower == 0 && size == extent && true_extent == extent;
        (size > 0 && true_extent <= extent).then_some(Self { extent, lower, is_dense })
    }
}

/// What a call combines.
struct Operands<'c, A: Family> {
    stock: &'c Stock<A>,
    call: Combined<A>,
    count: usize,
    span: Span,
}

impl<A: Family> Operands<'_, A> {
    fn are_in_place(&self) -> bool {
        A::is_in_place(self.call.send)
    }

    /// Where this member's operands are.
    fn source(&self) -> *const c_void {
        if self.are_in_place() { self.call.receive } else { self.call.send }
    }

    /// What this member gives, which it only reads.
    ///
    /// # Safety
    /// The call's arguments are as MPI wants them, and the operands stay as they are for as long as the answer is used.
    #[inline]
    unsafe fn sent(&self) -> Result<Operand<'_>> {
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

    /// Combines them where the result is to be.
    ///
    /// # Safety
    /// The call's arguments are as MPI wants them.
    #[inline]
    unsafe fn in_received(
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
        // SAFETY: both buffers have so many bytes in a row; one that is the other is left as it is. What is received in, is
        // the call's alone.
        let data = unsafe {
            if self.source() != self.call.receive.cast_const() {
                std::ptr::copy_nonoverlapping(self.source().cast::<u8>(), self.call.receive.cast(), length);
            }
            std::slice::from_raw_parts_mut(self.call.receive.cast::<u8>(), length)
        };
        body(group, data)
    }

    /// Has `body` make the first `count` elements of the result.
    ///
    /// # Safety
    /// As for [`in_received`](Self::in_received).
    unsafe fn receive(&self, count: usize, body: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
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

    /// The operands, laid out as the program's are, with zeroes between the data: the program's own gaps are not touched.
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
    fn locally(&self, is_commutative: bool, body: impl FnOnce(&dyn Operation) -> Result<()>) -> Outcome {
        let failure = Cell::new(None);
        let Self { stock, call, span, .. } = self;
        let operation = Local { stock, call, span: *span, is_commutative, failure: &failure };
        body(&operation)?;
        failure.take().map_or(Ok(true), Err)
    }
}

/// What a member gives.
enum Operand<'c> {
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

/// Bytes that begin as far from an aligned address as an element's data does from the element.
struct Aligned {
    units: Vec<u128>,
    from: usize,
    length: usize,
    lower: isize,
}

impl Aligned {
    fn new(length: usize, lower: isize) -> Self {
        const { assert!(align_of::<u128>() == ALIGNMENT) };
        let from = lower.rem_euclid(ALIGNMENT as isize) as usize;
        Self { units: vec![0; (from + length).div_ceil(ALIGNMENT)], from, length, lower }
    }

    fn as_bytes(&self) -> &[u8] {
        let start = self.units.as_ptr().cast::<u8>();
        // SAFETY: the units have so many bytes.
        unsafe { std::slice::from_raw_parts(start.wrapping_add(self.from), self.length) }
    }

    fn bytes(&mut self) -> &mut [u8] {
        let start = self.units.as_mut_ptr().cast::<u8>();
        // SAFETY: the units have so many bytes; any are valid.
        unsafe { std::slice::from_raw_parts_mut(start.wrapping_add(self.from), self.length) }
    }

    /// Where the first element is put.
    fn start(&self) -> *const c_void {
        self.units.as_ptr().cast::<u8>().wrapping_add(self.from).wrapping_offset(-self.lower).cast()
    }

    /// The same, to put something there.
    fn start_mut(&mut self) -> *mut c_void {
        self.units.as_mut_ptr().cast::<u8>().wrapping_add(self.from).wrapping_offset(-self.lower).cast()
    }
}

/// An operation as MPI does it, by `MPI_Reduce_local`.
struct Local<'c, A: Family> {
    stock: &'c Stock<A>,
    call: &'c Combined<A>,
    span: Span,
    is_commutative: bool,
    /// What went wrong first.
    failure: &'c Cell<Option<Error>>,
}

impl<A: Family> Local<'_, A> {
    /// # Safety
    /// Both are so many elements' data.
    unsafe fn combine_here(&self, left: *const u8, right: *mut u8, count: usize) {
        let [left, right] =
            [left.cast_mut(), right].map(|at| at.wrapping_offset(-self.span.lower).cast::<c_void>());
        let (datatype, op) = (self.call.datatype, self.call.op);
        // SAFETY: the caller vouches for the elements.
        let combined = unsafe { self.stock.reduce_local(left, right, count as c_int, datatype, op) };
        if let Err(error) = combined {
            let first = self.failure.take().unwrap_or(error);
            self.failure.set(Some(first));
        }
    }
}

impl<A: Family> Operation for Local<'_, A> {
    fn width(&self) -> usize {
        self.span.extent
    }

    fn combine(&self, left: &[u8], right: &mut [u8]) {
        let count = right.len() / self.span.extent;
        let is_aligned =
            |at: *const u8| at.wrapping_offset(-self.span.lower).addr().is_multiple_of(ALIGNMENT);
        if is_aligned(left.as_ptr()) && is_aligned(right.as_ptr()) {
            // SAFETY: both have so many elements.
            return unsafe { self.combine_here(left.as_ptr(), right.as_mut_ptr(), count) };
        }
        // Functions of programs take their operands for aligned as their types are.
        let [mut own_left, mut own_right] = [left, &*right].map(|bytes| {
            let mut own = Aligned::new(bytes.len(), self.span.lower);
            own.bytes().copy_from_slice(bytes);
            own
        });
        // SAFETY: as above.
        unsafe { self.combine_here(own_left.bytes().as_ptr(), own_right.bytes().as_mut_ptr(), count) };
        right.copy_from_slice(own_right.bytes());
    }

    fn is_commutative(&self) -> bool {
        self.is_commutative
    }
}
