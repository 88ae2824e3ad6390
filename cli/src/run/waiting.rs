//! What ranks that wait do: where they outnumber the cores, and at the end.
//!
//! - **MPICH 4.0** polls for ever and has no setting against it: `libsvmio_yield.so` yields for it.
//! - **MPICH 4.1 and later** have one (progress throttling), which is switched on.
//! - **hydra**, MPICH's launcher, gives each rank its own session, between which the kernel shares out the
//!   cores, so that yielding does not reach the other ranks; `libsvmio_yield.so` in the launcher cures that.
//! - **MPICH over UCX**, on several nodes, may wait for ever in `MPI_Finalize`; `libsvmio_yield.so` in the
//!   ranks cures that, whether there are cores enough or not.
//! - **Open MPI** yields by itself where it knows of more ranks than slots; it is told to in any case.
//!
//! What the user set stays.

use std::fmt;
use std::path::PathBuf;

use super::error::RunError;
use super::installation::Installation;
use super::launch_command::RankVariable;
use super::mpi_family::MpiFamily;
use super::mpiexec_line::MpiexecLine;

/// How the ranks of a job compare with the cores of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crowding {
    /// A core for each rank.
    Fits,
    /// More ranks than cores.
    Crowded { ranks: u64, cores: u64 },
    /// The command line does not tell. Cured like `Crowded`: a yield too many costs a rank that waits half
    /// a microsecond, one too few costs all ranks milliseconds.
    Unknown,
}

impl Crowding {
    /// Compares what the command line says with the cores that this process may use.
    pub(crate) fn of(line: &MpiexecLine) -> Crowding {
        match std::thread::available_parallelism() {
            Ok(cores) => Crowding::between(line.rank_count(), line.places_ranks(), cores.get() as u64),
            Err(_) => Crowding::Unknown,
        }
    }

    fn between(ranks: Option<u64>, placed_by_options: bool, cores: u64) -> Crowding {
        match ranks {
            Some(ranks) if ranks <= cores => Crowding::Fits,
            Some(ranks) if !placed_by_options => Crowding::Crowded { ranks, cores },
            _ => Crowding::Unknown,
        }
    }
}

impl fmt::Display for Crowding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Crowding::Fits => write!(f, "a core for each rank"),
            Crowding::Crowded { ranks, cores } => {
                write!(f, "{ranks} ranks on {cores} cores, waiting ranks yield")
            }
            Crowding::Unknown => write!(f, "not known beforehand, waiting ranks yield"),
        }
    }
}

/// What is preloaded and set so that ranks wait well.
#[derive(Debug, Default)]
pub(crate) struct WaitingCure {
    /// Preloaded into the ranks.
    pub(crate) library: Option<PathBuf>,
    /// Preloaded into the launcher.
    pub(crate) launcher_library: Option<PathBuf>,
    /// For the ranks, unless the user set them.
    pub(crate) variables: Vec<RankVariable>,
}

impl WaitingCure {
    /// Leaves the waiting alone.
    pub(crate) fn none() -> WaitingCure {
        WaitingCure::default()
    }

    /// What the family needs.
    pub(crate) fn of(
        family: MpiFamily,
        crowding: Crowding,
        installation: &Installation,
    ) -> Result<WaitingCure, RunError> {
        let variable = |name: &str, value: &str| RankVariable { name: name.into(), value: value.into() };
        let yields = crowding != Crowding::Fits;
        Ok(match family {
            MpiFamily::Mpich if yields => {
                let library = installation.yield_library()?;
                WaitingCure {
                    library: Some(library.clone()),
                    launcher_library: Some(library),
                    variables: vec![
                        variable("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1"),
                        variable("MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "1"),
                    ],
                }
            }
            MpiFamily::Mpich => WaitingCure {
                library: Some(installation.yield_library()?),
                launcher_library: None,
                variables: vec![variable("SVMIO_YIELD", "never")],
            },
            MpiFamily::OpenMpi if yields => WaitingCure {
                variables: vec![variable("OMPI_MCA_mpi_yield_when_idle", "1")],
                ..WaitingCure::none()
            },
            MpiFamily::OpenMpi => WaitingCure::none(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_against_cores() {
        assert_eq!(Crowding::between(Some(2), false, 2), Crowding::Fits);
        assert_eq!(Crowding::between(Some(2), true, 2), Crowding::Fits);
        assert_eq!(Crowding::between(Some(3), false, 2), Crowding::Crowded { ranks: 3, cores: 2 });
        assert_eq!(Crowding::between(Some(3), true, 2), Crowding::Unknown);
        assert_eq!(Crowding::between(None, false, 2), Crowding::Unknown);
    }
}
