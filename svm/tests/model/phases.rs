//! What each rank does in each phase of a program.

use std::ops::RangeInclusive;

use super::program::{Access, Around, Extent, LONGEST, Locked, Program, Step};

/// What ranks do, all written out; the outer vectors are by rank. They meet behind a phase, unless the next one
/// [runs into](Phase::runs_into) it.
#[derive(Debug)]
pub(crate) enum Phase {
    Place { first: u8, extents: Vec<Extent> },
    Accesses(Vec<Vec<Tagged<Access>>>),
    UnderLocks(Vec<Vec<Tagged<Locked>>>),
    Sync(Around),
    SetSize(u64),
    Preallocate(u64),
    Reopen(Around),
}

impl Phase {
    /// Whether a rank comes to it while others are still in the one before.
    pub(crate) fn runs_into(&self, before: &Phase) -> bool {
        let is_bare =
            |phase: &Phase| matches!(phase, Phase::Sync(Around::Nothing) | Phase::Reopen(Around::Nothing));
        is_bare(self) || is_bare(before)
    }

    /// What the size may be while some are in this phase, and it was `size` before.
    pub(crate) fn sizes(&self, size: u64) -> RangeInclusive<u64> {
        let written_to = match self {
            Phase::Accesses(by_rank) => {
                by_rank.iter().flatten().filter_map(|one| one.what.written_to()).max()
            }
            Phase::UnderLocks(by_rank) => {
                by_rank.iter().flatten().filter_map(|one| one.what.written_to()).max()
            }
            Phase::Preallocate(size) => Some(*size),
            Phase::SetSize(new) => return size.min(*new)..=size.max(*new),
            Phase::Place { .. } | Phase::Sync(_) | Phase::Reopen(_) => None,
        };
        size..=written_to.map_or(size, |end| end.max(size))
    }
}

/// With the tag that tells what it writes; accesses under one lock have following ones.
#[derive(Debug, Clone)]
pub(crate) struct Tagged<T> {
    pub(crate) tag: u8,
    pub(crate) what: T,
}

impl Program {
    /// What the program is for so many ranks. It ends with a sync and a look at everything.
    pub(crate) fn phases(&self, ranks: usize) -> Vec<Phase> {
        let (mut phases, mut tag, mut is_locked) = (Vec::new(), 0_u8, false);
        for step in self.steps.iter().chain(&[Step::Sync(Around::Meetings), Step::ReadAll]) {
            let accesses = match step {
                Step::Sync(around) => {
                    phases.push(Phase::Sync(*around));
                    continue;
                }
                Step::SetSize(size) => {
                    phases.push(Phase::SetSize(*size));
                    continue;
                }
                Step::Preallocate(size) => {
                    phases.push(Phase::Preallocate(*size));
                    continue;
                }
                Step::Reopen(around) => {
                    phases.push(Phase::Reopen(*around));
                    continue;
                }
                Step::UnderLocks(locked) => {
                    if !is_locked {
                        phases.push(Phase::Sync(Around::Meetings));
                    }
                    is_locked = true;
                    let weight = |locked: &Locked| locked.inner.len() as u8;
                    phases.push(Phase::UnderLocks(by_rank(locked, ranks, &mut tag, weight)));
                    continue;
                }
                Step::Accesses(accesses) => accesses.clone(),
                Step::Placed(first, accesses) => {
                    let written = |(_, access): &(u8, Access)| match access {
                        Access::Write(extent) => Some(*extent),
                        Access::WritePieces(pieces) => Some(pieces.range()),
                        _ => None,
                    };
                    let extents = accesses.iter().filter_map(written).collect();
                    phases.push(Phase::Place { first: *first, extents });
                    accesses.clone()
                }
                Step::Interleaved { start, length, turns, first } => {
                    interleaved(*start, *length, *turns, usize::from(*first), ranks)
                }
                Step::ReadAll => {
                    let all = Extent { start: 0, length: LONGEST + 10 };
                    let rank = |rank| [(rank, Access::Size), (rank, Access::Read(all))];
                    (0..ranks as u8).flat_map(rank).collect()
                }
            };
            if is_locked {
                phases.push(Phase::Sync(Around::Meetings));
                is_locked = false;
            }
            phases.push(Phase::Accesses(by_rank(&accesses, ranks, &mut tag, |_| 1)));
        }
        phases
    }
}

fn by_rank<T: Clone>(
    all: &[(u8, T)],
    ranks: usize,
    tag: &mut u8,
    weight: impl Fn(&T) -> u8,
) -> Vec<Vec<Tagged<T>>> {
    let mut by_rank = vec![Vec::new(); ranks];
    for (rank, what) in all {
        by_rank[usize::from(*rank) % ranks].push(Tagged { tag: *tag, what: what.clone() });
        *tag = tag.wrapping_add(weight(what));
    }
    by_rank
}

fn interleaved(start: u64, length: u64, turns: u8, first: usize, ranks: usize) -> Vec<(u8, Access)> {
    let block = |number: usize| {
        let at = start + number as u64 * length;
        (at + length <= LONGEST)
            .then(|| (((number + first) % ranks) as u8, Access::Write(Extent { start: at, length })))
    };
    (0..usize::from(turns) * ranks).map_while(block).collect()
}
