//! What is different for each member, on two levels: a node's members tell their first one, and the first ones exchange
//! what is for each node. So each pair of nodes exchanges one message, where it would be one for each pair of members.
//!
//! ```text
//!   gather           each node to its first ─► the first of the root's node ─► root
//!   scatter          the same backwards
//!   alltoall         each node to its first ─► among the first ─► each of the node
//!   allgather        each node to its first ─► among the first ─► all of each node
//!   reduce_scatter   each node combined at its first ─► among the first ─► each of the node
//! ```
//!
//! What is so long that a node's first member would need much memory for it goes by messages alone, as all does where
//! no two members are on one node. Within and between nodes, blocks lie in the order of nodes, and of the members of
//! each. Only what all get of all never does: where its blocks are long, each comes by itself to where it belongs, and
//! needs no memory beside that; many short ones go together, as much of each at a time as there is memory for. And a
//! reduction's sum each member has beside its data anyway.

use std::ops::Range;

use super::two_level::TwoLevelGroup;
use crate::executor::arguments::{check_count, check_elements, check_length};
use crate::executor::blocks::apart_mut;
use crate::executor::error::Result;
use crate::executor::group::kept_after_errors;
use crate::executor::operation::Operation;

/// Of so many segments on average, blocks of what all get of all are long: messages of their own cost less than copies.
const LONG: usize = 2;

impl TwoLevelGroup {
    /// `root` gets all members' `own`, which have the same length, one behind the other; elsewhere `into` is not used.
    ///
    /// # Errors
    /// As [`NetworkGroup::gather`](super::NetworkGroup::gather).
    pub fn gather(&mut self, root: usize, own: &[u8], into: &mut [u8]) -> Result<()> {
        self.attempt(|group| {
            group.all.check_member(root)?;
            let (length, is_root) = (own.len(), group.member() == root);
            if !group.goes_by_nodes(length * group.size()) {
                return group.all.gather(root, own, into);
            }
            if is_root {
                check_length("what is gathered", into.len(), length * group.size())?;
            }
            let (root_node, root_place) = group.places[root];
            let is_roots_node = group.own_node() == root_node;
            let mut held = group.gathered_in_node(own)?;
            if let Some(first) = &mut group.first {
                let nodes = one_behind_the_other(group.nodes.iter().map(|node| node.len() * length));
                let mut all = vec![0; if is_roots_node { length * group.places.len() } else { 0 }];
                first.gatherv(root_node, &held, &mut all, &nodes)?;
                held = all;
            }
            if is_roots_node
                && root_place > 0
                && let Some(node) = &mut group.node
            {
                let mut parts: Vec<&[u8]> = vec![&[]; node.size()];
                parts[root_place] = &held;
                let mut passed = vec![0; if is_root { into.len() } else { 0 }];
                let scattered = node.scatter_blocks(0, &parts, &mut passed);
                kept_after_errors(held, scattered)?;
                held = passed;
            }
            if is_root {
                group.to_members(&held, length, into);
            }
            Ok(())
        })
    }

    /// All get their part of `root`'s `data`, which lie one behind the other and are as long as `into`; elsewhere
    /// `data` is not used.
    ///
    /// # Errors
    /// As [`NetworkGroup::scatter`](super::NetworkGroup::scatter).
    pub fn scatter(&mut self, root: usize, data: &[u8], into: &mut [u8]) -> Result<()> {
        self.attempt(|group| {
            group.all.check_member(root)?;
            let (length, is_root) = (into.len(), group.member() == root);
            if !group.goes_by_nodes(length * group.size()) {
                return group.all.scatter(root, data, into);
            }
            let mut held = Vec::new();
            if is_root {
                check_length("what is scattered", data.len(), length * group.size())?;
                held = group.by_nodes(data, length);
            }
            let (root_node, root_place) = group.places[root];
            let (own_node, own_place) = group.places[group.member()];
            let size = group.size();
            if own_node == root_node
                && root_place > 0
                && let Some(node) = &mut group.node
            {
                let mut all = vec![0; if own_place == 0 { length * size } else { 0 }];
                let mut parts: Vec<&mut [u8]> = (0..node.size()).map(|_| Default::default()).collect();
                parts[root_place] = &mut all;
                let (none, own): (&mut [&mut [u8]], &[u8]) = (&mut [], if is_root { &held } else { &[] });
                let gathered = node.gather_blocks(0, own, if own_place == 0 { &mut parts } else { none });
                held = kept_after_errors(all, gathered)?;
            }
            if let Some(first) = &mut group.first {
                let nodes = one_behind_the_other(group.nodes.iter().map(|node| node.len() * length));
                let mut own = vec![0; nodes[own_node].len()];
                first.scatterv(root_node, &held, &nodes, &mut own)?;
                held = own;
            }
            group.scattered_in_node(held, into)
        })
    }

