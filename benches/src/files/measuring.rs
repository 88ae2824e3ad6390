//! Running a workload for all keepers in turn.

use std::time::Duration;

use svmio_tests::{Files, Job, Program};

use super::keeper::Keeper;
use super::outcome::{Counting, Outcome, Run};
use super::place::Place;
use super::workload::Workload;
use crate::interleaved::in_turn;
use crate::phase;
use crate::told::Told;

/// So long a run may take, and so much longer as it moves bytes: as many in a second as a slow disk does.
const LIMIT: Duration = Duration::from_secs(600);
const PACE: u64 = 100_000_000;

/// Bytes of memory that are touched before a run: what files and buffers take.
const WARM: usize = 2 << 30;

/// How workloads are measured.
pub struct Measuring<'p> {
    /// [`program`](crate::told::program) for each MPI.
    pub programs: &'p [Program],
    /// How often for each keeper.
    pub repetitions: usize,
    /// Whether memory is touched before each run. It takes longer than a short run does.
    pub warms_memory: bool,
    /// What of the runs counts.
    pub counting: Counting,
}

/// Measures a workload for each keeper.
///
/// # Panics
/// Where a job cannot be started, or does not end.
pub fn measure(place: &Place, workload: &Workload, how: &Measuring<'_>) -> Outcome {
    let keepers = Keeper::of(workload);
    let mut copying = Vec::new();
    let runs = in_turn(how.repetitions, keepers.len(), |side| {
        if side == 0 {
            copying.push(copied_by(workload.ranks));
        }
        let keeper = &keepers[side];
        let program = how.programs.iter().find(|program| program.mpi == keeper.mpi);
        if how.warms_memory {
            phase::warm_memory(WARM);
        }
        run(place, program.expect("a program for each MPI"), workload, keeper)
    });
    let runs = keepers.into_iter().zip(runs).collect();
    Outcome { counting: how.counting, ..Outcome::new(place.kind(), workload.clone(), runs, copying) }
}

/// MB/s that so many ranks copy, on the cores there are.
fn copied_by(ranks: u32) -> f64 {
    phase::copy_gb_per_s(cores().min(ranks as usize)) * 1e3
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn run(place: &Place, program: &Program, workload: &Workload, keeper: &Keeper) -> Run {
    let ground = place.ground();
    let (name, files) = match keeper.stock {
        None => ("svm:/file".to_owned(), Files::Svmio),
        Some(stock) => (format!("{}{}", stock.prefix, ground.file("file").display()), Files::Stock),
    };
    let limit = LIMIT + Duration::from_secs(workload.moved / PACE);
    let mut job = Job::new(ground.scratch(), program, workload.ranks).files(files).limit(limit);
    job = job.argument(workload.program).argument(name);
    for argument in &workload.arguments {
        job = job.argument(argument);
    }
    if let Some(wish) = place.large_pages().filter(|_| keeper.is_svmio()) {
        job = job.variable("SVMIO_LARGE_PAGES", wish);
    }
    if let Some(component) = keeper.stock.and_then(|stock| stock.component) {
        job = job.variable("OMPI_MCA_io", component);
        if workload.ranks as usize > cores() {
            // As `svmio run` has it.
            job = job.variable("OMPI_MCA_mpi_yield_when_idle", "1");
        }
    }
    let finished = job.run();
    if !finished.status.success() {
        return Run::failed(workload, finished.account());
    }
    Run::told(workload, &Told::parse(workload.title.clone(), &finished.output))
}
