//! Collectives in virtual time.

use std::time::{Duration, Instant};

use svmio_collectives::collective::{
    AllgatherAlgorithm, AllreduceAlgorithm, BcastAlgorithm, CollectAlgorithm, CollectiveAlgorithm,
    MessageCosts, Operands, ReduceAlgorithm,
};
use svmio_collectives::simulation::{Simulation, SimulationError};
use svmio_collectives::{Partition, Rank};
use svmio_transport::Time;
use svmio_transport::sim::Model;

use crate::algorithms::{rooted, rootless};

const ROOT: Rank = Rank(0);

fn nodes(model: &str, nodes: u32) -> Simulation {
    Simulation::of_nodes(Model::named(model).unwrap(), nodes)
}

/// Microseconds, for vectors of so many bytes.
fn time(simulation: &Simulation, algorithm: CollectiveAlgorithm, bytes: u64) -> f64 {
    let ranks = simulation.nodes().ranks();
    let block = bytes / algorithm.blocks(ranks);
    simulation.run_collective(&algorithm.schedule(ranks), block).unwrap().total.as_secs_f64() * 1e6
}

fn bcast(algorithm: BcastAlgorithm) -> CollectiveAlgorithm {
    CollectiveAlgorithm::Bcast { root: ROOT, algorithm, segments: 64 }
}

#[test]
fn few_rounds_are_best_for_short_data_and_few_bytes_for_long() {
    for model in ["infiniband-hdr", "sci-torus"] {
        let simulation = nodes(model, 16);
        let allreduce =
            |algorithm, bytes| time(&simulation, CollectiveAlgorithm::Allreduce(algorithm), bytes);
        let (doubling, halves, ring) = (
            AllreduceAlgorithm::RecursiveDoubling,
            AllreduceAlgorithm::Rabenseifner,
            AllreduceAlgorithm::Ring,
        );
        assert!(allreduce(doubling, 16) < allreduce(halves, 16), "{model}");
        assert!(allreduce(halves, 16) < allreduce(ring, 16), "{model}");
        assert!(allreduce(halves, 4 << 20) < allreduce(doubling, 4 << 20), "{model}");
        assert!(allreduce(ring, 4 << 20) < allreduce(doubling, 4 << 20), "{model}");
        let spread = |algorithm, bytes| time(&simulation, bcast(algorithm), bytes);
        assert!(spread(BcastAlgorithm::Binomial, 64) < spread(BcastAlgorithm::Pipelined, 64), "{model}");
        assert!(
            spread(BcastAlgorithm::Pipelined, 4 << 20) < spread(BcastAlgorithm::Binomial, 4 << 20),
            "{model}"
        );
    }
}

/// The messages of a path cost what they cost by themselves, whoever else sends.
#[test]
fn what_is_predicted_by_two_messages_is_what_takes_place() {
    let costs = {
        let message = |bytes| time(&nodes("infiniband-hdr", 2), bcast(BcastAlgorithm::Binomial), bytes) * 1e3;
        let (empty, long) = (message(0), message(1 << 20));
        let per_byte = (long - empty) / f64::from(1 << 20);
        MessageCosts { latency: empty, per_short_byte: per_byte, per_byte, per_copied_byte: 0.0 }
    };
    for ranks in [4, 16, 64] {
        let simulation = nodes("infiniband-hdr", ranks);
        for (algorithm, bytes) in [
            (bcast(BcastAlgorithm::Binomial), 1 << 20),
            (bcast(BcastAlgorithm::Pipelined), 4 << 20),
            (CollectiveAlgorithm::Allgather(AllgatherAlgorithm::Ring), 4 << 20),
            (CollectiveAlgorithm::Allgather(AllgatherAlgorithm::Bruck), 1 << 10),
        ] {
            let block = bytes / algorithm.blocks(ranks);
            let predicted = algorithm.schedule(ranks).predict(&costs, block as f64).total / 1e3;
            let found = time(&simulation, algorithm, bytes);
            // A sender that is done before its message arrives sends the next one earlier; switches add to a way.
            assert!((0.6..1.4).contains(&(found / predicted)), "{algorithm:?}: {found} µs, not {predicted}");
        }
    }
}

#[test]
fn everybody_leaves_and_nobody_before_its_data_can_have_come() {
    for ranks in [1, 2, 7, 16] {
        for simulation in [
            nodes("sci-torus", ranks),
            Simulation::new(Model::named("infiniband-hdr").unwrap(), Partition::blocks(ranks, 3)),
        ] {
            for algorithm in [rooted(ranks / 2), rootless()].concat() {
                let schedule = algorithm.schedule(ranks);
                let of = |block| simulation.run_collective(&schedule, block).unwrap();
                let (short, long) = (of(8), of(1 << 20));
                assert_eq!(short, of(8));
                assert_eq!(short.total, short.leaves.iter().max().unwrap().since(Time(0)));
                for rank in (0..ranks).map(Rank) {
                    let is_idle = algorithm.part_of(ranks, rank).transfers().is_empty();
                    assert_eq!(short.leaves[rank.index()] == Time(0), is_idle, "{algorithm:?}: {rank}");
                }
                assert!(long.total >= short.total, "{algorithm:?} for {ranks}");
            }
        }
    }
}

