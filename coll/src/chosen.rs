//! The barrier of a communicator by the component that the user has chosen, where that is not what its group would do.
//!
//! All members choose together, before their group is formed: a component that one of them cannot have none has.

use std::sync::OnceLock;

use svmio_adio::Mpi;
use svmio_adio::abi::{Abi, Comm};
use svmio_collectives::components::{Collectives, Components, Error, Function, Functions, Team};
use svmio_collectives::executor::{self, GroupSettings, NetworkSettings};

use crate::forming::agreed;
use crate::jobs::Reach;

/// What the user's settings come to for a communicator.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    /// The barrier, where the group's own is not wanted.
    pub(crate) barrier: Option<Barrier>,
    /// How the group's memory is set up.
    pub(crate) within: GroupSettings,
    /// How it goes between nodes.
    pub(crate) between: NetworkSettings,
}

/// The barrier of a component.
#[derive(Debug)]
pub(crate) struct Barrier(Collectives);

impl Barrier {
    /// Returns when all members have come.
    ///
    /// # Errors
    /// The component's.
    pub(crate) fn wait(&mut self) -> executor::Result<()> {
        self.0.barrier().map_err(|error| match error {
            Error::Executor(error) => error,
            Error::Fabric(error) => error.into(),
            other => executor::Error::Host { reason: other.to_string() },
        })
    }

    /// See [`Collectives::do_meanwhile`].
    pub(crate) fn do_meanwhile(&mut self, meanwhile: fn()) {
        self.0.do_meanwhile(meanwhile);
    }

    /// See [`Collectives::withdraw`].
    pub(crate) fn withdraw(&mut self, reason: &str) {
        self.0.withdraw(reason);
    }
}

/// The components as this process's user wants them, where the environment says anything of them.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn wanted() -> Result<Option<&'static Components>, &'static str> {
    // One for the process: all its groups share the line of a port.
    static WANTED: OnceLock<Result<Option<Components>, String>> = OnceLock::new();
    let read = || {
        let mut components = Components::standard();
        let is_set = components.configure_from_environment().map_err(|error| error.to_string())?;
        Ok(is_set.then_some(components))
    };
    WANTED.get_or_init(read).as_ref().map(Option::as_ref).map_err(String::as_str)
}

/// Chooses, with all members of `comm`, of which some want something. Where they cannot have the barrier, that is said, and
/// the group does all; where they do not all want the same, nothing of it holds.
pub(crate) fn choose<A: Abi>(
    mpi: &Mpi<A>,
    comm: Comm<A>,
    reach: Reach,
    team: impl FnOnce() -> Result<Team, String>,
) -> Chosen {
    let is_first = mpi.rank(comm) == 0;
    let warn_of_all = |problem: &str| {
        tracing::warn!(
            "barriers are svmio's usual ones, and nothing that is set of components holds: {problem}"
        );
    };
    let team = team();
    if let Err(problem) = &team {
        warn_of_all(problem);
    }
    let Some(team) = agreed(mpi, comm, team.ok()) else { return Chosen::default() };
    let usual = Components::standard();
    let components = wanted().ok().flatten().unwrap_or(&usual);
    let selected = components.select_for(&team, Functions::only(Function::Barrier));
    match &selected {
        Ok(_) => {}
        // These two are the same for all.
        Err(error @ Error::Unavailable { .. }) => {
            if is_first {
                tracing::warn!("barriers are svmio's usual ones: {error}");
            }
        }
        Err(error @ Error::Disagreement { .. }) => {
            if is_first {
                warn_of_all(&error.to_string());
            }
        }
        Err(error) => warn_of_all(&error.to_string()),
    }
    // Only who got as far as to what can be had knows that all are set alike.
    let is_alike = matches!(selected, Ok(_) | Err(Error::Unavailable { .. }));
    if agreed(mpi, comm, is_alike.then_some(())).is_none() {
        return Chosen::default();
    }
    let own = own_component(reach);
    let name = selected.as_ref().map_or(own, |collectives| collectives.chosen(Function::Barrier));
    if is_first {
        tracing::info!("barriers of a communicator of {} by the component {name}", team.size());
        tell_of_others(components, own);
        if reach == Reach::Network {
            tracing::info!(
                "between nodes of {} processes: {:?}",
                team.size(),
                components.network_settings().choices
            );
        }
    }
    let barrier = selected.ok().filter(|_| name != own).map(Barrier);
    Chosen { barrier, within: components.group_settings(), between: components.network_settings() }
}

/// The component that does what a group does by itself.
fn own_component(reach: Reach) -> &'static str {
    match reach {
        Reach::Memory => "shared",
        Reach::Network => "network",
    }
}

/// Groups do all but barriers by themselves.
fn tell_of_others(components: &Components, own: &str) {
    let others =
        components.requested().filter(|&(function, name)| function != Function::Barrier && name != own);
    for (function, name) in others {
        tracing::warn!(
            "{function}={name} of SVMIO_COMPONENTS has no effect on MPI programs, for which it chooses barriers only; \
             SVMIO_COLLECTIVES_OFF={function} leaves {function} to MPI"
        );
    }
}
