//! Through random nested datatypes, of memory and as views of files, every byte is where `MPI_Pack`, `MPI_Unpack` and
//! the letter of the standard say.
//!
//! A failure tells the seed and the datatypes; `random_types NAME KIND SEED 1` under `svmio run` repeats that one, with
//! as many ranks where the kind is `together`.
//!
//! What svmio does is compared with the letter of the standard, a map that the program makes of how it made a type, and
//! no byte may differ. Whether that map is right, the program asks `MPI_Pack` and `MPI_Unpack`, with which svmio has
//! nothing to do; for types that these are known to do wrong they may disagree, one time of a hundred at most, which
//! the output tells with the types (`opinion.h`). Nothing that svmio does wrong counts among these.

use std::time::Duration;

use svmio_tests::{Files, Job, Mpi, Program, Scratch, Stock, is_full_run, ranks_tried};

/// How many seeds of each kind are tried: in plain runs, and in full ones.
const AMOUNTS: [(&str, u32, u32); 6] = [
    ("memory", 150, 10_000),
    ("file", 150, 10_000),
    ("ends", 75, 3000),
    ("interlaced", 30, 1000),
    ("far", 4, 40),
    ("together", 40, 3000),
];

fn seeds(mpi: Mpi, kind: &str) -> u32 {
    let (_, plain, full) = AMOUNTS.into_iter().find(|amount| amount.0 == kind).expect("it is a known kind");
    match mpi {
        _ if is_full_run() => full,
        // What svmio does there is what it does with Debian's, by the same library.
        Mpi::WheelMpich | Mpi::WheelOpenMpi => plain / 2,
        Mpi::DebianMpich | Mpi::DebianOpenMpi => plain,
    }
}

fn right(mpi: Mpi, kind: &str) {
    let program = Program::c("random_types", mpi);
    let seeds = seeds(mpi, kind);
    // What ranks do alone, two do at the same time.
    let ranks: &[u32] = if kind == "together" { &[2, 3, 4] } else { &[2] };
    for ranks in ranks_tried(mpi, ranks) {
        let scratch = Scratch::new();
        let job = Job::new(&scratch, &program, ranks).argument("svm:/random/types").argument(kind);
        let job = job.argument("0").argument(seeds.to_string());
        let limit = Duration::from_secs(if is_full_run() { 3600 } else { 120 });
        let output = job.limit(limit).succeed();
        assert!(output.contains(&format!("{kind}: {seeds} seeds are right")), "{output}");
        let opinions =
            output.lines().filter(|line| line.contains("doubt: ") || line.starts_with("MPI_Pack and"));
        opinions.for_each(|line| println!("{mpi}, {kind}: {line}"));
        assert!(scratch.store().is_dir(), "svmio kept nothing: the files were stock ones");
    }
}

/// Stock drivers make the same files of the same calls, as far as they can be trusted. With resized types inside of
/// others, pairs, empty blocks, places that descend, a single piece that does not begin at its type's bound, and
/// whatever is nested, ROMIO loses bytes, overruns its buffers or divides by zero; with MPI-4's types for large counts
/// it gives up; data sieving puts garbage into holes beyond the end of the file; Open MPI's ROMIO crashes in
/// nonblocking collectives, and in reads through types that several ranks share a tile by. So the types are tame, and
/// the file's end is put far out first.
fn as_stock(mpi: Mpi, kind: &str) {
    let program = Program::c("random_types", mpi);
    let scratch = Scratch::new();
    let stock = &Stock::of(mpi)[0];
    let files = scratch.new_directory("stock");
    let seeds = "40";
    let told = |job: Job<'_>| {
        let options = ["tame", "extended", "without-nonblocking-collectives"];
        options.into_iter().fold(job, Job::argument).succeed()
    };
    let job = |name: String| {
        Job::new(&scratch, &program, 2).argument(name).argument(kind).argument("0").argument(seeds)
    };
    let ours = told(job("svm:/random/types".into()));
    let theirs = job(format!("{}{}", stock.prefix, files.join("types").display())).files(Files::Stock);
    let theirs = told(stock.component.into_iter().fold(theirs, |job, io| job.variable("OMPI_MCA_io", io)));
    for output in [ours, theirs] {
        assert!(output.contains(&format!("{kind}: {seeds} seeds are right")), "{output}");
    }
}

macro_rules! kinds {
    ($($kind:ident),*) => {
        mod mpich {
            use super::*;
            $(#[test] fn $kind() { right(Mpi::DebianMpich, stringify!($kind)); })*
        }
        mod openmpi {
            use super::*;
            $(#[test] fn $kind() { right(Mpi::DebianOpenMpi, stringify!($kind)); })*
        }
        mod mpich5 {
            use super::*;
            $(#[test] fn $kind() { right(Mpi::WheelMpich, stringify!($kind)); })*
        }
    };
}

kinds!(memory, file, ends, interlaced, far, together);

mod stock {
    use super::*;

    #[test]
    fn mpich_file() {
        as_stock(Mpi::DebianMpich, "file");
    }

    #[test]
    fn mpich_together() {
        as_stock(Mpi::DebianMpich, "together");
    }

    #[test]
    fn openmpi_file() {
        as_stock(Mpi::DebianOpenMpi, "file");
    }
}
