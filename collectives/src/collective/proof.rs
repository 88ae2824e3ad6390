//! The proof that a schedule is a collective.

use std::collections::HashMap;
use std::ops::Range;

use super::definition::Collective;
use super::error::Flaw;
use super::schedule::CollectiveSchedule;
use super::transfer::Receipt;
use crate::rank::Rank;

/// How operands may be combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Operands {
    /// In the order of ranks, as an operation asks for that does not commute.
    #[default]
    Ordered,
    /// In any order.
    Commuting,
}

impl CollectiveSchedule {
    /// Checks that it is a collective: that each rank has in the end what the collective gives it, whatever the data
    /// is.
    ///
    /// For each block of each rank it is known whose contributions are in it, in which order; transfers change that as
    /// they change the data. It costs about as much as doing the collective with blocks of a few words.
    ///
    /// # Errors
    /// [`Flaw`]: the first reason why it is not.
    pub fn check(&self, collective: Collective, operands: Operands) -> Result<(), Flaw> {
        let (ranks, blocks) = (self.ranks(), self.blocks());
        let mut held: Vec<HashMap<u64, Content>> = (0..ranks)
            .map(|rank| {
                let given = collective.given(ranks, blocks, Rank(rank));
                given.map(|block| (block, Content::of(block, rank..rank + 1))).collect()
            })
            .collect();
        for step in 0..self.steps().len() {
            self.take(step, &mut held)?;
        }
        for rank in (0..ranks).map(Rank) {
            for wanted in collective.wanted(ranks, blocks, rank) {
                let is_right = held[rank.index()].get(&wanted.block).is_some_and(|found| {
                    found.datum == wanted.datum && found.is_whole(&wanted.contributors, operands)
                });
                if !is_right {
                    return Err(Flaw::Wrong { rank, block: wanted.block });
                }
            }
        }
        Ok(())
    }

    /// What all hold after a step, from what they held before.
    fn take(&self, step: usize, held: &mut [HashMap<u64, Content>]) -> Result<(), Flaw> {
        let mut moved = Vec::new();
        for transfer in &self.steps()[step] {
            let target = transfer.target();
            for (block, into) in transfer.blocks.iter().zip(target.iter()) {
                let absent = || Flaw::Absent { step, rank: transfer.from, block };
                let content = held[transfer.from.index()].get(&block).ok_or_else(absent)?;
                moved.push((transfer.to, into, transfer.receipt, content.clone()));
            }
        }
        for (rank, block, receipt, content) in moved {
            let held = &mut held[rank.index()];
            if receipt == Receipt::Store {
                held.insert(block, content);
                continue;
            }
            let own = held.get_mut(&block).ok_or(Flaw::Absent { step, rank, block })?;
            if own.datum != content.datum {
                return Err(Flaw::Unlike { step, rank, block });
            }
            if own.shares_with(&content) {
                return Err(Flaw::Repeated { step, rank, block });
            }
            own.combine(content, receipt);
        }
        Ok(())
    }
}

/// What a block has in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Content {
    /// Which of the contributors' blocks.
    datum: u64,
    /// Whose, in the order of operands.
    contributors: Contributors,
}

/// Ranks in an order, as ranges of such as follow each other: of most contents, there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Contributors {
    first: Range<u32>,
    rest: Vec<Range<u32>>,
}

impl Content {
    fn of(datum: u64, first: Range<u32>) -> Self {
        Self { datum, contributors: Contributors { first, rest: Vec::new() } }
    }

    fn combine(&mut self, other: Self, receipt: Receipt) {
        let other = other.contributors;
        if receipt == Receipt::CombineLeft {
            let right = std::mem::replace(&mut self.contributors, other);
            self.contributors.append(right);
        } else {
            self.contributors.append(other);
        }
    }

    fn shares_with(&self, other: &Self) -> bool {
        let overlap = |one: &Range<u32>, other: &Range<u32>| one.start < other.end && other.start < one.end;
        self.contributors.ranges().any(|one| other.contributors.ranges().any(|other| overlap(one, other)))
    }

    /// Whether just these are in it, each once, as operands may be combined.
    fn is_whole(&self, wanted: &Range<u32>, operands: Operands) -> bool {
        match operands {
            Operands::Ordered => self.contributors.rest.is_empty() && self.contributors.first == *wanted,
            Operands::Commuting => {
                // None is there twice: that would have been found when it was combined.
                let within = |range: &Range<u32>| range.start >= wanted.start && range.end <= wanted.end;
                let ranks: usize = self.contributors.ranges().map(Range::len).sum();
                self.contributors.ranges().all(within) && ranks == wanted.len()
            }
        }
    }
}

impl Contributors {
    fn ranges(&self) -> impl Iterator<Item = &Range<u32>> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    fn append(&mut self, other: Self) {
        for range in std::iter::once(other.first).chain(other.rest) {
            let last = self.rest.last_mut().unwrap_or(&mut self.first);
            if last.end == range.start {
                last.end = range.end;
            } else {
                self.rest.push(range);
            }
        }
    }
}
