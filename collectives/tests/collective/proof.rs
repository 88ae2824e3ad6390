//! Every constructor makes its collective, rank by rank as in one piece.

use proptest::prelude::*;
use svmio_collectives::Rank;
use svmio_collectives::collective::{
    AllreduceAlgorithm, Collective, CollectiveAlgorithm, CollectiveSchedule, Flaw, Operands, Part,
    ReduceAlgorithm, Transfer,
};

use crate::algorithms::{any, rooted, rootless};
use crate::trial;

/// Has the proof look at an algorithm, and at whether its parts make up a schedule.
fn prove(algorithm: CollectiveAlgorithm, ranks: u32) {
    let schedule = algorithm.schedule(ranks);
    let proved = schedule.check(algorithm.collective(), algorithm.operands());
    assert_eq!(proved, Ok(()), "{algorithm:?} for {ranks}");
    let again = CollectiveSchedule::new(ranks, schedule.blocks(), schedule.steps().to_vec());
    assert_eq!(again.as_ref(), Ok(&schedule), "{algorithm:?} for {ranks}");
}

/// A part's transfers in an order that says nothing.
fn sorted(part: &Part) -> Vec<(u32, u32, u32, Transfer)> {
    let of = |(step, transfer): &(u32, Transfer)| (*step, transfer.from.0, transfer.to.0, transfer.clone());
    let mut transfers: Vec<_> = part.transfers().iter().map(of).collect();
    transfers.sort_by_key(|transfer| (transfer.0, transfer.1, transfer.2));
    transfers
}

#[test]
fn every_algorithm_without_a_root_is_its_collective_for_up_to_64_ranks() {
    for ranks in 1..=64 {
        rootless().into_iter().for_each(|algorithm| prove(algorithm, ranks));
    }
}

#[test]
fn every_algorithm_is_its_collective_for_all_roots() {
    for ranks in 1..=64 {
        // All of them for small groups; of larger ones those at which something ends, and some more.
        let roots = (0..ranks).filter(|&root| ranks <= 17 || root < 3 || root + 3 > ranks || root % 7 == 0);
        for algorithm in roots.flat_map(rooted) {
            prove(algorithm, ranks);
        }
    }
}

#[test]
fn what_each_rank_does_is_what_the_others_expect() {
    for ranks in 1..=33 {
        for algorithm in [rooted(ranks / 3), rooted(ranks - 1), rootless()].concat() {
            let schedule = algorithm.schedule(ranks);
            for rank in (0..ranks).map(Rank) {
                let (part, of_all) = (algorithm.part_of(ranks, rank), schedule.part_of(rank));
                assert_eq!(sorted(&part), sorted(&of_all), "{algorithm:?} for {ranks}, rank {rank}");
            }
        }
    }
}

#[test]
fn trial_agrees_that_every_algorithm_is_its_collective() {
    for ranks in [1, 2, 3, 6, 7, 8, 13] {
        for algorithm in [rooted(0), rooted(ranks / 2), rooted(ranks - 1), rootless()].concat() {
            let (collective, operands) = (algorithm.collective(), algorithm.operands());
            let schedule = algorithm.schedule(ranks);
            assert!(trial::does(&schedule, collective, operands, 1), "{algorithm:?} for {ranks}");
        }
    }
}

#[test]
fn what_turns_the_order_of_operands_is_for_those_who_commute() {
    let ring = CollectiveAlgorithm::Allreduce(AllreduceAlgorithm::Ring);
    let (algorithm, operands) = (ReduceAlgorithm::Binomial, Operands::Commuting);
    let turned = CollectiveAlgorithm::Reduce { root: Rank(2), algorithm, operands };
    for algorithm in [ring, turned] {
        let found = algorithm.schedule(5).check(algorithm.collective(), Operands::Ordered);
        assert!(matches!(found, Err(Flaw::Wrong { .. })), "{found:?}");
    }
}

#[test]
fn one_collective_is_not_another() {
    let ring = CollectiveAlgorithm::Allreduce(AllreduceAlgorithm::Ring).schedule(4);
    // Who has all has its part, and what one gets, too.
    assert_eq!(ring.check(Collective::ReduceScatter, Operands::Commuting), Ok(()));
    assert_eq!(ring.check(Collective::Reduce { root: Rank(3) }, Operands::Commuting), Ok(()));
    assert!(ring.check(Collective::Allgather, Operands::Commuting).is_err());
    let scan = CollectiveAlgorithm::Scan.schedule(4);
    assert_eq!(scan.check(Collective::Reduce { root: Rank(3) }, Operands::Ordered), Ok(()));
    assert!(scan.check(Collective::Allreduce, Operands::Ordered).is_err());
    let nothing = CollectiveSchedule::new(2, 1, []).unwrap();
    assert_eq!(
        nothing.check(Collective::Bcast { root: Rank(1) }, Operands::Ordered),
        Err(Flaw::Wrong { rank: Rank(0), block: 0 })
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn algorithms_are_their_collectives_for_any_number_of_ranks((algorithm, ranks) in any(65..200)) {
        prove(algorithm, ranks);
    }
}

/// Only one rank's part is made, however many ranks there are.
#[test]
fn a_part_of_a_large_group_is_made_without_the_others() {
    let (ranks, rank) = (1_000_000, Rank(765_432));
    for algorithm in rootless() {
        if !matches!(algorithm, CollectiveAlgorithm::Alltoall(_)) {
            let part = algorithm.part_of(ranks, rank);
            assert!(!part.transfers().is_empty(), "{algorithm:?}");
        }
    }
}
