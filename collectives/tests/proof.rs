//! Every constructor makes barriers, and what is no barrier is found: against doing what schedules say, with one rank
//! held.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod any_algorithm;

use std::collections::HashSet;

use any_algorithm::any_algorithm;
use proptest::prelude::*;
use svmio_collectives::{
    Algorithm, EmissionError, Language, Partition, Rank, Schedule, Signal, StepDescription,
};

/// All algorithms with parameters that make a difference for so many ranks.
fn algorithms(ranks: u32) -> Vec<Algorithm> {
    let mut names: Vec<String> =
        ["linear", "dissemination", "x1tree", "hsb", "nx", "nx2"].map(String::from).into();
    for parameter in [2, 3, 4, 5, 6, 8, 16, ranks.saturating_sub(1).max(2), ranks.max(2), ranks + 1] {
        names.extend(["tree", "hsb", "nx", "nx2"].map(|name| format!("{name}:{parameter}")));
    }
    names.extend(["hsb:1", "hsb:1,7", "hsb:3,8", "hsb:8,3"].map(String::from));
    for size in [1, 2, 3, 8, ranks.max(1)] {
        names.extend(
            ["linear", "tree:3", "dissemination", "hsb:2,3", "nx:3", "nx2:3", "x1tree"]
                .map(|masters| format!("two-level:{size}:{masters}")),
        );
    }
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// Whether nobody leaves while `held` has not come: runs the ranks in an order that `seed` gives, as far as they get.
fn holds(schedule: &Schedule, held: Rank, seed: u64) -> bool {
    let mut chance = fastrand::Rng::with_seed(seed);
    let parts: Vec<Vec<_>> =
        (0..schedule.ranks()).map(|rank| schedule.part_of(Rank(rank)).collect()).collect();
    let mut come = HashSet::new();
    let mut sent = vec![false; parts.len()];
    let mut at = vec![0; parts.len()];
    let mut runnable: Vec<_> = (0..schedule.ranks()).map(Rank).filter(|&rank| rank != held).collect();
    while !runnable.is_empty() {
        let rank = runnable.swap_remove(chance.usize(..runnable.len()));
        let Some(step) = parts[rank.index()].get(at[rank.index()]) else { return false };
        if !std::mem::replace(&mut sent[rank.index()], true) {
            for &to in step.signal {
                come.insert((step.number, rank, to));
                // It may wait for just that. Who is told twice just looks twice.
                if to != held {
                    runnable.push(to);
                }
            }
        }
        if step.awaited.iter().all(|&from| come.contains(&(step.number, from, rank))) {
            at[rank.index()] += 1;
            sent[rank.index()] = false;
            runnable.push(rank);
        }
    }
    true
}

/// The slow truth about a schedule.
fn is_barrier_by_trial(schedule: &Schedule, seed: u64) -> bool {
    (0..schedule.ranks()).all(|held| holds(schedule, Rank(held), seed ^ u64::from(held)))
}

#[test]
fn every_algorithm_is_a_barrier_for_up_to_64_ranks() {
    for ranks in 1..=64 {
        for algorithm in algorithms(ranks) {
            let schedule = algorithm.schedule(ranks).unwrap();
            assert!(schedule.is_barrier(), "{algorithm} for {ranks}");
        }
    }
}

#[test]
fn trial_agrees_that_every_algorithm_is_a_barrier() {
    for ranks in [1, 2, 3, 7, 16, 19] {
        for algorithm in algorithms(ranks) {
            assert!(is_barrier_by_trial(&algorithm.schedule(ranks).unwrap(), 1), "{algorithm} for {ranks}");
        }
    }
}

#[test]
fn schedules_that_leave_somebody_out_are_none() {
    let schedule = |ranks, steps: &[&[(u32, u32)]]| {
        let step = |pairs: &&[(u32, u32)]| -> Vec<_> {
            pairs.iter().map(|&(from, to)| Signal::new(from, to)).collect()
        };
        Schedule::new(ranks, steps.iter().map(step)).unwrap()
    };
    assert!(schedule(1, &[]).is_barrier() && schedule(0, &[]).is_barrier());
    assert!(!schedule(2, &[]).is_barrier());
    assert!(!schedule(2, &[&[(0, 1)]]).is_barrier());
    assert!(schedule(2, &[&[(0, 1), (1, 0)]]).is_barrier());
    // What is learnt in a step is not passed on in it.
    assert!(!schedule(3, &[&[(2, 1), (1, 0)], &[(0, 1), (0, 2)]]).is_barrier());
    assert!(schedule(3, &[&[(2, 1)], &[(1, 0)], &[(0, 1), (0, 2)]]).is_barrier());
    // More ranks than fit a block of the proof, of which the last tells nobody.
    let mut steps = "dissemination".parse::<Algorithm>().unwrap().schedule(1025).unwrap().descriptions();
    assert!(Schedule::new(1025, steps.clone()).unwrap().is_barrier());
    steps.iter_mut().for_each(|step| step.signals.retain(|signal| signal.from != Rank(1024)));
    assert!(!Schedule::new(1025, steps).unwrap().is_barrier());
}

/// A file of few bytes may claim any number of ranks: telling takes neither time nor memory for each.
#[test]
fn ranks_without_signals_cost_nothing() {
    let schedule: Schedule = serde_json::from_str(r#"{"ranks":4294967295,"steps":[]}"#).unwrap();
    assert!(!schedule.is_barrier());
    assert_eq!(schedule.emit(&Language::Rust), Err(EmissionError::NoBarrier));
    let last = u32::MAX - 2;
    let few = Schedule::new(u32::MAX, [vec![Signal::new(last, 0)], vec![Signal::new(0, last)]]).unwrap();
    assert!(!few.is_barrier());
}

/// Signals in words to count in are signals, too: here as many as there are ranks, or few more.
#[test]
fn barriers_with_the_fewest_signals_are_proved() {
    for (name, ranks) in [("dissemination", 2), ("linear", 2), ("x1tree", 2), ("x1tree", 3), ("tree:2", 3)] {
        let schedule = name.parse::<Algorithm>().unwrap().schedule(ranks).unwrap();
        assert!(schedule.is_barrier(), "{name} for {ranks}: {} signals", schedule.signals());
    }
}

#[test]
fn thousands_of_ranks_are_proved_too() {
    for algorithm in ["tree:4", "dissemination"] {
        let algorithm: Algorithm = algorithm.parse().unwrap();
        assert!(algorithm.schedule(4096).unwrap().is_barrier(), "{algorithm}");
    }
}

/// The steps as flags only: words to count in have rules of their own.
fn as_flags(schedule: &Schedule) -> Vec<StepDescription> {
    schedule.descriptions().into_iter().map(|step| StepDescription::from(step.signals)).collect()
}

/// What is done to a schedule to spoil it.
#[derive(Debug, Clone, Copy)]
enum Mutation {
    Drop,
    Redirect,
    Hasten,
}

/// The schedule with one signal changed; none where it would be no schedule, or the same.
fn mutated(schedule: &Schedule, mutation: Mutation, chance: &mut fastrand::Rng) -> Option<Schedule> {
    let mut steps = as_flags(schedule);
    let from = chance.usize(..steps.len().max(1));
    let step = steps.get_mut(from)?;
    let victim = chance.usize(..step.signals.len());
    let mut signal = step.signals.swap_remove(victim);
    match mutation {
        Mutation::Drop => {}
        Mutation::Redirect => {
            let to = Rank(chance.u32(..schedule.ranks()));
            if to == signal.to {
                return None;
            }
            signal.to = to;
            step.signals.push(signal);
        }
        Mutation::Hasten if from == 0 => return None,
        Mutation::Hasten => steps[chance.usize(..from)].signals.push(signal),
    }
    Schedule::new(schedule.ranks(), steps).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn algorithms_are_barriers_for_any_number_of_ranks(algorithm in any_algorithm(), ranks in 65_u32..1200) {
        prop_assert!(algorithm.schedule(ranks).unwrap().is_barrier());
    }

    #[test]
    fn two_levels_are_a_barrier_over_any_nodes(
        nodes in prop::collection::vec(0_u8..6, 1..60), masters in any_algorithm(), seed: u64
    ) {
        let partition = Partition::of_nodes(nodes);
        let masters = match masters {
            Algorithm::TwoLevel { masters, .. } => *masters,
            flat => flat,
        };
        let schedule = format!("two-level:{masters}").parse::<Algorithm>().unwrap().schedule_on(&partition).unwrap();
        prop_assert!(schedule.is_barrier());
        prop_assert!(is_barrier_by_trial(&schedule, seed));
        // Only masters cross from node to node.
        let masters: HashSet<_> = partition.masters().collect();
        for signal in schedule.steps().iter().flat_map(|step| step.signals()) {
            let between = masters.contains(&signal.from) && masters.contains(&signal.to);
            prop_assert!(between || partition.is_local(signal.from, signal.to));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn spoilt_schedules_are_found_and_only_they(
        algorithm in any_algorithm(),
        ranks in 2_u32..26,
        mutations in prop::collection::vec(prop_oneof![
            Just(Mutation::Drop), Just(Mutation::Redirect), Just(Mutation::Hasten)
        ], 1..3),
        seed: u64,
    ) {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut schedule = algorithm.schedule(ranks).unwrap();
        for mutation in mutations {
            schedule = mutated(&schedule, mutation, &mut chance).unwrap_or(schedule);
        }
        prop_assert_eq!(schedule.is_barrier(), is_barrier_by_trial(&schedule, seed));
    }
}

/// Without a signal to spare, none can be missed.
#[test]
fn no_signal_of_a_tree_can_be_missed() {
    for algorithm in ["linear", "tree:2", "tree:3", "hsb:3,2", "x1tree", "two-level:4:tree:2"] {
        let schedule = algorithm.parse::<Algorithm>().unwrap().schedule(21).unwrap();
        for step in 0..schedule.steps().len() {
            for victim in 0..schedule.steps()[step].len() {
                let mut steps = as_flags(&schedule);
                steps[step].signals.remove(victim);
                assert!(!Schedule::new(21, steps).unwrap().is_barrier(), "{algorithm}: {step}, {victim}");
            }
        }
    }
}