/// Runs these on a hundred thousand ranks with `SVMIO_FULL=1`, and checks that it takes less than a minute; without, on as
/// many as take a few seconds also where others use the machine.
fn take_less_than_a_minute(algorithms: impl IntoIterator<Item = CollectiveAlgorithm>) {
    let is_full = std::env::var_os("SVMIO_FULL").is_some_and(|value| value == "1");
    let ranks = if is_full { 100_000 } else { 10_000 };
    let simulation = nodes("infiniband-hdr", ranks);
    let begun = Instant::now();
    for algorithm in algorithms {
        let timing = simulation.run_collective(&algorithm.schedule(ranks), 8).unwrap();
        assert!(timing.leaves.iter().all(|&left| left > Time(0)), "{algorithm:?}");
        assert!(timing.total < Duration::from_secs(1), "{algorithm:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn a_hundred_thousand_ranks_of_collectives_with_few_steps_take_less_than_a_minute() {
    let (binomial, operands) = (CollectAlgorithm::Binomial, Operands::Commuting);
    take_less_than_a_minute([
        bcast(BcastAlgorithm::Binomial),
        CollectiveAlgorithm::Gather { root: ROOT, algorithm: binomial },
        CollectiveAlgorithm::Scatter { root: ROOT, algorithm: CollectAlgorithm::Linear },
        CollectiveAlgorithm::Allgather(AllgatherAlgorithm::Bruck),
        CollectiveAlgorithm::Reduce { root: ROOT, algorithm: ReduceAlgorithm::Binomial, operands },
        CollectiveAlgorithm::Allreduce(AllreduceAlgorithm::RecursiveDoubling),
        CollectiveAlgorithm::Allreduce(AllreduceAlgorithm::Rabenseifner),
        CollectiveAlgorithm::Scan,
    ]);
}

/// All others whose messages are not as many as pairs of ranks: one after the other along a chain, to one, and by halves.
#[test]
fn so_do_those_with_more_steps_that_have_few_messages() {
    let (algorithm, operands) = (ReduceAlgorithm::Rabenseifner, Operands::Commuting);
    take_less_than_a_minute([
        CollectiveAlgorithm::Bcast { root: ROOT, algorithm: BcastAlgorithm::Pipelined, segments: 8 },
        CollectiveAlgorithm::Gather { root: ROOT, algorithm: CollectAlgorithm::Linear },
        CollectiveAlgorithm::Scatter { root: ROOT, algorithm: CollectAlgorithm::Binomial },
        CollectiveAlgorithm::Reduce { root: ROOT, algorithm, operands },
        CollectiveAlgorithm::Exscan,
    ]);
}

/// What is refused for its size is refused by what is told of that size without making it.
#[test]
fn messages_and_their_ranges_are_about_as_many_as_is_told() {
    for ranks in [2, 5, 16, 100] {
        for algorithm in [rooted(0), rootless()].concat() {
            let schedule = algorithm.schedule(ranks);
            let messages = || schedule.steps().iter().flatten().filter(|transfer| !transfer.is_local());
            let ranges: usize = messages().map(|transfer| transfer.blocks.ranges().len()).sum();
            let told = [algorithm.messages_about(ranks), algorithm.ranges_about(ranks)];
            for (told, made) in told.into_iter().zip([messages().count() as u64, ranges as u64]) {
                assert!(
                    told <= 3 * made && made <= 3 * told,
                    "{algorithm:?} for {ranks}: {told}, and there are {made}"
                );
            }
        }
    }
}

#[test]
fn what_has_no_number_has_no_time() {
    let simulation = nodes("ethernet-1g", 4);
    let gather = CollectiveAlgorithm::Gather { root: ROOT, algorithm: CollectAlgorithm::Binomial };
    // Of four blocks two go in one message.
    assert_eq!(simulation.run_collective(&gather.schedule(4), 1 << 63), Err(SimulationError::Bytes));
    // Centuries each: what the second adds to the first is beyond all times.
    assert!(simulation.run_collective(&bcast(BcastAlgorithm::Binomial).schedule(2), 1 << 60).is_ok());
    let twice = bcast(BcastAlgorithm::Binomial).schedule(4);
    assert_eq!(simulation.run_collective(&twice, 1 << 60), Err(SimulationError::Time));
}
