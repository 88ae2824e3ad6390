//! The basic component: all functions, linear, by messages between pairs. What no other component offers falls to it,
//! so it is always there, on any fabric; and members agree by it on all others.
//!
//! It is meant to be plain. Each member's part of a function is one exchange with one member, or with each, in the
//! order of members. Here are the parts; what comes of a member that cannot do its own is in [`refusing`].

mod refusing;

use std::ops::Range;

use svmio_transport::Fabric;

use super::component::{Component, Wish};
use super::error::{Error, Result};
use super::function::Functions;
use super::module::Module;
use super::team::Team;
use crate::executor::Operation;
use crate::executor::arguments::{self, check_count, check_elements, check_length};
use crate::executor::blocks::{apart, apart_mut};

const PRIORITY: u32 = 10;

/// What the component is called.
pub(super) const NAME: &str = "basic";

/// The component.
#[derive(Debug)]
pub(super) struct Linear;

impl Component for Linear {
    fn name(&self) -> &'static str {
        NAME
    }

    fn purpose(&self) -> &'static str {
        "linear, by messages: everywhere"
    }

    fn functions(&self) -> Functions {
        Functions::ALL
    }

    fn availability(&self, _here: &Fabric) -> Result<(), String> {
        Ok(())
    }

    fn query(&self, _team: &Team) -> Result<Wish, String> {
        Ok(Wish::of_priority(PRIORITY))
    }

    fn join(&self, team: &Team, _basic: &mut Basic, _proposal: u64) -> Result<Box<dyn Module>> {
        Ok(Box::new(Basic::new(team)))
    }
}

/// The basic functions of a team.
#[derive(Debug)]
pub struct Basic {
    team: Team,
    /// What this member could not do its part for, if there was such: it has ended its messages then.
    refused: Option<Error>,
}

impl Basic {
    /// Those of a team.
    #[must_use]
    pub fn new(team: &Team) -> Self {
        Self { team: team.clone(), refused: None }
    }

    /// Member 0 gets what each has, whatever its length, in the order of members; the others get nothing.
    ///
    /// # Errors
    /// The fabric's.
    pub fn collect(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.attempt(|basic| basic.collect_all(own))
    }

    fn collect_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        if self.team.own() != 0 {
            self.send(0, &(own.len() as u64).to_ne_bytes())?;
            self.send(0, own)?;
            return Ok(Vec::new());
        }
        let mut all = vec![own.to_vec()];
        for member in 1..self.team.size() {
            all.push(self.receive_all(member)?);
        }
        Ok(all)
    }

    /// All get what member 0 has, whatever its length.
    ///
    /// # Errors
    /// The fabric's.
    pub fn spread(&mut self, own: &[u8]) -> Result<Vec<u8>> {
        self.attempt(|basic| basic.spread_all(own))
    }

    fn spread_all(&self, own: &[u8]) -> Result<Vec<u8>> {
        if self.team.own() != 0 {
            return self.receive_all(0);
        }
        for member in self.others() {
            self.send(member, &(own.len() as u64).to_ne_bytes())?;
            self.send(member, own)?;
        }
        Ok(own.to_vec())
    }

    fn receive_all(&self, from: usize) -> Result<Vec<u8>> {
        let mut length = [0; 8];
        self.receive(from, &mut length)?;
        let mut bytes = vec![0; u64::from_ne_bytes(length) as usize];
        self.receive(from, &mut bytes)?;
        Ok(bytes)
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.team.own();
        (0..self.team.size()).filter(move |&member| member != own)
    }

    fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        Ok(self.team.messenger().send(self.team.members()[to], bytes)?)
    }

    fn receive(&self, from: usize, into: &mut [u8]) -> Result<()> {
        let length = self.team.messenger().receive(self.team.members()[from], into)?;
        Ok(check_length("what a member sends", length, into.len())?)
    }

    /// Sends `given(member)` to each other member and receives as many bytes of each as `taken` says, by member.
    fn exchange<'data>(
        &self,
        given: impl Fn(usize) -> &'data [u8],
        taken: impl Fn(usize) -> usize,
    ) -> Result<Vec<Vec<u8>>> {
        let size = self.team.size();
        let lengths: Vec<usize> =
            (0..size).map(|member| if member == self.team.own() { 0 } else { taken(member) }).collect();
        let mut received: Vec<Vec<u8>> = lengths.iter().map(|&length| vec![0; length]).collect();
        let rank_of = |member: usize| self.team.members()[member];
        let found = self.team.messenger().scope(|scope| {
            let mut receives = Vec::new();
            for (member, into) in received.iter_mut().enumerate() {
                if member != self.team.own() {
                    receives.push((member, scope.receive(rank_of(member), into)?));
                }
            }
            for member in self.others() {
                scope.send(rank_of(member), given(member))?;
            }
            let mut found = lengths.clone();
            for (member, receive) in receives {
                found[member] = receive.wait()?;
            }
            Ok(found)
        })?;
        for (found, expected) in found.iter().zip(&lengths) {
            check_length("what a member sends", *found, *expected)?;
        }
        Ok(received)
    }

    fn check_member(&self, member: usize) -> Result<()> {
        Ok(arguments::check_member(member, self.team.size())?)
    }

    fn equal_blocks(&self, length: usize) -> Vec<Range<usize>> {
        (0..self.team.size()).map(|member| member * length..(member + 1) * length).collect()
    }
}

