//! What carries out a communicator's collectives in the background: its group, where the members share memory, and
//! otherwise a second group, which a thread carries out operations by.

use std::sync::Arc;

use svmio_collectives::executor::network::{Background, Pending};
use svmio_collectives::executor::{Group, Operation, Request, Result, TwoLevelGroup};

use crate::company::Company;

/// What an operation in the background is begun by.
pub(crate) enum Behind<'g> {
    OneMemory(&'g mut Group),
    Nodes { background: &'g mut Background<TwoLevelGroup>, member: usize, company: &'g Arc<Company> },
}

/// An operation that was begun, with its buffers.
pub(crate) enum Going<B> {
    OneMemory(Request<B>),
    Nodes(Pending<B>, Arc<Company>),
}

impl<B> Going<B> {
    /// Whether it is over. Takes it further where that needs no waiting.
    pub(crate) fn test(&self) -> bool {
        match self {
            Self::OneMemory(request) => request.test(),
            Self::Nodes(pending, _) => pending.test(),
        }
    }

    /// Returns when it is over.
    pub(crate) fn wait_until_done(&self) {
        match self {
            Self::OneMemory(request) => request.wait_until_done(),
            Self::Nodes(pending, _) => pending.wait_until_done(),
        }
    }

    /// Returns the buffers when it is over.
    ///
    /// # Errors
    /// The operation's.
    pub(crate) fn wait(self) -> Result<B> {
        match self {
            Self::OneMemory(request) => request.wait(),
            Self::Nodes(pending, company) => pending.wait().map_err(|error| company.explained(error)),
        }
    }
}

/// Memory that an operation reads, or writes.
pub(crate) trait Source: AsRef<[u8]> + Send + 'static {}
impl<S: AsRef<[u8]> + Send + 'static> Source for S {}
pub(crate) trait Target: AsMut<[u8]> + Send + 'static {}
impl<D: AsMut<[u8]> + Send + 'static> Target for D {}

/// Begins an operation by whichever it is.
macro_rules! begin {
    ($behind:expr, $group:ident.$begin:ident($($argument:expr),*), $buffers:expr, $work:expr) => {
        match $behind {
            Behind::OneMemory($group) => $group.$begin($($argument),*).map(Going::OneMemory),
            Behind::Nodes { background, company, .. } => {
                background.start($buffers, $work).map(|pending| Going::Nodes(pending, Arc::clone(company)))
            }
        }
    };
}

