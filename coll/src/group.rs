//! A communicator's group: of processes that share memory, or of several nodes, over a fabric or MPI's own messages.

use std::sync::Arc;

use svmio_collectives::executor::network::Background;
use svmio_collectives::executor::{self, NetworkGroup, Operation, Result, TwoLevelGroup};

use crate::behind::Behind;
use crate::chosen::Barrier;
use crate::company::Company;

/// A group, as one of its members holds it.
#[derive(Debug)]
pub(crate) struct Group {
    members: Members,
    /// What its barriers are, where the user wants another one than its own.
    barrier: Option<Box<Barrier>>,
    /// How many calls were begun, of members that share no memory.
    calls: u64,
}

#[derive(Debug)]
enum Members {
    OneMemory(Box<executor::Group>),
    Nodes(Box<Nodes>),
    OverMpi(Box<NetworkGroup>),
}

/// Members on several nodes.
#[derive(Debug)]
struct Nodes {
    group: TwoLevelGroup,
    /// The same members, for operations in the background, where there are any.
    background: Option<Background<TwoLevelGroup>>,
    company: Arc<Company>,
}

impl Group {
    pub(crate) fn of_memory(group: executor::Group) -> Self {
        Self { members: Members::OneMemory(Box::new(group)), barrier: None, calls: 0 }
    }

    pub(crate) fn of_network(group: TwoLevelGroup, company: Company) -> Self {
        let nodes = Nodes { group, background: None, company: Arc::new(company) };
        Self { members: Members::Nodes(Box::new(nodes)), barrier: None, calls: 0 }
    }

    /// Has operations in the background go by `background`, a group of the same members, where they are on several
    /// nodes.
    pub(crate) fn go_on_by(&mut self, background: Background<TwoLevelGroup>) {
        if let Members::Nodes(nodes) = &mut self.members {
            nodes.background = Some(background);
        }
    }

    /// Those that MPI's own messages are between.
    pub(crate) fn over_mpi(group: NetworkGroup) -> Self {
        Self { members: Members::OverMpi(Box::new(group)), barrier: None, calls: 0 }
    }

    /// The same with barriers by a component, where there is one.
    pub(crate) fn with_barrier(self, barrier: Option<Barrier>) -> Self {
        Self { barrier: barrier.map(Box::new), ..self }
    }

    /// Returns when all members have come.
    #[inline]
    pub(crate) fn barrier(&mut self) -> Result<()> {
        match &mut self.barrier {
            None => self.own_barrier(),
            Some(_) => self.chosen_barrier(),
        }
    }

    fn chosen_barrier(&mut self) -> Result<()> {
        let Some(barrier) = &mut self.barrier else { return Ok(()) };
        let held = barrier.wait();
        match &self.members {
            Members::Nodes(nodes) => held.map_err(|error| nodes.company.explained(error)),
            Members::OneMemory(_) | Members::OverMpi(_) => held,
        }
    }

    #[inline]
    fn own_barrier(&mut self) -> Result<()> {
        match &mut self.members {
            Members::OneMemory(group) => group.barrier(),
            Members::Nodes(nodes) => {
                self.calls += 1;
                let held = nodes.group.barrier();
                held.map_err(|error| nodes.company.explained(error))
            }
            Members::OverMpi(group) => {
                self.calls += 1;
                group.barrier()
            }
        }
    }

