//! Collectives of members on several nodes: through memory within a node, by messages between nodes.
//!
//! ```text
//!   barrier     each node checks in, the first members exchange, each node checks out: one schedule over both fabrics
//!   bcast       root ─► the first of its node ─► the first of each node ─► all of each node
//!   reduce      each node to its first ─► the first of the root's node ─► root
//!   allreduce   each node to its first ─► among the first ─► all of each node
//!   allgather   each node to its first ─► nodes' blocks among the first ─► all of each node
//! ```
//!
//! What is different for each member goes so, too (`by_nodes`). Scan and exscan, and what each member knows only its
//! own lengths of, goes by messages alone.

use std::ops::Range;
use std::sync::Arc;

use svmio_transport::message::Messenger;
use svmio_transport::{Rank, SegmentId};

use super::fabrics::Fabrics;
use super::group::{NetworkGroup, NetworkSettings};
use crate::algorithm::Algorithm;
use crate::executor::arguments::{check_elements, check_is_not_root, check_length};
use crate::executor::error::{Error, Result};
use crate::executor::group::{Group, GroupSettings, kept_after_errors};
use crate::executor::joining;
use crate::executor::operation::Operation;
use crate::partition::Partition;

/// A group of processes on several nodes, as one of its members holds it.
///
/// All members do the same operations in the same order. After an error the group is of no more use, for all members,
/// as it is with a [`NetworkGroup`].
#[derive(Debug)]
pub struct TwoLevelGroup {
    /// All members, by messages.
    pub(super) all: NetworkGroup,
    /// The members of this node, unless there is only this one.
    pub(super) node: Option<Group>,
    /// The first members of the nodes, where this is one, and there are several.
    pub(super) first: Option<NetworkGroup>,
    /// The members of each node; nodes in the order of their first members.
    pub(super) nodes: Vec<Vec<usize>>,
    /// Which node each member is on, and which of its members it is.
    pub(super) places: Vec<(usize, usize)>,
    /// Whether the members of each node follow each other, so that nodes are combined in the order of members.
    is_ordered: bool,
    longest_element: usize,
}

/// The segments' numbers of a group's parts: the caller's id, and the two that follow it.
const PARTS: u32 = 3;

impl TwoLevelGroup {
    /// Joins the group of `members`, which all call this with the same ones in the same order and the same settings.
    /// The `id` and the two whose numbers follow it none of them uses for anything else. As to `messenger`, see
    /// [`NetworkGroup::join`]. Where the settings have no barrier, it is one of two levels, with dissemination between
    /// the nodes.
    ///
    /// # Errors
    /// [`Error::Members`]; [`Error::NotJoined`] where another member fails; the fabric's. After one, the ids are not to
    /// be used again.
    pub fn join(
        fabrics: &Fabrics,
        messenger: &Arc<Messenger>,
        members: &[Rank],
        id: SegmentId,
        within: GroupSettings,
        between: NetworkSettings,
    ) -> Result<Self> {
        let join = || Self::join_all(fabrics, messenger, members, id, within, between);
        joining::attempt(fabrics, id, join)
    }

    fn join_all(
        fabrics: &Fabrics,
        messenger: &Arc<Messenger>,
        members: &[Rank],
        id: SegmentId,
        within: GroupSettings,
        between: NetworkSettings,
    ) -> Result<Self> {
        let own = joining::place_of(fabrics.job().rank(), members, id)?;
        let nodes = nodes_of(fabrics, members);
        let mut places = vec![(0, 0); members.len()];
        for (number, node) in nodes.iter().enumerate() {
            for (place, &member) in node.iter().enumerate() {
                places[member] = (number, place);
            }
        }
        let mut between = between;
        let alone = between.clone();
        if between.barrier.is_none() {
            between.barrier = Some(hierarchical(&places).map_err(|problem| Error::Members { id, problem })?);
        }
        let part = |number: u32| {
            debug_assert!(number < PARTS);
            SegmentId::new(id.space, id.number + number)
        };
        let ranks = |list: &[usize]| list.iter().map(|&member| members[member]).collect::<Vec<_>>();
        let (number, place) = places[own];
        let node = || -> Result<Option<Group>> {
            match fabrics.mapped() {
                Some(fabric) if nodes[number].len() > 1 => {
                    let mut node = Group::join(fabric, &ranks(&nodes[number]), part(1), within)?;
                    // Its first member may wait for one of another node that is lost, and leave with an error.
                    node.watch(members);
                    Ok(Some(node))
                }
                _ => Ok(None),
            }
        };
        let heads: Vec<usize> = nodes.iter().map(|node| node[0]).collect();
        let first = || match place {
            0 if nodes.len() > 1 => joining::attempt(fabrics, part(2), || {
                let settings = NetworkSettings { barrier: None, ..alone };
                // Within the attempt: the first members of other nodes hear of what fails within this one.
                let node = node()?;
                let mut first = NetworkGroup::join(fabrics, messenger, &ranks(&heads), part(2), settings)?;
                // All members hear of those by the messenger, which is that of all.
                first.watch(members);
                Ok((node, Some(first)))
            }),
            _ => Ok((node()?, None)),
        };
        let (node, first) = first()?;
        // Last: who comes to it has the others, and all hear of who has not.
        let all = NetworkGroup::join(fabrics, messenger, members, part(0), between)?;
        let is_ordered = nodes.concat().is_sorted();
        // Messages take elements of any length. Those of a node that has the most members are the shortest.
        let most = nodes.iter().map(Vec::len).filter(|&members| members > 1).max();
        let longest_element = most.map_or(usize::MAX, |members| within.longest_element(members));
        Ok(Self { all, node, first, nodes, places, is_ordered, longest_element })
    }

