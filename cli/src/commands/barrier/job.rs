//! What the processes of a job measure: the same for all of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use svmio_collectives::executor::{Barrier, Fabrics, Machine};
use svmio_collectives::profile::{
    LookAlike, Measure, Profile, SurveyError, SurveySettings, survey, survey_nodes,
};
use svmio_collectives::simulation::{SimulatedMachine, Simulation};
use svmio_collectives::{Partition, Schedule};
use svmio_transport::job::Job;
use svmio_transport::message::Port;
use svmio_transport::sim::Model;
use svmio_transport::{Fabric, Rank, SegmentId};

use super::place::Place;
use crate::commands::Outcome;
use crate::commands::bench::processes::{Start, misunderstanding, report, reported};
use crate::commands::error::CommandError;

/// The space of the segments that are measured with.
const SPACE: u32 = 0x6261_7272;

/// The segments by which the processes of a node come to share memory.
const NODES: SegmentId = SegmentId::new(SPACE + 1, 0);

/// The arguments of a process of the job.
#[derive(Debug, Args)]
pub(crate) struct ProcessArguments {
    /// What to do: a file of JSON.
    plan: PathBuf,
    /// Where the first process writes what was measured, as JSON.
    report: PathBuf,
}

/// What each process does.
#[derive(Debug, Serialize, Deserialize)]
enum Plan {
    /// Measures a profile.
    Profile(ProfilePlan),
    /// Runs barriers.
    Bench(BenchPlan),
}

/// How a profile is measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ProfilePlan {
    pub(super) settings: SurveySettings,
    /// How many consecutive ranks are a node, if what looks alike is measured once.
    pub(super) alike_per_node: Option<u32>,
}

/// Which barriers are run, and how often.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct BenchPlan {
    pub(super) schedules: Vec<Schedule>,
    pub(super) repeat: u32,
    /// How many barriers there are in one measurement.
    pub(super) count: u32,
}

/// What came of a barrier that was run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Benched {
    /// What it took, one number for each repetition.
    pub(super) seconds: Vec<f64>,
    /// Whether steps of kind fetch-add were done by counting, if it has any, and not as signals.
    pub(super) counts: bool,
}

/// The profile of so many ranks.
///
/// # Errors
/// Where there is no such fabric, a process fails, or what is measured makes no profile.
pub(super) fn profiled(
    place: Place<'_>,
    nodes: Partition,
    plan: ProfilePlan,
) -> Result<Profile, CommandError> {
    match place {
        Place::Job(start) => carried_out(start, &Plan::Profile(plan)),
        Place::Simulated(model) => {
            let simulation = simulation(model, nodes)?;
            surveyed(&mut SimulatedMachine::new(&simulation), &plan).map_err(no_profile)
        }
    }
}

/// What came of each barrier.
///
/// # Errors
/// Where there is no such fabric, or a process fails.
pub(super) fn benched(
    place: Place<'_>,
    nodes: Partition,
    plan: BenchPlan,
) -> Result<Vec<Benched>, CommandError> {
    match place {
        Place::Job(start) => carried_out(start, &Plan::Bench(plan)),
        Place::Simulated(model) => {
            let simulation = simulation(model, nodes)?;
            let benched = |schedule: &Schedule| Benched {
                seconds: vec![simulation.run(schedule).total.as_secs_f64()],
                counts: true,
            };
            Ok(plan.schedules.iter().map(benched).collect())
        }
    }
}

fn simulation(model: &str, nodes: Partition) -> Result<Simulation, CommandError> {
    let model = Model::find(model)?;
    model.check_nodes(nodes.nodes().len() as u32)?;
    Ok(Simulation::new(model, nodes))
}

fn carried_out<R: DeserializeOwned>(start: Start, plan: &Plan) -> Result<R, CommandError> {
    reported(start, |report_path| {
        // Schedules of many ranks are longer than arguments can be.
        let plan_path = report_path.with_file_name("plan.json");
        report(plan, &plan_path)?;
        Ok(["barrier".into(), "process".into(), plan_path.into(), report_path.into()].into())
    })
}

