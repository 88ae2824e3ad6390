//! Barrier, and data from member to member in blocks of one length.

use std::ffi::{c_int, c_void};

use svmio_adio::abi::Datatype;

use super::{Call, Outcome, or_leave};
use crate::family::Family;
use crate::layout::Buffer;

impl<A: Family> Call<'_, A> {
    pub(crate) fn barrier(self) -> Outcome {
        self.group.barrier()?;
        Ok(true)
    }

    /// # Safety
    /// The arguments are those of `MPI_Bcast`.
    pub(crate) unsafe fn bcast(
        self,
        buffer: *mut c_void,
        count: i64,
        datatype: Datatype<A>,
        root: c_int,
    ) -> Outcome {
        // SAFETY: the caller vouches for the arguments.
        let buffer = or_leave!(unsafe { Buffer::of(self.stock, buffer, count, datatype) });
        let root = or_leave!(self.root(root));
        if self.group.member() == root {
            self.group.bcast_from(&buffer.read(self.stock)?)?;
        } else {
            buffer.write(self.stock, |bytes| Ok(self.group.bcast(root, bytes)?))?;
        }
        Ok(true)
    }

    /// # Safety
    /// The arguments are those of `MPI_Gather`.
    pub(crate) unsafe fn gather(self, send: Sent<A>, receive: Received<A>, root: c_int) -> Outcome {
        let root = or_leave!(self.root(root));
        if self.group.member() != root {
            // SAFETY: the caller vouches for the arguments.
            let own = or_leave!(unsafe { send.buffer(self.stock) });
            self.group.gather(root, &own.read(self.stock)?, &mut [])?;
            return Ok(true);
        }
        // SAFETY: as above.
        let block = or_leave!(unsafe { receive.buffer(self.stock) });
        // SAFETY: as above.
        let own = or_leave!(unsafe { send.buffer_or(self.stock, block.next(root)) });
        or_leave!(self.stock.apart(send, receive.into(), root * block.len()));
        let all = block.times(self.group.size());
        let own = own.read_beside(self.stock, all.addresses())?;
        all.write(self.stock, |into| Ok(self.group.gather(root, &own, into)?))?;
        Ok(true)
    }

    /// # Safety
    /// The arguments are those of `MPI_Scatter`.
    pub(crate) unsafe fn scatter(self, send: Sent<A>, receive: Received<A>, root: c_int) -> Outcome {
        let root = or_leave!(self.root(root));
        if self.group.member() != root {
            // SAFETY: the caller vouches for the arguments.
            let own = or_leave!(unsafe { receive.buffer(self.stock) });
            own.write(self.stock, |into| Ok(self.group.scatter(root, &[], into)?))?;
            return Ok(true);
        }
        // SAFETY: as above.
        let block = or_leave!(unsafe { send.buffer(self.stock) });
        let all = block.times(self.group.size());
        if A::is_in_place(receive.at) {
            let data = all.read(self.stock)?;
            self.group.scatter(root, &data, &mut vec![0; block.len()])?;
        } else {
            // SAFETY: as above.
            let own = or_leave!(unsafe { receive.buffer(self.stock) });
            or_leave!(self.stock.apart(receive.into(), send, root * block.len()));
            let data = all.read_beside(self.stock, own.addresses())?;
            own.write(self.stock, |into| Ok(self.group.scatter(root, &data, into)?))?;
        }
        Ok(true)
    }

    /// # Safety
    /// The arguments are those of `MPI_Allgather`.
    pub(crate) unsafe fn allgather(self, send: Sent<A>, receive: Received<A>) -> Outcome {
        // SAFETY: the caller vouches for the arguments.
        let block = or_leave!(unsafe { receive.buffer(self.stock) });
        let member = self.group.member();
        // SAFETY: as above.
        let own = or_leave!(unsafe { send.buffer_or(self.stock, block.next(member)) });
        or_leave!(self.stock.apart(send, receive.into(), member * block.len()));
        let all = block.times(self.group.size());
        let own = own.read_beside(self.stock, all.addresses())?;
        all.write(self.stock, |into| Ok(self.group.allgather(&own, into)?))?;
        Ok(true)
    }

    /// # Safety
    /// The arguments are those of `MPI_Alltoall`.
    pub(crate) unsafe fn alltoall(self, send: Sent<A>, receive: Received<A>) -> Outcome {
        // SAFETY: the caller vouches for the arguments.
        let block = or_leave!(unsafe { receive.buffer(self.stock) });
        let size = self.group.size();
        let all = block.times(size);
        let sent = if A::is_in_place(send.at) {
            all
        } else {
            // SAFETY: as above.
            or_leave!(unsafe { send.buffer(self.stock) }).times(size)
        };
        or_leave!(self.stock.apart(send, receive.into(), 0));
        let sent = sent.read_beside(self.stock, all.addresses())?;
        all.write(self.stock, |into| Ok(self.group.alltoall(&sent, into)?))?;
        Ok(true)
    }
}

/// What a call says of what it sends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent<A: Family> {
    pub(crate) at: *const c_void,
    pub(crate) count: i64,
    pub(crate) datatype: Datatype<A>,
}

impl<A: Family> Sent<A> {
    /// # Safety
    /// It is that of a call.
    pub(super) unsafe fn buffer(&self, stock: &crate::stock::Stock<A>) -> Option<Buffer<A>> {
        // SAFETY: the caller vouches for it.
        unsafe { Buffer::of(stock, self.at, self.count, self.datatype) }
    }

    /// The buffer; `there` where it is in place.
    ///
    /// # Safety
    /// As for [`buffer`](Self::buffer).
    pub(super) unsafe fn buffer_or(
        &self,
        stock: &crate::stock::Stock<A>,
        there: Buffer<A>,
    ) -> Option<Buffer<A>> {
        if A::is_in_place(self.at) {
            return Some(there);
        }
        // SAFETY: as above.
        unsafe { self.buffer(stock) }
    }
}

/// What a call says of what it receives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received<A: Family> {
    pub(crate) at: *mut c_void,
    pub(crate) count: i64,
    pub(crate) datatype: Datatype<A>,
}

impl<A: Family> Received<A> {
    /// # Safety
    /// It is that of a call.
    pub(super) unsafe fn buffer(&self, stock: &crate::stock::Stock<A>) -> Option<Buffer<A>> {
        // SAFETY: the caller vouches for it.
        unsafe { Buffer::of(stock, self.at, self.count, self.datatype) }
    }
}

impl<A: Family> From<Received<A>> for Sent<A> {
    fn from(Received { at, count, datatype }: Received<A>) -> Self {
        Self { at, count, datatype }
    }
}
