//! Keys in memory that is more than there is: pages come when they are touched, and go when others are.

use std::ops::Range;

use anyhow::{Context, Result};
use memmap2::MmapMut;
use svmio_svm::mapping::{Advice, Mapping};
use svmio_svm::team::Team;
use svmio_svm::{Error, FileOffset};

use super::merge::merge;
use super::{KEY, Keys};

/// A file as memory, which all members have.
pub(super) trait Memory {
    /// Where its first key is, and how many there are.
    fn keys(&self) -> (*mut u64, usize);

    /// Keys will be gone through from the first to the last, with others in between.
    fn in_order(&self, keys: Range<usize>) -> Result<()>;

    /// A piece of what is gone through in order comes next.
    fn comes_next(&self, piece: Range<usize>) -> Result<()>;

    /// Keys are needed soon.
    fn soon(&self, keys: Range<usize>) -> Result<()>;

    /// Keys are not needed soon.
    fn done_with(&self, keys: Range<usize>) -> Result<()>;

    /// Meets all others: what any has stored, all find.
    fn meet(&self, team: &Team) -> Result<()>;
}

impl Memory for Mapping {
    fn keys(&self) -> (*mut u64, usize) {
        (self.as_mut_ptr().cast(), self.len() / KEY)
    }

    fn in_order(&self, keys: Range<usize>) -> Result<()> {
        Ok(self.advise(bytes(keys), Advice::Sequential)?)
    }

    /// It is fetched ahead, as far as the options say.
    fn comes_next(&self, _: Range<usize>) -> Result<()> {
        Ok(())
    }

    fn soon(&self, keys: Range<usize>) -> Result<()> {
        Ok(self.advise(bytes(keys), Advice::WillNeed)?)
    }

    fn done_with(&self, keys: Range<usize>) -> Result<()> {
        Ok(self.advise(bytes(keys), Advice::DoNotNeed)?)
    }

    fn meet(&self, team: &Team) -> Result<()> {
        Ok(self.barrier(&mut || team.agree::<Error>(Ok(())))?)
    }
}

fn bytes(keys: Range<usize>) -> Range<FileOffset> {
    FileOffset((keys.start * KEY) as u64)..FileOffset((keys.end * KEY) as u64)
}

impl Memory for MmapMut {
    fn keys(&self) -> (*mut u64, usize) {
        (self.as_ptr().cast_mut().cast(), self.len() / KEY)
    }

    /// The kernel would read as much ahead as the device's setting says, here for each of many sequences: with some
    /// megabytes, more than there is memory, and all of it in vain.
    fn in_order(&self, keys: Range<usize>) -> Result<()> {
        Ok(self.advise_range(memmap2::Advice::Random, keys.start * KEY, keys.len() * KEY)?)
    }

    fn comes_next(&self, piece: Range<usize>) -> Result<()> {
        self.soon(piece)
    }

    fn soon(&self, keys: Range<usize>) -> Result<()> {
        Ok(self.advise_range(memmap2::Advice::WillNeed, keys.start * KEY, keys.len() * KEY)?)
    }

    /// The kernel finds that out.
    fn done_with(&self, _: Range<usize>) -> Result<()> {
        Ok(())
    }

    fn meet(&self, team: &Team) -> Result<()> {
        Ok(team.agree::<Error>(Ok(()))?)
    }
}

/// The keys, and where they are merged to.
pub(super) struct InMemory<M> {
    keys: M,
    sorted: M,
    /// How many keys of a sequence that is merged are a piece.
    piece: usize,
}

impl<M: Memory> InMemory<M> {
    pub(super) fn new([keys, sorted]: [M; 2], piece: usize) -> Self {
        InMemory { keys, sorted, piece }
    }

    pub(super) fn done(self) -> [M; 2] {
        [self.keys, self.sorted]
    }
}

/// Keys that nobody stores into until all have met.
fn sorted(memory: &impl Memory, keys: Range<usize>) -> &[u64] {
    let (start, count) = memory.keys();
    assert!(keys.start <= keys.end && keys.end <= count);
    // SAFETY: the keys lie in the memory, aligned; who has sorted them has met all others since, or is this member.
    unsafe { std::slice::from_raw_parts(start.add(keys.start), keys.len()) }
}

/// Keys that only this member touches until it meets the others.
fn own(memory: &mut impl Memory, keys: Range<usize>) -> &mut [u64] {
    let (start, count) = memory.keys();
    assert!(keys.start <= keys.end && keys.end <= count);
    // SAFETY: the keys lie in the memory, aligned; no other member touches them, and this one has borrowed all of it.
    unsafe { std::slice::from_raw_parts_mut(start.add(keys.start), keys.len()) }
}

/// Keys from the first to the last, told of piece by piece.
struct InOrder<'m, M> {
    memory: &'m M,
    keys: Range<usize>,
    /// Of the piece that is gone through, what is left.
    left: std::slice::Iter<'m, u64>,
    piece: usize,
}

impl<'m, M: Memory> InOrder<'m, M> {
    fn new(memory: &'m M, keys: Range<usize>, piece: usize) -> Self {
        InOrder { memory, keys, left: [].iter(), piece }
    }

    /// The first key of the next piece.
    fn next_piece(&mut self) -> Option<Result<u64>> {
        let Range { start: now, end: last } = self.keys;
        let [end, next] = [1, 2].map(|pieces| (now + pieces * self.piece).min(last));
        self.keys.start = end;
        self.left = sorted(self.memory, now..end).iter();
        let told = if end < next { self.memory.comes_next(end..next) } else { Ok(()) };
        self.left.next().map(|key| told.map(|()| *key))
    }
}

impl<M: Memory> Iterator for InOrder<'_, M> {
    type Item = Result<u64>;

    fn next(&mut self) -> Option<Result<u64>> {
        match self.left.next() {
            Some(key) => Some(Ok(*key)),
            None => self.next_piece(),
        }
    }
}

impl<M: Memory> Keys for InMemory<M> {
    fn sort(&mut self, run: Range<usize>, sampled: usize) -> Result<Vec<u64>> {
        self.keys.soon(run.clone())?;
        let keys = own(&mut self.keys, run.clone());
        keys.sort_unstable();
        let samples = keys.iter().step_by(sampled).copied().collect();
        self.keys.done_with(run)?;
        Ok(samples)
    }

    fn end_of_smaller(&self, run: Range<usize>, key: u64) -> Result<usize> {
        Ok(run.start + sorted(&self.keys, run).partition_point(|other| *other < key))
    }

    fn merge(&mut self, parts: &[Range<usize>], to: usize) -> Result<()> {
        let count: usize = parts.iter().map(Range::len).sum();
        for part in parts {
            self.keys.in_order(part.clone())?;
            self.keys.comes_next(part.start..part.end.min(part.start + self.piece))?;
        }
        let part = |part: &Range<usize>| InOrder::new(&self.keys, part.clone(), self.piece);
        let mut places = own(&mut self.sorted, to..to + count).iter_mut();
        merge(parts.iter().map(part).collect(), |key| {
            *places.next().context("there are more keys than were counted")? = key;
            Ok(())
        })
    }

    fn meet(&mut self, team: &Team) -> Result<()> {
        self.keys.meet(team)?;
        self.sorted.meet(team)
    }
}