/// One process of the job.
///
/// # Errors
/// Where it is none, or something of the plan fails.
pub(super) fn process(arguments: &ProcessArguments) -> Result<Outcome, CommandError> {
    let plan = fs::read(&arguments.plan).map_err(|source| CommandError::Outside {
        action: "reading",
        path: arguments.plan.clone(),
        source,
    })?;
    let plan: Plan = serde_json::from_slice(&plan).map_err(misunderstanding)?;
    let job = Job::from_environment()?;
    match &plan {
        Plan::Profile(plan) => measure_profile(job.fabric(), plan, &arguments.report)?,
        Plan::Bench(plan) => run_barriers(job.fabric(), plan, &arguments.report)?,
    }
    job.finish()?;
    Ok(Outcome::Fine)
}

fn measure_profile(fabric: &Fabric, plan: &ProfilePlan, path: &Path) -> Result<(), CommandError> {
    let fabrics = Fabrics::join(fabric, NODES)?;
    let machine = Machine::join_across(&fabrics, Port::FIRST, SegmentId::new(SPACE, 0), &plan.settings)?;
    let measured = machine.measured_by(|machine| surveyed(machine, plan)).map_err(|error| match error {
        SurveyError::Measure(error) => error.into(),
        other => no_profile(other),
    })?;
    measured.map_or(Ok(()), |profile| report(&profile, path))
}

fn surveyed<M: Measure>(machine: &mut M, plan: &ProfilePlan) -> Result<Profile, SurveyError<M::Error>> {
    let Some(per_node) = plan.alike_per_node else { return survey(machine, &plan.settings) };
    let nodes = Partition::blocks(machine.ranks(), per_node);
    survey_nodes(machine, &nodes, &plan.settings, LookAlike::default())
}

fn no_profile(error: impl std::fmt::Display) -> CommandError {
    CommandError::Survey { problem: error.to_string() }
}

/// Runs all barriers in turn, so that what drifts meets all alike.
fn run_barriers(fabric: &Fabric, plan: &BenchPlan, path: &Path) -> Result<(), CommandError> {
    bind(fabric);
    let members: Vec<Rank> = (0..fabric.size()).map(Rank).collect();
    let fabrics = Fabrics::join(fabric, NODES)?;
    let mut barriers = Vec::new();
    for (number, schedule) in (0..).zip(&plan.schedules) {
        barriers.push(Barrier::join_across(&fabrics, &members, SegmentId::new(SPACE, number), schedule)?);
    }
    let benched = |barrier: &Barrier| Benched { seconds: Vec::new(), counts: barrier.counts() };
    let mut all: Vec<Benched> = barriers.iter().map(benched).collect();
    for _ in 0..plan.repeat {
        for (barrier, benched) in barriers.iter_mut().zip(&mut all) {
            wait(barrier, plan.count / 10 + 1)?;
            let begun = fabric.now();
            wait(barrier, plan.count)?;
            let elapsed: Duration = fabric.now().since(begun);
            benched.seconds.push(elapsed.as_secs_f64() / f64::from(plan.count));
        }
    }
    if fabric.rank() == Rank(0) { report(&all, path) } else { Ok(()) }
}

/// Keeps this process on a core of its own, where each has one: that is what predictions are for.
fn bind(fabric: &Fabric) {
    // Where nobody tells, or it is not allowed, the scheduler's choice has to do.
    let allowed = sched_getaffinity(None).unwrap_or_default();
    if allowed.count() < fabric.size() {
        return;
    }
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    if let Some(core) = cores.nth(fabric.rank().0 as usize) {
        let mut own = CpuSet::new();
        own.set(core);
        let _ = sched_setaffinity(None, &own);
    }
}

fn wait(barrier: &mut Barrier, count: u32) -> Result<(), CommandError> {
    (0..count).try_for_each(|_| Ok(barrier.wait()?))
}
