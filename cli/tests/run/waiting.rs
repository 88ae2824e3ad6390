//! Ranks that outnumber the cores.

use std::collections::BTreeSet;

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

/// Confines the calling thread, and what it starts, to two cores.
fn confine_to_two_cores() {
    let allowed = sched_getaffinity(None).unwrap();
    let mut two = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).take(2).for_each(|core| two.set(core));
    assert_eq!(two.count(), 2, "these tests need two cores");
    sched_setaffinity(None, &two).unwrap();
}
