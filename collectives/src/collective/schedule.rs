//! A collective as a value: steps of transfers.

use super::error::CollectiveScheduleError;
use super::part::Part;
use super::transfer::Transfer;
use crate::rank::Rank;

/// A schedule of transfers: for each step who gives whom which blocks, and what becomes of them there.
///
/// A rank takes the steps in order. In each it gives what it held before the step, and goes on when it has got what
/// comes to it. A step in which it has nothing to do costs it nothing. How long a block is is not said: that is bound
/// when the schedule is executed, predicted or simulated.
///
/// In a step a rank gives one message and gets one at most. Or it gives several, or gets several, to or from ranks that
/// do nothing else in the step; or it does nothing but move something within its memory. So nobody waits for ever, also
/// where whoever gives waits until it is taken.
///
/// Not every schedule is a collective: [`check`](Self::check) tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectiveSchedule {
    ranks: u32,
    blocks: u64,
    steps: Vec<Vec<Transfer>>,
}

impl CollectiveSchedule {
    /// The schedule for so many ranks and blocks with these steps.
    ///
    /// # Errors
    /// [`CollectiveScheduleError`] for ranks and blocks that are not there, and for steps that are not as described
    /// above.
    pub fn new(
        ranks: u32,
        blocks: u64,
        steps: impl IntoIterator<Item = Vec<Transfer>>,
    ) -> Result<Self, CollectiveScheduleError> {
        let mut schedule = Self { ranks, blocks, steps: steps.into_iter().collect() };
        schedule.steps.iter_mut().for_each(|step| step.sort_by_key(|transfer| transfer.from));
        let mut load = vec![Load::default(); ranks as usize];
        for number in 0..schedule.steps.len() {
            schedule.check_numbers(number)?;
            schedule.check_load(number, &mut load)?;
            schedule.check_targets(number)?;
        }
        Ok(schedule)
    }

    /// The union of all ranks' parts, which fit together.
    pub(super) fn of_parts(ranks: u32, blocks: u64, part_of: impl Fn(Rank) -> Part) -> Self {
        let mut steps: Vec<Vec<Transfer>> = Vec::new();
        for rank in (0..ranks).map(Rank) {
            for (step, transfer) in part_of(rank).into_transfers() {
                if transfer.from == rank {
                    let step = step as usize;
                    if steps.len() <= step {
                        steps.resize(step + 1, Vec::new());
                    }
                    steps[step].push(transfer);
                }
            }
        }
        Self { ranks, blocks, steps }
    }

    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// How many blocks a rank may have something in.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The transfers of each step, by who gives.
    #[must_use]
    pub fn steps(&self) -> &[Vec<Transfer>] {
        &self.steps
    }

    /// How many messages there are, in all steps.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.steps.iter().flatten().filter(|transfer| !transfer.is_local()).count()
    }

    /// What a rank does.
    #[must_use]
    pub fn part_of(&self, rank: Rank) -> Part {
        let mut part = Part::of(rank);
        for (number, step) in self.steps.iter().enumerate() {
            let own = step.iter().filter(|transfer| transfer.from == rank || transfer.to == rank);
            own.for_each(|transfer| part.push(number as u32, transfer.clone()));
        }
        part
    }

    fn check_numbers(&self, step: usize) -> Result<(), CollectiveScheduleError> {
        let (ranks, blocks) = (self.ranks, self.blocks);
        for transfer in &self.steps[step] {
            if let Some(&rank) = [transfer.from, transfer.to].iter().find(|rank| rank.0 >= ranks) {
                return Err(CollectiveScheduleError::OutOfRange { step, rank, ranks });
            }
            let target = transfer.target();
            let ends = [&transfer.blocks, &target].into_iter().flat_map(|blocks| blocks.ranges());
            if let Some(end) = ends.map(|range| range.end).find(|&end| end > blocks) {
                return Err(CollectiveScheduleError::NoSuchBlock { step, block: end - 1, blocks });
            }
        }
        Ok(())
    }

    /// That each rank does no more than an executor could do side by side. `load` is all zero before and after.
    fn check_load(&self, step: usize, load: &mut [Load]) -> Result<(), CollectiveScheduleError> {
        let transfers = &self.steps[step];
        for transfer in transfers {
            if transfer.is_local() {
                load[transfer.from.index()].local += 1;
            } else {
                load[transfer.from.index()].given += 1;
                load[transfer.to.index()].got += 1;
            }
        }
        for transfer in transfers {
            let (giver, taker) = (load[transfer.from.index()], load[transfer.to.index()]);
            let fits = match (transfer.is_local(), giver.given, taker.got) {
                (true, given, got) => given + got == 0 && giver.local == 1,
                (false, 1, 1) => true,
                // A star: its centre gives or gets only, and the others have only to do with that.
                (false, given, got) => given.min(got) == 1 && giver.got + taker.given == 0,
            };
            if !fits {
                return Err(CollectiveScheduleError::Crowded { step, rank: transfer.from });
            }
        }
        for transfer in transfers {
            load[transfer.from.index()] = Load::default();
            load[transfer.to.index()] = Load::default();
        }
        Ok(())
    }

    fn check_targets(&self, step: usize) -> Result<(), CollectiveScheduleError> {
        let mut targets: Vec<(Rank, u64, u64)> = Vec::new();
        for transfer in &self.steps[step] {
            let target = transfer.target();
            targets.extend(target.ranges().iter().map(|range| (transfer.to, range.start, range.end)));
        }
        targets.sort_unstable();
        match targets.windows(2).find(|pair| pair[0].0 == pair[1].0 && pair[0].2 > pair[1].1) {
            Some(pair) => Err(CollectiveScheduleError::Twice { step, rank: pair[1].0, block: pair[1].1 }),
            None => Ok(()),
        }
    }
}

