//! The component of several nodes: all functions, through the memory of each node and by messages between nodes.

use std::ops::Range;
use std::sync::OnceLock;

use svmio_transport::Fabric;

use super::basic::Basic;
use super::component::{Component, Parameter, Wish};
use super::error::Result;
use super::function::{Functions, for_each_function};
use super::module::Module;
use super::team::Team;
use crate::executor::network::MessageCosts;
use crate::executor::{GroupSettings, NetworkSettings, Operation, TwoLevelGroup};

const PRIORITY: u32 = 35;

/// The first of the segments that the group takes.
const SEGMENT: u32 = 4;

/// Collectives of two levels.
#[derive(Debug, Default)]
pub(super) struct Network {
    settings: NetworkSettings,
    /// What messages cost, as its first group has measured it: later ones are between the same nodes, most of them.
    costs: OnceLock<MessageCosts>,
}

impl Network {
    /// How it sets up its groups.
    pub(super) fn settings(&self) -> &NetworkSettings {
        &self.settings
    }
}

const PARAMETERS: [Parameter; 9] = [
    shared("segment", "bytes of a segment of what is pipelined: 32768"),
    shared("bcast", "auto, or binomial, pipelined or scatter-allgather, whatever it costs: auto"),
    shared("gather", "auto, or binomial or linear: auto"),
    shared("scatter", "auto, or binomial or linear: auto"),
    shared("allgather", "auto, or bruck or ring: auto"),
    shared("alltoall", "auto, or bruck or pairwise: auto"),
    shared("reduce", "auto, or binomial or rabenseifner: auto"),
    shared("allreduce", "auto, or recursive-doubling, rabenseifner or ring: auto"),
    shared("reduce_scatter", "auto, or allreduce or pairwise: auto"),
];

/// What all members of a group go by.
const fn shared(name: &'static str, meaning: &'static str) -> Parameter {
    Parameter { name, meaning, is_local: false }
}

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

    fn parameters(&self) -> &'static [Parameter] {
        &PARAMETERS
    }

    fn set(&mut self, parameter: &str, value: &str) -> Result<(), String> {
        if parameter != "segment" {
            return self.settings.choices.choose(parameter, value);
        }
        let bytes = value.parse().ok().filter(|&bytes| bytes > 0);
        self.settings.segment = bytes.ok_or_else(|| format!("{value:?} is no number of bytes, from 1 on"))?;
        Ok(())
    }

    fn availability(&self, _here: &Fabric) -> Result<(), String> {
        Ok(())
    }

    fn query(&self, _team: &Team) -> Result<Wish, String> {
        Ok(Wish::of_priority(PRIORITY))
    }

    fn join(&self, team: &Team, _basic: &mut Basic, _proposal: u64) -> Result<Box<dyn Module>> {
        let (members, id) = (team.members(), team.segment(SEGMENT));
        let (within, between) = (GroupSettings::default(), self.settings.clone());
        let mut group = TwoLevelGroup::join(team.fabrics(), team.messenger(), members, id, within, between)?;
        if let Some(costs) = group.learn_costs(self.costs.get().copied())? {
            self.costs.get_or_init(|| costs);
        }
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
