//! The two families of MPI libraries that svmio serves, each one ABI.

use std::fmt;

use clap::ValueEnum;

/// A family of MPI libraries with one ABI between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MpiFamily {
    /// MPICH and what shares its ABI (MVAPICH, Intel MPI)
    Mpich,
    /// Open MPI
    #[value(name = "openmpi")]
    OpenMpi,
}

/// What a shared library's name says about MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LibraryName {
    /// An MPI of this family.
    Mpi(MpiFamily),
    /// An MPI with an ABI that svmio has no library for.
    UnsupportedMpi,
    /// No MPI.
    Other,
}

impl MpiFamily {
    /// The folder of this family in svmio's installation, and the suffix of its programs in Debian.
    pub(crate) fn directory(self) -> &'static str {
        match self {
            MpiFamily::Mpich => "mpich",
            MpiFamily::OpenMpi => "openmpi",
        }
    }

    /// The family whose launcher prints `text` when asked for its `--version`.
    pub(crate) fn of_version_text(text: &str) -> Option<MpiFamily> {
        // "HYDRA build details", "Intel(R) MPI Library"; "mpirun (Open MPI) 4.1.4", "mpirun (OpenRTE) 4.1.4".
        const MPICH: [&str; 3] = ["HYDRA", "Intel(R) MPI", "MPICH"];
        const OPEN_MPI: [&str; 3] = ["Open MPI", "OpenRTE", "PRRTE"];
        if OPEN_MPI.iter().any(|mark| text.contains(mark)) {
            Some(MpiFamily::OpenMpi)
        } else if MPICH.iter().any(|mark| text.contains(mark)) {
            Some(MpiFamily::Mpich)
        } else {
            None
        }
    }
}

impl LibraryName {
    /// What the file name of a shared library, such as `libmpi.so.40`, says.
    pub(crate) fn of(name: &str) -> LibraryName {
        // The version after `.so` is the ABI's: 12 is MPICH's (Debian calls the library libmpich), 40 Open
        // MPI's since 3.0. libmpi_abi is MPI 5's standard ABI.
        let Some((stem, version)) = name.split_once(".so") else { return LibraryName::Other };
        let abi = version.trim_start_matches('.').split('.').next();
        match (stem, abi) {
            ("libmpi" | "libmpich", Some("12")) => LibraryName::Mpi(MpiFamily::Mpich),
            ("libmpi", Some("40")) => LibraryName::Mpi(MpiFamily::OpenMpi),
            ("libmpi" | "libmpich" | "libmpi_abi", _) => LibraryName::UnsupportedMpi,
            _ => LibraryName::Other,
        }
    }
}

impl fmt::Display for MpiFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MpiFamily::Mpich => "MPICH",
            MpiFamily::OpenMpi => "Open MPI",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_names() {
        for (name, expected) in [
            ("libmpich.so.12", LibraryName::Mpi(MpiFamily::Mpich)),
            ("libmpi.so.12", LibraryName::Mpi(MpiFamily::Mpich)),
            ("libmpi.so.12.3.1", LibraryName::Mpi(MpiFamily::Mpich)),
            ("libmpi.so.40", LibraryName::Mpi(MpiFamily::OpenMpi)),
            ("libmpi.so.20", LibraryName::UnsupportedMpi),
            ("libmpi_abi.so.1", LibraryName::UnsupportedMpi),
            ("libmpi_mpifh.so.40", LibraryName::Other),
            ("libmpifort.so.12", LibraryName::Other),
            ("libc.so.6", LibraryName::Other),
            ("libmpi", LibraryName::Other),
        ] {
            assert_eq!(LibraryName::of(name), expected, "{name}");
        }
    }
}
