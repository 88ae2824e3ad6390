//! Components: who carries out the collective functions of a group.
//!
//! ```text
//!   Components ── configure("barrier=hardware …")                 what the user wants              (settings)
//!     │ available     which can run here, and why others cannot
//!     ▼
//!   select(Team)      each member asks its components, all agree   standings                       (selection)
//!     │               the best for each function; what it lacks falls to the next, in the end to basic
//!     ▼
//!   Collectives       a table: function ─► Module                  one indirect call               (collectives)
//!     ├── hardware    the barrier of a controller with a line out and a line in per node
//!     ├── shared      everything, through shared memory: `executor::Group`
//!     ├── network     everything, through the memory of each node and by messages between nodes: `TwoLevelGroup`
//!     ├── schedule    the barrier of any algorithm: `executor::Barrier`
//!     ├── tuned       the barrier that is measured to be the best, in use, too: `executor::TunedBarrier`
//!     └── basic       everything, linear, by messages: what there is always
//! ```
//!
//! As in Open MPI's framework of collectives (J. M. Squyres and A. Lumsdaine, "The Component Architecture of Open MPI:
//! Enabling Third-Party Collective Algorithms"; T. Hoefler and others, "Implementing a Hardware-Based Barrier in Open
//! MPI", section 3). A [`Component`] is asked whether it can run in this process, then whether it wants a group and
//! with which priority. What it makes for the group, a [`Module`], offers some functions. Beyond that framework, a
//! group's members agree: a component takes part where all members have it, with the least priority that any of them
//! gives it.
//!
//! ```
//! use std::sync::Arc;
//! use svmio_collectives::components::{Components, Function, Team};
//! use svmio_transport::message::{MessageSettings, Messenger, Port};
//! use svmio_transport::{Rank, SegmentId, shm};
//!
//! // One process of a job; programs have theirs from `job::Job`.
//! let [fabric] = &shm::within_process(1)[..] else { unreachable!() };
//! let messenger = Arc::new(Messenger::open(fabric, Port::FIRST, &MessageSettings::default())?);
//! let team = Team::new(fabric, &[Rank(0)], SegmentId::new(7, 0), messenger)?;
//!
//! let mut components = Components::standard();
//! components.configure("barrier=schedule schedule.algorithm=tree:4")?;
//! let mut collectives = components.select(&team)?;
//! assert_eq!(collectives.chosen(Function::Barrier), "schedule");
//! assert_eq!(collectives.chosen(Function::Bcast), "shared");
//! collectives.barrier()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod basic;
mod collectives;
mod component;
mod error;
mod function;
mod hardware;
mod module;
mod network;
mod notice;
mod schedule;
mod selection;
mod settings;
mod shared;
mod team;
mod tuned;

use std::any::Any;
use std::collections::BTreeMap;

use svmio_transport::Fabric;

use crate::executor::{GroupSettings, NetworkSettings};

pub use basic::Basic;
pub use collectives::Collectives;
pub use component::{Component, Parameter, Wish};
pub use error::{Error, Result};
pub use function::{Function, Functions};
pub use module::Module;
pub use selection::Standing;
pub use settings::{VARIABLE, is_variable};
pub use team::Team;

/// The largest priority.
const HIGHEST_PRIORITY: u32 = 100;

/// The components that a process knows, as its user wants them.
#[derive(Debug)]
pub struct Components {
    entries: Vec<Entry>,
    /// Which component, by number, the user wants for a function.
    requested: BTreeMap<Function, usize>,
}

#[derive(Debug)]
struct Entry {
    component: Box<dyn Component>,
    /// The user's.
    priority: Option<u32>,
    is_excluded: bool,
    /// What the user has set, by parameter.
    assigned: BTreeMap<&'static str, String>,
}

/// What there is to tell of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Available {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub purpose: &'static str,
    /// What it offers.
    pub functions: Functions,
    /// What can be set.
    pub parameters: &'static [Parameter],
    /// Why it cannot run in this process; none where it can.
    pub obstacle: Option<String>,
}

impl Components {
    /// All that svmio has, the first of equal priority first.
    #[must_use]
    pub fn standard() -> Self {
        let mut components = Self { entries: Vec::new(), requested: BTreeMap::new() };
        components.add(Box::new(hardware::Hardware::default()));
        components.add(Box::new(shared::Shared::default()));
        components.add(Box::new(network::Network::default()));
        components.add(Box::new(schedule::Schedules::default()));
        components.add(Box::new(tuned::Tuned::default()));
        components.add(Box::new(basic::Linear));
        components
    }

    /// Adds one, with a name that no other has. All members of a group add the same ones in the same order.
    pub fn add(&mut self, component: Box<dyn Component>) {
        self.entries.push(Entry { component, priority: None, is_excluded: false, assigned: BTreeMap::new() });
    }

    /// Which there are, and which of them can run in this process.
    #[must_use]
    pub fn available(&self, here: &Fabric) -> Vec<Available> {
        let describe = |entry: &Entry| Available {
            name: entry.component.name(),
            purpose: entry.component.purpose(),
            functions: entry.component.functions(),
            parameters: entry.component.parameters(),
            obstacle: entry.obstacle(here),
        };
        self.entries.iter().map(describe).collect()
    }

    /// Chooses for a team, once for each. All members call this, with the same settings, and all choose alike.
    ///
    /// # Errors
    /// The same for all members: [`Error::Disagreement`] where they are set differently, [`Error::Unavailable`] where
    /// the user wants a component that cannot be had. The fabric's.
    pub fn select(&self, team: &Team) -> Result<Collectives> {
        self.select_for(team, Functions::ALL)
    }

    /// The same for these functions only; the others are basic.
    ///
    /// # Errors
    /// As [`select`](Self::select), of these functions.
    pub fn select_for(&self, team: &Team, functions: Functions) -> Result<Collectives> {
        selection::select(&self.entries, &self.requested, functions, team)
    }

    /// What the user wants for which function.
    pub fn requested(&self) -> impl Iterator<Item = (Function, &'static str)> {
        self.requested.iter().map(|(&function, &number)| (function, self.entries[number].component.name()))
    }

    /// How the component of shared memory sets up its groups, for who makes some without it.
    #[must_use]
    pub fn group_settings(&self) -> GroupSettings {
        self.standard_one::<shared::Shared>().map_or_else(GroupSettings::default, shared::Shared::settings)
    }

    /// How the component of several nodes sets up its groups, likewise. It learns what messages cost by them.
    #[must_use]
    pub fn network_settings(&self) -> NetworkSettings {
        self.standard_one::<network::Network>().map(network::Network::settings).cloned().unwrap_or_default()
    }

    fn standard_one<C: Component>(&self) -> Option<&C> {
        let mut components = self.entries.iter().map(|entry| &*entry.component as &dyn Any);
        components.find_map(|component| component.downcast_ref())
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.component.name() == name)
    }

    fn names(&self) -> Vec<&'static str> {
        self.entries.iter().map(|entry| entry.component.name()).collect()
    }
}

impl Entry {
    /// Why it cannot run in this process.
    fn obstacle(&self, here: &Fabric) -> Option<String> {
        if self.is_excluded {
            return Some(String::from("the user excludes it"));
        }
        self.component.availability(here).err()
    }
}