    /// How many members there are.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        match &self.members {
            Members::OneMemory(group) => group.size(),
            Members::Nodes(nodes) => nodes.group.size(),
            Members::OverMpi(group) => group.size(),
        }
    }

    /// This member's number.
    #[inline]
    pub(crate) fn member(&self) -> usize {
        match &self.members {
            Members::OneMemory(group) => group.member(),
            Members::Nodes(nodes) => nodes.group.member(),
            Members::OverMpi(group) => group.member(),
        }
    }

    /// Bytes of the longest element that every reduction takes: the same for all members.
    pub(crate) fn longest_element(&self) -> usize {
        match &self.members {
            Members::OneMemory(group) => group.longest_element(),
            Members::Nodes(nodes) => nodes.group.longest_element(),
            // Messages take elements of any length.
            Members::OverMpi(_) => usize::MAX,
        }
    }

    /// A number that is larger after each operation that others take part in.
    #[inline]
    pub(crate) fn operations(&self) -> u64 {
        match &self.members {
            Members::OneMemory(group) => group.operations(),
            Members::Nodes(_) | Members::OverMpi(_) => self.calls,
        }
    }

    /// What operations in the background are begun by, where there are any.
    pub(crate) fn behind(&mut self) -> Option<Behind<'_>> {
        match &mut self.members {
            Members::OneMemory(group) => Some(Behind::OneMemory(group)),
            Members::Nodes(nodes) => {
                let (member, company) = (nodes.group.member(), &nodes.company);
                nodes.background.as_mut().map(|background| Behind::Nodes { background, member, company })
            }
            Members::OverMpi(_) => None,
        }
    }

    /// Has the others hear that this member does no more operations, unless they hear of what has gone wrong by
    /// themselves.
    #[cold]
    pub(crate) fn withdraw(&mut self, error: &crate::error::Error) {
        if error.is_heard_by_all() {
            return;
        }
        let reason = error.to_string();
        if let Some(barrier) = &mut self.barrier {
            barrier.withdraw(&reason);
        }
        match &mut self.members {
            Members::OneMemory(group) => group.withdraw(&reason),
            Members::Nodes(nodes) => {
                nodes.group.withdraw(&reason);
                if let Some(background) = &mut nodes.background {
                    background.withdraw(&reason);
                }
            }
            Members::OverMpi(group) => group.withdraw(&reason),
        }
    }

    /// Has `meanwhile` called again and again while this member waits for others.
    pub(crate) fn do_meanwhile(&mut self, meanwhile: fn()) {
        if let Some(barrier) = &mut self.barrier {
            barrier.do_meanwhile(meanwhile);
        }
        match &mut self.members {
            Members::OneMemory(group) => group.do_meanwhile(meanwhile),
            Members::Nodes(nodes) => {
                nodes.group.do_meanwhile(meanwhile);
                if let Some(background) = &mut nodes.background {
                    background.do_meanwhile(meanwhile);
                }
            }
            Members::OverMpi(group) => group.do_meanwhile(meanwhile),
        }
    }
}

macro_rules! operations {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        /// The functions of the same names of [`executor::Group`].
        impl Group {
            $(
                #[inline]
                pub(crate) fn $name(&mut self, $($argument: $kind),*) -> Result<()> {
                    match &mut self.members {
                        Members::OneMemory(group) => group.$name($($argument),*),
                        Members::Nodes(nodes) => {
                            self.calls += 1;
                            let done = nodes.group.$name($($argument),*);
                            done.map_err(|error| nodes.company.explained(error))
                        }
                        Members::OverMpi(group) => {
                            self.calls += 1;
                            group.$name($($argument),*)
                        }
                    }
                }
            )*
        }
    };
}

operations! {
    bcast(root: usize, data: &mut [u8]);
    bcast_from(data: &[u8]);
    gather(root: usize, own: &[u8], into: &mut [u8]);
    gather_blocks(root: usize, own: &[u8], blocks: &mut [&mut [u8]]);
    scatter(root: usize, data: &[u8], into: &mut [u8]);
    scatter_blocks(root: usize, blocks: &[&[u8]], into: &mut [u8]);
    allgather(own: &[u8], into: &mut [u8]);
    allgather_blocks(blocks: &mut [&mut [u8]]);
    allgather_blocks_from(own: &[u8], blocks: &mut [&mut [u8]]);
    alltoall(data: &[u8], into: &mut [u8]);
    alltoall_blocks(sent: &[&[u8]], received: &mut [&mut [u8]]);
    reduce(root: usize, data: &mut [u8], operation: &dyn Operation);
    reduce_to(root: usize, data: &[u8], operation: &dyn Operation);
    allreduce(data: &mut [u8], operation: &dyn Operation);
    reduce_scatter(data: &[u8], counts: &[usize], into: &mut [u8], operation: &dyn Operation);
    scan(data: &mut [u8], operation: &dyn Operation);
    exscan(data: &mut [u8], operation: &dyn Operation);
    exscan_from(data: &[u8], operation: &dyn Operation);
}
