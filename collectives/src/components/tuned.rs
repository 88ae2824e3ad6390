//! The component of tuned barriers: the best schedule for these members on this machine, measured in use and changed
//! for another where that pays.

use svmio_transport::Fabric;

use super::basic::Basic;
use super::component::{Component, Parameter, Wish};
use super::error::Result;
use super::function::{Function, Functions};
use super::module::Module;
use super::schedule::{everywhere, schedule_of};
use super::team::{SEGMENTS, Team};
use crate::executor::{RetuningSettings, TunedBarrier, Tuning};

/// Below that of the component of schedules: joining takes a survey of the machine, so it is for who wants it.
const PRIORITY: u32 = 15;

/// The first of the segments that the barrier takes.
const SEGMENT: u32 = 1024;

const _: () = assert!(SEGMENT + TunedBarrier::SEGMENTS <= SEGMENTS, "they are the team's");

/// Barriers that are tuned in use.
#[derive(Debug, Default)]
pub(super) struct Tuned {
    settings: RetuningSettings,
}

impl Component for Tuned {
    fn name(&self) -> &'static str {
        "tuned"
    }

    fn purpose(&self) -> &'static str {
        "the barrier that is the best here, as measured now and in use"
    }

    fn functions(&self) -> Functions {
        Functions::only(Function::Barrier)
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[
            Parameter { name: "every", meaning: "barriers between two measurements: 1024", is_local: false },
            Parameter {
                name: "factor",
                meaning: "by which the cost may differ before it is tuned again: 2",
                is_local: false,
            },
            Parameter {
                name: "share",
                meaning: "of all time that tuning again may take: 0.02",
                is_local: false,
            },
        ]
    }

    fn set(&mut self, parameter: &str, value: &str) -> Result<(), String> {
        let is_number = match parameter {
            "every" => value.parse().map(|every| self.settings.every = every).is_ok(),
            "factor" => value.parse().map(|factor| self.settings.factor = factor).is_ok(),
            _ => value.parse().map(|share| self.settings.share = share).is_ok(),
        };
        match self.settings.problem() {
            _ if !is_number => Err(format!("{value:?} is no number")),
            Some(problem) => Err(problem.to_owned()),
            None => Ok(()),
        }
    }

    fn availability(&self, _here: &Fabric) -> Result<(), String> {
        Ok(())
    }

    fn query(&self, _team: &Team) -> Result<Wish, String> {
        Ok(Wish::of_priority(PRIORITY))
    }

    fn join(&self, team: &Team, _basic: &mut Basic, _proposal: u64) -> Result<Box<dyn Module>> {
        let schedule = schedule_of(&everywhere(), team)?;
        // Nothing is predicted: the survey that follows tells what it costs.
        let tuning = Tuning { schedule, predicted: 0.0, settings: self.settings.clone() };
        let first = team.segment(SEGMENT);
        let mut barrier = TunedBarrier::join(team.fabrics(), team.members(), first, tuning)?;
        barrier.retune()?;
        Ok(Box::new(barrier))
    }
}

impl Module for TunedBarrier {
    fn do_meanwhile(&mut self, meanwhile: fn()) {
        TunedBarrier::do_meanwhile(self, meanwhile);
    }

    fn withdraw(&mut self, _reason: &str) {
        self.refuse();
    }

    #[inline]
    fn barrier(&mut self) -> Result<()> {
        Ok(self.wait()?)
    }
}
