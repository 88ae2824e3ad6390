//! `--collectives`: by which adapter a program's collectives become svmio's.

use std::path::PathBuf;

use clap::ValueEnum;

use super::component;
use super::error::RunError;
use super::installation::Installation;
use super::launch_command::RankVariable;
use super::launcher::Launcher;

/// How MPI's collectives reach svmio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Collectives {
    /// By a preloaded library, with any MPI
    Preload,
    /// By a component of Open MPI's coll framework, with Open MPI 4.1
    Component,
}

impl Collectives {
    /// The library to preload for that, if it takes one.
    pub(crate) fn library(
        self,
        launcher: &Launcher,
        installation: &Installation,
    ) -> Result<Option<PathBuf>, RunError> {
        match self {
            Self::Preload => installation.collectives_library(launcher.family).map(Some),
            Self::Component => Ok(None),
        }
    }

    /// The variables that the ranks need for that.
    pub(crate) fn variables(
        self,
        launcher: &Launcher,
        installation: &Installation,
    ) -> Result<Vec<RankVariable>, RunError> {
        match self {
            Self::Preload => Ok(Vec::new()),
            Self::Component => component::variables(launcher, installation),
        }
    }
}
