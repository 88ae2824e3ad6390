//! Where things lie: everything that xtask makes is under the workspace's `target/`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// The workspace's folders. All paths are absolute.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    root: PathBuf,
    target: PathBuf,
}

impl Paths {
    /// The workspace this xtask was built from.
    pub(crate) fn of_workspace() -> Self {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().unwrap_or(manifest).to_path_buf();
        let target = root.join("target");
        Self { root, target }
    }

    /// Fails where the workspace's path has blanks: compilers' wrappers, which are shell scripts, what `pkg-config`
    /// tells and prefixes of commands have another word there.
    pub(crate) fn check(&self) -> Result<()> {
        if self.root.to_string_lossy().contains(char::is_whitespace) {
            bail!(
                "the path of this checkout, {:?}, has blanks, which the MPIs' compilers take for the end of a name: \
                 move it to where there are none",
                self.root
            );
        }
        Ok(())
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Unpacked source packages and the private state apt needs to fetch them.
    pub(crate) fn sources(&self) -> PathBuf {
        self.target.join("sources")
    }

    /// The Python virtual environment of that name.
    pub(crate) fn venv(&self, name: &str) -> PathBuf {
        self.target.join("venv").join(name)
    }

    /// ROMIO's test programs, compiled, and the logs of their runs.
    pub(crate) fn romio_tests(&self) -> PathBuf {
        self.target.join("romio-tests")
    }

    /// What cargo makes of programs in Rust that use MPI by the crate `mpi`.
    pub(crate) fn rust_programs(&self) -> PathBuf {
        self.target.join("rust-programs")
    }

    /// MPICH's tests of collectives and of MPI-IO, compiled, and the logs of their runs.
    pub(crate) fn mpich_tests(&self) -> PathBuf {
        self.target.join("mpich-tests")
    }

    /// HDF5's parallel tests, compiled, and the logs of their runs.
    pub(crate) fn hdf5_tests(&self) -> PathBuf {
        self.target.join("hdf5-tests")
    }

    /// mpi4py's suites: the logs of their runs.
    pub(crate) fn mpi4py_tests(&self) -> PathBuf {
        self.target.join("mpi4py-tests")
    }

    /// The logs of the check's stages and of the workspace's own test programs.
    pub(crate) fn test_logs(&self) -> PathBuf {
        self.target.join("test-logs")
    }

    /// The diagrams that the benchmarks draw.
    pub(crate) fn figures(&self) -> PathBuf {
        self.target.join("figures")
    }

    /// The layout of an installation, as `cargo xtask build` makes it.
    pub(crate) fn installation(&self) -> PathBuf {
        self.target.join("svmio")
    }
}

/// A folder for a run's files, with a word for what it is: in memory where there is a tmpfs, so that disks do not blur
/// results. What a run that is killed leaves of it, the next one removes.
pub(crate) fn scratch(what: &str) -> std::io::Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { scratch_in(memory, what) } else { scratch_in(&std::env::temp_dir(), what) }
}

/// The same in a folder.
pub(crate) fn scratch_in(folder: &Path, what: &str) -> std::io::Result<tempfile::TempDir> {
    svmio_leftovers::directory(folder, &svmio_leftovers::own_mark(), &format!("{what}-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_blanks_is_refused_and_told() {
        let at = |root: &str| Paths { root: root.into(), target: Path::new(root).join("target") }.check();
        for refused in ["/home/a user/svmio", "/svmio ", "/a\tb/svmio"] {
            let error = at(refused).unwrap_err().to_string();
            assert!(error.contains(&format!("{refused:?}")) && error.contains("blanks"), "{error}");
        }
        at("/home/user/svmio").unwrap();
    }
}
