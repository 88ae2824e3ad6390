//! Ranks that outnumber the cores.

use std::collections::BTreeSet;
use std::process::Command;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::setting::{FAMILIES, Family, field, stdout_of, svmio_run};

#[test]
fn crowded_ranks_of_mpich_yield_to_each_other() {
    confine_to_two_cores();
    let directory = tempfile::tempdir().unwrap();
    let program = Family::Mpich.compile("barriers", directory.path());
    let microseconds = |options: &[&str], barriers: &str| -> f64 {
        let mut command = svmio_run();
        command.args(options).args(["-n", "4", "--"]).arg(&program).arg(barriers);
        stdout_of(&mut command).trim().parse().unwrap()
    };
    let cured = microseconds(&[], "2000");
    // Fewer, since each takes milliseconds.
    let left_alone = microseconds(&["--no-yield"], "100");
    println!("a barrier of 4 ranks on 2 cores: {cured} µs, with --no-yield {left_alone} µs");
    assert!(cured * 5.0 <= left_alone, "{cured} µs, with --no-yield {left_alone} µs");
}

#[test]
fn crowded_ranks_of_mpich_share_a_session_but_not_a_process_group() {
    confine_to_two_cores();
    let directory = tempfile::tempdir().unwrap();
    let program = Family::Mpich.compile("show_rank", directory.path());
    for (options, session_count) in [(&[][..], 1), (&["--no-yield"][..], 4)] {
        let printed = stdout_of(svmio_run().args(options).args(["-n", "4", "--"]).arg(&program));
        let sessions: BTreeSet<&str> = printed.lines().map(|line| field(line, "session")).collect();
        assert_eq!(sessions.len(), session_count, "{options:?}: {printed}");
        assert!(printed.lines().all(|line| field(line, "leader") == "1"), "{options:?}: {printed}");
    }
}

/// Ranks that reach each other by UCX's TCP only, as those of several nodes do, and one that leaves before the others:
/// without the cure it waits for the others without hearing them, and they wait for it. With a core for each rank, too.
#[test]
fn ranks_of_mpich_that_leave_at_different_times_all_end() {
    confine_to_two_cores();
    let directory = tempfile::tempdir().unwrap();
    let program = Family::Mpich.compile("leave_early", directory.path());
    for ranks in ["2", "4"] {
        let mut command = Command::new("timeout");
        let run = svmio_run();
        command.args(["--kill-after=5", "60"]).arg(run.get_program()).args(run.get_args());
        for (name, value) in run.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        for (name, value) in [("MPIR_CVAR_NOLOCAL", "1"), ("UCX_TLS", "tcp"), ("UCX_NET_DEVICES", "lo")] {
            command.env(name, value);
        }
        let printed = stdout_of(command.args(["-n", ranks, "--"]).arg(&program));
        assert_eq!(printed.lines().count().to_string(), ranks, "{printed}");
    }
}

#[test]
fn what_the_user_says_about_waiting_stays() {
    confine_to_two_cores();
    let directory = tempfile::tempdir().unwrap();
    let settings = ["MPIR_CVAR_CH4_PROGRESS_THROTTLE", "OMPI_MCA_mpi_yield_when_idle"];
    for (family, setting) in FAMILIES.into_iter().zip(settings) {
        let program = family.compile("show_rank", directory.path());
        let value = |options: &[&str], variables: &[(&str, &str)]| {
            let mut command = svmio_run();
            command.envs(variables.iter().copied()).args(options);
            command.args(["-n", "3"]).args(family.launcher_options()).arg("--").arg(&program).arg(setting);
            let printed = stdout_of(&mut command);
            field(printed.lines().next().unwrap(), setting).to_owned()
        };
        assert_eq!(value(&[], &[]), "1");
        assert_eq!(value(&[], &[(setting, "0")]), "0");
        if let Family::Mpich = family {
            assert_eq!(value(&["-genv", setting, "0"], &[]), "0");
            assert_eq!(value(&["--no-yield"], &[]), "(unset)");
        }
    }
}

#[test]
fn ranks_of_mpich_with_a_core_each_do_not_yield() {
    confine_to_two_cores();
    let directory = tempfile::tempdir().unwrap();
    let program = Family::Mpich.compile("show_rank", directory.path());
    // An empty variable is as good as none.
    for (ranks, set, said) in
        [("2", None, "never"), ("2", Some(""), "never"), ("2", Some("0"), "0"), ("3", None, "(unset)")]
    {
        let mut command = svmio_run();
        command.env_remove("SVMIO_YIELD").envs(set.map(|value| ("SVMIO_YIELD", value)));
        command.args(["-n", ranks, "--"]).arg(&program).args(["SVMIO_YIELD", "LD_PRELOAD"]);
        let printed = stdout_of(&mut command);
        for line in printed.lines() {
            assert_eq!(field(line, "SVMIO_YIELD"), said);
            assert!(field(line, "LD_PRELOAD").contains("libsvmio_yield.so"), "{line}");
        }
    }
}

/// Confines the calling thread, and what it starts, to two cores.
fn confine_to_two_cores() {
    let allowed = sched_getaffinity(None).unwrap();
    let mut two = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).take(2).for_each(|core| two.set(core));
    assert_eq!(two.count(), 2, "these tests need two cores");
    sched_setaffinity(None, &two).unwrap();
}
