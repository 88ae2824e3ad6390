//! Data of all, combined: reduce, allreduce, reduce_scatter.

use std::ops::Range;

use super::exchange::{combine, shares};
use super::group::NetworkGroup;
use crate::collective::{AllreduceAlgorithm, ReduceAlgorithm, ReduceScatterAlgorithm};
use crate::executor::arguments::{check_elements, check_is_not_root, check_length};
use crate::executor::blocks::{Row, apart, apart_mut};
use crate::executor::error::Result;
use crate::executor::operation::Operation;

/// A member's part where only a power of two of them goes on: with *r* members too many, the first 2*r* are pairs of
/// which the second goes on for both. So whoever goes on has neighbours combined, in the order of members.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// It has given its data to the next one.
    Folded,
    /// It goes on as one of the power of two.
    Active(usize),
}

/// The power of two, and how many are too many.
#[derive(Debug, Clone, Copy)]
struct Folding {
    active: usize,
    folded: usize,
}

impl Folding {
    fn of(size: usize) -> Self {
        let active = 1 << size.ilog2();
        Self { active, folded: size - active }
    }

    fn part(self, member: usize) -> Part {
        match member {
            member if member >= 2 * self.folded => Part::Active(member - self.folded),
            member if member % 2 == 1 => Part::Active(member / 2),
            _ => Part::Folded,
        }
    }

    fn member(self, active: usize) -> usize {
        if active < self.folded { 2 * active + 1 } else { active + self.folded }
    }

    /// How a vector is halved for one of the active: whom it exchanges with in each round, what it keeps, and what that
    /// one keeps.
    fn halvings(self, active: usize, length: usize, width: usize) -> Vec<Halving> {
        let mut held = 0..length;
        let mut halvings = Vec::new();
        let mut distance = 1;
        while distance < self.active {
            let middle = held.start + held.len() / width / 2 * width;
            let (low, high) = (held.start..middle, middle..held.end);
            let is_low = active & distance == 0;
            let (kept, given) = if is_low { (low, high) } else { (high, low) };
            held = kept.clone();
            halvings.push(Halving { partner: self.member(active ^ distance), is_low, kept, given });
            distance *= 2;
        }
        halvings
    }
}

/// A round of halving.
#[derive(Debug)]
struct Halving {
    partner: usize,
    is_low: bool,
    kept: Range<usize>,
    given: Range<usize>,
}

impl NetworkGroup {
    /// `data` becomes, for all, all members' `data` combined in the order of members.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length) where it is no whole number of elements; the fabric's, for a
    /// lost member.
    pub fn allreduce(&mut self, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        self.attempt(|group| {
            check_elements(data.len(), operation)?;
            if group.size() == 1 {
                return Ok(());
            }
            let commutes = operation.is_commutative();
            let chosen = match group.settings.choices.allreduce {
                Some(AllreduceAlgorithm::Ring) if !commutes => None,
                chosen => chosen,
            };
            match chosen.unwrap_or_else(|| group.model().allreduce(data.len(), commutes)) {
                AllreduceAlgorithm::RecursiveDoubling => {
                    group.folded(data, operation, |group, active, data| {
                        group.combine_doubling(active, data, operation)
                    })
                }
                AllreduceAlgorithm::Rabenseifner => group.folded(data, operation, |group, active, data| {
                    let halvings = Folding::of(group.size()).halvings(active, data.len(), operation.width());
                    group.combine_halves(&halvings, data, operation)?;
                    group.share_halves(&halvings, data)
                }),
                AllreduceAlgorithm::Ring => group.combine_around(data, operation),
            }
        })
    }

