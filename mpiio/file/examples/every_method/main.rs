//! Every method of a file, by all ranks of a job, on the file that is named: `every_method NAME`.
//!
//! What each access leaves is compared with what the others read there; a failure is told and ends the program.

mod managed;
mod placed;
mod refused;
mod shared;
mod viewed;

use std::error::Error;

use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

/// How many numbers each rank writes by each access.
pub(crate) const NUMBERS: usize = 1000;

/// What a part of the program gives.
pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// The numbers that `rank` writes in step `step`: no two steps or ranks have one in common.
pub(crate) fn numbers(rank: i32, step: u32) -> Vec<u64> {
    let first = (u64::from(step) << 40) + ((rank as u64) << 20);
    (first..first + NUMBERS as u64).collect()
}

/// That `found` is what `rank` has written in step `step`.
pub(crate) fn demand(found: &[u64], rank: i32, step: u32, what: &str) -> Outcome {
    if found == numbers(rank, step) {
        return Ok(());
    }
    let place = found.iter().zip(numbers(rank, step)).position(|(found, written)| *found != written);
    Err(format!("{what}: rank {rank}'s numbers of step {step} are others from number {place:?} on").into())
}

/// A part of the program: on a file of its own.
type Part = fn(&SimpleCommunicator, &str) -> Outcome;

fn main() -> Outcome {
    let universe = mpi::initialize().ok_or("MPI is initialized already")?;
    let world = universe.world();
    let name = std::env::args().nth(1).ok_or("usage: every_method NAME")?;
    let parts: [(&str, Part); 5] = [
        ("placed", placed::run),
        ("shared", shared::run),
        ("viewed", viewed::run),
        ("managed", managed::run),
        ("refused", refused::run),
    ];
    for (part, run) in parts {
        if let Err(error) = run(&world, &format!("{name}.{part}")) {
            eprintln!("rank {}: {part}: {error}", world.rank());
            world.abort(1);
        }
        world.barrier();
    }
    let late = svmio_file::File::create(&world, format!("{name}.late"))?;
    let is_first = world.rank() == 0;
    drop(universe);
    if late.size().is_ok() || svmio_file::delete(&name).is_ok() {
        return Err("MPI was called when it had ended".into());
    }
    drop(late);
    if is_first {
        println!("every method works");
    }
    Ok(())
}
