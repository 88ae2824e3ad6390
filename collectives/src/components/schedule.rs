//! The component of schedules: the barrier of any algorithm, over any fabric.

use svmio_transport::Fabric;

use super::basic::Basic;
use super::component::{Component, Parameter, Wish};
use super::error::Result;
use super::function::{Function, Functions};
use super::module::Module;
use super::team::Team;
use crate::algorithm::{Algorithm, NodesOf};
use crate::executor::{self, Barrier};
use crate::partition::Partition;
use crate::schedule::Schedule;

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
        Self { algorithm: everywhere() }
    }
}

/// An algorithm that is good on any machine: nothing crosses the network but one signal per node and step.
pub(super) fn everywhere() -> Algorithm {
    Algorithm::TwoLevel { nodes: NodesOf::Machine, masters: Box::new(Algorithm::Dissemination) }
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
        let (schedule, id) = (schedule_of(&self.algorithm, team)?, team.segment(SEGMENT));
        Ok(Box::new(Barrier::join_across(team.fabrics(), team.members(), id, &schedule)?))
    }
}

/// The schedule of an algorithm for a team, on the nodes that its members are on.
///
/// # Errors
/// Where there is none for so many members.
pub(super) fn schedule_of(algorithm: &Algorithm, team: &Team) -> Result<Schedule> {
    let nodes = Partition::of_nodes((0..team.size()).map(|member| team.node(member)));
    let schedule = algorithm.schedule_on(&nodes);
    Ok(schedule.map_err(|error| executor::Error::Members {
        id: team.segment(SEGMENT),
        problem: format!("{algorithm}: {error}"),
    })?)
}

impl Module for Barrier {
    fn do_meanwhile(&mut self, meanwhile: fn()) {
        Barrier::do_meanwhile(self, meanwhile);
    }

    fn withdraw(&mut self, _reason: &str) {
        self.refuse();
    }

    #[inline]
    fn barrier(&mut self) -> Result<()> {
        Ok(self.wait()?)
    }
}
