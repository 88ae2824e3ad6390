//! Which kinds of steps may follow which.

use std::collections::BTreeSet;

use crate::schedule::{ScheduleError, Step, StepKind};

/// Checks that steps of kind fetch-add are followed by the resumption of just those that stayed behind in them, by the
/// only one that did not, so that executors need not. Whoever goes on in that one's place then comes last of all who
/// count.
pub(super) fn check_order_of_kinds(steps: &[Step]) -> Result<(), ScheduleError> {
    let (mut behind, mut counted) = (BTreeSet::new(), BTreeSet::new());
    for (number, step) in steps.iter().enumerate() {
        let misfit = match step.kind {
            StepKind::Signals => behind.first().copied(),
            StepKind::FetchAdd => {
                let take_part = || step.senders().chain(step.receivers()).map(|(rank, _)| rank);
                let misfit = take_part().find(|rank| behind.contains(rank));
                counted.extend(take_part());
                behind.extend(step.senders().map(|(rank, _)| rank));
                misfit
            }
            StepKind::Resume => {
                let (stayed, counted) = (std::mem::take(&mut behind), std::mem::take(&mut counted));
                let resumed: BTreeSet<_> = step.receivers().map(|(rank, _)| rank).collect();
                let senders: BTreeSet<_> = step.senders().map(|(rank, _)| rank).collect();
                let went_on: BTreeSet<_> = counted.difference(&stayed).copied().collect();
                senders
                    .intersection(&stayed)
                    .chain(stayed.symmetric_difference(&resumed))
                    .chain(went_on.symmetric_difference(&senders))
                    .next()
                    .copied()
            }
        };
        if let Some(rank) = misfit {
            return Err(ScheduleError::Kind { step: number, rank, kind: step.kind });
        }
    }
    behind.first().map_or(Ok(()), |&rank| Err(ScheduleError::NoResume { rank }))
}

#[cfg(test)]
mod tests {
    use crate::rank::Rank;
    use crate::schedule::{Schedule, ScheduleError, Signal, StepDescription, StepKind};

    #[test]
    fn who_stays_behind_is_resumed_and_nobody_else() {
        let new = |steps: &[(StepKind, &[(u32, u32)])]| {
            let describe = |&(kind, pairs): &(StepKind, &[(u32, u32)])| StepDescription {
                kind,
                signals: pairs.iter().map(|&(from, to)| Signal::new(from, to)).collect(),
            };
            Schedule::new(4, steps.iter().map(describe)).map(drop)
        };
        let (words, resume, flags) = (StepKind::FetchAdd, StepKind::Resume, StepKind::Signals);
        assert_eq!(
            new(&[(words, &[(1, 0), (3, 2)]), (words, &[(2, 0)]), (resume, &[(0, 1), (0, 2), (0, 3)])]),
            Ok(())
        );
        let misfit = |step, rank, kind| Err(ScheduleError::Kind { step, rank: Rank(rank), kind });
        assert_eq!(new(&[(words, &[(1, 0)]), (words, &[(1, 2)])]), misfit(1, 1, words));
        assert_eq!(new(&[(words, &[(1, 0)]), (flags, &[(2, 3)])]), misfit(1, 1, flags));
        assert_eq!(new(&[(words, &[(1, 0), (2, 0)]), (resume, &[(0, 2)])]), misfit(1, 1, resume));
        assert_eq!(new(&[(words, &[(1, 0)]), (resume, &[(0, 1), (0, 2)])]), misfit(1, 2, resume));
        assert_eq!(new(&[(words, &[(1, 0)]), (resume, &[(2, 1)])]), misfit(1, 0, resume));
        assert_eq!(new(&[(words, &[(1, 0)])]), Err(ScheduleError::NoResume { rank: Rank(1) }));
        // Two count apart: the last of one would let the others go that wait for the last of the other.
        let apart = [
            (words, &[(1, 0), (3, 2)][..]),
            (resume, &[(0, 1), (0, 3)]),
            (flags, &[(0, 2), (2, 0)]),
            (flags, &[(0, 1), (2, 3)]),
        ];
        assert_eq!(new(&apart), misfit(1, 2, resume));
        // What was counted before does not count again.
        let one_pair = [(words, &[(1, 0)][..]), (resume, &[(0, 1)]), (words, &[(3, 2)]), (resume, &[(2, 3)])];
        assert_eq!(new(&one_pair), Ok(()));
    }
}
