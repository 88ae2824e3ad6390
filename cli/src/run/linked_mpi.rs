//! The MPI library that a program is linked with, directly or through another library.
//!
//! The program's own dynamic loader is asked for what it *would* load (`ld.so --list`, which runs none of
//! the program's code), rather than reading the ELF files here: its answer is by definition the right one
//! for RPATH and RUNPATH and who inherits them, `$ORIGIN`, LD_LIBRARY_PATH, the loader's cache, hardware
//! variants of a library and the distribution's default directories. It takes 2 ms. The program names the
//! loader that is run, but it is about to be run itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::RunError;
use super::mpi_family::{LibraryName, MpiFamily};
use super::program::{Program, ProgramKind};

/// An MPI library and the family it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkedMpi {
    pub(crate) family: MpiFamily,
    /// The library's file, as the loader finds it.
    pub(crate) library: PathBuf,
}

/// The MPI that the program is linked with; nothing for a script or a program without MPI.
pub(crate) fn of_program(program: &Program) -> Result<Option<LinkedMpi>, RunError> {
    match &program.kind {
        ProgramKind::Script { .. } => Ok(None),
        ProgramKind::Static => Err(RunError::StaticallyLinked { program: program.path.clone() }),
        ProgramKind::Dynamic { loader } => in_listing(&program.path, &list(&program.path, loader)?),
    }
}

/// The same, but for a program without MPI (`env`, `valgrind`, a script) the MPI of the first of its
/// arguments that is a file linked with MPI.
pub(crate) fn of_program_or_its_arguments(
    program: &Program,
    arguments: &[OsString],
) -> Result<Option<LinkedMpi>, RunError> {
    if let Some(linked) = of_program(program)? {
        return Ok(Some(linked));
    }
    // What cannot be examined is no program that the wrapper starts: data, scripts, foreign files.
    Ok(arguments
        .iter()
        .filter(|word| word.as_encoded_bytes().contains(&b'/'))
        .filter_map(|word| Program::at(Path::new(word), word.clone()).ok())
        .find_map(|wrapped| of_program(&wrapped).ok().flatten()))
}

/// What the loader prints of the libraries that it would load.
fn list(program: &Path, loader: &Path) -> Result<String, RunError> {
    let unloadable = |message: String| RunError::UnloadableProgram { program: program.to_owned(), message };
    let output = Command::new(loader)
        .arg("--list")
        .arg(program)
        // The program's own libraries are asked for, and a preloaded one may lack something itself.
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| unloadable(format!("{}: {error}", loader.display())))?;
    if !output.status.success() {
        return Err(unloadable(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Finds the MPI in the loader's listing: lines `name => path (address)`, or `name => not found`.
fn in_listing(program: &Path, listing: &str) -> Result<Option<LinkedMpi>, RunError> {
    let mut found: Option<LinkedMpi> = None;
    let mut unsupported = None;
    for line in listing.lines() {
        let Some((name, target)) = line.trim().split_once(" => ") else { continue };
        let library = LibraryName::of(name.rsplit('/').next().unwrap_or(name));
        if library == LibraryName::Other {
            continue;
        }
        if target == "not found" {
            return Err(RunError::UnloadableProgram {
                program: program.to_owned(),
                message: format!("{name}: not found"),
            });
        }
        let path = target.rsplit_once(" (").map_or(target, |(path, _address)| path);
        match (library, &found) {
            (LibraryName::Mpi(family), None) => found = Some(LinkedMpi { family, library: path.into() }),
            (LibraryName::Mpi(family), Some(first)) if family != first.family => {
                return Err(RunError::TwoMpis {
                    program: program.to_owned(),
                    first: first.library.display().to_string(),
                    second: path.to_owned(),
                });
            }
            (LibraryName::UnsupportedMpi, _) => unsupported = Some(path.to_owned()),
            _ => {}
        }
    }
    match (found, unsupported) {
        (None, Some(library)) => Err(RunError::UnsupportedMpi { program: program.to_owned(), library }),
        (found, _) => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(lines: &str) -> Result<Option<LinkedMpi>, RunError> {
        in_listing(Path::new("app"), lines)
    }

    #[test]
    fn reads_the_loaders_listing() {
        let mpich = "\tlinux-vdso.so.1 (0x00007fe703653000)\n\tlibmpich.so.12 => /a b/libmpich.so.12 (0x1)\n";
        let linked = LinkedMpi { family: MpiFamily::Mpich, library: "/a b/libmpich.so.12".into() };
        assert_eq!(listing(mpich).unwrap(), Some(linked));
        assert_eq!(listing("\tlibc.so.6 => /lib/libc.so.6 (0x1)\n").unwrap(), None);
        assert_eq!(listing("").unwrap(), None);

        let open_mpi = "\tlibmpi.so.40 => /o/libmpi.so.40 (0x1)\n";
        assert!(matches!(listing(&format!("{mpich}{open_mpi}")), Err(RunError::TwoMpis { .. })));
        assert!(matches!(listing("\tlibmpi.so.40 => not found\n"), Err(RunError::UnloadableProgram { .. })));
        assert!(matches!(
            listing("\tlibmpi.so.20 => /o/libmpi.so.20 (0x1)\n"),
            Err(RunError::UnsupportedMpi { .. })
        ));
    }
}
