//! Barriers, and other collectives, over hosts: every algorithm of svmio's, the one that is tuned to the hosts, and
//! those of MPIs.
//!
//! ```text
//!   Bed      four hosts with links of 1 Gbit/s, two ranks on each
//!     profile   the processes (member) measure O and L: through shared memory within a host, by `ofi` between hosts
//!     tune      clusters, and a barrier for each: what the tuner composes, beside every algorithm by itself
//!     run       all of them by svmio, each MPI's own, in turn
//!   report   the table, what was predicted, and the plot
//!   data     the other collectives, by every algorithm between hosts and by what svmio takes
//! ```

pub mod data;
pub mod member;
mod plot;
pub mod report;

use std::fs;
use std::net::Ipv4Addr;
use std::time::Duration;

use svmio_collectives::profile::Profile;
use svmio_collectives::{Algorithm, Composition, CostModel, NodesOf, Partition, Schedule, compose};
use svmio_tests::{Files, Hosts, Job, Mpi, Nodes, Program, Rate, Scratch};
use svmio_transport::job::{Launcher, Streams};

use crate::interleaved::in_turn;
use crate::phase::Phase;
use crate::told::Told;
use member::Plan;
use report::Outcome;

/// How many hosts there are.
pub const HOSTS: u32 = 4;
/// How many ranks each has.
pub const PER_HOST: u32 = 2;
/// All ranks.
pub const RANKS: u32 = HOSTS * PER_HOST;
/// The rate of each host's link, each way.
pub const MEGABITS: u32 = 1000;

/// So long a run of an MPI may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A barrier that svmio runs, and what it is predicted to cost.
#[derive(Debug, Clone)]
pub struct Predicted {
    /// How it is called.
    pub name: String,
    /// Whether it does something else within hosts than between them.
    pub is_hybrid: bool,
    /// What is done.
    pub schedule: Schedule,
    /// Seconds.
    pub seconds: f64,
}

/// The hosts. Dropping it ends them.
#[derive(Debug)]
pub struct Bed {
    hosts: Hosts,
    scratch: Scratch,
}

impl Bed {
    /// Makes them.
    ///
    /// # Panics
    /// Where they cannot be made: only root may.
    pub fn new() -> Bed {
        let hosts = Hosts::new(HOSTS as usize);
        for host in 0..hosts.count() {
            hosts.set_rate(host, Rate::Megabits(MEGABITS));
        }
        Bed { hosts, scratch: Scratch::seen_by_hosts() }
    }

    /// What signals cost between the ranks.
    ///
    /// # Panics
    /// Where a process fails.
    pub fn profile(&self) -> Profile {
        let profile: Profile =
            serde_json::from_str(&self.svmio(&Plan::Profile)).expect("the first member writes a profile");
        // The hosts are this one machine's.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        profile.sharing(processors as u32)
    }

    /// Seconds that each of the barriers takes, in one run.
    ///
    /// # Panics
    /// Where a process fails.
    pub fn run(&self, schedules: &[Schedule], count: u32) -> Vec<f64> {
        let plan = Plan::Barriers { schedules: schedules.to_vec(), count };
        serde_json::from_str(&self.svmio(&plan)).expect("the first member writes seconds")
    }

    /// Seconds that an MPI's barrier takes, in one run.
    ///
    /// # Panics
    /// Where it fails.
    pub fn run_mpi(&self, program: &Program, milliseconds: u32) -> f64 {
        let job = Job::new(&self.scratch, program, RANKS).files(Files::Stock).over(Nodes::Hosts(&self.hosts));
        let job = job.limit(LIMIT).argument(milliseconds.to_string()).argument("barrier");
        // Open MPI counts the ranks of each host, and not that all hosts have the same processors.
        let finished = job.variable("OMPI_MCA_mpi_yield_when_idle", "1").run();
        // Debian's MPICH, over several hosts, may fail when all is done.
        let told = Told::parse(finished.account(), &finished.output);
        told.get("barrier")
    }

