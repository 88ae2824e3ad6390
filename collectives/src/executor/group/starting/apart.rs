//! The same of data that lies apart, and of members that only give.

use crate::executor::error::Result;
use crate::executor::group::Group;
use crate::executor::group::progress::Request;
use crate::executor::operation::Operation;

impl Group {
    /// Begins [`bcast_from`](Self::bcast_from).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn ibcast_from<S: AsRef<[u8]> + Send + 'static>(&mut self, data: S) -> Result<Request<S>> {
        self.start(data, move |group, data| group.bcast_from(data.as_ref()))
    }

    /// Begins [`allgather_blocks`](Self::allgather_blocks).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn iallgather_blocks<D: AsMut<[u8]> + Send + 'static>(
        &mut self,
        blocks: Vec<D>,
    ) -> Result<Request<Vec<D>>> {
        self.start(blocks, move |group, blocks| group.allgather_blocks(&mut rooms(blocks)))
    }

    /// Begins [`allgather_blocks_from`](Self::allgather_blocks_from).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn iallgather_blocks_from<S: AsRef<[u8]> + Send + 'static, D: AsMut<[u8]> + Send + 'static>(
        &mut self,
        own: S,
        blocks: Vec<D>,
    ) -> Result<Request<(S, Vec<D>)>> {
        self.start((own, blocks), move |group, (own, blocks)| {
            group.allgather_blocks_from(own.as_ref(), &mut rooms(blocks))
        })
    }

    /// Begins [`gather_blocks`](Self::gather_blocks).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn igather_blocks<S: AsRef<[u8]> + Send + 'static, D: AsMut<[u8]> + Send + 'static>(
        &mut self,
        root: usize,
        own: S,
        blocks: Vec<D>,
    ) -> Result<Request<(S, Vec<D>)>> {
        self.start((own, blocks), move |group, (own, blocks)| {
            group.gather_blocks(root, own.as_ref(), &mut rooms(blocks))
        })
    }

    /// Begins [`scatter_blocks`](Self::scatter_blocks).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn iscatter_blocks<S: AsRef<[u8]> + Send + 'static, D: AsMut<[u8]> + Send + 'static>(
        &mut self,
        root: usize,
        blocks: Vec<S>,
        into: D,
    ) -> Result<Request<(Vec<S>, D)>> {
        self.start((blocks, into), move |group, (blocks, into)| {
            group.scatter_blocks(root, &data(blocks), into.as_mut())
        })
    }

    /// Begins [`alltoall_blocks`](Self::alltoall_blocks).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn ialltoall_blocks<S: AsRef<[u8]> + Send + 'static, D: AsMut<[u8]> + Send + 'static>(
        &mut self,
        sent: Vec<S>,
        received: Vec<D>,
    ) -> Result<Request<(Vec<S>, Vec<D>)>> {
        self.start((sent, received), move |group, (sent, received)| {
            group.alltoall_blocks(&data(sent), &mut rooms(received))
        })
    }

    /// Begins [`reduce_to`](Self::reduce_to).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn ireduce_to<S: AsRef<[u8]> + Send + 'static, O: Operation + Send + 'static>(
        &mut self,
        root: usize,
        data: S,
        operation: O,
    ) -> Result<Request<S>> {
        self.start(data, move |group, data| group.reduce_to(root, data.as_ref(), &operation))
    }

    /// Begins [`exscan_from`](Self::exscan_from).
    ///
    /// # Errors
    /// The system's, where the first operation of a group gets no thread or stack.
    pub fn iexscan_from<S: AsRef<[u8]> + Send + 'static, O: Operation + Send + 'static>(
        &mut self,
        data: S,
        operation: O,
    ) -> Result<Request<S>> {
        self.start(data, move |group, data| group.exscan_from(data.as_ref(), &operation))
    }
}

fn data<S: AsRef<[u8]>>(blocks: &[S]) -> Vec<&[u8]> {
    blocks.iter().map(AsRef::as_ref).collect()
}

fn rooms<D: AsMut<[u8]>>(blocks: &mut [D]) -> Vec<&mut [u8]> {
    blocks.iter_mut().map(AsMut::as_mut).collect()
}
