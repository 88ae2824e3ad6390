//! Building ROMIO's test programs outside MPICH's tree, with the compiler wrappers of each MPI.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::programs::{PROGRAMS, Program};
use crate::launcher::cores;
use crate::mpi::Mpi;
use crate::paths::Paths;
use crate::stamp::Stamp;
use crate::{pool, process, sources};

/// What MPICH's configure would have put for the placeholders here.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("@LL@", "lld"),
    ("@F77MPIOINC@", ""),
    ("@FORTRAN_MPI_OFFSET@", "integer*8"),
    ("@F77IARGC@", "iargc()"),
    ("@F77GETARG@", "call getarg(i, str)"),
];

const C_FLAGS: &[&str] = &["-O1", "-g", "-w"];
const FORTRAN_FLAGS: &[&str] =
    &["-O1", "-g", "-w", "-std=legacy", "-fallow-argument-mismatch", "-ffixed-form"];

/// The executable of `program` for `mpi`, once built.
pub(crate) fn executable(paths: &Paths, mpi: Mpi, program: &Program) -> PathBuf {
    folder(paths, mpi).join(program.name)
}

/// Builds for `mpi` every program its compilers can build; those built already are kept.
pub(crate) fn run(paths: &Paths, mpi: Mpi) -> Result<()> {
    let sources = sources::romio_tests(paths)?;
    check_completeness(&sources)?;
    let folder = folder(paths, mpi);
    let names = names(paths);
    let mut description =
        fs::read_to_string(&names).with_context(|| format!("cannot read {}", names.display()))?;
    let mut texts = Vec::new();
    for program in PROGRAMS {
        let text = prepared(&sources, program)?;
        description.push_str(&text);
        texts.push(text);
    }
    description.push_str(&format!("{C_FLAGS:?} {FORTRAN_FLAGS:?} {mpi:?}\n"));
    description.push_str(&mpi.definitions(paths)?);
    let stamp = Stamp::new(&folder, description);
    if stamp.is_current() {
        return Ok(());
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    println!("romio: building the test programs with {}", mpi.name());
    let programs: Vec<(&Program, String)> = PROGRAMS.iter().zip(texts).collect();
    let built = pool::run(&programs, cores(), |_| 1, |(program, text)| build(paths, mpi, program, text));
    built.into_iter().collect::<Result<()>>()?;
    stamp.write()
}

/// Builds `program` of its prepared text, where `mpi` has a compiler for it.
fn build(paths: &Paths, mpi: Mpi, program: &Program, text: &str) -> Result<()> {
    let folder = folder(paths, mpi);
    let extension = if program.is_fortran() { "f" } else { "c" };
    let source = folder.join(format!("{}.{extension}", program.name));
    fs::write(&source, text).with_context(|| format!("cannot write {}", source.display()))?;
    let mut compiler = if program.is_fortran() {
        let Some(fortran) = mpi.fortran_compiler(paths) else { return Ok(()) };
        let mut compiler = Command::new(fortran);
        compiler.args(FORTRAN_FLAGS);
        compiler
    } else {
        let mut compiler = Command::new(mpi.c_compiler(paths));
        compiler.args(C_FLAGS).arg("-include").arg(names(paths));
        compiler
    };
    compiler.arg("-o").arg(executable(paths, mpi, program)).arg(&source);
    let log = folder.join(format!("{}.build.log", program.name));
    process::run_logged(&mut compiler, &log)
}

/// The header that every program in C is given.
fn names(paths: &Paths) -> PathBuf {
    paths.root().join("tests/romio/mpi_names.h")
}

/// Builds `program` alone, with further edits, as `output`.
pub(crate) fn variant(
    paths: &Paths,
    mpi: Mpi,
    program: &Program,
    edits: &[(&str, &str)],
    output: &Path,
) -> Result<()> {
    let sources = sources::romio_tests(paths)?;
    let original = read(&sources.join(program.source))?;
    let text = replaced(&original, edits, program.source)?;
    let folder = output.parent().context("an executable without a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let source = output.with_extension("c");
    fs::write(&source, text).with_context(|| format!("cannot write {}", source.display()))?;
    let mut compiler = Command::new(mpi.c_compiler(paths));
    compiler.args(["-O2", "-w", "-o"]).arg(output).arg(&source);
    process::run_logged(&mut compiler, &output.with_extension("build.log"))
}

fn folder(paths: &Paths, mpi: Mpi) -> PathBuf {
    paths.romio_tests().join(mpi.name())
}

/// Fails when ROMIO's folder has a program that the table has not: none is left out unnoticed.
fn check_completeness(sources: &Path) -> Result<()> {
    let entries = fs::read_dir(sources).with_context(|| format!("cannot read {}", sources.display()))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let is_program = [".c", ".c.in", ".f.in"].iter().any(|end| name.ends_with(end));
        // configure makes `x.c` of `x.c.in`; the placeholder's file is the one in the table.
        let generated = sources.join(format!("{name}.in")).exists();
        if is_program && !generated && !PROGRAMS.iter().any(|program| program.source == name) {
            bail!("{} is not in the table of xtask/src/romio/programs.rs", entry.path().display());
        }
    }
    Ok(())
}

/// The source text of `program` with its placeholders filled and its edits made.
fn prepared(sources: &Path, program: &Program) -> Result<String> {
    let mut text = read(&sources.join(program.source))?;
    if program.source.ends_with(".in") {
        for (placeholder, value) in PLACEHOLDERS {
            text = text.replace(placeholder, value);
        }
    }
    replaced(&text, program.edits, program.source)
}

fn replaced(text: &str, edits: &[(&str, &str)], name: &str) -> Result<String> {
    let mut text = text.to_owned();
    for (from, to) in edits {
        if !text.contains(from) {
            bail!("{name} no longer contains `{from}`; see its row in xtask/src/romio/programs.rs");
        }
        text = text.replace(from, to);
    }
    Ok(text)
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_that_no_longer_fits_is_an_error() {
        assert_eq!(replaced("a b a", &[("a", "c")], "x").unwrap(), "c b c");
        assert!(replaced("a", &[("b", "c")], "x").is_err());
    }
}
