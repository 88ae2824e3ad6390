//! Barriers in virtual time: the SCI Collectives Library's figures, and sizes that nobody has.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use svmio_collectives::profile::{SurveySettings, survey};
use svmio_collectives::simulation::figures::{
    barrier_time, comparison, message_barrier_time, optimization, scaling,
};
use svmio_collectives::simulation::{Signalling, SimulatedMachine, Simulation};
use svmio_collectives::{Algorithm, CostModel, Partition, Rank, Schedule, Signal, compose};
use svmio_transport::Time;
use svmio_transport::sim::Model;

/// The fabric of the paper.
fn torus() -> Arc<Model> {
    Model::named("sci-torus").unwrap()
}

fn algorithm(text: &str) -> Algorithm {
    text.parse().unwrap()
}

fn time(text: &str, nodes: u32) -> f64 {
    barrier_time(&torus(), &algorithm(text), nodes).unwrap().as_secs_f64() * 1e6
}

/// Figure 6: an additional step is an abrupt increase; within the same number of steps there is little.
#[test]
fn steps_of_the_exchange_are_where_figure_6_has_them() {
    let steps = [("nx2:2", vec![3, 5, 9, 17]), ("nx2:6", vec![7]), ("nx2:16", vec![17]), ("nx2", vec![])];
    for (algorithm, expected) in steps {
        let jumps: Vec<_> =
            (3..=24).filter(|&nodes| time(algorithm, nodes) - time(algorithm, nodes - 1) > 3.0).collect();
        assert_eq!(jumps, expected, "{algorithm}");
    }
}

/// "By extrapolation, we assume that the graphs for n = N and n = 6 cross at about 20 nodes"; up to 16, n = N is the
/// best.
#[test]
fn six_overtakes_all_at_once_near_20_nodes() {
    for nodes in 2..=16 {
        for other in ["nx2:2", "nx2:6", "nx2:16"] {
            assert!(time("nx2", nodes) <= time(other, nodes), "{other} on {nodes}");
        }
    }
    let crossing = (7..40).find(|&nodes| time("nx2:6", nodes) < time("nx2", nodes)).unwrap();
    assert!((17..=23).contains(&crossing), "{crossing}");
    assert!((crossing..=36).all(|nodes| time("nx2:6", nodes) < time("nx2", nodes)));
}

/// Section 4.3: from nine nodes a fan of eight does not hold all (nine are the root and eight), and needs another
/// level.
#[test]
fn one_level_beats_fans_of_eight_from_nine_nodes() {
    for nodes in 2..=9 {
        assert_eq!(time("hsb", nodes).to_bits(), time("hsb:8", nodes).to_bits(), "{nodes}");
    }
    for nodes in 10..=16 {
        assert!(time("hsb", nodes) < time("hsb:8", nodes), "{nodes}");
    }
}

#[test]
fn the_exchange_is_the_fastest_on_up_to_16_nodes() {
    let figure = comparison(&torus(), 16).unwrap();
    let ours = figure.named("nx, n = N").unwrap();
    for series in figure.series.iter().filter(|series| series.name != ours.name) {
        for &(nodes, time) in &series.points {
            assert!(ours.at(nodes).unwrap() < time, "{} on {nodes}", series.name);
        }
    }
}

/// "More than 15 µs on 3 nodes and about 37 µs on 16".
#[test]
fn a_barrier_of_messages_takes_what_the_paper_measured() {
    for (nodes, microseconds) in [(3, 15.0), (16, 37.0)] {
        let time = message_barrier_time(&torus(), nodes).unwrap().as_secs_f64() * 1e6;
        assert!((time / microseconds - 1.0).abs() < 0.15, "{time} µs on {nodes} nodes, not {microseconds}");
    }
}

/// "If two processes are running on each node, the barrier time increases by 0.5 µs", whatever the number of nodes.
#[test]
fn a_second_rank_per_node_costs_half_a_microsecond() {
    for nodes in [2, 7, 16] {
        let simulation = Simulation::new(torus(), Partition::blocks(2 * nodes, 2));
        let schedule = algorithm("two-level:nx2").schedule_on(simulation.nodes()).unwrap();
        let both = simulation.run(&schedule).total.as_secs_f64() * 1e6;
        let more = both - time("nx2", nodes);
        assert!((0.35..0.65).contains(&more), "{more} µs on {nodes} nodes");
    }
}

/// A message-passing library is in the way of a message to a rank of the same node, too.
#[test]
fn a_message_costs_its_library_within_a_node_as_between_nodes() {
    let software = Duration::from_nanos(1200);
    let schedule = algorithm("dissemination").schedule(2).unwrap();
    for per_node in [1, 2] {
        let flags = Simulation::new(torus(), Partition::blocks(2, per_node));
        let messages = flags.clone().signalling(Signalling::Messages { software });
        let more = messages.run(&schedule).total - flags.run(&schedule).total;
        assert!(more >= 2 * software, "{more:?} with {per_node} per node");
    }
}

