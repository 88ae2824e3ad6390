//! Data from member to member in blocks of different lengths.

use std::ffi::c_int;

use super::{Outcome, Start, begun, or_leave};
use crate::call::{Divided, Received, Sent};
use crate::error::Result;
use crate::family::Family;
use crate::layout::{Addresses, Bytes, Room};

impl<A: Family> Start<'_, A> {
    /// # Safety
    /// The arguments are those of `MPI_Igatherv`.
    pub(crate) unsafe fn gatherv(mut self, send: Sent<A>, receive: Divided<A>, root: c_int) -> Outcome {
        or_leave!(self.takes_any());
        let root = or_leave!(self.root(root));
        if self.group.member() != root {
            // SAFETY: the caller vouches for the arguments.
            let own = or_leave!(unsafe { send.buffer(self.stock) });
            let blocks = Vec::<Bytes>::new();
            return begun(self.group.igather_blocks(root, own.lend(self.stock)?, blocks)?, |_| Ok(()));
        }
        // SAFETY: as above.
        let blocks = or_leave!(unsafe { receive.blocks(self.stock, self.group.size()) });
        // SAFETY: as above.
        let own = or_leave!(unsafe { send.buffer_or(self.stock, blocks.block(root)) });
        // SAFETY: as above.
        or_leave!(unsafe { self.stock.apart_from_block(send, &receive, (root, blocks.block(root))) });
        let own = own.lend_beside(self.stock, blocks.addresses())?;
        let (bytes, rooms) = blocks.rooms(self.stock)?;
        begun(self.group.igather_blocks(root, own, bytes)?, |(_, bytes)| fill(rooms, bytes))
    }

    /// # Safety
    /// The arguments are those of `MPI_Iscatterv`.
    pub(crate) unsafe fn scatterv(mut self, send: Divided<A>, receive: Received<A>, root: c_int) -> Outcome {
        or_leave!(self.takes_any());
        let root = or_leave!(self.root(root));
        if self.group.member() != root {
            // SAFETY: the caller vouches for the arguments.
            let own = or_leave!(unsafe { receive.buffer(self.stock) });
            let ((bytes, room), blocks) = (own.room(self.stock)?, Vec::<Bytes>::new());
            return begun(self.group.iscatter_blocks(root, blocks, bytes)?, |(_, bytes)| room.fill(bytes));
        }
        // SAFETY: as above.
        let blocks = or_leave!(unsafe { send.blocks(self.stock, self.group.size()) });
        if A::is_in_place(receive.at) {
            let data = blocks.lend_beside(self.stock, Addresses::NONE)?;
            let own = Bytes::Own(vec![0; data[root].as_ref().len()]);
            return begun(self.group.iscatter_blocks(root, data, own)?, |_| Ok(()));
        }
        // SAFETY: as above.
        let own = or_leave!(unsafe { receive.buffer(self.stock) });
        // SAFETY: as above.
        or_leave!(unsafe { self.stock.apart_from_block(receive.into(), &send, (root, blocks.block(root))) });
        let data = blocks.lend_beside(self.stock, own.addresses())?;
        let (bytes, room) = own.room(self.stock)?;
        begun(self.group.iscatter_blocks(root, data, bytes)?, |(_, bytes)| room.fill(bytes))
    }

    /// # Safety
    /// The arguments are those of `MPI_Iallgatherv`.
    pub(crate) unsafe fn allgatherv(mut self, send: Sent<A>, receive: Divided<A>) -> Outcome {
        // SAFETY: the caller vouches for the arguments.
        let blocks = or_leave!(unsafe { receive.blocks(self.stock, self.group.size()) });
        or_leave!(self.takes(blocks.longest()));
        let own = self.group.member();
        if A::is_in_place(send.at) {
            let (mut bytes, rooms) = blocks.rooms(self.stock)?;
            if let Bytes::Own(packed) = &mut bytes[own] {
                *packed = blocks.block(own).read(self.stock)?.into_own();
            }
            return begun(self.group.iallgather_blocks(bytes)?, |bytes| fill(rooms, bytes));
        }
        // SAFETY: as above.
        let sent = or_leave!(unsafe { send.buffer(self.stock) });
        // SAFETY: as above.
        or_leave!(unsafe { self.stock.apart_from_block(send, &receive, (own, blocks.block(own))) });
        let sent = sent.lend_beside(self.stock, blocks.addresses())?;
        let (bytes, rooms) = blocks.rooms(self.stock)?;
        begun(self.group.iallgather_blocks_from(sent, bytes)?, |(_, bytes)| fill(rooms, bytes))
    }

    /// # Safety
    /// The arguments are those of `MPI_Ialltoallv` or `MPI_Ialltoallw`.
    pub(crate) unsafe fn alltoallv(mut self, send: Divided<A>, receive: Divided<A>) -> Outcome {
        or_leave!(self.takes_any());
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
        let sent = sent.as_ref().unwrap_or(&received).lend_beside(self.stock, received.addresses())?;
        let (bytes, rooms) = received.rooms(self.stock)?;
        begun(self.group.ialltoall_blocks(sent, bytes)?, |(_, bytes)| fill(rooms, bytes))
    }
}

fn fill<A: Family>(rooms: Vec<Room<A>>, blocks: Vec<Bytes>) -> Result<()> {
    rooms.into_iter().zip(blocks).try_for_each(|(room, bytes)| room.fill(bytes))
}
