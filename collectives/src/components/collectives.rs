//! A group's collectives, as they were chosen.

use std::ops::Range;

use super::error::Result;
use super::function::{Function, for_each_function};
use super::module::Module;
use super::selection::Standing;
use crate::executor::Operation;

/// The collective functions of a group, each by the component that was chosen for it.
///
/// All members call the same functions in the same order. A call costs a look into a table and an indirect call more
/// than calling the component itself. After an error of a module the group is of no more use.
#[derive(Debug)]
pub struct Collectives {
    modules: Vec<Box<dyn Module>>,
    /// By function: which module.
    table: [u8; Function::ALL.len()],
    /// By function: which component.
    chosen: [&'static str; Function::ALL.len()],
    standings: Vec<(&'static str, Standing)>,
}

impl Collectives {
    /// Those of `modules`, of which function `f` takes number `table[f]`.
    pub(super) fn new(
        modules: Vec<Box<dyn Module>>,
        table: [u8; Function::ALL.len()],
        chosen: [&'static str; Function::ALL.len()],
        standings: Vec<(&'static str, Standing)>,
    ) -> Self {
        Self { modules, table, chosen, standings }
    }

    /// The name of the component that carries out a function.
    #[must_use]
    pub fn chosen(&self, function: Function) -> &'static str {
        self.chosen[function as usize]
    }

    /// All components, and where each stands: the same at all members.
    #[must_use]
    pub fn standings(&self) -> &[(&'static str, Standing)] {
        &self.standings
    }

    /// Has `meanwhile` called again and again while this member waits for others: what a host library has to go on
    /// with, without which the others might never come.
    pub fn do_meanwhile(&mut self, meanwhile: fn()) {
        self.modules.iter_mut().for_each(|module| module.do_meanwhile(meanwhile));
    }

    /// Does none of the functions any more, for this `reason`: who waits for this member ends with an error. Not for a
    /// lost member, of whom all hear by themselves.
    pub fn withdraw(&mut self, reason: &str) {
        self.modules.iter_mut().for_each(|module| module.withdraw(reason));
    }

    #[inline]
    fn module(&mut self, function: Function) -> &mut dyn Module {
        &mut *self.modules[usize::from(self.table[function as usize])]
    }
}

macro_rules! dispatch {
    ($($(#[$doc:meta])* $variant:ident fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        impl Collectives {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// Arguments that do not fit together; the device's or the fabric's, for a lost member.
                #[inline]
                pub fn $name(&mut self, $($argument: $type),*) -> Result<()> {
                    self.module(Function::$variant).$name($($argument),*)
                }
            )*
        }
    };
}

for_each_function!(dispatch);