#[test]
fn figures_have_all_their_points() {
    let figure = optimization(&torus(), 20).unwrap();
    assert_eq!(figure.series.len(), 4);
    assert!(figure.series.iter().all(|series| series.points.len() == 19));
    let figure = scaling(&torus(), &[algorithm("tree:4"), algorithm("nx2:6")], 100).unwrap();
    let nodes: Vec<_> = figure.series[0].points.iter().map(|point| point.0 as u32).collect();
    assert_eq!(nodes, [2, 4, 8, 16, 32, 64, 100]);
}

/// All signal at once, equally far: nobody is before another, whoever is first in the program, and the ring's links are
/// used at the same time.
#[test]
fn a_shift_around_a_ring_takes_all_equally_long() {
    let model = Model::named("sci-ring").unwrap();
    for signalling in [Signalling::Flags, Signalling::Messages { software: Duration::from_nanos(500) }] {
        let simulation = Simulation::of_nodes(Arc::clone(&model), 64).signalling(signalling);
        let run = |signals: Vec<Signal>| simulation.run(&Schedule::new(64, [signals]).unwrap()).leaves;
        let alone = run(vec![Signal::new(0, 2)]);
        let all = run((0..64).map(|from| Signal::new(from, (from + 2) % 64)).collect());
        assert!(all.iter().all(|&left| left == all[0]), "{all:?}");
        // Each waits for what it would wait for alone, and then looks at a flag.
        let (one, least) = (all[0].since(Time(0)), alone[0].since(Time(0)));
        assert!(one >= least && one.as_nanos() * 10 <= least.as_nanos() * 12, "{one:?}, alone {least:?}");
    }
}

/// All algorithms, one with parameters of each kind.
const ALGORITHMS: [&str; 12] = [
    "linear",
    "tree:2",
    "tree:4",
    "dissemination",
    "hsb:8,8",
    "nx:6",
    "nx2:6",
    "x1tree",
    "two-level:32:dissemination",
    "two-level:32:tree:4",
    "two-level:8:nx:6",
    "two-level:16:x1tree",
];

#[test]
fn nobody_leaves_before_the_last_has_come_whoever_is_late() {
    let late = Duration::from_millis(1);
    for (text, ranks) in ALGORITHMS.iter().flat_map(|text| [1, 2, 5, 16, 37, 70].map(|ranks| (text, ranks))) {
        let schedule = algorithm(text).schedule(ranks).unwrap();
        let simulation = Simulation::new(torus(), Partition::blocks(ranks, 3));
        for held in (0..ranks).map(Rank) {
            let timing =
                simulation.run_entered(&schedule, |rank| if rank == held { late } else { Duration::ZERO });
            assert!(
                timing.leaves.iter().all(|&left| left >= Time(0).after(late)),
                "{text} for {ranks}: {held}"
            );
            assert!(timing.total < late, "{text} for {ranks}: {:?}", timing.total);
        }
    }
}

/// Who comes last carries the others' arrival on: no way up the tree is walked that was walked before.
#[test]
fn the_last_to_come_releases_the_tree_of_the_x1() {
    let model = Model::named("infiniband-hdr").unwrap();
    let schedule = algorithm("x1tree").schedule(64).unwrap();
    let simulation = Simulation::of_nodes(model, 64);
    let late = Duration::from_millis(1);
    let timing =
        simulation.run_entered(&schedule, |rank| if rank == Rank(63) { late } else { Duration::ZERO });
    let last = timing.leaves.iter().max().unwrap();
    let first = timing.leaves.iter().min().unwrap();
    // Three words, and 63 stores: rank 63 itself leaves when its stores are done, before the last of them is seen.
    assert_ne!(timing.leaves[63], *last);
    assert!(last.since(*first) < timing.total);
}

