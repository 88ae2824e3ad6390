//! Barriers and collectives of processes on one node, and barriers over hosts, by svmio and by MPIs.
//!
//! ```text
//!   Contender ── run ──► svmio: processes of this very program (member), started by svmio's launcher
//!                   ├──► XHC's design: the same (xhc)
//!                   └──► an MPI: programs/collectives
//!   report    the tables, and what is aimed at
//!   adapters  programs/collectives only: an MPI's own collectives, and svmio's in their place by each adapter
//!   hosts     barriers of ranks on several hosts, beside what they are predicted to cost
//! ```

pub mod adapters;
pub mod hosts;
pub mod member;
pub mod report;
mod xhc;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use svmio_tests::{Files, Job, Mpi, Program, Scratch};
use svmio_transport::job::{Launcher, Streams};

use crate::told::Told;

/// What is measured, by the names that the programs know.
pub const NAMES: [&str; 4] = ["barrier", "allreduce", "bcast", "allgather"];

/// Bytes that a member gives to `bcast` and to `allgather`.
pub const LENGTH: usize = 1 << 20;

/// `programs/collectives`, compiled for an MPI.
pub(crate) fn program(mpi: Mpi) -> Program {
    Program::c_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/collectives"), mpi)
}

/// In which state the machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Conditions {
    /// A process computes all the time beside the ranks.
    pub is_busy: bool,
    /// Each rank, svmio's and an MPI's, has a session of its own, so the kernel schedules it in a group of its own.
    pub has_sessions: bool,
}

impl Conditions {
    /// How the command line asks for them, behind other options.
    pub fn options(self) -> &'static str {
        match (self.is_busy, self.has_sessions) {
            (false, false) => "",
            (true, false) => " --busy",
            (false, true) => " --sessions",
            (true, true) => " --busy --sessions",
        }
    }

    /// What a table says of them behind a collective's name.
    pub(crate) fn beside(self) -> &'static str {
        match (self.is_busy, self.has_sessions) {
            (false, false) => "",
            (true, false) => ", beside a busy process",
            (false, true) => ", each in a session of its own",
            (true, true) => ", each in a session of its own, beside a busy process",
        }
    }
}

/// The MPIs to compare with, as [`program`]s: Debian's, and those newest ones that there are.
fn programs() -> impl Iterator<Item = Program> {
    let newest = [(Mpi::WheelMpich, "SVMIO_MPICH5"), (Mpi::WheelOpenMpi, "SVMIO_OPENMPI5")];
    let newest = newest.into_iter().filter(|(_, variable)| std::env::var_os(variable).is_some());
    Mpi::DEBIAN.into_iter().chain(newest.map(|(mpi, _)| mpi)).map(program)
}

/// A job of the MPI's own, its waiting cured where there are more ranks than cores.
fn stock<'s>(scratch: &'s Scratch, program: &Program, ranks: u32) -> Job<'s> {
    let job = Job::new(scratch, program, ranks).files(Files::Stock);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if program.mpi == Mpi::WheelMpich && ranks as usize > cores {
        let job = job.variable("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
        return job.variable("MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "1");
    }
    job
}

/// What XHC's design is called among the contenders.
pub(crate) const XHCS_DESIGN: &str = "XHC's design";

/// Who does it.
#[derive(Debug, Clone)]
pub enum Contender {
    /// svmio's engine.
    Svmio,
    /// What stands for a component of Open MPI that no release has.
    XhcsDesign,
    /// An MPI as it is, its waiting cured where there are more ranks than cores.
    Mpi(Program),
}

impl Contender {
    /// svmio, both of Debian's MPIs, those newest ones that there are, and XHC's design.
    pub fn all() -> Vec<Contender> {
        let mpis = programs().map(Contender::Mpi);
        std::iter::once(Contender::Svmio).chain(mpis).chain([Contender::XhcsDesign]).collect()
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Contender::Svmio => "svmio",
            Contender::XhcsDesign => XHCS_DESIGN,
            Contender::Mpi(program) => program.mpi.name(),
        }
    }

    /// One run: seconds for each of `names`, no number for what it does not have.
    ///
    /// # Panics
    /// Where it fails.
    pub fn run(&self, names: &[&str], ranks: u32, milliseconds: u32, conditions: Conditions) -> Vec<f64> {
        let _busy = conditions.is_busy.then(Busy::start);
        let output = match self {
            Contender::Svmio => members(None, names, ranks, milliseconds, conditions),
            Contender::XhcsDesign => {
                let names: Vec<&str> = names.iter().copied().filter(|name| has_in_design(name)).collect();
                members(Some(member::XHC), &names, ranks, milliseconds, conditions)
            }
            Contender::Mpi(program) => mpi(program, names, ranks, milliseconds, conditions),
        };
        let told = Told::parse(format!("{} with {ranks} ranks", self.name()), &output);
        let is_there = |name: &str| !matches!(self, Contender::XhcsDesign) || has_in_design(name);
        names.iter().map(|name| if is_there(name) { told.get(name) } else { f64::NAN }).collect()
    }
}

/// Whether XHC has that one.
fn has_in_design(name: &str) -> bool {
    name != "allgather"
}

fn members(
    design: Option<&str>,
    names: &[&str],
    ranks: u32,
    milliseconds: u32,
    conditions: Conditions,
) -> String {
    let program = std::env::current_exe().expect("a process has a path to its program");
    let sessions = conditions.has_sessions.then_some(member::SESSIONS);
    let words = [member::WORD.to_owned(), milliseconds.to_string()];
    let options = sessions.into_iter().chain(design);
    let words = words.into_iter().chain(options.chain(names.iter().copied()).map(str::to_owned));
    let launcher = Launcher::new(program).arguments(words).size(ranks).streams(Streams::Piped);
    let running = launcher.spawn().unwrap_or_else(|error| panic!("starting the members: {error}"));
    let outputs = running.output().unwrap_or_else(|error| panic!("reading the members' output: {error}"));
    for (rank, output) in outputs.iter().enumerate() {
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "member {rank} ended with {}: {errors}", output.status);
    }
    String::from_utf8_lossy(&outputs[0].stdout).into_owned()
}

fn mpi(program: &Program, names: &[&str], ranks: u32, milliseconds: u32, conditions: Conditions) -> String {
    let scratch = Scratch::new();
    let mut job = stock(&scratch, program, ranks).argument(milliseconds.to_string());
    if conditions.has_sessions {
        job = job.argument("sessions");
    }
    names.iter().fold(job, |job, name| job.argument(name)).succeed()
}

/// Something that computes as long as the value lives.
struct Busy {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    fn start() -> Busy {
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || {
                // Relaxed: nothing else is told.
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        });
        Busy { is_over, thread: Some(thread) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It cannot fail.
            let _ = thread.join();
        }
    }
}
