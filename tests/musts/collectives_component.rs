//! svmio's component of Open MPI's `coll` framework: programs get from it what Open MPI's own components give.

use std::process::Command;
use std::time::Duration;

use svmio_tests::collectives::{
    ALL_BEGUN, EVERY, all_meet_at_the_end_of_mpi, attributes_go_once, counted, nonblocking, numbers_of_ranks,
    those_left_hear_of_a_loss, while_a_communicator_is_freed,
};
use svmio_tests::{Files, Finished, Installation, Job, Mpi, Nodes, Program, Scratch, is_full_run};

const MPI: Mpi = Mpi::DebianOpenMpi;

/// The number that a run of the oracle tells.
fn digest(output: &str) -> &str {
    let digest = output.lines().find_map(|line| Some(line.split_once(" seeds are right, digest ")?.1));
    digest.unwrap_or_else(|| panic!("the program tells no digest: {output}"))
}

/// To the program both of a function's names are the component's, so another run tells what is right.
#[test]
fn random_ones_are_as_without_it() {
    let program = Program::c("collectives_oracle", MPI);
    let seeds = if is_full_run() { 20_000 } else { 100 };
    // Few seeds have each of these where a group is there to do it.
    let mut begun = nonblocking().map(|collective| (collective, 0));
    for ranks in numbers_of_ranks() {
        let scratch = Scratch::new();
        let job = || {
            let limit = Duration::from_secs(if is_full_run() { 3600 } else { 120 });
            Job::new(&scratch, &program, ranks).argument("0").argument(seeds.to_string()).limit(limit)
        };
        let expected = job().argument("alone").files(Files::Stock).succeed();
        let output = with_component(job()).succeed();
        assert_eq!(digest(&output), digest(&expected), "{ranks} ranks\n{output}");
        for collective in EVERY {
            let (ours, all) = counted(&output, collective);
            assert!(ours > 0 && ours <= all, "{collective} of {ranks} ranks: {ours} of {all}\n{output}");
        }
        begun.iter_mut().for_each(|(collective, ours)| *ours += counted(&output, collective).0);
    }
    assert!(begun.iter().all(|(_, ours)| *ours > 0), "{begun:?}");
}

