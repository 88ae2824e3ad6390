//! Each operation begun, to be waited for later.
//!
//! All members begin the operations of a group's background in the same order, and do the operations that they wait in
//! in the same order; the two kinds may be mixed in any way, differently at each member, and never match each other.
//! Any number may be outstanding; they are carried out one after the other, as they were begun.
//!
//! A request holds the buffers of its operation: anything that gives bytes, such as `Vec<u8>`, or memory that its owner
//! [lends](LentMemory). What an operation says of its lengths is checked when it is carried out, and told by
//! [`Request::wait`].

mod apart;

use std::ops::Range;
use std::ptr::NonNull;

use super::Group;
use super::progress::Request;
use crate::executor::error::Result;
use crate::executor::operation::Operation;

/// Memory that is lent to an operation by somebody who keeps the promise of [`new`](Self::new): a host library's users.
#[derive(Debug)]
pub struct LentMemory {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: whoever made it has promised that the memory is left to it, whatever thread uses it.
unsafe impl Send for LentMemory {}

impl LentMemory {
    /// The `length` bytes from `start`; where there are none, `start` does not matter.
    ///
    /// # Safety
    /// Until this is dropped, or the request that has it is complete without an error, the bytes must stay valid, and
    /// nobody else may write them; nor read them, where the operation writes there. Where the operation only reads,
    /// they need not be writable. After an error of the request, other members may still copy to and from them, until
    /// they are no more.
    #[must_use]
    pub unsafe fn new(start: *mut u8, length: usize) -> Self {
        match NonNull::new(start) {
            Some(start) if length > 0 => Self { start, length },
            _ => Self { start: NonNull::dangling(), length: 0 },
        }
    }
}

impl AsRef<[u8]> for LentMemory {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `new`'s caller promised that they are valid and that nobody writes them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl AsMut<[u8]> for LentMemory {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and operations ask for this only where they write, so that nobody else reads them either.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Group {
    /// Begins [`barrier`](Self::barrier).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn ibarrier(&mut self) -> Result<Request<()>> {
        self.start((), move |group, ()| group.barrier())
    }