/// What a rank does in a step.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    given: u32,
    got: u32,
    local: u32,
}

#[cfg(test)]
mod tests {
    use super::{CollectiveSchedule, CollectiveScheduleError};
    use crate::collective::{Blocks, Receipt, Transfer};
    use crate::rank::Rank;

    fn transfer(from: u32, to: u32, blocks: impl Into<Blocks>) -> Transfer {
        let (from, to, blocks) = (Rank(from), Rank(to), blocks.into());
        Transfer { from, to, blocks, into: None, receipt: Receipt::Store }
    }

    fn refused(step: Vec<Transfer>) -> Option<CollectiveScheduleError> {
        CollectiveSchedule::new(5, 4, [step]).err()
    }

    #[test]
    fn paths_circles_and_stars_can_be_done() {
        assert_eq!(refused(vec![transfer(0, 1, 0), transfer(1, 2, 0), transfer(3, 4, 1)]), None);
        assert_eq!(refused(vec![transfer(0, 1, 0), transfer(1, 0, 0)]), None);
        assert_eq!(refused(vec![transfer(1, 0, 0), transfer(1, 2, 0), transfer(1, 4, 3)]), None);
        assert_eq!(refused(vec![transfer(0, 1, 0), transfer(2, 1, 1), transfer(3, 4, 0)]), None);
        assert_eq!(
            refused(vec![Transfer { into: Some(2), ..transfer(1, 1, 0..2) }, transfer(2, 3, 0)]),
            None
        );
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        use CollectiveScheduleError as Refused;
        assert_eq!(
            refused(vec![transfer(0, 5, 0)]),
            Some(Refused::OutOfRange { step: 0, rank: Rank(5), ranks: 5 })
        );
        let beyond = Transfer { into: Some(3), ..transfer(0, 1, 0..2) };
        assert_eq!(refused(vec![beyond]), Some(Refused::NoSuchBlock { step: 0, block: 4, blocks: 4 }));
        let twice = vec![transfer(0, 1, 0..3), transfer(2, 1, 2)];
        assert_eq!(refused(twice), Some(Refused::Twice { step: 0, rank: Rank(1), block: 2 }));
        for crowded in [
            // A star's centre that gets something, too, and one of its others that does.
            vec![transfer(0, 1, 0), transfer(0, 2, 0), transfer(3, 0, 0)],
            vec![transfer(0, 1, 0), transfer(0, 2, 0), transfer(3, 1, 1)],
            vec![transfer(0, 1, 0), transfer(0, 2, 0), transfer(1, 3, 0)],
            vec![transfer(0, 1, 0), transfer(2, 1, 1), transfer(2, 3, 0)],
            // More than a move within memory.
            vec![Transfer { into: Some(2), ..transfer(1, 1, 0) }, transfer(1, 3, 0)],
            vec![
                Transfer { into: Some(2), ..transfer(1, 1, 0) },
                Transfer { into: Some(3), ..transfer(1, 1, 1) },
            ],
        ] {
            assert!(matches!(refused(crowded.clone()), Some(Refused::Crowded { .. })), "{crowded:?}");
        }
    }
}