    /// Each gets from each: part `i` of `data` goes to member `i`, and into part `j` comes what member `j` has for this
    /// one. All parts are equally long.
    ///
    /// # Errors
    /// As [`NetworkGroup::alltoall`](super::NetworkGroup::alltoall).
    pub fn alltoall(&mut self, data: &[u8], into: &mut [u8]) -> Result<()> {
        self.attempt(|group| {
            let size = group.size();
            let length = data.len() / size;
            let largest = group.nodes.iter().map(Vec::len).max().unwrap_or(1);
            if !group.goes_by_nodes(largest * data.len()) {
                return group.all.alltoall(data, into);
            }
            check_length("what is sent", data.len(), length * size)?;
            check_length("what is received", into.len(), data.len())?;
            // Of each of the node, for all.
            let held = group.gathered_in_node(&group.by_nodes(data, length))?;
            // For each of the node, of all.
            let mut arranged = Vec::new();
            let own_node = group.own_node();
            let members = group.nodes[own_node].len();
            if group.places[group.member()].1 == 0 {
                let targets = one_behind_the_other(group.nodes.iter().map(|node| node.len() * length));
                let sent = one_behind_the_other(targets.iter().map(|target| members * target.len()));
                let parts = targets.iter().flat_map(|target| {
                    (0..members)
                        .map(|from| from * size * length)
                        .map(move |at| at + target.start..at + target.end)
                });
                let leaving = parts.map(|part| &held[part]).collect::<Vec<_>>().concat();
                // What comes from a node is as long as what goes to it.
                let mut coming = vec![0; leaving.len()];
                match &mut group.first {
                    Some(first) => first.alltoallv(&leaving, &sent, &mut coming, &sent)?,
                    None => coming.copy_from_slice(&leaving),
                }
                let senders = coming.chunks_exact((members * length).max(1));
                arranged = vec![0; coming.len()];
                for (from, parts) in senders.enumerate() {
                    for (to, part) in parts.chunks_exact(length).enumerate() {
                        arranged[(to * size + from) * length..][..length].copy_from_slice(part);
                    }
                }
            }
            let mut own = vec![0; into.len()];
            group.scattered_in_node(arranged, &mut own)?;
            group.to_members(&own, length, into);
            Ok(())
        })
    }

    /// All get all members' blocks: `blocks` says where in `data` each lies, the same everywhere; each member's own is
    /// there already.
    ///
    /// # Errors
    /// As [`NetworkGroup::allgatherv`](super::NetworkGroup::allgatherv).
    pub fn allgatherv(&mut self, data: &mut [u8], blocks: &[Range<usize>]) -> Result<()> {
        self.attempt(|group| group.allgather_blocks(&mut apart_mut(data, blocks)?))
    }

    /// The same, where each block is memory by itself.
    ///
    /// # Errors
    /// As [`NetworkGroup::allgatherv`](super::NetworkGroup::allgatherv).
    pub fn allgather_blocks(&mut self, blocks: &mut [&mut [u8]]) -> Result<()> {
        self.attempt(|group| {
            check_count(blocks.len(), group.size())?;
            if !group.goes_by_nodes(0) {
                return group.all.allgather_blocks(blocks);
            }
            let length: usize = blocks.iter().map(|block| block.len()).sum();
            let long = LONG.saturating_mul(group.all.settings.segment).saturating_mul(group.size());
            if group.goes_by_nodes(length) || length < long {
                group.allgather_in_rounds(blocks)
            } else {
                group.allgather_apart(blocks)
            }
        })
    }

    /// In each round the next bytes of each block, together as many as a member keeps.
    fn allgather_in_rounds(&mut self, blocks: &mut [&mut [u8]]) -> Result<()> {
        let lengths: Vec<usize> = blocks.iter().map(|block| block.len()).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut begin = 0;
        loop {
            let end = end_of_round(&lengths, begin, self.all.settings.held);
            let parts = blocks.iter_mut().zip(&lengths);
            let parts = parts.map(|(block, &length)| &mut block[begin.min(length)..end.min(length)]);
            self.allgather_together(&mut parts.collect::<Vec<_>>())?;
            begin = end;
            if begin >= longest {
                return Ok(());
            }
        }
    }