    /// Begins [`bcast`](Self::bcast).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn ibcast<D: AsMut<[u8]> + Send + 'static>(&mut self, root: usize, data: D) -> Result<Request<D>> {
        self.start(data, move |group, data| group.bcast(root, data.as_mut()))
    }

    /// Begins [`allgather`](Self::allgather).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn iallgather<S: AsRef<[u8]> + Send + 'static, D: AsMut<[u8]> + Send + 'static>(
        &mut self,
        own: S,
        into: D,
    ) -> Result<Request<(S, D)>> {
        self.start((own, into), move |group, (own, into)| group.allgather(own.as_ref(), into.as_mut()))
    }

    /// Begins [`allgather_in_place`](Self::allgather_in_place).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn iallgather_in_place<D: AsMut<[u8]> + Send + 'static>(&mut self, data: D) -> Result<Request<D>> {
        self.start(data, move |group, data| group.allgather_in_place(data.as_mut()))
    }

    /// Begins [`allgatherv`](Self::allgatherv).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn iallgatherv<D: AsMut<[u8]> + Send + 'static>(
        &mut self,
        data: D,
        blocks: Vec<Range<usize>>,
    ) -> Result<Request<D>> {
        self.start(data, move |group, data| group.allgatherv(data.as_mut(), &blocks))
    }

    /// Begins [`gather`](Self::gather).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn igather<S: AsRef<[u8]> + Send + 'static, D: AsMut<[u8]> + Send + 'static>(
        &mut self,
        root: usize,
        own: S,
        into: D,
    ) -> Result<Request<(S, D)>> {
        self.start((own, into), move |group, (own, into)| group.gather(root, own.as_ref(), into.as_mut()))
    }

    /// Begins [`gather_in_place`](Self::gather_in_place).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn igather_in_place<D: AsMut<[u8]> + Send + 'static>(&mut self, data: D) -> Result<Request<D>> {
        self.start(data, move |group, data| group.gather_in_place(data.as_mut()))
    }

    /// Begins [`gatherv`](Self::gatherv).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn igatherv<S: AsRef<[u8]> + Send + 'static, D: AsMut<[u8]> + Send + 'static>(
        &mut self,
        root: usize,
        own: S,
        into: D,
        blocks: Vec<Range<usize>>,
    ) -> Result<Request<(S, D)>> {
        self.start((own, into), move |group, (own, into)| {
            group.gatherv(root, own.as_ref(), into.as_mut(), &blocks)
        })
    }

    /// Begins [`gatherv_in_place`](Self::gatherv_in_place).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn igatherv_in_place<D: AsMut<[u8]> + Send + 'static>(
        &mut self,
        data: D,
        blocks: Vec<Range<usize>>,
    ) -> Result<Request<D>> {
        self.start(data, move |group, data| group.gatherv_in_place(data.as_mut(), &blocks))
    }

    /// Begins [`scatter`](Self::scatter).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn iscatter<S: AsRef<[u8]> + Send + 'static, D: AsMut<[u8]> + Send + 'static>(
        &mut self,
        root: usize,
        data: S,
        into: D,
    ) -> Result<Request<(S, D)>> {
        self.start((data, into), move |group, (data, into)| group.scatter(root, data.as_ref(), into.as_mut()))
    }

    /// Begins [`scatter_in_place`](Self::scatter_in_place).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn iscatter_in_place<S: AsRef<[u8]> + Send + 'static>(&mut self, data: S) -> Result<Request<S>> {
        self.start(data, move |group, data| group.scatter_in_place(data.as_ref()))
    }

    /// Begins [`scatterv`](Self::scatterv).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn iscatterv<S: AsRef<[u8]> + Send + 'static, D: AsMut<[u8]> + Send + 'static>(
        &mut self,
        root: usize,
        data: S,
        blocks: Vec<Range<usize>>,
        into: D,
    ) -> Result<Request<(S, D)>> {
        self.start((data, into), move |group, (data, into)| {
            group.scatterv(root, data.as_ref(), &blocks, into.as_mut())
        })
    }

    /// Begins [`scatterv_in_place`](Self::scatterv_in_place).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn iscatterv_in_place<S: AsRef<[u8]> + Send + 'static>(
        &mut self,
        data: S,
        blocks: Vec<Range<usize>>,
    ) -> Result<Request<S>> {
        self.start(data, move |group, data| group.scatterv_in_place(data.as_ref(), &blocks))
    }

    /// Begins [`alltoall`](Self::alltoall).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn ialltoall<S: AsRef<[u8]> + Send + 'static, D: AsMut<[u8]> + Send + 'static>(
        &mut self,
        data: S,
        into: D,
    ) -> Result<Request<(S, D)>> {
        self.start((data, into), move |group, (data, into)| group.alltoall(data.as_ref(), into.as_mut()))
    }

    /// Begins [`alltoall_in_place`](Self::alltoall_in_place).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn ialltoall_in_place<D: AsMut<[u8]> + Send + 'static>(&mut self, data: D) -> Result<Request<D>> {
        self.start(data, move |group, data| group.alltoall_in_place(data.as_mut()))
    }

    /// Begins [`alltoallv`](Self::alltoallv).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn ialltoallv<S: AsRef<[u8]> + Send + 'static, D: AsMut<[u8]> + Send + 'static>(
        &mut self,
        data: S,
        sent: Vec<Range<usize>>,
        into: D,
        received: Vec<Range<usize>>,
    ) -> Result<Request<(S, D)>> {
        self.start((data, into), move |group, (data, into)| {
            group.alltoallv(data.as_ref(), &sent, into.as_mut(), &received)
        })
    }

    /// Begins [`alltoallv_in_place`](Self::alltoallv_in_place).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn ialltoallv_in_place<D: AsMut<[u8]> + Send + 'static>(
        &mut self,
        data: D,
        blocks: Vec<Range<usize>>,
    ) -> Result<Request<D>> {
        self.start(data, move |group, data| group.alltoallv_in_place(data.as_mut(), &blocks))
    }

    /// Begins [`reduce`](Self::reduce).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn ireduce<D: AsMut<[u8]> + Send + 'static, O: Operation + Send + 'static>(
        &mut self,
        root: usize,
        data: D,
        operation: O,
    ) -> Result<Request<D>> {
        self.start(data, move |group, data| group.reduce(root, data.as_mut(), &operation))
    }

    /// Begins [`allreduce`](Self::allreduce).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn iallreduce<D: AsMut<[u8]> + Send + 'static, O: Operation + Send + 'static>(
        &mut self,
        data: D,
        operation: O,
    ) -> Result<Request<D>> {
        self.start(data, move |group, data| group.allreduce(data.as_mut(), &operation))
    }

    /// Begins [`reduce_scatter`](Self::reduce_scatter).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn ireduce_scatter<
        S: AsRef<[u8]> + Send + 'static,
        D: AsMut<[u8]> + Send + 'static,
        O: Operation + Send + 'static,
    >(
        &mut self,
        data: S,
        counts: Vec<usize>,
        into: D,
        operation: O,
    ) -> Result<Request<(S, D)>> {
        self.start((data, into), move |group, (data, into)| {
            group.reduce_scatter(data.as_ref(), &counts, into.as_mut(), &operation)
        })
    }

    /// Begins [`reduce_scatter_in_place`](Self::reduce_scatter_in_place).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn ireduce_scatter_in_place<D: AsMut<[u8]> + Send + 'static, O: Operation + Send + 'static>(
        &mut self,
        data: D,
        counts: Vec<usize>,
        operation: O,
    ) -> Result<Request<D>> {
        self.start(data, move |group, data| group.reduce_scatter_in_place(data.as_mut(), &counts, &operation))
    }

    /// Begins [`scan`](Self::scan).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn iscan<D: AsMut<[u8]> + Send + 'static, O: Operation + Send + 'static>(
        &mut self,
        data: D,
        operation: O,
    ) -> Result<Request<D>> {
        self.start(data, move |group, data| group.scan(data.as_mut(), &operation))
    }

    /// Begins [`exscan`](Self::exscan).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn iexscan<D: AsMut<[u8]> + Send + 'static, O: Operation + Send + 'static>(
        &mut self,
        data: D,
        operation: O,
    ) -> Result<Request<D>> {
        self.start(data, move |group, data| group.exscan(data.as_mut(), &operation))
    }
}
