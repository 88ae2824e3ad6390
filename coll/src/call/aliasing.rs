//! Calls that name one buffer both for what is sent and for what is received.
//!
//! MPI wants these apart. MPICH finds the usual mistakes, unless its user has it not look, and says so: such calls are
//! left to it. All others of the kind are done as if what is sent had been copied before, which it is where it
//! [lies](crate::layout::Addresses) where something is received.
//!
//! Where MPICH looks at a block among others it takes a datatype's size for its extent; so does this.

use super::moving::Sent;
use super::reducing::Combined;
use super::varying::{Datatypes, Divided};
use crate::family::Family;
use crate::layout::Buffer;
use crate::stock::Stock;

impl<A: Family> Stock<A> {
    /// Goes on with a call unless MPI refuses it for naming one buffer twice, which `is_named_twice` tells.
    #[inline]
    fn unless_refused(&self, is_named_twice: bool) -> Option<()> {
        (!is_named_twice || !self.refuses_aliases()).then_some(())
    }

    /// Goes on unless `own` is the block of `row` that lies so many bytes behind its beginning.
    #[inline]
    pub(super) fn apart(&self, own: Sent<A>, row: Sent<A>, behind: usize) -> Option<()> {
        let are_alike = own.count == row.count && own.datatype.0 == row.datatype.0;
        self.unless_refused(are_alike && own.count != 0 && own.at == row.at.wrapping_byte_add(behind))
    }

    /// Goes on unless `own` is a member's block of `blocks`, which is `block`.
    ///
    /// # Safety
    /// The blocks are those of a call of a communicator that has the member.
    pub(super) unsafe fn apart_from_block(
        &self,
        own: Sent<A>,
        blocks: &Divided<A>,
        (member, block): (usize, Buffer<A>),
    ) -> Option<()> {
        let Datatypes::One(datatype) = blocks.datatypes else { return Some(()) };
        if own.count == 0 || own.datatype.0 != datatype.0 || block.len() == 0 {
            return Some(());
        }
        // SAFETY: the caller vouches for the array.
        let place = unsafe { blocks.places.all(member + 1) }?.last()?;
        let behind = (place as isize).wrapping_mul(block.element() as isize);
        self.unless_refused(own.at == blocks.at.wrapping_byte_offset(behind))
    }

    /// Goes on unless both are the same blocks.
    pub(super) fn blocks_apart(&self, sent: &Divided<A>, received: &Divided<A>) -> Option<()> {
        let are_alike = match (sent.datatypes, received.datatypes) {
            (Datatypes::One(sent), Datatypes::One(received)) => sent.0 == received.0,
            (Datatypes::Each(sent), Datatypes::Each(received)) => std::ptr::eq(sent, received),
            _ => false,
        };
        self.unless_refused(are_alike && sent.at == received.at && sent.counts == received.counts)
    }

    /// Goes on unless so many operands are where their result is to be.
    #[inline]
    pub(super) fn operands_apart(&self, call: &Combined<A>, count: i64) -> Option<()> {
        self.unless_refused(count != 0 && call.send == call.receive.cast_const())
    }
}
