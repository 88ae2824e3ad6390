//! The component of schedules: the barrier of any algorithm, over any fabric.

use svmio_transport::Fabric;

use super::basic::Basic;
use super::component::{Component, Parameter, Wish};
use super::error::Result;
use super::function::{Function, Functions};
use super::module::Module;
use super::team::Team;
use crate::algorithm::{Algorithm, NodesOf};
use crate::executor::Barrier;
use crate::partition::Partition;

const PRIORITY: u32 = 30;

/// The segment that the barrier takes.
const SEGMENT: u32 = 1;

/// Barriers by schedules.
#[derive(Debug)]
pub(super) struct Schedules {
    algorithm: Algorithm,
}

impl Default for Schedules {
    fn default() -> Self {
        // Good on any machine: nothing crosses the network but one signal per node and step.
        let masters = Box::new(Algorithm::Dissemination);
        Self { algorithm: Algorithm::TwoLevel { nodes: NodesOf::Machine, masters } }
    }
}

impl Component for Schedules {
    fn name(&self) -> &'static str {
        "schedule"
    }

    fn purpose(&self) -> &'static str {
        "a barrier algorithm, by flags that members write at each other"
    }

    fn functions(&self) -> Functions {
        Functions::only(Function::Barrier)
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[Parameter {
            name: "algorithm",
            meaning: "as `svmio barrier` names them: two-level:dissemination",
            is_local: false,
        }]
    }

    fn set(&mut self, _parameter: &str, value: &str) -> Result<(), String> {
        self.algorithm = value.parse().map_err(|error: crate::AlgorithmError| error.to_string())?;
        Ok(())
    }

    fn availability(&self, _here: &Fabric) -> Result<(), String> {
        Ok(())
    }

    fn query(&self, _team: &Team) -> Result<Wish, String> {
        Ok(Wish::of_priority(PRIORITY))
    }

    fn join(&self, team: &Team, _basic: &mut Basic, _proposal: u64) -> Result<Box<dyn Module>> {
        let nodes = Partition::of_nodes((0..team.size()).map(|member| team.node(member)));
        let schedule = self.algorithm.schedule_on(&nodes).map_err(|error| {
            let problem = format!("{}: {error}", self.algorithm);
            crate::executor::Error::Members { id: team.segment(SEGMENT), problem }
        })?;
        let barrier = Barrier::join(team.fabric(), team.members(), team.segment(SEGMENT), &schedule)?;
        Ok(Box::new(barrier))
    }
}

impl Module for Barrier {
    #[inline]
    fn barrier(&mut self) -> Result<()> {
        Ok(self.wait()?)
    }
}