/// With `SVMIO_FULL=1`, a hundred thousand ranks, which are to take less than a minute; without, as many as take a few
/// seconds also where others use the machine.
#[test]
fn a_hundred_thousand_ranks_of_every_algorithm_take_less_than_a_minute() {
    let is_full = std::env::var_os("SVMIO_FULL").is_some_and(|value| value == "1");
    let ranks = if is_full { 100_000 } else { 10_000 };
    let simulation = Simulation::of_nodes(Model::named("infiniband-hdr").unwrap(), ranks);
    let begun = Instant::now();
    let mut totals = Vec::new();
    for text in ALGORITHMS {
        let timing = simulation.run(&algorithm(text).schedule(ranks).unwrap());
        assert!(timing.leaves.iter().all(|&left| left > Time(0)), "{text}");
        totals.push((text, timing.total));
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    // One rank that tells all is the worst by far; steps that grow with the logarithm take microseconds.
    let total = |text| totals.iter().find(|total| total.0 == text).unwrap().1;
    assert!(total("linear") > 50 * total("dissemination"));
    assert!(total("tree:4") < Duration::from_micros(100));
}

#[test]
fn a_run_depends_on_nothing_but_what_is_run() {
    let simulation = Simulation::of_nodes(torus(), 50);
    let schedule = algorithm("nx:3").schedule(50).unwrap();
    assert_eq!(simulation.run(&schedule), simulation.run(&schedule));
}

/// What a survey finds is what a schedule meets: *O* when a signal is seen, *L* by how much later the next is, *O*ᵢᵢ when
/// its sender goes on.
#[test]
fn a_simulated_machine_costs_what_schedules_are_run_with() {
    for name in Model::names() {
        let simulation = Simulation::new(Model::named(name).unwrap(), Partition::blocks(12, 4));
        let settings = SurveySettings::default();
        let profile = survey(&mut SimulatedMachine::new(&simulation), &settings).unwrap();
        let leaves = |signals: Vec<Signal>| {
            let timing = simulation.run(&Schedule::new(12, [signals]).unwrap());
            move |rank: u32| timing.leaves[rank as usize].since(Time(0)).as_secs_f64() * 1e9
        };
        let is_near = |found: f64, met: f64| (found - met).abs() < 0.02 * met + 1.0;
        for (one, other) in (0..12).flat_map(|one| (one + 1..12).map(move |other| (one, other))) {
            // Signals to and fro: around a ring, one way is longer than the other.
            let there = leaves(vec![Signal::new(one, other)]);
            let back = leaves(vec![Signal::new(other, one)]);
            let met = f64::midpoint(there(other), back(one));
            let overhead = profile.overhead(Rank(one), Rank(other));
            assert!(is_near(overhead, met), "{name}, {one} and {other}: O is {overhead}, not {met}");
            // By the farthest node's acknowledgement.
            if one / 4 == 0 && other / 4 == 2 {
                let told = profile.latency(Rank(one), Rank(other)) + profile.start(Rank(one));
                let met = there(one);
                assert!(is_near(told, met), "{name}, {one} to {other}: goes on after {met}, not {told}");
            }
        }
        // Three more to the same node.
        let met =
            leaves((4..8).map(|to| Signal::new(0, to)).collect())(7) - leaves(vec![Signal::new(0, 4)])(4);
        let told = 3.0 * profile.latency(Rank(0), Rank(4));
        assert!(is_near(told, met), "{name}: the fourth is seen {met} later, not {told}");
    }
}

/// Wherever a rank is, and whichever number it has, it pays for the check of what it sends to other nodes.
#[test]
fn what_it_costs_to_begin_to_send_does_not_depend_on_a_ranks_number() {
    for (nodes, is_checked) in [(Partition::blocks(16, 4), true), (Partition::blocks(16, 16), false)] {
        let simulation = Simulation::new(torus(), nodes);
        let settings = SurveySettings::default();
        let profile = survey(&mut SimulatedMachine::new(&simulation), &settings).unwrap();
        let starts: Vec<f64> = (0..16).map(|rank| profile.start(Rank(rank))).collect();
        assert!(starts.iter().all(|&start| (start > 3000.0) == is_checked), "{starts:?}");
    }
}

/// The tuner's word is good: what it composes for a machine of nodes is the fastest there, and the order of the
/// algorithms is as predicted where they differ by much.
#[test]
fn what_is_composed_for_a_simulated_machine_is_the_fastest_on_it() {
    let simulation = Simulation::new(Model::named("infiniband-hdr").unwrap(), Partition::blocks(64, 8));
    let profile = survey(&mut SimulatedMachine::new(&simulation), &SurveySettings::default()).unwrap();
    let run = |schedule: &Schedule| simulation.run(schedule).total.as_secs_f64() * 1e9;
    let composed = compose(&profile).unwrap().unwrap();
    let mut both = vec![("composed".to_owned(), composed.prediction.total, run(&composed.schedule))];
    for text in ["linear", "tree:2", "tree:8", "dissemination", "hsb:8", "nx:4", "nx2:4", "nx2:8", "hsb"] {
        let schedule = algorithm(text).schedule_on(simulation.nodes()).unwrap();
        both.push((text.to_owned(), schedule.predict(&profile, CostModel::Writes).total, run(&schedule)));
    }
    let fastest = both.iter().map(|line| line.2).fold(f64::INFINITY, f64::min);
    assert_eq!(both[0].2.to_bits(), fastest.to_bits(), "{both:?}");
    for one in &both {
        assert!((one.1 / one.2 - 1.0).abs() < 0.12, "{one:?}");
        for other in &both {
            assert!(one.1 > 0.9 * other.1 || one.2 < other.2, "{one:?} {other:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn ranks_that_come_when_they_like_all_leave_after_the_last(
        text in prop::sample::select(&ALGORITHMS[..]),
        entered in prop::collection::vec(0_u64..30_000, 1..60),
        per_node in 1_u32..9,
    ) {
        let ranks = entered.len() as u32;
        let simulation = Simulation::new(torus(), Partition::blocks(ranks, per_node));
        let schedule = algorithm(text).schedule(ranks).unwrap();
        let timing = simulation.run_entered(&schedule, |rank| Duration::from_nanos(entered[rank.index()]));
        let last = Time(entered.iter().copied().max().unwrap());
        prop_assert!(timing.leaves.iter().all(|&left| left >= last));
        prop_assert_eq!(timing.leaves.iter().max().unwrap().since(last), timing.total);
    }
}
