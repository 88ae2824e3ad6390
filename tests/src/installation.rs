//! The installation of svmio that is tested.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::mpi::Mpi;
use crate::scratch::Scratch;

/// An installed svmio: `bin/svmio` and the libraries beside it.
#[derive(Debug, Clone)]
pub struct Installation {
    directory: PathBuf,
    tool: PathBuf,
}

impl Installation {
    /// The one that `SVMIO_INSTALLATION` names.
    ///
    /// # Panics
    /// Where there is none.
    pub fn get() -> Installation {
        const WHAT_TO_DO: &str = "run `cargo xtask build` and set SVMIO_INSTALLATION to its target/svmio";
        let Some(directory) = std::env::var_os("SVMIO_INSTALLATION") else {
            panic!("no installation of svmio to test: {WHAT_TO_DO}");
        };
        let directory =
            std::path::absolute(directory).expect("a name that is not empty has an absolute path");
        let tool = directory.join("bin/svmio");
        assert!(tool.is_file(), "{} does not exist: {WHAT_TO_DO}", tool.display());
        Installation { directory, tool }
    }

    /// The command-line tool.
    pub fn tool(&self) -> &Path {
        &self.tool
    }

    /// What brings svmio into an MPI's programs.
    pub fn library(&self, mpi: Mpi) -> PathBuf {
        let family = if mpi.is_mpich() { "mpich" } else { "openmpi" };
        self.directory.join("lib").join(family).join("libsvmio_mpi.so")
    }

    /// What has svmio do the collectives of an MPI's programs.
    pub fn collectives_library(&self, mpi: Mpi) -> PathBuf {
        self.library(mpi).with_file_name("libsvmio_coll.so")
    }

    /// What makes the waiting ranks of Debian's MPICH yield.
    pub fn yield_library(&self) -> PathBuf {
        self.directory.join("lib/libsvmio_yield.so")
    }

    /// The header of svmio's functions for C.
    pub fn header(&self) -> PathBuf {
        self.directory.join("include/svmio.h")
    }

    /// The static library of svmio's functions for C.
    pub fn static_library(&self) -> PathBuf {
        self.directory.join("lib/libsvmio.a")
    }

    /// What `pkg-config` says that programs are compiled with.
    ///
    /// # Panics
    /// Where there is no `pkg-config`, or it knows nothing of svmio.
    pub fn flags(&self, asked: &[&str]) -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.args(asked).arg("svmio").env("PKG_CONFIG_PATH", self.directory.join("lib/pkgconfig"));
        let output = command.output();
        let output =
            output.unwrap_or_else(|error| panic!("pkg-config: {error} (Debian's package is pkgconf)"));
        assert!(output.status.success(), "pkg-config: {}", complaint(&output));
        String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
    }

    /// The folder of the component of Open MPI's `coll` framework.
    pub fn component_folder(&self) -> PathBuf {
        self.directory.join("lib/openmpi/component")
    }

    /// What `svmio cat NAME` writes.
    ///
    /// # Panics
    /// Where it fails.
    pub fn cat(&self, scratch: &Scratch, name: &str) -> Vec<u8> {
        let output = self.ask(scratch, &["cat", name]);
        assert!(output.status.success(), "svmio cat {name}: {}", complaint(&output));
        output.stdout
    }

    /// Fails unless `svmio verify` finds the store clean.
    ///
    /// # Panics
    /// Where it does not.
    pub fn verify(&self, scratch: &Scratch) {
        let output = self.ask(scratch, &["verify"]);
        assert!(output.status.success(), "svmio verify: {}", complaint(&output));
    }

    /// Runs the tool on a store.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn ask(&self, scratch: &Scratch, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.tool);
        command.args(arguments).env("SVMIO_STORE", scratch.store());
        command.output().unwrap_or_else(|error| panic!("{}: {error}", self.tool.display()))
    }
}

fn complaint(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout[..output.stdout.len().min(4096)]),
        String::from_utf8_lossy(&output.stderr)
    )
}
