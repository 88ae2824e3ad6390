//! Data combined.
//!
//! A reduction's elements travel as they lie in memory, gaps included: by MPI's rules all members give the same
//! datatype. An element is an extent long and begins where its first byte of data is.

mod aligned;
mod local;
mod operands;

use std::ffi::{c_int, c_void};

use svmio_adio::abi::{Datatype, Op};
use svmio_collectives::executor::Operation;

use super::{Call, Outcome, or_leave};
use crate::error::Result;
use crate::family::Family;
use crate::group::Group;
use crate::operator::native;
use crate::stock::Standing;
use operands::{Operands, Span};

/// What a call says of what it combines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Combined<A: Family> {
    pub(crate) send: *const c_void,
    pub(crate) receive: *mut c_void,
    pub(crate) datatype: Datatype<A>,
    pub(crate) op: Op<A>,
}

impl<A: Family> Call<'_, A> {
    /// # Safety
    /// The arguments are those of `MPI_Allreduce`.
    pub(crate) unsafe fn allreduce(self, call: Combined<A>, count: i64) -> Outcome {
        or_leave!(self.stock.operands_apart(&call, count));
        self.reduced(call, count, count, |group, operands, operation| {
            // SAFETY: the caller vouches for the arguments.
            unsafe { operands.in_received(group, |group, data| Ok(group.allreduce(data, operation)?)) }
        })
    }

    /// # Safety
    /// The arguments are those of `MPI_Reduce`.
    pub(crate) unsafe fn reduce(self, call: Combined<A>, count: i64, root: c_int) -> Outcome {
        let root = or_leave!(self.root(root));
        let is_root = self.group.member() == root;
        if !is_root && A::is_in_place(call.send) {
            return Ok(false);
        }
        if is_root {
            or_leave!(self.stock.operands_apart(&call, count));
        }
        self.reduced(call, count, if is_root { count } else { 0 }, |group, operands, operation| {
            // SAFETY: the caller vouches for the arguments.
            unsafe {
                if is_root {
                    operands.in_received(group, |group, data| Ok(group.reduce(root, data, operation)?))
                } else {
                    Ok(group.reduce_to(root, &operands.sent()?, operation)?)
                }
            }
        })
    }

    /// # Safety
    /// The arguments are those of `MPI_Scan`.
    pub(crate) unsafe fn scan(self, call: Combined<A>, count: i64) -> Outcome {
        or_leave!(self.stock.operands_apart(&call, count));
        self.reduced(call, count, count, |group, operands, operation| {
            // SAFETY: the caller vouches for the arguments.
            unsafe { operands.in_received(group, |group, data| Ok(group.scan(data, operation)?)) }
        })
    }

    /// # Safety
    /// The arguments are those of `MPI_Exscan`.
    pub(crate) unsafe fn exscan(self, call: Combined<A>, count: i64) -> Outcome {
        let received = if self.group.member() == 0 { 0 } else { count };
        or_leave!(self.stock.operands_apart(&call, count));
        self.reduced(call, count, received, |group, operands, operation| {
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
    pub(crate) unsafe fn reduce_scatter(self, call: Combined<A>, counts: &[i64]) -> Outcome {
        let elements = counts.iter().map(|&count| usize::try_from(count).ok()).collect::<Option<Vec<_>>>();
        let elements = or_leave!(elements);
        let all = or_leave!(i64::try_from(elements.iter().sum::<usize>()).ok());
        or_leave!(self.stock.operands_apart(&call, all));
        let received = counts[self.group.member()];
        self.reduced(call, all, received, |group, operands, operation| {
            let bytes: Vec<usize> = elements.iter().map(|count| count * operation.width()).collect();
            let own = elements[group.member()];
            // SAFETY: the caller vouches for the arguments.
            unsafe {
                let sent = operands.sent_beside(own)?;
                operands.receive(own, |into| Ok(group.reduce_scatter(&sent, &bytes, into, operation)?))
            }
        })
    }

    /// Gives `body` a call's operands and operation, where it is one that svmio does. This member receives so many
    /// elements.
    fn reduced(
        self,
        call: Combined<A>,
        count: i64,
        received: i64,
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
                if operands.lack_buffer(received) {
                    return Ok(false);
                }
                if let Some(operation) = native(operator, kind) {
                    body(group, &operands, operation)?;
                    return Ok(true);
                }
                return operands.locally(true, |operation| body(group, &operands, operation));
            }
            return Ok(false);
        }
        // A predefined operation of anything else is wrong, or not known here.
        let is_pair = kind == Some(crate::operator::Kind::Pair);
        let is_commutative = match operator {
            Some(operator) if is_pair && operator.is_for(crate::operator::Kind::Pair) => true,
            Some(_) => return Ok(false),
            None if kind == Some(crate::operator::Kind::Null) => return Ok(false),
            None => or_leave!(stock.is_commutative(call.op)),
        };
        let span = match width {
            Some(width) => Span { extent: width, lower: 0, is_dense: true },
            None => {
                let standing = kind.map_or_else(|| stock.standing(call.datatype), |_| Standing::Usable);
                if standing == Standing::Unknown {
                    return Ok(false);
                }
                let mut span = or_leave!(Span::of(stock, call.datatype));
                // What is not committed MPI refuses to copy, and all hear of that.
                span.is_dense &= standing == Standing::Usable;
                span
            }
        };
        // Who is given a longer one ends the group for all.
        if span.extent > group.longest_element() {
            return Ok(false);
        }
        let operands = Operands { stock, call, count, span };
        if operands.lack_buffer(received) {
            return Ok(false);
        }
        operands.locally(is_commutative, |operation| body(group, &operands, operation))
    }
}
