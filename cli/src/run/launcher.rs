//! The `mpiexec` that belongs to the program's MPI.
//!
//! The launcher and the library speak a protocol of their own, so a launcher of the same installation is
//! taken before any other of the family, and one of another family never: each rank would believe to be
//! alone. Which family a launcher is of, it says itself (`--version`); its name says nothing (Debian's
//! `/usr/bin/mpiexec` is whichever the administrator chose).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::RunError;
use super::linked_mpi::LinkedMpi;
use super::mpi_family::{LibraryName, MpiFamily};
use super::program::{Program, is_executable};

/// How far above a library's directory the prefix's `bin` may be: `lib`, `lib/openmpi`,
/// `lib/x86_64-linux-gnu/openmpi/lib`.
const LEVELS_TO_PREFIX: usize = 4;

/// An `mpiexec`, and whose.
#[derive(Debug)]
pub(crate) struct Launcher {
    pub(crate) family: MpiFamily,
    pub(crate) path: PathBuf,
    /// What told that this is the program's MPI, for people.
    pub(crate) reason: String,
}

impl Launcher {
    /// Chooses the launcher: of the family forced, else of the MPI that the program is linked with, else of
    /// the one that its surroundings speak for.
    pub(crate) fn choose(
        forced: Option<MpiFamily>,
        mpiexec: Option<&Path>,
        program: &Program,
        linked: Option<&LinkedMpi>,
    ) -> Result<Launcher, RunError> {
        let linked = linked.filter(|linked| forced.is_none_or(|forced| forced == linked.family));
        let known: Option<(MpiFamily, String)> = forced
            .map(|family| (family, "--mpi".to_owned()))
            .or_else(|| linked.map(|linked| (linked.family, linked.library.display().to_string())))
            .or_else(family_for_mpi4py);
        let of = |(family, reason), path| Launcher { family, path, reason };

        if let Some(path) = mpiexec {
            return Launcher::named_by_user(path, known, forced.is_some(), program);
        }
        let environments = program.virtual_environments();
        let prefixes = || {
            let beside_library = linked.map(|linked| prefixes_of(&linked.library)).unwrap_or_default();
            beside_library.into_iter().chain(environments.iter().cloned()).map(|prefix| prefix.join("bin"))
        };
        let Some((family, reason)) = known else {
            return prefixes()
                .chain(path_directories())
                .flat_map(|directory| ["mpiexec", "mpirun"].map(|name| directory.join(name)))
                .find_map(|path| Some(of((family_of(&path)?, "the mpiexec found first".to_owned()), path)))
                .ok_or_else(|| RunError::NoMpi { program: program.path.clone() });
        };
        prefixes()
            .chain(path_directories())
            .flat_map(|directory| names(family).map(|name| directory.join(name)))
            .find(|path| family_of(path) == Some(family))
            .map(|path| of((family, reason), path))
            .ok_or_else(|| RunError::NoMpiexec {
                family,
                library: linked.map(|linked| linked.library.clone()),
            })
    }

    /// The launcher of `--mpiexec`, of whatever family it is itself if nothing else is known.
    fn named_by_user(
        path: &Path,
        known: Option<(MpiFamily, String)>,
        forced: bool,
        program: &Program,
    ) -> Result<Launcher, RunError> {
        let path = if path.components().count() == 1 && !path.exists() {
            which::which(path).unwrap_or_else(|_| path.to_owned())
        } else {
            path.to_owned()
        };
        if !is_executable(&path) {
            let not_found = !path.exists();
            let reason = if not_found { "not found" } else { "not an executable file" }.to_owned();
            return Err(RunError::MpiexecNotUsable { path, reason, not_found });
        }
        match (family_of(&path), known) {
            (Some(launcher), Some((program_family, _))) if launcher != program_family && !forced => {
                Err(RunError::MpiexecOfOtherMpi {
                    path,
                    launcher,
                    program: program.path.clone(),
                    program_family,
                })
            }
            (_, Some((family, reason))) => Ok(Launcher { family, path, reason }),
            (Some(family), None) => Ok(Launcher { family, path, reason: "--mpiexec".to_owned() }),
            (None, None) => Err(RunError::MpiexecUnknown { path }),
        }
    }
}

/// The names that a family's launcher goes by, the unmistakable ones first.
fn names(family: MpiFamily) -> [&'static str; 5] {
    match family {
        MpiFamily::Mpich => ["mpiexec.mpich", "mpirun.mpich", "mpiexec.hydra", "mpiexec", "mpirun"],
        MpiFamily::OpenMpi => ["mpiexec.openmpi", "mpirun.openmpi", "orterun", "mpiexec", "mpirun"],
    }
}

/// The directories that may be the prefix a library was installed under, the nearest first.
///
/// Both the directory in which the loader finds the library and the one where its file really is: either
/// may be the link into the other's tree.
fn prefixes_of(library: &Path) -> Vec<PathBuf> {
    let found_in = library.parent().and_then(|directory| directory.canonicalize().ok());
    let lives_in = library.canonicalize().ok().and_then(|file| Some(file.parent()?.to_owned()));
    let mut prefixes: Vec<PathBuf> = Vec::new();
    for directory in [found_in, lives_in].into_iter().flatten() {
        for prefix in directory.ancestors().skip(1).take(LEVELS_TO_PREFIX) {
            if !prefixes.iter().any(|known| known == prefix) {
                prefixes.push(prefix.to_owned());
            }
        }
    }
    prefixes
}

fn path_directories() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

/// The family that mpi4py, which loads MPI itself, was told to use.
fn family_for_mpi4py() -> Option<(MpiFamily, String)> {
    let library = std::env::var_os("MPI4PY_LIBMPI")?;
    let name = Path::new(&library).file_name().and_then(OsStr::to_str)?;
    match LibraryName::of(name) {
        LibraryName::Mpi(family) => Some((family, format!("MPI4PY_LIBMPI={}", library.display()))),
        LibraryName::UnsupportedMpi | LibraryName::Other => None,
    }
}

/// The family that an executable file says it launches; nothing for any other file.
fn family_of(path: &Path) -> Option<MpiFamily> {
    MpiFamily::of_version_text(&version_text(path)?)
}

/// What an executable file prints when asked for its version.
pub(super) fn version_text(path: &Path) -> Option<String> {
    if !is_executable(path) {
        return None;
    }
    let output =
        Command::new(path).arg("--version").env_remove("LD_PRELOAD").stdin(Stdio::null()).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&text).into_owned())
}
