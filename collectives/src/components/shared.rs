//! The component of shared memory: all functions, by the engine of collectives between processes of a machine.

use std::ops::Range;

use svmio_transport::{Atomics, Fabric};

use super::basic::Basic;
use super::component::{Component, Parameter, Wish};
use super::error::Result;
use super::function::{Functions, for_each_function};
use super::module::Module;
use super::team::Team;
use crate::executor::{Group, GroupSettings, Operation};

const PRIORITY: u32 = 40;

/// The segment that the group takes.
const SEGMENT: u32 = 0;

/// Collectives through shared memory.
#[derive(Debug, Default)]
pub(super) struct Shared {
    settings: GroupSettings,
}

impl Shared {
    /// How it sets up its groups.
    pub(super) fn settings(&self) -> GroupSettings {
        self.settings
    }
}

impl Component for Shared {
    fn name(&self) -> &'static str {
        "shared"
    }

    fn purpose(&self) -> &'static str {
        "through memory that all members map: one machine"
    }

    fn functions(&self) -> Functions {
        Functions::ALL
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[
            Parameter {
                name: "slot",
                meaning: "bytes of a slot, 16 per member, 40 of two: 65536",
                is_local: false,
            },
            Parameter {
                name: "direct",
                meaning: "bytes from which on private memory is copied from: 262144",
                is_local: false,
            },
            Parameter {
                name: "reduced_alone",
                meaning: "bytes of all members together that each reduces by itself: 8192",
                is_local: false,
            },
        ]
    }

    fn set(&mut self, parameter: &str, value: &str) -> Result<(), String> {
        let bytes = value.parse().map_err(|_| format!("{value:?} is no number of bytes"))?;
        match parameter {
            "slot" => self.settings.slot = bytes,
            "direct" => self.settings.direct = bytes,
            _ => self.settings.reduced_alone = bytes,
        }
        Ok(())
    }

    fn availability(&self, here: &Fabric) -> Result<(), String> {
        let capabilities = here.capabilities();
        if capabilities.direct_mapping && capabilities.atomics == Atomics::Processor {
            return Ok(());
        }
        Err(format!("the fabric {} maps no memory of other processes", capabilities.back_end))
    }

    fn query(&self, _team: &Team) -> Result<Wish, String> {
        Ok(Wish::of_priority(PRIORITY))
    }

    fn join(&self, team: &Team, _basic: &mut Basic, _proposal: u64) -> Result<Box<dyn Module>> {
        let group = Group::join(team.fabric(), team.members(), team.segment(SEGMENT), self.settings)?;
        Ok(Box::new(group))
    }
}

macro_rules! forward {
    ($($(#[$doc:meta])* $variant:ident fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        impl Module for Group {
            fn do_meanwhile(&mut self, meanwhile: fn()) {
                Group::do_meanwhile(self, meanwhile);
            }

            fn withdraw(&mut self, reason: &str) {
                Group::withdraw(self, reason);
            }

            $(
                #[inline]
                fn $name(&mut self, $($argument: $type),*) -> Result<()> {
                    Ok(Group::$name(self, $($argument),*)?)
                }
            )*
        }
    };
}

for_each_function!(forward);