    /// Has a power of two of the members `go_on`, after the others' data is folded into theirs, and before these get it
    /// back.
    fn folded(
        &self,
        data: &mut [u8],
        operation: &dyn Operation,
        go_on: impl FnOnce(&Self, usize, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let folding = Folding::of(self.size());
        let is_pair = self.own < 2 * folding.folded;
        match folding.part(self.own) {
            Part::Folded => {
                self.send(self.own + 1, data)?;
                self.receive(self.own + 1, data)
            }
            Part::Active(active) => {
                if is_pair {
                    self.combine_from(self.own - 1, data, operation)?;
                }
                go_on(self, active, data)?;
                if is_pair { self.send(self.own - 1, data) } else { Ok(()) }
            }
        }
    }

    /// Puts what an earlier member sends before this member's own.
    fn combine_from(&self, earlier: usize, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        let mut left = vec![0; data.len()];
        self.receive(earlier, &mut left)?;
        operation.combine(&left, data);
        Ok(())
    }

    fn combine_doubling(&self, active: usize, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        let folding = Folding::of(self.size());
        let mut other = vec![0; data.len()];
        let mut distance = 1;
        while distance < folding.active {
            let partner = folding.member(active ^ distance);
            self.exchange(partner, data, partner, &mut other)?;
            combine(operation, data, &mut other, active & distance == 0);
            distance *= 2;
        }
        Ok(())
    }

    /// Each round, partners twice as far exchange halves of what they hold, and combine what they keep.
    fn combine_halves(&self, halvings: &[Halving], data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        for Halving { partner, is_low, kept, given } in halvings {
            let mut other = vec![0; kept.len()];
            self.exchange(*partner, &data[given.clone()], *partner, &mut other)?;
            combine(operation, &mut data[kept.clone()], &mut other, *is_low);
        }
        Ok(())
    }

    /// The same rounds backwards: each gets back the half that its partner kept.
    fn share_halves(&self, halvings: &[Halving], data: &mut [u8]) -> Result<()> {
        for Halving { partner, kept, given, .. } in halvings.iter().rev() {
            let own = data[kept.clone()].to_vec();
            self.exchange(*partner, &own, *partner, &mut data[given.clone()])?;
        }
        Ok(())
    }

    fn combine_around(&self, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        let size = self.size();
        let parts = shares(data.len(), operation.width(), size);
        let (after, before) = self.neighbours(1);
        for round in 0..size - 1 {
            let sent = parts[(self.own + size - round) % size].clone();
            let received = parts[(self.own + 2 * size - round - 1) % size].clone();
            let mut other = vec![0; received.len()];
            self.exchange(after, &data[sent], before, &mut other)?;
            operation.combine(&other, &mut data[received]);
        }
        // The whole part that each has is its successor's: by turning the list, it is each one's own.
        let turned: Vec<_> = (0..size).map(|member| parts[(member + 1) % size].clone()).collect();
        self.share_around(&mut apart_mut(data, &turned)?)
    }

    /// `data` becomes, at `root`, all members' `data` combined in the order of members; elsewhere it stays.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce); [`Error::NoSuchMember`](crate::executor::Error::NoSuchMember).
    pub fn reduce(&mut self, root: usize, data: &mut [u8], operation: &dyn Operation) -> Result<()> {
        self.attempt(|group| {
            group.check_member(root)?;
            if group.own != root {
                return group.reduce_to(root, data, operation);
            }
            check_elements(data.len(), operation)?;
            if group.size() == 1 {
                return Ok(());
            }
            let known = data.to_vec();
            match group.reduce_algorithm(data.len()) {
                ReduceAlgorithm::Binomial => group.reduce_binomially(root, known, Some(data), operation),
                ReduceAlgorithm::Rabenseifner => group.reduce_by_halves(root, known, Some(data), operation),
            }
        })
    }

    /// [`reduce`](Self::reduce) as a member other than its root, which only reads.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce); [`Error::IsRoot`](crate::executor::Error::IsRoot).
    pub fn reduce_to(&mut self, root: usize, data: &[u8], operation: &dyn Operation) -> Result<()> {
        self.attempt(|group| {
            group.check_member(root)?;
            check_is_not_root(group.own, root)?;
            check_elements(data.len(), operation)?;
            match group.reduce_algorithm(data.len()) {
                ReduceAlgorithm::Binomial => group.reduce_binomially(root, data.to_vec(), None, operation),
                ReduceAlgorithm::Rabenseifner => group.reduce_by_halves(root, data.to_vec(), None, operation),
            }
        })
    }

    fn reduce_algorithm(&self, length: usize) -> ReduceAlgorithm {
        self.settings.choices.reduce.unwrap_or_else(|| self.model().reduce(length))
    }

    /// `result` is the root's.
    fn reduce_binomially(
        &self,
        root: usize,
        mut known: Vec<u8>,
        result: Option<&mut [u8]>,
        operation: &dyn Operation,
    ) -> Result<()> {
        // Where the order matters, the tree is the first member's, who passes the result on.
        let top = if operation.is_commutative() { root } else { 0 };
        let (place, member) = self.counted_from(top);
        let mut other = vec![0; known.len()];
        let mut distance = 1;
        while place & distance == 0 && distance < self.size() {
            if place + distance < self.size() {
                self.receive(member(place + distance), &mut other)?;
                combine(operation, &mut known, &mut other, true);
            }
            distance *= 2;
        }
        if place > 0 {
            self.send(member(place - distance), &known)?;
        }
        match (self.own == top, result) {
            (true, Some(result)) => result.copy_from_slice(&known),
            (true, None) => self.send(root, &known)?,
            (false, Some(result)) => self.receive(top, result)?,
            (false, None) => {}
        }
        Ok(())
    }

    /// `result` is the root's.
    fn reduce_by_halves(
        &self,
        root: usize,
        mut known: Vec<u8>,
        result: Option<&mut [u8]>,
        operation: &dyn Operation,
    ) -> Result<()> {
        let (folding, width, length) = (Folding::of(self.size()), operation.width(), known.len());
        let kept_by = |active: usize| {
            let halvings = folding.halvings(active, length, width);
            halvings.last().map_or(0..length, |halving| halving.kept.clone())
        };
        let kept: Vec<Range<usize>> = (0..folding.active).map(kept_by).collect();
        match folding.part(self.own) {
            Part::Folded => self.send(self.own + 1, &known)?,
            Part::Active(active) => {
                if self.own < 2 * folding.folded {
                    self.combine_from(self.own - 1, &mut known, operation)?;
                }
                let halvings = folding.halvings(active, length, width);
                self.combine_halves(&halvings, &mut known, operation)?;
                if self.own != root {
                    self.send(root, &known[kept[active].clone()])?;
                }
            }
        }
        let Some(result) = result else { return Ok(()) };
        for (active, kept) in kept.into_iter().enumerate() {
            let member = folding.member(active);
            if member == root {
                result[kept.clone()].copy_from_slice(&known[kept]);
            } else {
                self.receive(member, &mut result[kept])?;
            }
        }
        Ok(())
    }

    /// All members' `data` combined in the order of members and divided among them: member `i` gets `counts[i]` bytes,
    /// behind those of the members before. `counts` are the same everywhere.
    ///
    /// # Errors
    /// As [`allreduce`](Self::allreduce).
    pub fn reduce_scatter(
        &mut self,
        data: &[u8],
        counts: &[usize],
        into: &mut [u8],
        operation: &dyn Operation,
    ) -> Result<()> {
        self.attempt(|group| {
            check_length("the list of counts", counts.len(), group.size())?;
            check_length("what is combined", data.len(), counts.iter().sum())?;
            check_length("what is received", into.len(), counts[group.own])?;
            counts.iter().try_for_each(|&count| check_elements(count, operation))?;
            let mut end = 0;
            let block = |count: &usize| {
                end += count;
                end - count..end
            };
            let blocks: Vec<Range<usize>> = counts.iter().map(block).collect();
            match group
                .settings
                .choices
                .reduce_scatter
                .unwrap_or_else(|| group.model().reduce_scatter(data.len()))
            {
                ReduceScatterAlgorithm::Allreduce => {
                    let mut all = data.to_vec();
                    group.allreduce(&mut all, operation)?;
                    into.copy_from_slice(&all[blocks[group.own].clone()]);
                }
                ReduceScatterAlgorithm::Pairwise => {
                    let length = into.len();
                    let mut parts = vec![0; length * group.size()];
                    let received = &mut Row { bytes: parts.as_mut_slice(), length };
                    group.trade_by_pairs(apart(data, &blocks)?.as_slice(), received)?;
                    // From the last on: what is combined is to the right of what comes.
                    let (rest, last) = parts.split_at_mut(length * (group.size() - 1));
                    into.copy_from_slice(last);
                    if length > 0 {
                        operation.fold(rest, into);
                    }
                }
            }
            Ok(())
        })
    }
}