    /// All blocks one behind the other, beside where they belong: so each pair of nodes exchanges one message.
    fn allgather_together(&mut self, blocks: &mut [&mut [u8]]) -> Result<()> {
        let lengths = self.nodes.iter().flatten().map(|&member| blocks[member].len());
        let ranges = one_behind_the_other(lengths);
        let nodes = self.ranges_of_nodes(&ranges);
        let own = self.member();
        let mut all = vec![0; ranges.last().map_or(0, |range| range.end)];
        let (own_node, own_place) = self.places[own];
        match &mut self.node {
            Some(node) => {
                let begin = nodes[own_node].start;
                let first = self.nodes[..own_node].iter().map(Vec::len).sum::<usize>();
                let parts: Vec<Range<usize>> = ranges[first..first + node.size()]
                    .iter()
                    .map(|range| range.start - begin..range.end - begin)
                    .collect();
                let none: &mut [u8] = &mut [];
                let into = if own_place == 0 { &mut all[nodes[own_node].clone()] } else { none };
                let gathered = node.gatherv(0, blocks[own], into, &parts);
                all = kept_after_errors(all, gathered)?;
            }
            None => all[nodes[own_node].clone()].copy_from_slice(blocks[own]),
        }
        if let Some(first) = &mut self.first {
            first.allgatherv(&mut all, &nodes)?;
        }
        if let Some(node) = &mut self.node {
            let told = node.bcast(0, &mut all);
            all = kept_after_errors(all, told)?;
        }
        for (&member, range) in self.nodes.iter().flatten().zip(ranges) {
            blocks[member].copy_from_slice(&all[range]);
        }
        Ok(())
    }

    /// Each block straight to where it belongs: between nodes those of their first members, then those of their second
    /// ones, and so on.
    fn allgather_apart(&mut self, blocks: &mut [&mut [u8]]) -> Result<()> {
        let own = self.member();
        let (own_node, own_place) = self.places[own];
        if let Some(node) = &mut self.node {
            if own_place == 0 {
                let of_node = blocks.iter_mut().zip(&self.places).filter(|(_, place)| place.0 == own_node);
                let mut of_node: Vec<&mut [u8]> = of_node.map(|(block, _)| &mut **block).collect();
                node.gather_blocks_in_place(&mut of_node)?;
            } else {
                node.gather_blocks(0, blocks[own], &mut [])?;
            }
        }
        if let Some(first) = &mut self.first {
            let largest = self.nodes.iter().map(Vec::len).max().unwrap_or(0);
            for place in 0..largest {
                let mut of_nodes: Vec<&mut [u8]> = self.nodes.iter().map(|_| Default::default()).collect();
                for (block, &(node, _)) in blocks.iter_mut().zip(&self.places).filter(|(_, at)| at.1 == place)
                {
                    of_nodes[node] = block;
                }
                first.allgather_blocks(&mut of_nodes)?;
            }
        }
        let Some(node) = &mut self.node else { return Ok(()) };
        blocks.iter_mut().try_for_each(|block| node.bcast(0, block))
    }

    /// The same, where each member's own is what it gives: `own`.
    ///
    /// # Errors
    /// As [`NetworkGroup::allgatherv`](super::NetworkGroup::allgatherv).
    pub fn allgather_blocks_from(&mut self, own: &[u8], blocks: &mut [&mut [u8]]) -> Result<()> {
        self.attempt(|group| {
            check_count(blocks.len(), group.size())?;
            let member = group.member();
            check_length("what a member gives to all", own.len(), blocks[member].len())?;
            blocks[member].copy_from_slice(own);
            group.allgather_blocks(blocks)
        })
    }

    /// All members' `data` combined in the order of members and divided among them: member `i` gets `counts[i]` bytes,
    /// behind those of the members before. `counts` are the same everywhere.
    ///
    /// # Errors
    /// As [`NetworkGroup::reduce_scatter`](super::NetworkGroup::reduce_scatter).
    pub fn reduce_scatter(
        &mut self,
        data: &[u8],
        counts: &[usize],
        into: &mut [u8],
        operation: &dyn Operation,
    ) -> Result<()> {
        self.attempt(|group| {
            if !group.combines(operation) || !group.goes_by_nodes(0) {
                return group.all.reduce_scatter(data, counts, into, operation);
            }
            check_length("the list of counts", counts.len(), group.size())?;
            check_length("what is combined", data.len(), counts.iter().sum())?;
            check_length("what is received", into.len(), counts[group.member()])?;
            counts.iter().try_for_each(|&count| check_elements(count, operation))?;
            let blocks = one_behind_the_other(counts.iter().copied());
            let order: Vec<usize> = group.nodes.iter().flatten().copied().collect();
            let parts = order.iter().map(|&member| &data[blocks[member].clone()]);
            let mut sum = parts.collect::<Vec<_>>().concat();
            let ranges = one_behind_the_other(order.iter().map(|&member| counts[member]));
            let nodes = group.ranges_of_nodes(&ranges);
            let own_node = group.own_node();
            if let Some(node) = &mut group.node {
                node.reduce(0, &mut sum, operation)?;
            }
            let mut held = sum;
            if let Some(first) = &mut group.first {
                let mut own = vec![0; nodes[own_node].len()];
                let counts: Vec<usize> = nodes.iter().map(Range::len).collect();
                first.reduce_scatter(&held, &counts, &mut own, operation)?;
                held = own;
            }
            let Some(node) = &mut group.node else {
                into.copy_from_slice(&held);
                return Ok(());
            };
            let parts = one_behind_the_other(group.nodes[own_node].iter().map(|&member| counts[member]));
            let scattered = node.scatterv(0, &held, &parts, into);
            kept_after_errors(held, scattered).map(drop)
        })
    }

