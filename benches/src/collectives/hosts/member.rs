//! A process on one of the hosts.

use std::fs;

use serde::{Deserialize, Serialize};
use svmio_collectives::Schedule;
use svmio_collectives::executor::{Barrier, Fabrics, Machine};
use svmio_collectives::profile::{Profile, SurveySettings, survey};
use svmio_transport::job::Job;
use svmio_transport::message::Port;
use svmio_transport::{Rank, SegmentId};

/// The first argument of such a process.
pub const WORD: &str = "member-on-host";

/// The space of the segments.
const SPACE: u32 = 0x686f_7374;

/// What the processes do.
#[derive(Debug, Serialize, Deserialize)]
pub enum Plan {
    /// They measure a profile.
    Profile,
    /// They run each barrier so often.
    Barriers {
        /// Which.
        schedules: Vec<Schedule>,
        /// How often.
        count: u32,
    },
    /// They do collectives by each algorithm.
    Data {
        /// How often each.
        count: u32,
    },
}

/// Does what the plan in the file says that the argument behind [`WORD`] names. The first process writes what came of
/// it.
///
/// # Panics
/// Where something fails.
pub fn run(arguments: &[String]) {
    let path = arguments.first().expect("the plan is given");
    let text = fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let plan: Plan = serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    let job = Job::from_environment().unwrap_or_else(|error| panic!("joining the job: {error}"));
    let fabrics = Fabrics::join(job.fabric(), SegmentId::new(SPACE, 0));
    let fabrics = fabrics.unwrap_or_else(|error| panic!("joining the node: {error}"));
    match plan {
        Plan::Profile => {
            if let Some(profile) = profiled(&fabrics) {
                println!("{}", serde_json::to_string(&profile).expect("a profile can be written as JSON"));
            }
        }
        Plan::Barriers { schedules, count } => {
            let seconds = timed(&fabrics, &schedules, count);
            if job.rank() == Rank(0) {
                println!("{}", serde_json::to_string(&seconds).expect("numbers can be written as JSON"));
            }
        }
        Plan::Data { count } => {
            let run = super::data::measured(&fabrics, SPACE + 1, count);
            if job.rank() == Rank(0) {
                println!("{}", serde_json::to_string(&run).expect("numbers can be written as JSON"));
            }
        }
    }
    drop(fabrics);
    job.finish().unwrap_or_else(|error| panic!("finishing the job: {error}"));
}

fn profiled(fabrics: &Fabrics) -> Option<Profile> {
    let settings = SurveySettings::default();
    let machine = Machine::join_across(fabrics, Port::FIRST, SegmentId::new(SPACE, 1), &settings);
    let machine = machine.unwrap_or_else(|error| panic!("joining to measure: {error}"));
    let measured = machine.measured_by(|machine| survey(machine, &settings));
    measured.unwrap_or_else(|error| panic!("measuring: {error}"))
}

fn timed(fabrics: &Fabrics, schedules: &[Schedule], count: u32) -> Vec<f64> {
    let members: Vec<Rank> = fabrics.job().membership().ranks().collect();
    let mut barriers: Vec<Barrier> = Vec::new();
    for (number, schedule) in (2..).zip(schedules) {
        let barrier = Barrier::join_across(fabrics, &members, SegmentId::new(SPACE, number), schedule);
        barriers.push(barrier.unwrap_or_else(|error| panic!("joining a barrier: {error}")));
    }
    let mut seconds = Vec::new();
    for barrier in &mut barriers {
        hold(barrier, count / 10 + 1);
        let begun = std::time::Instant::now();
        hold(barrier, count);
        seconds.push(begun.elapsed().as_secs_f64() / f64::from(count));
    }
    seconds
}

fn hold(barrier: &mut Barrier, count: u32) {
    for _ in 0..count {
        barrier.wait().unwrap_or_else(|error| panic!("a barrier: {error}"));
    }
}
