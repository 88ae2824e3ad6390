//! Barrier, and data from member to member in blocks of one length.

use std::ffi::{c_int, c_void};

use svmio_adio::abi::Datatype;

use super::{Outcome, Start, begun, or_leave};
use crate::call::{Received, Sent};
use crate::family::Family;
use crate::layout::{Buffer, Bytes};

impl<A: Family> Start<'_, A> {
    pub(crate) fn barrier(mut self) -> Outcome {
        or_leave!(self.takes_any());
        begun(self.group.ibarrier()?, |()| Ok(()))
    }

    /// # Safety
    /// The arguments are those of `MPI_Ibcast`.
    pub(crate) unsafe fn bcast(
        mut self,
        buffer: *mut c_void,
        count: i64,
        datatype: Datatype<A>,
        root: c_int,
    ) -> Outcome {
        // SAFETY: the caller vouches for the arguments.
        let buffer = or_leave!(unsafe { Buffer::of(self.stock, buffer, count, datatype) });
        let root = or_leave!(self.root(root));
        or_leave!(self.takes(buffer.len()));
        if self.group.member() == root {
            return begun(self.group.ibcast_from(buffer.lend(self.stock)?)?, |_| Ok(()));
        }
        let (bytes, room) = buffer.room(self.stock)?;
        begun(self.group.ibcast(root, bytes)?, |bytes| room.fill(bytes))
    }

    /// # Safety
    /// The arguments are those of `MPI_Igather`.
    pub(crate) unsafe fn gather(mut self, send: Sent<A>, receive: Received<A>, root: c_int) -> Outcome {
        let root = or_leave!(self.root(root));
        if self.group.member() != root {
            // SAFETY: the caller vouches for the arguments.
            let own = or_leave!(unsafe { send.buffer(self.stock) });
            or_leave!(self.takes(own.len()));
            return begun(self.group.igather(root, own.lend(self.stock)?, Bytes::NONE)?, |_| Ok(()));
        }
        // SAFETY: as above.
        let block = or_leave!(unsafe { receive.buffer(self.stock) });
        or_leave!(self.takes(block.len()));
        // SAFETY: as above.
        let own = or_leave!(unsafe { send.buffer_or(self.stock, block.next(root)) });
        or_leave!(self.stock.apart(send, receive.into(), root * block.len()));
        let all = block.times(self.group.size());
        let own = own.lend_beside(self.stock, all.addresses())?;
        let (bytes, room) = all.room(self.stock)?;
        begun(self.group.igather(root, own, bytes)?, |(_, bytes)| room.fill(bytes))
    }

    /// # Safety
    /// The arguments are those of `MPI_Iscatter`.
    pub(crate) unsafe fn scatter(mut self, send: Sent<A>, receive: Received<A>, root: c_int) -> Outcome {
        let root = or_leave!(self.root(root));
        if self.group.member() != root {
            // SAFETY: the caller vouches for the arguments.
            let own = or_leave!(unsafe { receive.buffer(self.stock) });
            or_leave!(self.takes(own.len()));
            let (bytes, room) = own.room(self.stock)?;
            return begun(self.group.iscatter(root, Bytes::NONE, bytes)?, |(_, bytes)| room.fill(bytes));
        }
        // SAFETY: as above.
        let block = or_leave!(unsafe { send.buffer(self.stock) });
        or_leave!(self.takes(block.len()));
        let all = block.times(self.group.size());
        if A::is_in_place(receive.at) {
            let (data, own) = (all.lend(self.stock)?, Bytes::Own(vec![0; block.len()]));
            return begun(self.group.iscatter(root, data, own)?, |_| Ok(()));
        }
        // SAFETY: as above.
        let own = or_leave!(unsafe { receive.buffer(self.stock) });
        or_leave!(self.stock.apart(receive.into(), send, root * block.len()));
        let data = all.lend_beside(self.stock, own.addresses())?;
        let (bytes, room) = own.room(self.stock)?;
        begun(self.group.iscatter(root, data, bytes)?, |(_, bytes)| room.fill(bytes))
    }

    /// # Safety
    /// The arguments are those of `MPI_Iallgather`.
    pub(crate) unsafe fn allgather(mut self, send: Sent<A>, receive: Received<A>) -> Outcome {
        // SAFETY: the caller vouches for the arguments.
        let block = or_leave!(unsafe { receive.buffer(self.stock) });
        or_leave!(self.takes(block.len()));
        let member = self.group.member();
        // SAFETY: as above.
        let own = or_leave!(unsafe { send.buffer_or(self.stock, block.next(member)) });
        or_leave!(self.stock.apart(send, receive.into(), member * block.len()));
        let all = block.times(self.group.size());
        let own = own.lend_beside(self.stock, all.addresses())?;
        let (bytes, room) = all.room(self.stock)?;
        begun(self.group.iallgather(own, bytes)?, |(_, bytes)| room.fill(bytes))
    }

    /// # Safety
    /// The arguments are those of `MPI_Ialltoall`.
    pub(crate) unsafe fn alltoall(mut self, send: Sent<A>, receive: Received<A>) -> Outcome {
        // SAFETY: the caller vouches for the arguments.
        let block = or_leave!(unsafe { receive.buffer(self.stock) });
        or_leave!(self.takes(block.len()));
        let size = self.group.size();
        let all = block.times(size);
        let sent = if A::is_in_place(send.at) {
            all
        } else {
            // SAFETY: as above.
            or_leave!(unsafe { send.buffer(self.stock) }).times(size)
        };
        or_leave!(self.stock.apart(send, receive.into(), 0));
        let sent = sent.lend_beside(self.stock, all.addresses())?;
        let (bytes, room) = all.room(self.stock)?;
        begun(self.group.ialltoall(sent, bytes)?, |(_, bytes)| room.fill(bytes))
    }
}
