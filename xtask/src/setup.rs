//! What the operating system must supply: compilers and both of Debian's MPIs, by apt, only if missing.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

/// Debian packages without which nothing here can be built or tested; e2fsprogs makes disks, elfutils tells where a run
/// that hangs stands, valgrind what a program does to memory that is not its own.
const PACKAGES: [&str; 19] = [
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
    "libclang-dev",
    "iproute2",
    "iperf3",
    "e2fsprogs",
    "elfutils",
    "valgrind",
];

/// What the benchmarks compare with, and nothing else needs: the file systems that could be mounted instead.
const COMPARED: [&str; 4] = ["glusterfs-server", "sshfs", "openssh-sftp-server", "socat"];

/// Installs what is missing.
///
/// # Errors
/// Where there is no apt, or no way to become root: the message says what to install by hand.
pub(crate) fn run() -> Result<()> {
    install(&PACKAGES)
}

/// Installs what is missing, and what only the benchmarks need.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_for_benchmarks() -> Result<()> {
    install(&[&PACKAGES[..], &COMPARED].concat())
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
            .args(["--show", "--showformat=${db:Status-Status}", package])
            .output()
            .with_context(|| {
                format!(
                    "cannot run dpkg-query: this set-up is for Debian and its relatives; elsewhere \
                     install MPICH, Open MPI and their development files yourself (Debian calls \
                     them {})",
                    packages.join(" ")
                )
            })?;
        if !output.status.success() || output.stdout != b"installed" {
            missing.push(package);
        }
    }
    Ok(missing)
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
