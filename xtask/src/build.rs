//! Building the workspace and laying out an installation: `bin/svmio` and two preload libraries for
//! each family of MPIs, for files and for collectives, each found by the others at its place relative to them; and
//! `libsvmio` with its header, for programs that map files; and what shells and `man` read.

mod c_interface;
mod component;
mod made;
mod shell;

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::paths::Paths;
use made::Made;

/// A file of an installation: which package makes it, under what name, and where it goes.
struct Product {
    package: &'static str,
    made: &'static str,
    place: PathBuf,
}

/// The command-line tool of the built installation.
pub(crate) fn svmio(paths: &Paths) -> PathBuf {
    paths.installation().join(TOOL)
}

/// The library that makes waiting ranks of Debian's MPICH yield, in the built installation.
pub(crate) fn yield_library(paths: &Paths) -> PathBuf {
    paths.installation().join(YIELD)
}

/// MPIs that share an ABI, and therefore svmio's preload library.
#[derive(Debug, Clone, Copy)]
enum Family {
    Mpich,
    OpenMpi,
}

impl Family {
    /// Its folder below the installation's `lib/`.
    fn name(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::OpenMpi => "openmpi",
        }
    }
}

/// Builds everything for release and lays it out under `target/svmio`.
pub(crate) fn run(paths: &Paths) -> Result<()> {
    let made = Made::by(&mut for_release(paths))?;
    for product in &products() {
        put(made.file(product.made)?, &paths.installation().join(&product.place))?;
    }
    let release = made.folder_of(component::LIBRARY)?;
    put(&component::link(paths, release)?, &paths.installation().join(component::PLACE))?;
    for (made, place) in c_interface::make(paths, release)? {
        put(&made, &paths.installation().join(place))?;
    }
    c_interface::strip(&paths.installation().join(c_interface::STATIC.1))?;
    c_interface::link(&paths.installation())?;
    shell::make(&svmio(paths), &paths.installation())?;
    println!("build: {} is ready", paths.installation().display());
    Ok(())
}

/// Tells what is installed, with these files beside it, from what other sources would have made: a number that is
/// another one then.
pub(crate) fn identity(paths: &Paths, others: &[PathBuf]) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    let places = products().map(|product| product.place).into_iter().chain([component::PLACE.into()]);
    let installed = places.map(|place: PathBuf| paths.installation().join(place));
    for file in installed.chain(others.iter().cloned()) {
        fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Builds a benchmark for release and returns its file.
pub(crate) fn benchmark(paths: &Paths, name: &str) -> Result<PathBuf> {
    // Together with the installation, it finds all that it depends on built already: for other packages cargo would
    // choose other features.
    let made = Made::by(for_release(paths).args(["--package", "svmio-benches", "--bin", name]))?;
    made.file(name).map(Path::to_path_buf)
}

/// Copies the built installation to `prefix`, building it first.
pub(crate) fn install(paths: &Paths, prefix: &Path) -> Result<()> {
    run(paths)?;
    let places = products().map(|product| product.place);
    let others = [component::PLACE, c_interface::HEADER, c_interface::DESCRIPTION].map(PathBuf::from);
    for place in places.iter().chain(&others) {
        put(&paths.installation().join(place), &prefix.join(place))?;
    }
    c_interface::link(prefix)?;
    shell::make(&svmio(paths), prefix)?;
    println!("install: {} is ready", prefix.join(TOOL).display());
    Ok(())
}

/// Cargo, started in the workspace, the same one that started us.
pub(crate) fn cargo(paths: &Paths) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(paths.root());
    command
}

const TOOL: &str = "bin/svmio";
const YIELD: &str = "lib/libsvmio_yield.so";

/// The preload libraries of a family: that of files, and that of collectives.
const FILES: &str = "libsvmio_mpi.so";
const COLLECTIVES: &str = "libsvmio_coll.so";

fn products() -> [Product; 8] {
    let preload = |family: Family, name: &str| PathBuf::from("lib").join(family.name()).join(name);
    [
        Product { package: "svmio", made: "svmio", place: TOOL.into() },
        Product {
            package: "svmio-mpi-mpich",
            made: "libsvmio_mpi_mpich.so",
            place: preload(Family::Mpich, FILES),
        },
        Product {
            package: "svmio-mpi-openmpi",
            made: "libsvmio_mpi_openmpi.so",
            place: preload(Family::OpenMpi, FILES),
        },
        Product {
            package: "svmio-coll-mpich",
            made: "libsvmio_coll_mpich.so",
            place: preload(Family::Mpich, COLLECTIVES),
        },
        Product {
            package: "svmio-coll-openmpi",
            made: "libsvmio_coll_openmpi.so",
            place: preload(Family::OpenMpi, COLLECTIVES),
        },
        Product { package: "svmio-yield", made: "libsvmio_yield.so", place: YIELD.into() },
        of_c(c_interface::SHARED),
        of_c(c_interface::STATIC),
    ]
}

/// A library for C, by what it is called and its place.
fn of_c((made, place): (&'static str, &str)) -> Product {
    Product { package: c_interface::PACKAGE, made, place: place.into() }
}

/// Cargo, about to build for release all that is installed.
fn for_release(paths: &Paths) -> Command {
    let mut cargo = cargo(paths);
    cargo.args(["build", "--release"]);
    for package in products().iter().map(|product| product.package).chain([component::PACKAGE]) {
        cargo.args(["--package", package]);
    }
    cargo
}

/// Copies `from` to `to` so that a running program that uses the old `to` keeps it.
fn put(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().context("an installed file without a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut new = to.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    clear(&new)?;
    fs::copy(from, &new).with_context(|| format!("cannot copy {} to {}", from.display(), new.display()))?;
    fs::rename(&new, to).with_context(|| format!("cannot put {} in place", to.display()))
}

/// Removes what an attempt that was interrupted left under this name: what is written there would go where a link leads.
fn clear(new: &Path) -> Result<()> {
    match fs::remove_file(new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", new.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_interrupted_attempt_left_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        fs::write(file("from"), "new").unwrap();
        fs::write(file("libsvmio.so.0"), "old").unwrap();
        for left in ["libsvmio.so.new", "libsvmio.so.0.new"] {
            std::os::unix::fs::symlink("libsvmio.so.0", file(left)).unwrap();
        }
        let kept = fs::File::open(file("libsvmio.so.0")).unwrap();
        put(&file("from"), &file("libsvmio.so.0")).unwrap();
        assert_eq!(fs::read_to_string(file("libsvmio.so.0")).unwrap(), "new");
        assert_eq!(std::io::read_to_string(kept).unwrap(), "old", "a program that uses it keeps it");
    }
}
