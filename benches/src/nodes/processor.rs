//! What an open file costs the processors while nobody uses it.

use serde_json::json;
use svmio_tests::Program;

use super::bed::{Bed, Keeper};
use super::measured::{self, Call};
use crate::aims::{Aim, Extent};
use crate::figures::Record;
use crate::interleaved::{REPETITIONS, median};

/// Measures, and prints what was found. Returns what is aimed at.
///
/// # Panics
/// Where a run fails.
pub fn compare(bed: &Bed, program: &Program, extent: Extent, record: &mut Record) -> Vec<Aim> {
    let mpi = program.mpi;
    let seconds: u32 = if extent == Extent::Full { 10 } else { 3 };
    let idle = measured::run(bed, program, Keeper::Svmio, Call::new("idle", &[&seconds.to_string()]));
    let share = idle.get("processor") / f64::from(seconds);
    let milliseconds = if extent == Extent::Full { "1000" } else { "300" };
    let rounds = (2 * REPETITIONS + 1).to_string();
    let computing =
        measured::run(bed, program, Keeper::Svmio, Call::new("compute", &[&rounds, milliseconds]));
    let [with, without] = ["with", "without"].map(|name| median(computing.all(name).collect()));
    let slower = with / without;
    record.tell(format_args!(
        "\n{mpi}: a file that lies with all ranks is open, and nobody uses it. In {seconds} s the busiest rank uses \
         {:.2} ms of a processor. A computation of {without:.3} s (median of {rounds}) takes {slower:.4} times as long \
         with it.",
        share * f64::from(seconds) * 1e3
    ));
    record.add(json!({
        "part": "processor", "mpi": mpi.name(), "share_of_a_processor": share, "seconds_beside_a_file": with,
        "seconds_without": without,
    }));
    vec![
        Aim::at_most(format!("{mpi}, idle: share of a processor"), share, 0.001, 0.01),
        Aim::at_most(format!("{mpi}, computing beside an idle file: times as long"), slower, 1.03, 1.15),
    ]
}