/// The functions of the same names of [`Group`].
impl Behind<'_> {
    /// How many members there are.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::OneMemory(group) => group.size(),
            Self::Nodes { company, .. } => company.size(),
        }
    }

    /// This member's number.
    pub(crate) fn member(&self) -> usize {
        match self {
            Self::OneMemory(group) => group.member(),
            Self::Nodes { member, .. } => *member,
        }
    }

    pub(crate) fn ibarrier(&mut self) -> Result<Going<()>> {
        begin!(self, group.ibarrier(), (), |group, ()| group.barrier())
    }

    pub(crate) fn ibcast<D: Target>(&mut self, root: usize, data: D) -> Result<Going<D>> {
        begin!(self, group.ibcast(root, data), data, move |group, data| group.bcast(root, data.as_mut()))
    }

    pub(crate) fn ibcast_from<S: Source>(&mut self, data: S) -> Result<Going<S>> {
        begin!(self, group.ibcast_from(data), data, move |group, data| group.bcast_from(data.as_ref()))
    }

    pub(crate) fn igather<S: Source, D: Target>(
        &mut self,
        root: usize,
        own: S,
        into: D,
    ) -> Result<Going<(S, D)>> {
        begin!(self, group.igather(root, own, into), (own, into), move |group, (own, into)| {
            group.gather(root, own.as_ref(), into.as_mut())
        })
    }

    pub(crate) fn igather_blocks<S: Source, D: Target>(
        &mut self,
        root: usize,
        own: S,
        blocks: Vec<D>,
    ) -> Result<Going<(S, Vec<D>)>> {
        begin!(self, group.igather_blocks(root, own, blocks), (own, blocks), move |group, (own, blocks)| {
            group.gather_blocks(root, own.as_ref(), &mut rooms(blocks))
        })
    }

    pub(crate) fn iscatter<S: Source, D: Target>(
        &mut self,
        root: usize,
        data: S,
        into: D,
    ) -> Result<Going<(S, D)>> {
        begin!(self, group.iscatter(root, data, into), (data, into), move |group, (data, into)| {
            group.scatter(root, data.as_ref(), into.as_mut())
        })
    }

    pub(crate) fn iscatter_blocks<S: Source, D: Target>(
        &mut self,
        root: usize,
        blocks: Vec<S>,
        into: D,
    ) -> Result<Going<(Vec<S>, D)>> {
        begin!(
            self,
            group.iscatter_blocks(root, blocks, into),
            (blocks, into),
            move |group, (blocks, into)| { group.scatter_blocks(root, &data(blocks), into.as_mut()) }
        )
    }

    pub(crate) fn iallgather<S: Source, D: Target>(&mut self, own: S, into: D) -> Result<Going<(S, D)>> {
        begin!(self, group.iallgather(own, into), (own, into), move |group, (own, into)| {
            group.allgather(own.as_ref(), into.as_mut())
        })
    }

    pub(crate) fn iallgather_blocks<D: Target>(&mut self, blocks: Vec<D>) -> Result<Going<Vec<D>>> {
        begin!(self, group.iallgather_blocks(blocks), blocks, move |group, blocks| {
            group.allgather_blocks(&mut rooms(blocks))
        })
    }

    pub(crate) fn iallgather_blocks_from<S: Source, D: Target>(
        &mut self,
        own: S,
        blocks: Vec<D>,
    ) -> Result<Going<(S, Vec<D>)>> {
        begin!(self, group.iallgather_blocks_from(own, blocks), (own, blocks), move |group, (own, blocks)| {
            group.allgather_blocks_from(own.as_ref(), &mut rooms(blocks))
        })
    }

    pub(crate) fn ialltoall<S: Source, D: Target>(&mut self, data: S, into: D) -> Result<Going<(S, D)>> {
        begin!(self, group.ialltoall(data, into), (data, into), move |group, (data, into)| {
            group.alltoall(data.as_ref(), into.as_mut())
        })
    }

    pub(crate) fn ialltoall_blocks<S: Source, D: Target>(
        &mut self,
        sent: Vec<S>,
        received: Vec<D>,
    ) -> Result<Going<(Vec<S>, Vec<D>)>> {
        begin!(
            self,
            group.ialltoall_blocks(sent, received),
            (sent, received),
            move |group, (sent, received)| { group.alltoall_blocks(&data(sent), &mut rooms(received)) }
        )
    }

    pub(crate) fn ireduce<D: Target, O: Operation + Send + 'static>(
        &mut self,
        root: usize,
        data: D,
        operation: O,
    ) -> Result<Going<D>> {
        begin!(self, group.ireduce(root, data, operation), data, move |group, data| {
            group.reduce(root, data.as_mut(), &operation)
        })
    }

    pub(crate) fn ireduce_to<S: Source, O: Operation + Send + 'static>(
        &mut self,
        root: usize,
        data: S,
        operation: O,
    ) -> Result<Going<S>> {
        begin!(self, group.ireduce_to(root, data, operation), data, move |group, data| {
            group.reduce_to(root, data.as_ref(), &operation)
        })
    }

    pub(crate) fn iallreduce<D: Target, O: Operation + Send + 'static>(
        &mut self,
        data: D,
        operation: O,
    ) -> Result<Going<D>> {
        begin!(self, group.iallreduce(data, operation), data, move |group, data| {
            group.allreduce(data.as_mut(), &operation)
        })
    }

    pub(crate) fn ireduce_scatter<S: Source, D: Target, O: Operation + Send + 'static>(
        &mut self,
        data: S,
        counts: Vec<usize>,
        into: D,
        operation: O,
    ) -> Result<Going<(S, D)>> {
        begin!(
            self,
            group.ireduce_scatter(data, counts, into, operation),
            (data, into),
            move |group, buffers| {
                let (data, into) = buffers;
                group.reduce_scatter(data.as_ref(), &counts, into.as_mut(), &operation)
            }
        )
    }

    pub(crate) fn iscan<D: Target, O: Operation + Send + 'static>(
        &mut self,
        data: D,
        operation: O,
    ) -> Result<Going<D>> {
        begin!(self, group.iscan(data, operation), data, move |group, data| {
            group.scan(data.as_mut(), &operation)
        })
    }

    pub(crate) fn iexscan<D: Target, O: Operation + Send + 'static>(
        &mut self,
        data: D,
        operation: O,
    ) -> Result<Going<D>> {
        begin!(self, group.iexscan(data, operation), data, move |group, data| {
            group.exscan(data.as_mut(), &operation)
        })
    }

    pub(crate) fn iexscan_from<S: Source, O: Operation + Send + 'static>(
        &mut self,
        data: S,
        operation: O,
    ) -> Result<Going<S>> {
        begin!(self, group.iexscan_from(data, operation), data, move |group, data| {
            group.exscan_from(data.as_ref(), &operation)
        })
    }
}

fn data<S: AsRef<[u8]>>(blocks: &[S]) -> Vec<&[u8]> {
    blocks.iter().map(AsRef::as_ref).collect()
}

fn rooms<D: AsMut<[u8]>>(blocks: &mut [D]) -> Vec<&mut [u8]> {
    blocks.iter_mut().map(AsMut::as_mut).collect()
}
