//! Building HDF5's parallel tests outside its tree, with Debian's libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::programs::TESTS;
use crate::launcher::cores;
use crate::mpi::Mpi;
use crate::paths::Paths;
use crate::stamp::Stamp;
use crate::{pool, process, sources};

/// What all programs are linked with, in HDF5's `test`.
const HARNESS: [&str; 4] = ["h5test", "testframe", "cache_common", "swmr_common"];

/// What the program `testphdf5` is made of, beside a source of its name.
const PARTS: [&str; 11] = [
    "t_dset",
    "t_file",
    "t_file_image",
    "t_mdset",
    "t_ph5basic",
    "t_coll_chunk",
    "t_span_tree",
    "t_chunk_alloc",
    "t_filter_read",
    "t_prop",
    "t_coll_md_read",
];

const FLAGS: [&str; 2] = ["-O1", "-w"];

/// A header that HDF5's configure would have made: where its sources are, for tests that read some of them.
const SOURCE_FOLDER: (&str, &str) = ("H5srcdir_str.h", "#define config_srcdir \".\"\n");

/// The executable of `program` for `mpi`, once built.
pub(crate) fn executable(paths: &Paths, mpi: Mpi, program: &str) -> PathBuf {
    folder(paths, mpi).join(program)
}

/// Builds all programs for `mpi`; those built already are kept.
pub(crate) fn run(paths: &Paths, mpi: Mpi) -> Result<()> {
    let tree = sources::hdf5(paths)?;
    let folder = folder(paths, mpi);
    let flags = flags(mpi)?;
    let version = sources::installed_version(&sources::HDF5)?;
    let ingredients =
        format!("{version} {FLAGS:?} {flags:?} {HARNESS:?} {PARTS:?} {TESTS:?}\n{}", mpi.definitions(paths)?);
    let stamp = Stamp::new(&folder, ingredients);
    if stamp.is_current() {
        return Ok(());
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    println!("hdf5: building the test programs with {}", mpi.name());
    let (header, text) = SOURCE_FOLDER;
    fs::write(folder.join(header), text).with_context(|| format!("cannot write {header}"))?;

    let compiler = || {
        let mut command = Command::new(mpi.c_compiler(paths));
        command.args(FLAGS).arg("-I").arg(&folder).arg("-I").arg(tree.join("src"));
        command.arg("-I").arg(tree.join("test"));
        command
    };
    let source = |name: &str| {
        let directory = if HARNESS.contains(&name) { "test" } else { "testpar" };
        tree.join(directory).join(format!("{name}.c"))
    };
    let object = |name: &str| folder.join(name).with_extension("o");
    let programs = TESTS.iter().flat_map(|test| test.steps).map(|step| step.program);
    let programs: Vec<&str> = programs.collect();
    let all: Vec<&str> = HARNESS.into_iter().chain(PARTS).chain(programs.iter().copied()).collect();
    let compiled = pool::run(
        &all,
        cores(),
        |_| 1,
        |name| {
            let mut command = compiler();
            command.args(&flags).arg("-c").arg(source(name)).arg("-o").arg(object(name));
            process::run_logged(&mut command, &folder.join(name).with_extension("build.log"))
        },
    );
    compiled.into_iter().collect::<Result<()>>()?;

    // An archive: of what both a program and the harness define, the program's own counts.
    let archive = folder.join("libh5test.a");
    let mut archiver = Command::new("ar");
    archiver.arg("rcs").arg(&archive).args(HARNESS.map(object));
    process::run_logged(&mut archiver, &folder.join("archive.log"))?;
    for program in programs {
        let mut linker = compiler();
        linker.arg(object(program));
        if program == "testphdf5" {
            linker.args(PARTS.map(object));
        }
        linker.arg(&archive).args(&flags).args(["-lz", "-ldl", "-lm", "-o"]).arg(folder.join(program));
        process::run_logged(&mut linker, &folder.join(program).with_extension("link.log"))?;
    }
    stamp.write()
}

/// How the compiler finds Debian's HDF5 for `mpi`.
fn flags(mpi: Mpi) -> Result<Vec<String>> {
    let mut query = Command::new("pkg-config");
    query.args(["--cflags", "--libs"]).arg(format!("hdf5-{}", mpi.name()));
    let told =
        process::capture(&mut query).context("HDF5 is not installed; run `cargo xtask setup` first")?;
    Ok(told.split_whitespace().map(str::to_owned).collect())
}

fn folder(paths: &Paths, mpi: Mpi) -> PathBuf {
    let folder: &Path = &paths.hdf5_tests();
    folder.join(mpi.name())
}
