//! The collectives of one unmodified MPI program, `programs/collectives`: each MPI's own, and svmio's in their place,
//! by preload and by the component of Open MPI's `coll` framework.

pub mod report;

use std::time::Duration;

use svmio_tests::collectives::counted;
use svmio_tests::{Job, Mpi, Program, Scratch};

use super::{Busy, Conditions, programs, stock};
use crate::told::Told;

/// So long a run may take: several times what the slowest takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Who does the program's collectives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doer {
    /// The MPI itself.
    Stock,
    /// svmio, by the preloaded library.
    Preload,
    /// svmio, by the component of Open MPI.
    Component,
}

/// An MPI, and who does its collectives.
#[derive(Debug, Clone)]
pub struct Contender {
    program: Program,
    /// Who does them.
    pub doer: Doer,
}

impl Contender {
    /// Every MPI with its own, then each with svmio's by every adapter that serves it.
    pub fn all() -> Vec<Contender> {
        let with = |doer| programs().map(move |program| Contender { program, doer });
        let preload = with(Doer::Preload).flat_map(|contender| {
            let mpi = contender.program.mpi;
            let component = Contender { doer: Doer::Component, ..contender.clone() };
            // Side by side, as they are compared with each other. The component is made for Open MPI 4.1.
            std::iter::once(contender).chain((mpi == Mpi::DebianOpenMpi).then_some(component))
        });
        with(Doer::Stock).chain(preload).collect()
    }

    /// The MPI.
    pub fn mpi(&self) -> Mpi {
        self.program.mpi
    }

    /// Its name in tables.
    pub fn name(&self) -> String {
        match self.doer {
            Doer::Stock => self.mpi().to_string(),
            Doer::Preload => format!("svmio, preload, {}", self.mpi()),
            Doer::Component => format!("svmio, component, {}", self.mpi()),
        }
    }

    /// One run. A job that does not end in time is ended.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn run(&self, names: &[&str], ranks: u32, milliseconds: u32, conditions: Conditions) -> Run {
        let _busy = conditions.is_busy.then(Busy::start);
        let scratch = Scratch::new();
        let mut job = self.job(&scratch, ranks).limit(LIMIT).argument(milliseconds.to_string());
        if conditions.has_sessions {
            job = job.argument("sessions");
        }
        let job = names.iter().fold(job, |job, name| job.argument(name));
        let finished = match job.start().wait_or_end() {
            Ok(finished) if finished.status.success() => finished,
            Ok(finished) => return Run::failed(names, finished.account()),
            Err(finished) => {
                return Run::failed(names, format!("not over in {LIMIT:?}: {}", finished.account()));
            }
        };
        let told = Told::parse(format!("{} with {ranks} ranks", self.name()), &finished.output);
        let left = names.iter().find_map(|name| self.left(name, &told, &finished.output));
        match left {
            Some(fault) => Run::failed(names, fault),
            None => Run { seconds: names.iter().map(|name| told.get(name)).collect(), fault: None },
        }
    }

    fn job<'s>(&self, scratch: &'s Scratch, ranks: u32) -> Job<'s> {
        let adapter = match self.doer {
            Doer::Stock => return stock(scratch, &self.program, ranks),
            Doer::Preload => "preload",
            Doer::Component => "component",
        };
        // Counting costs each call a few nanoseconds, and is to svmio's disadvantage.
        Job::new(scratch, &self.program, ranks).collectives(adapter).variable("SVMIO_STATS", "1")
    }

    /// What is wrong where not all of the program's calls were svmio's, and should have been.
    fn left(&self, name: &str, told: &Told, output: &str) -> Option<String> {
        if self.doer == Doer::Stock {
            return None;
        }
        let called = told.get(&format!("{name}.calls")) as u64;
        let (ours, all) = counted(output, name);
        (ours < called).then(|| format!("{}: svmio did {ours} of {all} {name}s, not {called}", told.title()))
    }
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Run {
    /// Seconds of each collective; not a number where it failed.
    pub seconds: Vec<f64>,
    /// What went wrong.
    pub fault: Option<String>,
}

impl Run {
    fn failed(names: &[&str], fault: String) -> Run {
        Run { seconds: vec![f64::NAN; names.len()], fault: Some(fault) }
    }
}
