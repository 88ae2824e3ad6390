//! What cannot be started: exit codes and messages.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::setting::{Family, stdout_of, svmio_run, text, wrapper};

#[test]
fn errors_name_the_thing_and_the_way_out() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let mpich = Family::Mpich.compile("show_rank", here);
    let mpich = mpich.to_str().unwrap();
    fs::write(here.join("data"), "").unwrap();
    let script = wrapper(&directory);
    let script = script.to_str().unwrap();
    let compile = |arguments: &[&str], name: &str| {
        let program = here.join(name);
        let source = here.join("main.c");
        fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let status = Command::new("cc").arg(source).args(arguments).arg("-o").arg(&program).status();
        assert!(status.unwrap().success());
        program.to_str().unwrap().to_owned()
    };
    let library = |name: &str, function: &str| {
        let source = here.join("library.c");
        fs::write(&source, format!("int {function}(void) {{ return 0; }}\n")).unwrap();
        let path = here.join(name);
        let soname = format!("-Wl,-soname,{name}");
        let status =
            Command::new("cc").args(["-shared", "-fPIC", &soname]).arg(source).arg("-o").arg(&path).status();
        assert!(status.unwrap().success());
        path.to_str().unwrap().to_owned()
    };
    let rpath = format!("-Wl,--no-as-needed,-rpath,{}", here.display());
    let fixed = compile(&["-static"], "static");
    let abi = compile(&[&rpath, &library("libmpi_abi.so.1", "a")], "standard-abi");
    let two = compile(&[&rpath, &library("libmpi.so.40", "b"), &library("libmpi.so.12", "c")], "two");
    let lost = compile(&["-Wl,--no-as-needed", &library("libmpich.so.12", "d")], "lost");
    fs::remove_file(here.join("libmpich.so.12")).unwrap();
    let gone = compile(&["-Wl,--no-as-needed", &library("libgone.so.1", "e")], "gone");
    let missing = here.join("nowhere");
    let missing = missing.to_str().unwrap();

    let cases: &[(&[&str], i32, &[&str])] = &[
        (&["-n", "2"], 2, &["no program", "-- PROGRAM"]),
        (&["-n", "2", "--dry-run", mpich], 2, &["--dry-run", "before mpiexec's options"]),
        (&["-n"], 2, &["-n", "lacks its value"]),
        (&["--", "no-such-program"], 127, &["no-such-program", "not found", "PATH"]),
        (&["--", missing], 127, &[missing, "not found"]),
        (&["--", "./data"], 126, &["./data", "chmod"]),
        (&["--", "./"], 126, &["directory"]),
        (&["--", &fixed], 125, &[&fixed, "statically linked", "--mpi"]),
        (&["--", &abi], 125, &[&abi, "libmpi_abi.so.1", "libmpi.so.40"]),
        (&["--", &two], 125, &["libmpi.so.40", "libmpi.so.12", "--mpi"]),
        (&["--", &gone], 125, &[&gone, "libgone.so.1", "LD_LIBRARY_PATH"]),
        (&["--mpiexec", missing, "--", mpich], 127, &[missing, "not found"]),
        (&["--mpiexec", "./data", "--", mpich], 126, &["./data"]),
        (&["--mpiexec", "mpiexec.openmpi", "--", mpich], 125, &["Open MPI", "MPICH", "--mpi"]),
        (&["--mpiexec", "true", "--", script], 125, &["--version", "--mpi"]),
    ];
    for (arguments, code, words) in cases {
        let output = svmio_run().args(*arguments).current_dir(here).output().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {message}");
        for word in *words {
            assert!(message.contains(word), "{arguments:?}: no {word:?} in: {message}");
        }
    }
    // The library that the program was linked with is found elsewhere: no error of ours.
    assert!(stdout_of(svmio_run().args(["--dry-run", "--", &lost])).starts_with("# MPICH"));
}

#[test]
fn a_missing_library_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let program = Family::Mpich.compile("show_rank", directory.path());
    let message_with = |library_directory: &Path| {
        let output =
            svmio_run().env("SVMIO_LIBDIR", library_directory).arg("--").arg(&program).output().unwrap();
        assert_eq!(output.status.code(), Some(125));
        text(&output.stderr)
    };
    let empty = directory.path().join("empty");
    let message = message_with(&empty);
    assert!(message.contains("libsvmio_") && message.contains("missing"), "{message}");

    fs::create_dir_all(empty.join("mpich")).unwrap();
    fs::write(empty.join("mpich/libsvmio_mpi.so"), "").unwrap();
    let message = message_with(&empty);
    assert!(message.contains("libsvmio_yield.so") && message.contains("--no-yield"), "{message}");

    let spaced = directory.path().join("with space");
    fs::create_dir_all(&spaced).unwrap();
    fs::write(spaced.join("libsvmio_yield.so"), "").unwrap();
    let message = message_with(&spaced);
    assert!(message.contains("LD_PRELOAD") && message.contains("SVMIO_LIBDIR"), "{message}");

    // No mpiexec anywhere that the MPI could be started with.
    let output =
        svmio_run().args(["--mpi", "openmpi", "--", "/bin/true"]).env("PATH", &empty).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output.stderr).contains("--mpiexec"), "{}", text(&output.stderr));
}

#[test]
fn a_tools_library_that_is_not_there_is_told() {
    let output = svmio_run().args(["--tool", "/no/such/libtool.so", "--", "/bin/true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let message = text(&output.stderr);
    assert!(message.contains("/no/such/libtool.so") && message.contains("--tool"), "{message}");
}
