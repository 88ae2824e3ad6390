//! Where svmio's libraries are.
//!
//! ```text
//! bin/svmio
//! lib/mpich/libsvmio_mpi.so     for the ranks of MPICH's ABI
//! lib/openmpi/libsvmio_mpi.so   for the ranks of Open MPI's ABI
//! lib/FAMILY/libsvmio_coll.so   for the same ranks, where their collectives are to be svmio's
//! lib/openmpi/component/        for Open MPI: the folder of svmio's component, mca_coll_svmio.so
//! lib/libsvmio_yield.so         for the waiting of MPICH's ranks, and for its launcher
//! ```

use std::path::{Path, PathBuf};

use super::error::RunError;
use super::mpi_family::MpiFamily;

/// Names the directory that holds `<family>/libsvmio_mpi.so`, in place of `lib` beside this program's `bin`.
pub(crate) const LIBRARY_DIRECTORY_VARIABLE: &str = "SVMIO_LIBDIR";

/// An installation of svmio, by its `lib`.
#[derive(Debug)]
pub(crate) struct Installation {
    library_directory: PathBuf,
}

impl Installation {
    /// The installation that this program is part of, symbolic links to it resolved.
    pub(crate) fn locate() -> Result<Installation, RunError> {
        let no_installation = |source| RunError::NoInstallation { source };
        let told = std::env::var_os(LIBRARY_DIRECTORY_VARIABLE).filter(|directory| !directory.is_empty());
        let library_directory = match told {
            Some(directory) => std::path::absolute(directory).map_err(no_installation)?,
            None => {
                let program =
                    std::env::current_exe().and_then(|path| path.canonicalize()).map_err(no_installation)?;
                // A program's file is in a directory; were that the root, its `lib` is the root's.
                let prefix = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
                prefix.join("lib")
            }
        };
        Ok(Installation { library_directory })
    }

    /// The library to preload into the ranks.
    pub(crate) fn mpi_library(&self, family: MpiFamily) -> Result<PathBuf, RunError> {
        self.library_of(family, "libsvmio_mpi.so")
    }

    /// The library of collectives to preload into the ranks.
    pub(crate) fn collectives_library(&self, family: MpiFamily) -> Result<PathBuf, RunError> {
        self.library_of(family, "libsvmio_coll.so")
    }

    fn library_of(&self, family: MpiFamily, name: &str) -> Result<PathBuf, RunError> {
        let path = self.library_directory.join(family.directory()).join(name);
        if !path.is_file() {
            return Err(RunError::NoMpiLibrary { path, family });
        }
        preloadable(path)
    }

    /// The folder of the component that Open MPI loads by itself.
    pub(crate) fn component_folder(&self) -> Result<PathBuf, RunError> {
        let folder = self.library_directory.join(MpiFamily::OpenMpi.directory()).join("component");
        let path = folder.join("mca_coll_svmio.so");
        if !path.is_file() {
            return Err(RunError::NoComponent { path });
        }
        if folder.as_os_str().as_encoded_bytes().contains(&b':') {
            return Err(RunError::PathNotPreloadable { path: folder });
        }
        Ok(folder)
    }

    /// The library that lets MPICH's waiting ranks give their cores away, and end.
    pub(crate) fn yield_library(&self) -> Result<PathBuf, RunError> {
        let path = self.library_directory.join("libsvmio_yield.so");
        if !path.is_file() {
            return Err(RunError::NoYieldLibrary { path });
        }
        preloadable(path)
    }
}

/// The path, if the dynamic loader takes it for one.
pub(crate) fn preloadable(path: PathBuf) -> Result<PathBuf, RunError> {
    if path.as_os_str().as_encoded_bytes().iter().any(|byte| matches!(byte, b' ' | b':')) {
        return Err(RunError::PathNotPreloadable { path });
    }
    Ok(path)
}
