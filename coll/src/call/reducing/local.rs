//! Operations that MPI carries out itself, of the program above all.

use std::cell::Cell;
use std::ffi::c_int;
use std::ffi::c_void;

use svmio_collectives::executor::Operation;

use super::Combined;
use super::aligned::{ALIGNMENT, Aligned};
use super::operands::Span;
use crate::error::Error;
use crate::family::Family;
use crate::stock::Stock;

/// How many elements MPI combines at once.
const AT_ONCE: usize = c_int::MAX as usize;

/// An operation as MPI does it, by `MPI_Reduce_local`.
pub(super) struct Local<'c, A: Family> {
    pub(super) stock: &'c Stock<A>,
    pub(super) call: &'c Combined<A>,
    pub(super) span: Span,
    pub(super) is_commutative: bool,
    /// What went wrong first.
    pub(super) failure: &'c Cell<Option<Error>>,
}

impl<A: Family> Local<'_, A> {
    /// # Safety
    /// Both are so many elements' data.
    unsafe fn combine_here(&self, left: *const u8, right: *mut u8, count: usize) {
        let [left, right] =
            [left.cast_mut(), right].map(|at| at.wrapping_offset(-self.span.lower).cast::<c_void>());
        let (datatype, op) = (self.call.datatype, self.call.op);
        for first in (0..count).step_by(AT_ONCE) {
            let [left, right] = [left, right].map(|at| at.wrapping_byte_add(first * self.span.extent));
            let piece = AT_ONCE.min(count - first) as c_int;
            // SAFETY: the caller vouches for the elements.
            let combined = unsafe { self.stock.reduce_local(left, right, piece, datatype, op) };
            if let Err(error) = combined {
                let first = self.failure.take().unwrap_or(error);
                self.failure.set(Some(first));
            }
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

    fn fold(&self, lefts: &[u8], right: &mut [u8]) {
        // Functions of programs take their operands for aligned; most lie anywhere here, so all are copied to one place.
        let count = right.len() / self.span.extent;
        let [mut own_left, mut own_right] = [(); 2].map(|()| Aligned::new(right.len(), self.span.lower));
        own_right.bytes().copy_from_slice(right);
        for left in lefts.rchunks_exact(right.len()) {
            own_left.bytes().copy_from_slice(left);
            // SAFETY: both have so many elements.
            unsafe { self.combine_here(own_left.bytes().as_ptr(), own_right.bytes().as_mut_ptr(), count) };
        }
        right.copy_from_slice(own_right.bytes());
    }

    fn is_commutative(&self) -> bool {
        self.is_commutative
    }
}
