//! What is asked of a component.

use std::any::Any;
use std::fmt::Debug;

use svmio_transport::Fabric;

use super::basic::Basic;
use super::error::Result;
use super::function::Functions;
use super::module::Module;
use super::team::Team;

/// A component: a way to carry out some of the collective functions. There is one per process.
pub trait Component: Any + Debug + Send + Sync {
    /// What it is called in settings: letters and digits only.
    fn name(&self) -> &'static str;

    /// What it is, in a few words.
    fn purpose(&self) -> &'static str;

    /// Which functions it offers.
    fn functions(&self) -> Functions;

    /// What users can set, besides `priority`, which each component has.
    fn parameters(&self) -> &'static [Parameter] {
        &[]
    }

    /// Sets a parameter, which is one of its own.
    ///
    /// # Errors
    /// What is wrong with the value, and what would be right.
    fn set(&mut self, parameter: &str, value: &str) -> Result<(), String> {
        let _ = (parameter, value);
        Ok(())
    }

    /// Whether it can run in this process.
    ///
    /// # Errors
    /// Why not, and what can be done about it.
    fn availability(&self, here: &Fabric) -> Result<(), String>;

    /// Whether it wants a team, as this member sees it. It is asked only where it is available.
    ///
    /// # Errors
    /// Why not.
    fn query(&self, team: &Team) -> Result<Wish, String>;

    /// Makes the module for a team, where all members want it: all call this. `basic` is for what they have to tell
    /// each other; all do the same with it, also where something fails. `proposal` is what all members' proposals have
    /// in common.
    ///
    /// # Errors
    /// What goes wrong. Where it does at one member, none has the component.
    fn join(&self, team: &Team, basic: &mut Basic, proposal: u64) -> Result<Box<dyn Module>>;
}

/// How much a component wants a team.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// From 0 to 100; users can set another one.
    pub priority: u32,
    /// What the members have to agree on, as bits of which any will do: those that all members propose are what is
    /// agreed. Where there are none, the component is not taken.
    pub proposal: u64,
}

impl Wish {
    /// One with nothing to agree on.
    #[must_use]
    pub const fn of_priority(priority: u32) -> Self {
        Self { priority, proposal: u64::MAX }
    }
}

/// Something that users can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// What it is called.
    pub name: &'static str,
    /// What it means, and its default.
    pub meaning: &'static str,
    /// Whether it may differ between the members of a group.
    pub is_local: bool,
}
