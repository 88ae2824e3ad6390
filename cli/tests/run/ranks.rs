//! What the ranks get: one job, the preload, the variables, from wherever svmio is called.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::setting::{FAMILIES, Family, field, installation, starting_ranks, stdout_of, svmio_run};

#[test]
fn the_ranks_form_one_job_and_have_the_preload_and_the_variables() {
    let directory = tempfile::tempdir().unwrap();
    for family in FAMILIES {
        let program = family.compile("show_rank", directory.path());
        for separator in [&["--"][..], &[]] {
            let printed = stdout_of(
                svmio_run()
                    .args(["--store", "some/store", "--claim", "/scratch:/data", "--stats"])
                    .args(["--servers", "n1, n2"])
                    .args(["-n", "4"])
                    .args(family.launcher_options())
                    .args(separator)
                    .arg(&program)
                    .args(["LD_PRELOAD", "SVMIO_STORE", "SVMIO_CLAIM", "SVMIO_STATS", "SVMIO_OTHER"])
                    .args(["SVMIO_SERVERS", "SVMIO_PROGRAM"])
                    .env("LD_PRELOAD", "libm.so.6")
                    .env("SVMIO_OTHER", "a;b=c")
                    .current_dir(directory.path()),
            );
            let store = directory.path().canonicalize().unwrap().join("some/store");
            let library = installation().join("lib").join(family.directory()).join("libsvmio_mpi.so");
            assert_eq!(printed.lines().count(), 4, "{printed}");
            let ranks: BTreeSet<&str> = printed.lines().map(|line| field(line, "rank")).collect();
            assert_eq!(ranks, BTreeSet::from(["0", "1", "2", "3"]));
            for line in printed.lines() {
                assert_eq!(field(line, "size"), "4", "another family's launcher would make each rank a job");
                let preload: Vec<&str> = field(line, "LD_PRELOAD").split(':').collect();
                assert_eq!(preload.first(), library.to_str().as_ref(), "{line}");
                assert_eq!(preload.last(), Some(&"libm.so.6"), "{line}");
                assert_eq!(Path::new(field(line, "SVMIO_STORE")), store);
                assert_eq!(field(line, "SVMIO_CLAIM"), "/scratch:/data");
                assert_eq!(field(line, "SVMIO_STATS"), "1");
                assert_eq!(field(line, "SVMIO_OTHER"), "a;b=c");
                assert_eq!(field(line, "SVMIO_SERVERS"), "n1,n2");
                assert!(Path::new(field(line, "SVMIO_PROGRAM")).is_absolute(), "{line}");
            }
        }
    }
}

#[test]
fn several_programs_in_one_job_all_have_the_preload() {
    let directory = tempfile::tempdir().unwrap();
    for family in FAMILIES {
        let program = family.compile("show_rank", directory.path());
        let program = program.to_str().unwrap();
        let own_option: &[&str] = match family {
            Family::Mpich => &["-env", "LD_PRELOAD", "libm.so.6"],
            Family::OpenMpi => &["-x", "LD_PRELOAD=libm.so.6"],
        };
        let printed = stdout_of(svmio_run().args(["-n", "1"]).args(own_option).args([
            "--",
            program,
            "LD_PRELOAD",
            ":",
            "-n",
            "1",
            program,
            "LD_PRELOAD",
        ]));
        let preloads: BTreeSet<(&str, bool, bool)> = printed
            .lines()
            .map(|line| {
                let preload = field(line, "LD_PRELOAD");
                assert_eq!(field(line, "size"), "2");
                (field(line, "rank"), preload.contains("libsvmio_mpi.so"), preload.ends_with("libm.so.6"))
            })
            .collect();
        assert_eq!(preloads, BTreeSet::from([("0", true, true), ("1", true, false)]), "{printed}");
    }
}

