//! Data from member to member in blocks of different lengths.

use std::ffi::{c_int, c_void};

use svmio_adio::abi::Datatype;

use super::moving::{Received, Sent};
use super::{Call, Outcome, or_leave};
use crate::counts::Numbers;
use crate::family::Family;
use crate::layout::{Addresses, Blocks, Buffer, bytes_of};
use crate::stock::Stock;

/// What a call says of a buffer with a block for each member.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Divided<A: Family> {
    pub(crate) at: *const c_void,
    pub(crate) counts: Numbers,
    pub(crate) places: Numbers,
    pub(crate) datatypes: Datatypes<A>,
}

/// The datatypes of blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Datatypes<A: Family> {
    /// All of one; places are counted in its extents.
    One(Datatype<A>),
    /// Each of its own; places are counted in bytes.
    Each(*const Datatype<A>),
}

impl<A: Family> Divided<A> {
    /// # Safety
    /// It is that of a call of a communicator with so many members.
    pub(super) unsafe fn blocks(&self, stock: &Stock<A>, size: usize) -> Option<Blocks<A>> {
        let Self { at, counts, places, datatypes } = *self;
        // SAFETY: the caller vouches for it.
        unsafe {
            match datatypes {
                Datatypes::One(datatype) => Blocks::of(stock, at, counts, places, datatype, size),
                Datatypes::Each(datatypes) => Blocks::of_many(stock, at, counts, places, datatypes, size),
            }
        }
    }
}

impl<A: Family> Call<'_, A> {
    /// # Safety
    /// The arguments are those of `MPI_Gatherv`.
    pub(crate) unsafe fn gatherv(self, send: Sent<A>, receive: Divided<A>, root: c_int) -> Outcome {
        let root = or_leave!(self.root(root));
        if self.group.member() != root {
            // SAFETY: the caller vouches for the arguments.
            let own = or_leave!(unsafe { send.buffer(self.stock) });
            self.group.gather_blocks(root, &own.read(self.stock)?, &mut [])?;
            return Ok(true);
        }
        // SAFETY: as above.
        let blocks = or_leave!(unsafe { receive.blocks(self.stock, self.group.size()) });
        // SAFETY: as above.
        let own = or_leave!(unsafe { send.buffer_or(self.stock, blocks.block(root)) });
        // SAFETY: as above.
        or_leave!(unsafe { self.stock.apart_from_block(send, &receive, (root, blocks.block(root))) });
        let own = own.read_beside(self.stock, blocks.addresses())?;
        blocks.write(self.stock, None, |blocks| Ok(self.group.gather_blocks(root, &own, blocks)?))?;
        Ok(true)
    }

    /// # Safety
    /// The arguments are those of `MPI_Scatterv`.
    pub(crate) unsafe fn scatterv(self, send: Divided<A>, receive: Received<A>, root: c_int) -> Outcome {
        let root = or_leave!(self.root(root));
        if self.group.member() != root {
            // SAFETY: the caller vouches for the arguments.
            let own = or_leave!(unsafe { receive.buffer(self.stock) });
            own.write(self.stock, |into| Ok(self.group.scatter_blocks(root, &[], into)?))?;
            return Ok(true);
        }
        // SAFETY: as above.
        let blocks = or_leave!(unsafe { send.blocks(self.stock, self.group.size()) });
        if A::is_in_place(receive.at) {
            let data = blocks.read_beside(self.stock, Addresses::NONE)?;
            let data = bytes_of(&data);
            self.group.scatter_blocks(root, &data, &mut vec![0; data[root].len()])?;
        } else {
            // SAFETY: as above.
            let own: Buffer<A> = or_leave!(unsafe { receive.buffer(self.stock) });
            // SAFETY: as above.
            or_leave!(unsafe {
                self.stock.apart_from_block(receive.into(), &send, (root, blocks.block(root)))
            });
            let data = blocks.read_beside(self.stock, own.addresses())?;
            let data = bytes_of(&data);
            own.write(self.stock, |into| Ok(self.group.scatter_blocks(root, &data, into)?))?;
        }
        Ok(true)
    }

    /// # Safety
    /// The arguments are those of `MPI_Allgatherv`.
    pub(crate) unsafe fn allgatherv(self, send: Sent<A>, receive: Divided<A>) -> Outcome {
        // SAFETY: the caller vouches for the arguments.
        let blocks = or_leave!(unsafe { receive.blocks(self.stock, self.group.size()) });
        let own = self.group.member();
        if A::is_in_place(send.at) {
            blocks.write(self.stock, Some(own), |blocks| Ok(self.group.allgather_blocks(blocks)?))?;
            return Ok(true);
        }
        // SAFETY: as above.
        let sent = or_leave!(unsafe { send.buffer(self.stock) });
        // SAFETY: as above.
        or_leave!(unsafe { self.stock.apart_from_block(send, &receive, (own, blocks.block(own))) });
        let sent = sent.read_beside(self.stock, blocks.addresses())?;
        blocks.write(self.stock, None, |blocks| Ok(self.group.allgather_blocks_from(&sent, blocks)?))?;
        Ok(true)
    }

    /// # Safety
    /// The arguments are those of `MPI_Alltoallv` or `MPI_Alltoallw`.
    pub(crate) unsafe fn alltoallv(self, send: Divided<A>, receive: Divided<A>) -> Outcome {
        let size = self.group.size();
        // SAFETY: the caller vouches for the arguments.
        let received = or_leave!(unsafe { receive.blocks(self.stock, size) });
        let sent = if A::is_in_place(send.at) {
            None
        } else {
            // SAFETY: as above.
            Some(or_leave!(unsafe { send.blocks(self.stock, size) }))
        };
        or_leave!(self.stock.blocks_apart(&send, &receive));
        let data = sent.as_ref().unwrap_or(&received).read_beside(self.stock, received.addresses())?;
        let data = bytes_of(&data);
        received.write(self.stock, None, |blocks| Ok(self.group.alltoall_blocks(&data, blocks)?))?;
        Ok(true)
    }
}
