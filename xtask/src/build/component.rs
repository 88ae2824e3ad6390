//! Linking svmio's component of Open MPI's `coll` framework: C against Open MPI's headers, with svmio's side in Rust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::mpi::Mpi;
use crate::paths::Paths;
use crate::process;

/// The package whose static library the component is linked with.
pub(super) const PACKAGE: &str = "svmio-coll-component";

/// Its place in an installation. The folder has nothing but components: Open MPI looks at all files in it.
pub(super) const PLACE: &str = "lib/openmpi/component/mca_coll_svmio.so";

/// The static library among what cargo made.
pub(super) const LIBRARY: &str = "libsvmio_coll_component.a";

const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-g1",
    "-DNDEBUG",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fPIC",
    "-shared",
    // Open MPI needs one symbol of it, and the program none.
    "-fvisibility=hidden",
    "-Wl,--exclude-libs,ALL",
    "-Wl,--gc-sections",
    // Open MPI unloads its components at the end, and threads and their variables must not be unloaded.
    "-Wl,-z,nodelete",
    "-Wl,-z,defs",
];

/// What Rust's standard library and Open MPI's objects need.
const LIBRARIES: &[&str] = &["-lopen-pal", "-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];

/// Makes the component in `release`, cargo's folder that has its library, and returns its file.
pub(super) fn link(paths: &Paths, release: &Path) -> Result<PathBuf> {
    let sources = paths.root().join("coll/component/c");
    let entries = fs::read_dir(&sources).with_context(|| format!("cannot read {}", sources.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "c"));
    files.sort();
    let made = release.join("mca_coll_svmio.so");
    let mut compiler = Command::new(Mpi::DebianOpenMpi.c_compiler(paths));
    compiler.args(FLAGS);
    for (name, value) in [
        ("MAJOR", env!("CARGO_PKG_VERSION_MAJOR")),
        ("MINOR", env!("CARGO_PKG_VERSION_MINOR")),
        ("RELEASE", env!("CARGO_PKG_VERSION_PATCH")),
    ] {
        compiler.arg(format!("-DSVMIO_{name}={value}"));
    }
    compiler.args(&files).arg(release.join(LIBRARY)).args(LIBRARIES).arg("-o").arg(&made);
    process::run_logged(&mut compiler, &made.with_extension("build.log")).context(
        "cannot make the component of Open MPI; it needs the framework's headers, which are in libopenmpi-dev",
    )?;
    Ok(made)
}