    /// What the first of svmio's processes writes.
    fn svmio(&self, plan: &Plan) -> String {
        let plan_path = self.scratch.file("plan.json");
        let text = serde_json::to_vec(plan).expect("a plan can be written as JSON");
        fs::write(&plan_path, text).unwrap_or_else(|error| panic!("{}: {error}", plan_path.display()));
        let prefixes: Vec<_> = (0..self.hosts.count()).map(|host| self.hosts.prefix(host)).collect();
        let first: Ipv4Addr = self.hosts.address(0);
        let program = std::env::current_exe().expect("a process has a path to its program");
        let launcher = Launcher::new(program)
            .arguments([member::WORD.into(), plan_path.into_os_string()])
            .size(RANKS)
            .environment("SVMIO_FABRIC", "ofi")
            // Dealt out one by one, as the MPIs' ranks are.
            .prefix(move |rank| prefixes[(rank.0 % HOSTS) as usize].clone())
            // The hosts have a network for themselves: any port is free.
            .master(format!("{first}:7000"))
            .streams(Streams::Piped);
        let running = launcher.spawn().unwrap_or_else(|error| panic!("starting the members: {error}"));
        let outputs = running.output().unwrap_or_else(|error| panic!("reading the members' output: {error}"));
        for (rank, output) in outputs.iter().enumerate() {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "member {rank} ended with {}: {errors}", output.status);
        }
        String::from_utf8_lossy(&outputs[0].stdout).into_owned()
    }
}

/// Measures everything in turn, each side so many times, svmio's barriers each `count` times in a run.
///
/// # Panics
/// Where something fails.
pub fn compare(runs: usize, count: u32, milliseconds: u32) -> Outcome {
    let bed = Bed::new();
    let programs = Mpi::DEBIAN.map(super::program);
    let (barriers, composition) = barriers(&bed.profile());
    let schedules: Vec<Schedule> = barriers.iter().map(|barrier| barrier.schedule.clone()).collect();
    let phase = Phase::now();
    let sides = in_turn(runs, 1 + programs.len(), |side| match side.checked_sub(1) {
        None => bed.run(&schedules, count),
        Some(mpi) => vec![bed.run_mpi(&programs[mpi], milliseconds)],
    });
    let of = |runs: &[Vec<f64>], at: usize| runs.iter().map(|run| run[at]).collect::<Vec<f64>>();
    let seconds = (0..barriers.len()).map(|barrier| of(&sides[0], barrier)).collect();
    let mpis =
        programs.iter().zip(&sides[1..]).map(|(program, runs)| (program.mpi.name(), of(runs, 0))).collect();
    Outcome { barriers, composition, seconds, mpis, phase }
}

impl Default for Bed {
    fn default() -> Self {
        Self::new()
    }
}

/// Every algorithm by itself, also with two levels, the hosts and what is between them, and what is composed of them
/// for the machine of the profile, which comes last.
///
/// # Panics
/// Where the profile is not of all ranks.
pub fn barriers(profile: &Profile) -> (Vec<Predicted>, Composition) {
    let seconds = |schedule: &Schedule| schedule.predict(profile, CostModel::Writes).total * 1e-9;
    let singles = [
        Algorithm::Linear,
        Algorithm::Tree { arity: 2 },
        Algorithm::Tree { arity: 4 },
        Algorithm::Dissemination,
        Algorithm::Hsb { fan_in: 3, fan_out: 3 },
        Algorithm::Exchange { group: 4 },
        Algorithm::NaryDissemination { radix: 4 },
        Algorithm::NaryDissemination { radix: RANKS },
        Algorithm::X1Tree,
    ];
    // As they are dealt out.
    let hosts = Partition::of_nodes((0..RANKS).map(|rank| rank % HOSTS));
    let of_two_levels = [
        Algorithm::Linear,
        Algorithm::Tree { arity: 2 },
        Algorithm::Dissemination,
        Algorithm::NaryDissemination { radix: HOSTS },
        Algorithm::X1Tree,
    ]
    .map(|masters| Algorithm::TwoLevel { nodes: NodesOf::Machine, masters: Box::new(masters) });
    let mut all: Vec<Predicted> = Vec::new();
    for algorithm in singles.into_iter().chain(of_two_levels) {
        let schedule = algorithm.schedule_on(&hosts).expect("every algorithm has a schedule for eight");
        let seconds = seconds(&schedule);
        let is_hybrid = matches!(algorithm, Algorithm::TwoLevel { .. });
        all.push(Predicted { name: algorithm.to_string(), is_hybrid, schedule, seconds });
    }
    let composition = compose(profile).expect("something is composed").expect("there are ranks");
    let (schedule, seconds) = (composition.schedule.clone(), composition.prediction.total * 1e-9);
    all.push(Predicted { name: "tuned hybrid".to_owned(), is_hybrid: true, schedule, seconds });
    (all, composition)
}
