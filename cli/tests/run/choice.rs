//! Which MPI is chosen for a program that has none itself.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::setting::{FAMILIES, field, stdout_of, svmio_run, wrapper};

#[test]
fn a_wrapper_runs_with_the_mpi_of_the_program_it_wraps() {
    let directory = tempfile::tempdir().unwrap();
    let script = wrapper(&directory);
    for family in FAMILIES {
        let program = family.compile("show_rank", directory.path());
        let printed = stdout_of(svmio_run().args(["-n", "2", "--"]).arg(&script).arg(program));
        assert!(printed.lines().all(|line| field(line, "size") == "2"), "{printed}");
    }
}

#[test]
fn a_program_without_mpi_takes_the_one_that_its_surroundings_speak_for() {
    let directory = tempfile::tempdir().unwrap();
    let script = wrapper(&directory);
    let family = |options: &[&str], variables: &[(&str, &str)]| {
        let mut command = svmio_run();
        command.args(options).args(["--dry-run", "-n", "1", "--"]).arg(&script).arg("true");
        let printed = stdout_of(command.envs(variables.iter().copied()));
        let family = printed.split(':').next().unwrap().to_owned();
        assert!(printed.contains("libsvmio_mpi.so"), "{printed}");
        family
    };
    assert_eq!(family(&["--mpi", "mpich"], &[]), "# MPICH");
    assert_eq!(family(&["--mpi", "openmpi"], &[]), "# Open MPI");
    assert_eq!(family(&["--mpiexec", "mpiexec.mpich"], &[]), "# MPICH");
    assert_eq!(family(&[], &[("MPI4PY_LIBMPI", "/x/libmpi.so.12")]), "# MPICH");
    assert_eq!(family(&[], &[("MPI4PY_LIBMPI", "libmpi.so.40")]), "# Open MPI");

    // A PATH, and then a virtual environment, in which `mpiexec` is one certain family's.
    for (real, expected) in [("mpiexec.mpich", "# MPICH"), ("mpiexec.openmpi", "# Open MPI")] {
        let bin = directory.path().join(format!("{real}-only"));
        fs::create_dir(&bin).unwrap();
        symlink(Path::new("/usr/bin").join(real), bin.join("mpiexec")).unwrap();
        assert_eq!(family(&[], &[("PATH", bin.to_str().unwrap())]), expected);

        let environment = directory.path().join(format!("{real}-environment"));
        fs::create_dir_all(environment.join("bin")).unwrap();
        fs::write(environment.join("pyvenv.cfg"), "").unwrap();
        symlink(Path::new("/usr/bin").join(real), environment.join("bin/mpiexec")).unwrap();
        let python = environment.join("bin/python");
        symlink("/bin/sh", &python).unwrap();
        let printed = stdout_of(svmio_run().args(["--dry-run", "-n", "1", "--"]).arg(&python).arg("x.py"));
        assert!(printed.starts_with(expected), "{printed}");
    }
}