/// The functions: a member's part of each.
impl Basic {
    fn barrier(&mut self) -> Result<()> {
        if self.team.own() != 0 {
            self.send(0, &[])?;
            return self.receive(0, &mut []);
        }
        self.others().try_for_each(|member| self.receive(member, &mut []))?;
        self.others().try_for_each(|member| self.send(member, &[]))
    }

    fn bcast(&mut self, root: usize, data: &mut [u8]) -> Result<()> {
        self.check_member(root)?;
        if self.team.own() == root {
            self.others().try_for_each(|member| self.send(member, data))
        } else {
            self.receive(root, data)
        }
    }

    fn gather(&mut self, root: usize, own: &[u8], into: &mut [u8]) -> Result<()> {
        self.check_member(root)?;
        if self.team.own() == root {
            check_length("what the root gathers", into.len(), own.len() * self.team.size())?;
        }
        self.gatherv(root, own, into, &self.equal_blocks(own.len()))
    }

    fn gatherv(&mut self, root: usize, own: &[u8], into: &mut [u8], blocks: &[Range<usize>]) -> Result<()> {
        self.check_member(root)?;
        if self.team.own() != root {
            return self.send(root, own);
        }
        let mut blocks = apart_mut(into, blocks)?;
        check_count(blocks.len(), self.team.size())?;
        check_length("the root's own block", blocks[root].len(), own.len())?;
        blocks[root].copy_from_slice(own);
        self.others().try_for_each(|member| self.receive(member, blocks[member]))
    }

    fn scatter(&mut self, root: usize, data: &[u8], into: &mut [u8]) -> Result<()> {
        self.check_member(root)?;
        if self.team.own() == root {
            check_length("what the root scatters", data.len(), into.len() * self.team.size())?;
        }
        self.scatterv(root, data, &self.equal_blocks(into.len()), into)
    }

    fn scatterv(&mut self, root: usize, data: &[u8], blocks: &[Range<usize>], into: &mut [u8]) -> Result<()> {
        self.check_member(root)?;
        if self.team.own() != root {
            return self.receive(root, into);
        }
        let blocks = apart(data, blocks)?;
        check_count(blocks.len(), self.team.size())?;
        check_length("the root's own block", blocks[root].len(), into.len())?;
        into.copy_from_slice(blocks[root]);
        self.others().try_for_each(|member| self.send(member, blocks[member]))
    }