/// The job with the component, which is to be asked for all that it can do, and to count.
fn with_component(job: Job<'_>) -> Job<'_> {
    job.collectives("component").variable("SVMIO_STATS", "1").variable(ALL_BEGUN.0, ALL_BEGUN.1)
}

fn each(variables: &[(&str, &str)]) -> Finished {
    let program = Program::c("collectives_each", MPI);
    let scratch = Scratch::new();
    let job = with_component(Job::new(&scratch, &program, 3));
    let finished = variables.iter().fold(job, |job, (name, value)| job.variable(name, value)).run();
    let is_right = finished.status.success() && finished.output.contains("each is right");
    assert!(is_right, "{}", finished.account());
    finished
}

/// Open MPI's parameters say which it is asked for.
#[test]
fn parameters_switch_it() {
    let output = each(&[("OMPI_MCA_coll_svmio_enable_bcast", "0")]).output;
    assert_eq!(counted(&output, "bcast"), (0, 0), "{output}");
    for collective in ["scan", "ibcast"] {
        assert!(counted(&output, collective).0 > 0, "{collective}: {output}");
    }
    let output = each(&[("OMPI_MCA_coll_svmio_enable_ibcast", "0")]).output;
    assert_eq!((counted(&output, "ibcast"), counted(&output, "bcast").0), ((0, 0), 1), "{output}");
    let output = each(&[(ALL_BEGUN.0, "long")]).output;
    assert_eq!((counted(&output, "ibcast"), counted(&output, "bcast").0), ((0, 1), 1), "{output}");
    for (name, value) in [("OMPI_MCA_coll_svmio_priority", "-1"), ("OMPI_MCA_coll", "^svmio")] {
        let output = each(&[(name, value)]).output;
        assert!(!output.contains("collectives done by svmio"), "{name}={value}: {output}");
    }
}

/// What does not block goes on whatever the program does, and what it needs may be freed.
#[test]
fn what_does_not_block_goes_on() {
    let program = Program::c("collectives_nonblocking", MPI);
    for ranks in [2, 4] {
        let scratch = Scratch::new();
        let output = with_component(Job::new(&scratch, &program, ranks)).succeed();
        assert!(output.contains("all that was begun is right"), "{output}");
        for collective in ["iallreduce", "ibcast", "ibarrier"] {
            let (ours, all) = counted(&output, collective);
            assert!(ours > 0 && ours <= all, "{collective}: {output}");
        }
    }
}

/// Who frees a request too early is told so, as by Open MPI's own collectives, and it stays what it was.
#[test]
fn requests_under_way_are_not_freed() {
    let program = Program::c("collectives_freed", MPI);
    for ranks in [2, 4] {
        let scratch = Scratch::new();
        let job = || Job::new(&scratch, &program, ranks);
        let output = with_component(job()).succeed();
        assert!(output.contains("requests under way were kept"), "{output}");
        let (ours, all) = counted(&output, "iallreduce");
        assert!(ours > 0 && ours <= all, "{output}");
        assert!(job().succeed().contains("requests under way were kept"));
    }
}

#[test]
fn attributes_of_a_process_go_once() {
    attributes_go_once(MPI, "component");
}

#[test]
fn one_of_a_communicator_being_freed_leaves_nothing() {
    while_a_communicator_is_freed(MPI, "component");
}

#[test]
fn all_meet_at_the_end() {
    all_meet_at_the_end_of_mpi(MPI, "component");
}

/// Communicators of few collectives, as MPI makes one for each open file, get no group; those of many do.
#[test]
fn short_lived_communicators_cost_little() {
    let program = Program::c("collectives_short_lived", MPI);
    for (after, ours) in [("", 0), ("200", 100 + 132)] {
        let scratch = Scratch::new();
        let job = with_component(Job::new(&scratch, &program, 2)).argument(scratch.file("plain"));
        let output = job.variable("SVMIO_COLLECTIVES_AFTER", after).succeed();
        assert_eq!(counted(&output, "scan"), (ours, 200 + 2 * 300), "after {after}: {output}");
    }
}

/// Where users say different things of that, all processes have a group at the same collective, also before they have met
/// in one of all processes.
#[test]
fn groups_come_at_the_same_time_for_all() {
    let program = Program::c("collectives_differing", MPI);
    let scratch = Scratch::new();
    let output = with_component(Job::new(&scratch, &program, 3)).limit(Duration::from_secs(60)).succeed();
    // MPI does the first 512 of a communicator that was there before, and four of one that comes later, of which every
    // second one is a scan.
    assert_eq!(counted(&output, "scan"), (300 - 256 + 8, 310), "{output}");
}

/// Open MPI makes communicators by collectives that do not block, while the program is in others.
#[test]
fn communicators_come_and_go() {
    let program = Program::c("collectives_communicators", MPI);
    let scratch = Scratch::new();
    let output = with_component(Job::new(&scratch, &program, 3)).succeed();
    assert!(output.contains("all communicators are right"), "{output}");
    for collective in ["bcast", "allreduce"] {
        assert!(counted(&output, collective).0 >= 240, "{collective}: {output}");
    }
}

/// So it does by others where they are of two groups, with the collectives of each of these on its way.
#[test]
fn communicators_of_two_groups_come_and_go() {
    let program = Program::c("collectives_between", MPI);
    for begun in ["long", "all"] {
        let scratch = Scratch::new();
        let job = with_component(Job::new(&scratch, &program, 4)).variable(ALL_BEGUN.0, begun);
        let output = job.limit(Duration::from_secs(60)).succeed();
        assert!(output.contains("both groups were right"), "{output}");
        assert!(counted(&output, "reduce").0 > 0, "{output}");
    }
}

/// A rank that goes without a word is named to all others, however they wait.
#[test]
fn who_is_lost_is_named() {
    those_left_hear_of_a_loss(MPI, Nodes::One, 3, |job| job.collectives("component"));
    those_left_hear_of_a_loss(MPI, Nodes::One, 3, |job| with_component(job).argument("begun"));
}

/// Threads do collectives of different communicators at once.
#[test]
fn threads_do_not_disturb_each_other() {
    let program = Program::c("collectives_threads", MPI);
    let rounds = if is_full_run() { "1000" } else { "10" };
    for ranks in [2, 3] {
        let scratch = Scratch::new();
        let output = with_component(Job::new(&scratch, &program, ranks)).argument(rounds).succeed();
        assert!(output.contains("all threads were right"), "{output}");
        for collective in ["bcast", "allreduce", "ibcast", "iallreduce"] {
            assert!(counted(&output, collective).0 > 0, "{collective}: {output}");
        }
    }
}

#[test]
fn fortran_is_served() {
    let program = Program::fortran("collectives_fortran", MPI);
    let scratch = Scratch::new();
    let output = with_component(Job::new(&scratch, &program, 3)).succeed();
    assert!(output.contains("Fortran is right"), "{output}");
    assert!(counted(&output, "allreduce").0 > 0, "{output}");
}

#[test]
fn open_mpi_tells_its_parameters() {
    let folder = Installation::get().component_folder();
    let mut info = Command::new("ompi_info");
    info.args(["--param", "coll", "svmio", "--level", "9"]);
    info.env("OMPI_MCA_mca_component_path", format!("{}:SYSTEM_DEFAULT", folder.display()));
    let output = info.output().unwrap_or_else(|error| panic!("ompi_info, of openmpi-bin: {error}"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("\"coll_svmio_priority\" (current value: \"95\""), "{text}");
    for collective in EVERY.map(str::to_owned).iter().chain(&nonblocking()) {
        assert!(text.contains(&format!("\"coll_svmio_enable_{collective}\"")), "{collective}: {text}");
    }
}

/// Others have no such framework, or one with other structures.
#[test]
fn other_mpis_are_refused() {
    for (mpi, reason) in
        [(Mpi::DebianMpich, "one of Open MPI's"), (Mpi::WheelOpenMpi, "headers of Open MPI 4.1")]
    {
        let program = Program::c("collectives_each", mpi);
        let scratch = Scratch::new();
        let finished = Job::new(&scratch, &program, 2).collectives("component").run();
        assert_eq!(finished.status.code(), Some(125), "{}", finished.account());
        assert!(finished.output.contains(reason), "{}", finished.account());
    }
}
