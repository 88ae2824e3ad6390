//! Data combined, by operations that the processor has.

use std::ffi::c_int;

use svmio_collectives::executor::LentMemory;

use super::{Outcome, Start, begun, or_leave};
use crate::call::Combined;
use crate::family::Family;
use crate::layout::{Addresses, Bytes};
use crate::operator::{Native, native};
use crate::stock::Stock;

impl<A: Family> Start<'_, A> {
    /// # Safety
    /// The arguments are those of `MPI_Iallreduce`.
    pub(crate) unsafe fn allreduce(mut self, call: Combined<A>, count: i64) -> Outcome {
        or_leave!(self.stock.operands_apart(&call, count));
        let operands = or_leave!(self.operands(call, count, count));
        // SAFETY: the caller vouches for the arguments.
        let data = unsafe { operands.in_received() };
        begun(self.group.iallreduce(data, operands.operation)?, |_| Ok(()))
    }

    /// # Safety
    /// The arguments are those of `MPI_Ireduce`.
    pub(crate) unsafe fn reduce(mut self, call: Combined<A>, count: i64, root: c_int) -> Outcome {
        let root = or_leave!(self.root(root));
        let is_root = self.group.member() == root;
        if !is_root && A::is_in_place(call.send) {
            return Ok(None);
        }
        if is_root {
            or_leave!(self.stock.operands_apart(&call, count));
        }
        let operands = or_leave!(self.operands(call, count, if is_root { count } else { 0 }));
        // SAFETY: the caller vouches for the arguments.
        unsafe {
            if is_root {
                let data = operands.in_received();
                begun(self.group.ireduce(root, data, operands.operation)?, |_| Ok(()))
            } else {
                begun(self.group.ireduce_to(root, operands.sent(), operands.operation)?, |_| Ok(()))
            }
        }
    }

    /// # Safety
    /// The arguments are those of `MPI_Iscan`.
    pub(crate) unsafe fn scan(mut self, call: Combined<A>, count: i64) -> Outcome {
        or_leave!(self.stock.operands_apart(&call, count));
        let operands = or_leave!(self.operands(call, count, count));
        // SAFETY: the caller vouches for the arguments.
        let data = unsafe { operands.in_received() };
        begun(self.group.iscan(data, operands.operation)?, |_| Ok(()))
    }

    /// # Safety
    /// The arguments are those of `MPI_Iexscan`.
    pub(crate) unsafe fn exscan(mut self, call: Combined<A>, count: i64) -> Outcome {
        let received = if self.group.member() == 0 { 0 } else { count };
        or_leave!(self.stock.operands_apart(&call, count));
        let operands = or_leave!(self.operands(call, count, received));
        // SAFETY: the caller vouches for the arguments. The first member receives nothing: it may have no buffer.
        unsafe {
            if self.group.member() == 0 {
                begun(self.group.iexscan_from(operands.sent(), operands.operation)?, |_| Ok(()))
            } else {
                begun(self.group.iexscan(operands.in_received(), operands.operation)?, |_| Ok(()))
            }
        }
    }

    /// `counts` are the elements for each member.
    ///
    /// # Safety
    /// The arguments are those of `MPI_Ireduce_scatter`.
    pub(crate) unsafe fn reduce_scatter(mut self, call: Combined<A>, counts: &[i64]) -> Outcome {
        let elements = counts.iter().map(|&count| usize::try_from(count).ok()).collect::<Option<Vec<_>>>();
        let elements = or_leave!(elements);
        let all = or_leave!(i64::try_from(elements.iter().sum::<usize>()).ok());
        or_leave!(self.stock.operands_apart(&call, all));
        let operands = or_leave!(self.operands(call, all, counts[self.group.member()]));
        let bytes: Vec<usize> = elements.iter().map(|count| count * operands.width).collect();
        let own = bytes[self.group.member()];
        let is_overwritten = Addresses::of(operands.source().cast(), operands.length)
            .overlap(Addresses::of(call.receive, own));
        // SAFETY: the caller vouches for the arguments. What is overwritten is copied before.
        let (sent, into) = unsafe {
            let sent = operands.sent();
            let sent = if is_overwritten { Bytes::Own(sent.as_ref().to_vec()) } else { sent };
            (sent, Bytes::Lent(LentMemory::new(call.receive.cast(), own)))
        };
        begun(self.group.ireduce_scatter(sent, bytes, into, operands.operation)?, |_| Ok(()))
    }

    /// What a call combines, if it is taken. This member receives so many elements.
    fn operands(&self, call: Combined<A>, count: i64, received: i64) -> Option<Operands<A>> {
        let operands = Operands::of(self.stock, call, count, received)?;
        self.takes(operands.length)?;
        Some(operands)
    }
}

/// What a call combines.
struct Operands<A: Family> {
    call: Combined<A>,
    operation: Native,
    width: usize,
    /// Bytes.
    length: usize,
}

impl<A: Family> Operands<A> {
    fn of(stock: &Stock<A>, call: Combined<A>, count: i64, received: i64) -> Option<Self> {
        let (kind, operator) = (stock.kind(call.datatype)?, stock.operator(call.op)?);
        let operation = native(operator, kind).filter(|_| operator.is_for(kind))?;
        let width = operation.width();
        let operands = Self { call, operation, width, length: usize::try_from(count).ok()? * width };
        // MPI says what is wrong with no buffer.
        let lacks_source = operands.length > 0 && operands.source().is_null();
        let lacks_room = received > 0 && (call.receive.is_null() || A::is_in_place(call.receive));
        (!lacks_source && !lacks_room).then_some(operands)
    }

    fn are_in_place(&self) -> bool {
        A::is_in_place(self.call.send)
    }

    /// Where this member's operands are.
    fn source(&self) -> *const u8 {
        if self.are_in_place() { self.call.receive.cast_const().cast() } else { self.call.send.cast() }
    }

    /// What this member gives, which is only read.
    ///
    /// # Safety
    /// The call's arguments are as MPI wants them: nobody writes the operands until the request is complete.
    unsafe fn sent(&self) -> Bytes {
        // SAFETY: as the caller vouches.
        Bytes::Lent(unsafe { LentMemory::new(self.source().cast_mut(), self.length) })
    }

    /// The operands, where the result is to be.
    ///
    /// # Safety
    /// The call's arguments are as MPI wants them: nobody else uses what is received in until the request is complete.
    unsafe fn in_received(&self) -> Bytes {
        let into = self.call.receive.cast::<u8>();
        if self.length > 0 && self.source() != into.cast_const() {
            // SAFETY: both have so many bytes, maybe the same ones.
            unsafe { std::ptr::copy(self.source(), into, self.length) };
        }
        // SAFETY: as the caller vouches.
        Bytes::Lent(unsafe { LentMemory::new(into, self.length) })
    }
}