#[test]
fn a_variable_that_one_program_is_given_is_svmios_for_the_others() {
    let directory = tempfile::tempdir().unwrap();
    for family in FAMILIES {
        let program = family.compile("show_rank", directory.path());
        let program = program.to_str().unwrap();
        let (of_one, of_all): (&[&str], &[&str]) = match family {
            Family::Mpich => (&["-env", "SVMIO_CLAIM", "/y"], &["-genv", "SVMIO_CLAIM", "/y"]),
            Family::OpenMpi => (&["-x", "SVMIO_CLAIM=/y"], &["-x", "SVMIO_CLAIM=/y"]),
        };
        let claims = |first: &[&str], second: &[&str]| {
            let program = [program, "SVMIO_CLAIM"];
            let mut command = svmio_run();
            command.args(["--claim", "/x", "-n", "1"]).args(first).args(program);
            let printed = stdout_of(command.args([":", "-n", "1"]).args(second).args(program));
            let claims: BTreeSet<(&str, &str)> =
                printed.lines().map(|line| (field(line, "rank"), field(line, "SVMIO_CLAIM"))).collect();
            claims.into_iter().map(|(_, claim)| claim.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(claims(of_one, &[]), ["/y", "/x"], "{family:?}");
        assert_eq!(claims(&[], of_one), ["/x", "/y"], "{family:?}");
        assert_eq!(claims(of_one, of_one), ["/y", "/y"], "{family:?}");
        assert_eq!(claims(&[], &[]), ["/x", "/x"], "{family:?}");
        if let Family::Mpich = family {
            assert_eq!(claims(of_all, &[]), ["/y", "/y"]);
        }
    }
}

#[test]
fn a_variable_that_ranks_are_given_by_its_name_alone_is_svmios() {
    let directory = tempfile::tempdir().unwrap();
    let program = Family::OpenMpi.compile("show_rank", directory.path());
    let store = directory.path().join("store");
    let run = |options: &[&str], given: &[&str]| {
        let mut command = svmio_run();
        command
            .arg("--store")
            .arg(&store)
            .args(["--claim", "/x"])
            .args(options)
            .args(["-n", "1"])
            .args(given);
        command.arg(&program).args(["SVMIO_STORE", "SVMIO_CLAIM"]).env("SVMIO_STORE", "/old");
        stdout_of(&mut command)
    };
    let by_name = ["-x", "SVMIO_STORE", "-x", "SVMIO_CLAIM"];
    let shown = run(&["--dry-run"], &by_name);
    assert!(shown.contains(&format!("SVMIO_STORE={}", store.display())), "{shown}");
    assert_eq!(shown.matches("-x SVMIO_STORE").count(), 1, "{shown}");
    let line = run(&[], &by_name);
    let line = line.trim();
    assert_eq!((field(line, "SVMIO_STORE"), field(line, "SVMIO_CLAIM")), (store.to_str().unwrap(), "/x"));
    // One with a value says what it means.
    let line = run(&[], &["-x", "SVMIO_STORE", "-x", "SVMIO_CLAIM=/y"]);
    let line = line.trim();
    assert_eq!((field(line, "SVMIO_STORE"), field(line, "SVMIO_CLAIM")), (store.to_str().unwrap(), "/y"));
}

#[test]
fn nothing_of_the_job_that_it_is_started_in_reaches_the_ranks() {
    const NAMES: [&str; 5] = ["MASTER", "RANK", "SIZE", "SECRET", "LISTENER"];
    let directory = tempfile::tempdir().unwrap();
    let names = NAMES.map(|name| format!("SVMIO_JOB_{name}"));
    for family in FAMILIES {
        let program = family.compile("show_rank", directory.path());
        let run = |options: &[&str]| {
            let mut command = svmio_run();
            command.args(options).args(["-n", "2"]).arg(&program).args(&names).arg("SVMIO_OTHER");
            command.env("SVMIO_OTHER", "5").envs(names.each_ref().map(|name| (name, "127.0.0.1:5")));
            command
        };
        let shown = stdout_of(&mut run(&["--dry-run"]));
        assert!(!shown.contains("127.0.0.1:5"), "{shown}");
        let mut shell = starting_ranks("sh");
        shell.args(["-c", &shown]).envs(names.each_ref().map(|name| (name, "127.0.0.1:5")));
        for printed in [stdout_of(&mut run(&[])), stdout_of(shell.env("SVMIO_OTHER", "5"))] {
            assert_eq!(printed.lines().count(), 2, "{printed}");
            for line in printed.lines() {
                assert_eq!(field(line, "SVMIO_OTHER"), "5");
                for name in &names {
                    assert_eq!(field(line, name), "(unset)", "{family:?}: {line}");
                }
            }
        }
    }
    // Whoever wants it so exports it.
    let program = Family::OpenMpi.compile("show_rank", directory.path());
    let mut command = svmio_run();
    command
        .args(["-n", "1", "-x", "SVMIO_JOB_RANK"])
        .arg(&program)
        .args(["SVMIO_JOB_RANK", "SVMIO_JOB_SIZE"]);
    let printed = stdout_of(command.env("SVMIO_JOB_RANK", "7").env("SVMIO_JOB_SIZE", "9"));
    assert_eq!(
        (field(&printed, "SVMIO_JOB_RANK"), field(&printed, "SVMIO_JOB_SIZE").trim()),
        ("7", "(unset)")
    );
}

#[test]
fn works_from_anywhere_and_through_a_symbolic_link() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("svmio");
    symlink(installation().join("bin/svmio"), &link).unwrap();
    for family in FAMILIES {
        let program = family.compile("show_rank", directory.path());
        let name = program.file_name().unwrap();
        let run = |directory: &Path, program: &Path| {
            let printed = stdout_of(
                starting_ranks(&link)
                    .args(["run", "-n", "1", "--"])
                    .arg(program)
                    .arg("LD_PRELOAD")
                    .env_remove("SVMIO_LIBDIR")
                    .current_dir(directory),
            );
            assert!(printed.contains(installation().to_str().unwrap()), "{printed}");
        };
        run(Path::new("/"), &program);
        run(directory.path(), Path::new(name));
    }
}

#[test]
fn a_dry_run_prints_a_command_that_a_shell_can_run() {
    let directory = tempfile::tempdir().unwrap();
    for family in FAMILIES {
        let program = family.compile("show_rank", directory.path());
        let line = stdout_of(
            svmio_run()
                .args(["--claim", "/a b/it's", "--dry-run", "-n", "2"])
                .arg(&program)
                .args(["SVMIO_CLAIM", "LD_PRELOAD"]),
        );
        let mut unheard = svmio_run();
        unheard.args(["--dry-run", "-n", "2"]).arg(&program).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut unheard = unheard.spawn().unwrap();
        drop(unheard.stdout.take());
        let output = unheard.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
        let printed = stdout_of(starting_ranks("sh").args(["-c", &line]));
        assert_eq!(printed.lines().count(), 2, "{line}");
        assert!(
            printed.lines().all(|rank| rank.contains(" SVMIO_CLAIM=/a b/it's LD_PRELOAD=/")),
            "{printed}"
        );
    }
}

#[test]
fn completions_and_help_are_printed() {
    let svmio = || Command::new(env!("CARGO_BIN_EXE_svmio"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout_of(svmio().args(["completions", shell])).contains("svmio"));
    }
    let help = stdout_of(svmio().args(["run", "--help"]));
    for part in ["Examples:", "Several hosts:", "Exit codes:", "Environment:", "--no-yield"] {
        assert!(help.contains(part), "{part}");
    }
}

#[test]
fn hosts_are_given_in_the_same_way_to_both_launchers() {
    let directory = tempfile::tempdir().unwrap();
    for family in FAMILIES {
        let program = family.compile("show_rank", directory.path());
        let run = |words: &[&str]| {
            let mut command = svmio_run();
            command.args(words).arg(&program).args(["SVMIO_OTHER", "LD_PRELOAD"]);
            command.env("SVMIO_OTHER", "a;b=c").env("SVMIO_JOB_SECRET", "1234");
            // An empty variable is as good as none.
            command.env("SVMIO_MEET", "");
            stdout_of(command.env("SVMIO_LIBDIR", installation().join("lib")))
        };
        let line = run(&["--dry-run", "-n", "8", "--hosts", "a,b,c,d:5"]);
        // By options: a remote shell carries nothing of the environment here.
        let expected: &[&str] = match family {
            Family::Mpich => &[
                "--hosts a,b,c,d:5",
                "-genv SVMIO_OTHER 'a;b=c'",
                "-genv SVMIO_MEET init",
                "-genv LD_PRELOAD /",
            ],
            Family::OpenMpi => &[
                "--host a:2,b:2,c:2,d:5 --map-by node",
                "SVMIO_MEET=init",
                "-x SVMIO_OTHER",
                "-x SVMIO_MEET",
                "-x LD_PRELOAD=/",
            ],
        };
        assert!(expected.iter().all(|part| line.contains(part)), "{line}");
        assert!(!line.contains("SVMIO_LIBDIR") && !line.contains("1234"), "{line}");

        let printed = run(&["-n", "3", "--hosts", "localhost"]);
        let ranks: BTreeSet<&str> = printed.lines().map(|line| field(line, "rank")).collect();
        assert_eq!(ranks, BTreeSet::from(["0", "1", "2"]), "{family:?}");
        for line in printed.lines() {
            assert_eq!((field(line, "size"), field(line, "SVMIO_OTHER")), ("3", "a;b=c"), "{family:?}");
            assert!(field(line, "LD_PRELOAD").contains("libsvmio_mpi.so"), "{line}");
        }
    }
}
