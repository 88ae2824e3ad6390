//! What the operating system must supply: compilers and both of Debian's MPIs, by apt, only if missing.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

/// Debian packages without which nothing here can be built or tested; e2fsprogs and xfsprogs make disks, elfutils tells where
/// a run that hangs stands, valgrind what a program does to memory that is not its own. HDF5's tests are run, and fuse3 lets a
/// user who is not root mount directories.
const PACKAGES: [&str; 23] = [
    "mpich",
    "libmpich-dev",
    "openmpi-bin",
    "libopenmpi-dev",
    "gcc",
    "g++",
    "pkgconf",
    "libc6-dev",
    "gfortran",
    "make",
    "dpkg-dev",
    "xz-utils",
    "libfabric-dev",
    "libhdf5-mpich-dev",
    "libhdf5-openmpi-dev",
    "libclang-dev",
    "iproute2",
    "iperf3",
    "e2fsprogs",
    "xfsprogs",
    "elfutils",
    "valgrind",
    "fuse3",
];

/// What the benchmarks compare with, and nothing else needs: the file systems that could be mounted instead.
const COMPARED: [&str; 4] = ["glusterfs-server", "sshfs", "openssh-sftp-server", "socat"];

/// Installs what is missing.
///
/// # Errors
/// Where there is no apt, or no way to become root: the message says what to install by hand. Where the system's Open MPI
/// is none that svmio can be built with.
pub(crate) fn run() -> Result<()> {
    install(&PACKAGES)?;
    check_open_mpi()
}

/// Installs what is missing, and what only the benchmarks need.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_for_benchmarks() -> Result<()> {
    install(&[&PACKAGES[..], &COMPARED].concat())?;
    check_open_mpi()
}

/// The Open MPI that svmio's component of its collectives is made for.
const OPEN_MPI: &str = "4.1";

/// Fails where the installed Open MPI is another one, as that of Debian 13 is.
fn check_open_mpi() -> Result<()> {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${Version}\n", "libopenmpi-dev"]);
    // A line for each architecture of which it is installed.
    let told = process::capture(&mut query)?;
    let version = told.lines().next().unwrap_or_default();
    if !is_of_release(version, OPEN_MPI) {
        bail!(
            "this system has Open MPI {version}, and svmio is built beside Open MPI {OPEN_MPI}, as its component of Open \
             MPI's collectives (coll/component) fits no other: use Debian 12, or another system that has it"
        );
    }
    Ok(())
}

/// Whether a package's version is one of a program's release: `4.1.4-3+b1` of `4.1`.
fn is_of_release(version: &str, release: &str) -> bool {
    version.strip_prefix(release).is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
}

fn install(packages: &[&'static str]) -> Result<()> {
    let mut missing = missing_of(packages)?;
    if !python_has_venv() {
        missing.push("python3-venv");
    }
    if missing.is_empty() {
        println!("setup: all system packages are installed");
        return Ok(());
    }
    println!("setup: installing {}", missing.join(" "));
    // A third-party source that cannot be reached must not stop the rest.
    if let Err(error) = process::run(as_root("apt-get")?.args(["update", "--quiet"])) {
        eprintln!("setup: {error:#}; going on with the package lists there are");
    }
    let install = ["install", "--yes", "--quiet", "--no-install-recommends"];
    process::run(as_root("apt-get")?.args(install).args(&missing)).with_context(|| {
        format!("cannot install what is missing; install it yourself: {}", missing.join(" "))
    })?;
    let still = missing_of(packages)?;
    if !still.is_empty() {
        bail!("apt-get succeeded, yet these are still missing: {}", still.join(" "));
    }
    Ok(())
}

fn missing_of(packages: &[&'static str]) -> Result<Vec<&'static str>> {
    let mut missing = Vec::new();
    for package in packages.iter().copied() {
        let output = Command::new("dpkg-query")
            .args(["--show", "--showformat=${db:Status-Status}\n", package])
            .output()
            .with_context(|| {
                format!(
                    "cannot run dpkg-query: this set-up is for Debian and its relatives; elsewhere \
                     install MPICH, Open MPI and their development files yourself (Debian calls \
                     them {})",
                    packages.join(" ")
                )
            })?;
        if !(output.status.success() && is_installed(&output.stdout)) {
            missing.push(package);
        }
    }
    Ok(missing)
}

/// Whether a package is, of which dpkg tells this: a line for each architecture.
fn is_installed(told: &[u8]) -> bool {
    told.split(|byte| *byte == b'\n').any(|line| line == b"installed")
}

fn python_has_venv() -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", "import ensurepip, venv"]);
    process::capture(&mut python).is_ok()
}

/// `program`, run as root: directly where we are root, by sudo elsewhere.
fn as_root(program: &str) -> Result<Command> {
    let mut command = if rustix::process::geteuid().is_root() {
        Command::new(program)
    } else {
        if Command::new("sudo").arg("--version").output().is_err() {
            bail!("installing packages needs root, and there is no sudo; run `cargo xtask setup` as root");
        }
        let mut sudo = Command::new("sudo");
        sudo.arg("--preserve-env=DEBIAN_FRONTEND").arg(program);
        sudo
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_may_be_there_for_several_architectures() {
        for told in ["installed\n", "installed\ninstalled\n", "config-files\ninstalled\n"] {
            assert!(is_installed(told.as_bytes()), "{told}");
        }
        for told in ["", "config-files\n", "not-installed\nconfig-files\n"] {
            assert!(!is_installed(told.as_bytes()), "{told}");
        }
    }

    #[test]
    fn versions_of_a_release_are_told_from_others() {
        for version in ["4.1.4-3+b1", "4.1-1", "4.1"] {
            assert!(is_of_release(version, OPEN_MPI), "{version}");
        }
        for version in ["5.0.7-1", "4.10.1-1", "4.0.3-1"] {
            assert!(!is_of_release(version, OPEN_MPI), "{version}");
        }
    }
}
