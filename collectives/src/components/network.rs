//! The component of several nodes: all functions, through the memory of each node and by messages between nodes.

use std::ops::Range;

use svmio_transport::Fabric;

use super::basic::Basic;
use super::component::{Component, Wish};
use super::error::Result;
use super::function::{Functions, for_each_function};
use super::module::Module;
use super::team::Team;
use crate::executor::{GroupSettings, NetworkSettings, Operation, TwoLevelGroup};

const PRIORITY: u32 = 35;

/// The first of the segments that the group takes.
const SEGMENT: u32 = 4;

/// Collectives of two levels.
#[derive(Debug)]
pub(super) struct Network;

impl Component for Network {
    fn name(&self) -> &'static str {
        "network"
    }

    fn purpose(&self) -> &'static str {
        "through the memory of each node, by messages between nodes: everywhere"
    }

    fn functions(&self) -> Functions {
        Functions::ALL
    }

    fn availability(&self, _here: &Fabric) -> Result<(), String> {
        Ok(())
    }

    fn query(&self, _team: &Team) -> Result<Wish, String> {
        Ok(Wish::of_priority(PRIORITY))
    }

    fn join(&self, team: &Team, _basic: &mut Basic, _proposal: u64) -> Result<Box<dyn Module>> {
        let (members, id) = (team.members(), team.segment(SEGMENT));
        let (within, between) = (GroupSettings::default(), NetworkSettings::default());
        let group = TwoLevelGroup::join(team.fabrics(), team.messenger(), members, id, within, between)?;
        Ok(Box::new(group))
    }
}

macro_rules! forward {
    ($($(#[$doc:meta])* $variant:ident fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        impl Module for TwoLevelGroup {
            fn do_meanwhile(&mut self, meanwhile: fn()) {
                TwoLevelGroup::do_meanwhile(self, meanwhile);
            }

            fn withdraw(&mut self, reason: &str) {
                TwoLevelGroup::withdraw(self, reason);
            }

            $(
                #[inline]
                fn $name(&mut self, $($argument: $type),*) -> Result<()> {
                    Ok(TwoLevelGroup::$name(self, $($argument),*)?)
                }
            )*
        }
    };
}

for_each_function!(forward);