    fn allgather(&mut self, own: &[u8], into: &mut [u8]) -> Result<()> {
        check_length("what all gather", into.len(), own.len() * self.team.size())?;
        let blocks = self.equal_blocks(own.len());
        into[blocks[self.team.own()].clone()].copy_from_slice(own);
        self.allgatherv(into, &blocks)
    }

    fn allgatherv(&mut self, data: &mut [u8], blocks: &[Range<usize>]) -> Result<()> {
        let mut blocks = apart_mut(data, blocks)?;
        check_count(blocks.len(), self.team.size())?;
        let own: &[u8] = blocks[self.team.own()];
        let received = self.exchange(|_| own, |member| blocks[member].len())?;
        for member in self.others() {
            blocks[member].copy_from_slice(&received[member]);
        }
        Ok(())
    }

    fn alltoall(&mut self, data: &[u8], into: &mut [u8]) -> Result<()> {
        check_length("what each gets from each", into.len(), data.len())?;
        let size = self.team.size();
        check_length("a part for each member", data.len(), data.len() / size * size)?;
        let blocks = self.equal_blocks(data.len() / size);
        self.alltoallv(data, &blocks, into, &blocks)
    }

    fn alltoallv(
        &mut self,
        data: &[u8],
        sent: &[Range<usize>],
        into: &mut [u8],
        received: &[Range<usize>],
    ) -> Result<()> {
        let (sent, mut received) = (apart(data, sent)?, apart_mut(into, received)?);
        check_count(sent.len(), self.team.size())?;
        check_count(received.len(), self.team.size())?;
        let own = self.team.own();
        check_length("what a member sends to itself", sent[own].len(), received[own].len())?;
        received[own].copy_from_slice(sent[own]);
        let bytes = self.exchange(|member| sent[member], |member| received[member].len())?;
        for member in self.others() {
            received[member].copy_from_slice(&bytes[member]);
        }
        Ok(())
    }

    fn reduce(&mut self, root: usize, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        self.check_member(root)?;
        check_elements(data.len(), operation)?;
        if self.team.own() != root {
            return self.send(root, data);
        }
        let own = data.to_vec();
        let mut left = vec![0; data.len()];
        let last = self.team.size() - 1;
        for member in (0..=last).rev() {
            let into: &mut [u8] = if member == last { data } else { &mut left };
            if member == root {
                into.copy_from_slice(&own);
            } else {
                self.receive(member, into)?;
            }
            if member != last {
                operation.combine(&left, data);
            }
        }
        Ok(())
    }

    fn allreduce(&mut self, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        self.reduce(0, data, operation)?;
        self.bcast(0, data)
    }

    fn reduce_scatter(
        &mut self,
        data: &[u8],
        counts: &[usize],
        into: &mut [u8],
        operation: &dyn Operation,
    ) -> Result<()> {
        check_length("the list of counts", counts.len(), self.team.size())?;
        let blocks: Vec<Range<usize>> = counts
            .iter()
            .scan(0, |end, count| {
                *end += count;
                Some(*end - count..*end)
            })
            .collect();
        check_length("what is divided", data.len(), counts.iter().sum())?;
        let mut combined = data.to_vec();
        self.reduce(0, &mut combined, operation)?;
        self.scatterv(0, &combined, &blocks, into)
    }

    fn scan(&mut self, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        check_elements(data.len(), operation)?;
        let own = self.team.own();
        if own > 0 {
            let mut left = vec![0; data.len()];
            self.receive(own - 1, &mut left)?;
            operation.combine(&left, data);
        }
        if own + 1 < self.team.size() { self.send(own + 1, data) } else { Ok(()) }
    }

    fn exscan(&mut self, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        check_elements(data.len(), operation)?;
        let own = self.team.own();
        let mut combined = data.to_vec();
        if own > 0 {
            self.receive(own - 1, data)?;
            operation.combine(data, &mut combined);
        }
        if own + 1 < self.team.size() { self.send(own + 1, &combined) } else { Ok(()) }
    }
}