    /// How many members there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.all.size()
    }

    /// This member's number in the group.
    #[must_use]
    pub fn member(&self) -> usize {
        self.all.member()
    }

    /// Bytes of the longest element that every reduction takes: the same for all members.
    #[must_use]
    pub fn longest_element(&self) -> usize {
        self.longest_element
    }

    /// Has all members do `body`, by messages alone. Who fails there, leaves the group of two levels, too.
    ///
    /// # Errors
    /// That of `body`.
    pub fn flat<T>(&mut self, body: impl FnOnce(&mut NetworkGroup) -> Result<T>) -> Result<T> {
        self.attempt(|group| body(&mut group.all))
    }

    /// Has `meanwhile` called again and again while this member waits for others, as [`Group::do_meanwhile`] has it.
    pub fn do_meanwhile(&mut self, meanwhile: fn()) {
        let groups = [Some(&mut self.all), self.first.as_mut()];
        groups.into_iter().flatten().for_each(|group| group.do_meanwhile(meanwhile));
        if let Some(node) = &mut self.node {
            node.do_meanwhile(meanwhile);
        }
    }

    /// Returns when all members have come.
    ///
    /// # Errors
    /// The fabric's, for a lost member.
    pub fn barrier(&mut self) -> Result<()> {
        self.attempt(|group| group.all.barrier())
    }

    /// All get `root`'s `data`, which has the same length everywhere.
    ///
    /// # Errors
    /// As [`NetworkGroup::bcast`].
    pub fn bcast(&mut self, root: usize, data: &mut [u8]) -> Result<()> {
        self.attempt(|group| {
            group.all.check_member(root)?;
            if group.member() == root {
                return group.bcast_from(data);
            }
            let (root_node, root_place) = group.places[root];
            if group.own_node() == root_node {
                if let Some(node) = &mut group.node {
                    node.bcast(root_place, data)?;
                }
                return group.first.as_mut().map_or(Ok(()), |first| first.bcast_from(data));
            }
            if let Some(first) = &mut group.first {
                first.bcast(root_node, data)?;
            }
            group.node.as_mut().map_or(Ok(()), |node| node.bcast(0, data))
        })
    }

    /// [`bcast`](Self::bcast) as its root, which is this member, and only reads.
    ///
    /// # Errors
    /// As [`NetworkGroup::bcast`].
    pub fn bcast_from(&mut self, data: &[u8]) -> Result<()> {
        self.attempt(|group| {
            if let Some(node) = &mut group.node {
                node.bcast_from(data)?;
            }
            group.first.as_mut().map_or(Ok(()), |first| first.bcast_from(data))
        })
    }

    /// `data` becomes, at `root`, all members' `data` combined in the order of members; elsewhere it stays.
    ///
    /// # Errors
    /// As [`NetworkGroup::reduce`].
    pub fn reduce(&mut self, root: usize, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        self.attempt(|group| {
            group.all.check_member(root)?;
            if group.member() != root {
                return group.reduce_to(root, data, operation);
            }
            check_elements(data.len(), operation)?;
            if !group.combines(operation) {
                return group.all.reduce(root, data, operation);
            }
            let mut sum = data.to_vec();
            let reduced = group.reduce_by_nodes(root, &mut sum, operation);
            data.copy_from_slice(&kept_after_errors(sum, reduced)?);
            Ok(())
        })
    }

    /// [`reduce`](Self::reduce) as a member other than its root, which only reads.
    ///
    /// # Errors
    /// As [`NetworkGroup::reduce_to`].
    pub fn reduce_to(&mut self, root: usize, data: &[u8], operation: &dyn Operation) -> Result<()> {
        self.attempt(|group| {
            group.all.check_member(root)?;
            check_is_not_root(group.member(), root)?;
            check_elements(data.len(), operation)?;
            if !group.combines(operation) {
                return group.all.reduce_to(root, data, operation);
            }
            let mut sum = data.to_vec();
            let reduced = group.reduce_by_nodes(root, &mut sum, operation);
            kept_after_errors(sum, reduced).map(drop)
        })
    }

    /// `sum` becomes the result at `root`, and anything elsewhere.
    fn reduce_by_nodes(&mut self, root: usize, sum: &mut [u8], operation: &dyn Operation) -> Result<()> {
        let (root_node, root_place) = self.places[root];
        if let Some(node) = &mut self.node {
            node.reduce(0, sum, operation)?;
        }
        if let Some(first) = &mut self.first {
            first.reduce(root_node, sum, operation)?;
        }
        // The root's node passes it from its first on.
        if self.own_node() == root_node
            && root_place > 0
            && let Some(node) = &mut self.node
        {
            node.bcast(0, sum)?;
        }
        Ok(())
    }

    /// `data` becomes, for all, all members' `data` combined in the order of members.
    ///
    /// # Errors
    /// As [`NetworkGroup::allreduce`].
    pub fn allreduce(&mut self, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        self.attempt(|group| {
            check_elements(data.len(), operation)?;
            if !group.combines(operation) {
                return group.all.allreduce(data, operation);
            }
            if let Some(node) = &mut group.node {
                node.reduce(0, data, operation)?;
            }
            if let Some(first) = &mut group.first {
                first.allreduce(data, operation)?;
            }
            group.node.as_mut().map_or(Ok(()), |node| node.bcast(0, data))
        })
    }

    /// All get all members' `own`, which have the same length, one behind the other.
    ///
    /// # Errors
    /// As [`NetworkGroup::allgather`].
    pub fn allgather(&mut self, own: &[u8], into: &mut [u8]) -> Result<()> {
        self.attempt(|group| {
            let length = own.len();
            check_length("what is gathered", into.len(), length * group.size())?;
            if group.is_ordered || length == 0 {
                return group.allgather_by_nodes(own, into);
            }
            if !group.goes_by_nodes(into.len()) {
                let mut blocks: Vec<&mut [u8]> = into.chunks_exact_mut(length).collect();
                return group.allgather_blocks_from(own, &mut blocks);
            }
            let mut by_node = vec![0; into.len()];
            let gathered = group.allgather_by_nodes(own, &mut by_node);
            by_node = kept_after_errors(by_node, gathered)?;
            group.to_members(&by_node, length, into);
            Ok(())
        })
    }

    /// `target` becomes all members' `own`, node by node: straight into its place where that is the order of members.
    fn allgather_by_nodes(&mut self, own: &[u8], target: &mut [u8]) -> Result<()> {
        let blocks: Vec<Range<usize>> = self
            .nodes
            .iter()
            .scan(0, |end, node| {
                let begin = *end;
                *end += node.len() * own.len();
                Some(begin..*end)
            })
            .collect();
        let block = blocks[self.own_node()].clone();
        match &mut self.node {
            Some(node) => node.gather(0, own, &mut target[block])?,
            None => target[block].copy_from_slice(own),
        }
        if let Some(first) = &mut self.first {
            first.allgatherv(target, &blocks)?;
        }
        self.node.as_mut().map_or(Ok(()), |node| node.bcast(0, target))
    }

    pub(super) fn own_node(&self) -> usize {
        self.places[self.all.member()].0
    }

    /// Whether nodes can be combined one after the other.
    pub(super) fn combines(&self, operation: &dyn Operation) -> bool {
        self.is_ordered || operation.is_commutative()
    }
}

/// The members of each node, in their order; nodes in the order of their first members.
fn nodes_of(fabrics: &Fabrics, members: &[Rank]) -> Vec<Vec<usize>> {
    let mut nodes: Vec<Vec<usize>> = Vec::new();
    for (member, &rank) in members.iter().enumerate() {
        match nodes.iter_mut().find(|node| fabrics.are_near(members[node[0]], rank)) {
            Some(node) => node.push(member),
            None => nodes.push(vec![member]),
        }
    }
    nodes
}

/// A barrier of two levels for members on those nodes.
fn hierarchical(places: &[(usize, usize)]) -> Result<crate::schedule::Schedule, String> {
    let nodes = Partition::of_nodes(places.iter().map(|(node, _)| *node as u32));
    let algorithm: Algorithm = "two-level:dissemination".parse().map_err(|error| format!("{error}"))?;
    algorithm.schedule_on(&nodes).map_err(|error| error.to_string())
}