    /// Whether something goes by nodes of which a first member keeps so many bytes: the same at all members.
    pub(super) fn goes_by_nodes(&self, bytes: usize) -> bool {
        self.nodes.len() < self.size() && bytes <= self.all.settings.held
    }

    /// The `own` of all of this node, at its first.
    fn gathered_in_node(&mut self, own: &[u8]) -> Result<Vec<u8>> {
        let is_first = self.places[self.member()].1 == 0;
        let Some(node) = &mut self.node else { return Ok(own.to_vec()) };
        let mut held = vec![0; if is_first { own.len() * node.size() } else { 0 }];
        let gathered = node.gather(0, own, &mut held);
        kept_after_errors(held, gathered)
    }

    /// To each of this node its part of what the first has.
    fn scattered_in_node(&mut self, held: Vec<u8>, into: &mut [u8]) -> Result<()> {
        match &mut self.node {
            Some(node) => {
                let scattered = node.scatter(0, &held, into);
                kept_after_errors(held, scattered).map(drop)
            }
            None => {
                into.copy_from_slice(&held);
                Ok(())
            }
        }
    }

    /// Parts in the order of members, in that of nodes.
    fn by_nodes(&self, data: &[u8], length: usize) -> Vec<u8> {
        let members = self.nodes.iter().flatten();
        members.map(|member| &data[member * length..][..length]).collect::<Vec<_>>().concat()
    }

    /// The reverse.
    pub(super) fn to_members(&self, data: &[u8], length: usize, into: &mut [u8]) {
        for (&member, part) in self.nodes.iter().flatten().zip(data.chunks_exact(length.max(1))) {
            into[member * length..][..length].copy_from_slice(part);
        }
    }

    /// From the first of a node's members to the last, where `ranges` are those of members in the order of nodes.
    fn ranges_of_nodes(&self, ranges: &[Range<usize>]) -> Vec<Range<usize>> {
        let mut ranges = ranges.iter();
        let lengths = self.nodes.iter().map(|node| ranges.by_ref().take(node.len()).map(Range::len).sum());
        one_behind_the_other(lengths)
    }
}

/// How far into blocks of these lengths a round goes that begins at `begin` and moves up to `most` bytes; at least one
/// of each.
fn end_of_round(lengths: &[usize], begin: usize, most: usize) -> usize {
    let fits = |end: usize| {
        lengths.iter().map(|&length| length.min(end).saturating_sub(begin)).sum::<usize>() <= most
    };
    let longest = lengths.iter().copied().max().unwrap_or(0);
    if fits(longest) {
        return longest;
    }
    // What fits goes on to fit with less: `longest` does not.
    let (mut fitting, mut too_far) = (begin, longest);
    while too_far - fitting > 1 {
        let middle = fitting.midpoint(too_far);
        if fits(middle) { fitting = middle } else { too_far = middle }
    }
    fitting.max(begin + 1)
}

/// Ranges of these lengths, one behind the other.
fn one_behind_the_other(lengths: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut end = 0;
    let range = |length: usize| {
        end += length;
        end - length..end
    };
    lengths.map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_moves_as_much_as_there_is_room_for() {
        assert_eq!(end_of_round(&[7, 7, 7], 0, 21), 7);
        assert_eq!(end_of_round(&[7, 7, 7], 0, 20), 6);
        assert_eq!(end_of_round(&[7, 7, 7], 6, 20), 7);
        // One that is longer than the others goes alone at last.
        assert_eq!(end_of_round(&[100, 0, 3, 3], 0, 20), 14);
        assert_eq!(end_of_round(&[100, 0, 3, 3], 14, 20), 34);
        // There is an end even where there is no room.
        assert_eq!(end_of_round(&[7, 7, 7], 3, 2), 4);
        assert_eq!(end_of_round(&[0, 0], 0, 20), 0);
        assert_eq!(end_of_round(&[usize::MAX >> 1; 2], 0, 4 << 20), 2 << 20);
    }
}
