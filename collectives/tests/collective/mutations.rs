//! Schedules that are spoilt are found.

use proptest::prelude::*;
use svmio_collectives::Rank;
use svmio_collectives::collective::{
    AllgatherAlgorithm, AllreduceAlgorithm, CollectiveAlgorithm, CollectiveSchedule, Flaw, Operands, Receipt,
    Transfer,
};

use crate::algorithms::{any, rooted, rootless};
use crate::trial;

/// What is done to a schedule to spoil it.
#[derive(Debug, Clone, Copy)]
enum Mutation {
    Drop,
    Redirect,
    Repeat,
    Swap,
    Hasten,
}

/// The schedule with one transfer changed; none where it would be no schedule, or the same.
fn mutated(
    schedule: &CollectiveSchedule,
    mutation: Mutation,
    chance: &mut fastrand::Rng,
) -> Option<CollectiveSchedule> {
    let mut steps = schedule.steps().to_vec();
    let from = chance.usize(..steps.len().max(1));
    let step = steps.get_mut(from)?;
    if step.is_empty() {
        return None;
    }
    let victim = chance.usize(..step.len());
    let mut transfer = step[victim].clone();
    match mutation {
        Mutation::Drop => {
            step.remove(victim);
        }
        Mutation::Redirect => {
            let to = Rank(chance.u32(..schedule.ranks()));
            if to == transfer.to || to == transfer.from {
                return None;
            }
            transfer.to = to;
            step[victim] = transfer;
        }
        Mutation::Repeat => {
            let at = chance.usize(from + 1..=steps.len());
            steps.insert(at, vec![transfer]);
        }
        Mutation::Swap => {
            if transfer.receipt == Receipt::Store {
                return None;
            }
            step[victim].receipt = transfer.receipt.swapped();
        }
        Mutation::Hasten => {
            step.remove(victim);
            steps.insert(chance.usize(..=from), vec![transfer]);
        }
    }
    CollectiveSchedule::new(schedule.ranks(), schedule.blocks(), steps).ok()
}

fn any_mutation() -> impl Strategy<Value = Mutation> {
    use Mutation::{Drop, Hasten, Redirect, Repeat, Swap};
    prop::sample::select(&[Drop, Redirect, Repeat, Swap, Hasten][..])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn spoilt_schedules_are_found_and_only_they(
        (algorithm, ranks) in any(2..14),
        mutations in prop::collection::vec(any_mutation(), 1..3),
        seed: u64,
    ) {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut schedule = algorithm.schedule(ranks);
        for mutation in mutations {
            schedule = mutated(&schedule, mutation, &mut chance).unwrap_or(schedule);
        }
        let (collective, operands) = (algorithm.collective(), algorithm.operands());
        let does = trial::does(&schedule, collective, operands, seed);
        match schedule.check(collective, operands) {
            Ok(()) => prop_assert!(does, "{algorithm:?} for {ranks}: {schedule:?}"),
            Err(Flaw::Wrong { .. }) => prop_assert!(!does, "{algorithm:?} for {ranks}: {schedule:?}"),
            // What nobody gives, or what does not belong together, may be overwritten by what is right.
            Err(_) => {}
        }
    }
}

/// Every schedule that differs from this one by what `change` makes of a transfer.
fn changed<'s>(
    schedule: &'s CollectiveSchedule,
    change: impl Fn(&mut Vec<Vec<Transfer>>, usize, usize) -> bool + 's,
) -> impl Iterator<Item = CollectiveSchedule> + 's {
    let all = schedule.steps().iter().enumerate();
    let all = all.flat_map(|(step, transfers)| (0..transfers.len()).map(move |at| (step, at)));
    all.filter_map(move |(step, at)| {
        let mut steps = schedule.steps().to_vec();
        let changes = change(&mut steps, step, at);
        changes.then(|| CollectiveSchedule::new(schedule.ranks(), schedule.blocks(), steps).unwrap())
    })
}

/// No algorithm has a message, or a move within memory, to spare.
#[test]
fn no_transfer_can_be_missed() {
    for ranks in [2, 3, 6, 7, 8, 13] {
        for algorithm in [rooted(0), rooted(ranks / 2), rooted(ranks - 1), rootless()].concat() {
            let schedule = algorithm.schedule(ranks);
            let drop = |steps: &mut Vec<Vec<Transfer>>, step: usize, at: usize| {
                steps[step].remove(at);
                true
            };
            for without in changed(&schedule, drop) {
                let found = without.check(algorithm.collective(), algorithm.operands());
                assert!(found.is_err(), "{algorithm:?} for {ranks}: {without:?}");
            }
        }
    }
}

#[test]
fn nothing_is_combined_twice_or_on_the_wrong_side() {
    let combines = |transfer: &Transfer| transfer.receipt != Receipt::Store;
    for ranks in [2, 3, 6, 8, 13] {
        for algorithm in [rooted(0), rooted(ranks - 1), rootless()].concat() {
            let schedule = algorithm.schedule(ranks);
            let repeat = |steps: &mut Vec<Vec<Transfer>>, step: usize, at: usize| {
                let transfer = steps[step][at].clone();
                let repeats = combines(&transfer);
                steps.insert(step + 1, vec![transfer]);
                repeats
            };
            let swap = |steps: &mut Vec<Vec<Transfer>>, step: usize, at: usize| {
                let transfer = &mut steps[step][at];
                transfer.receipt = transfer.receipt.swapped();
                combines(transfer)
            };
            for repeated in changed(&schedule, repeat) {
                let found = repeated.check(algorithm.collective(), algorithm.operands());
                assert!(matches!(found, Err(Flaw::Repeated { .. })), "{algorithm:?}: {found:?}");
            }
            if algorithm.operands() == Operands::Ordered {
                for swapped in changed(&schedule, swap) {
                    let found = swapped.check(algorithm.collective(), Operands::Ordered);
                    assert!(matches!(found, Err(Flaw::Wrong { .. })), "{algorithm:?}: {found:?}");
                }
            }
        }
    }
}

#[test]
fn the_proof_says_what_is_wrong() {
    let ring = CollectiveAlgorithm::Allgather(AllgatherAlgorithm::Ring);
    let mut steps = ring.schedule(3).steps().to_vec();
    steps[0].retain(|transfer| transfer.from != Rank(0));
    let spoilt = CollectiveSchedule::new(3, 3, steps).unwrap();
    let found = spoilt.check(ring.collective(), Operands::Ordered);
    assert_eq!(found, Err(Flaw::Absent { step: 1, rank: Rank(1), block: 0 }));
    assert_eq!(found.unwrap_err().to_string(), "step 1: there is nothing in block 0 of rank 1");

    let halves = CollectiveAlgorithm::Allreduce(AllreduceAlgorithm::Rabenseifner);
    let mut steps = halves.schedule(2).steps().to_vec();
    let combined = steps.iter_mut().flatten().find(|transfer| transfer.receipt != Receipt::Store).unwrap();
    combined.into = Some(1 - combined.blocks.iter().next().unwrap());
    let spoilt = CollectiveSchedule::new(2, 2, steps).unwrap();
    let found = spoilt.check(halves.collective(), Operands::Ordered);
    assert!(matches!(found, Err(Flaw::Unlike { .. })), "{found:?}");
}
