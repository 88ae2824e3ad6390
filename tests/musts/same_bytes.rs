//! A program's file on svmio has the same bytes as its file on the same MPI's stock drivers.

use std::fs;

use svmio_tests::{Files, Installation, Job, Mpi, Program, Scratch, is_full_run};

const KINDS: [&str; 7] =
    ["contiguous", "strided", "collective", "shared", "nonblocking", "external32", "nonblocking-collective"];

/// A stock driver, and what can be compared with it.
struct Stock {
    prefix: &'static str,
    /// Its MCA component, where it is one of Open MPI's.
    component: Option<&'static str>,
    lacks: &'static [&'static str],
    /// Whether it can be trusted with random datatypes.
    is_random: bool,
}

fn drivers(mpi: Mpi) -> &'static [Stock] {
    match mpi {
        Mpi::DebianMpich => &[Stock { prefix: "ufs:", component: None, lacks: &[], is_random: true }],
        _ => &[
            // Crashes in nonblocking collectives.
            Stock {
                prefix: "ufs:",
                component: Some("romio321"),
                lacks: &["nonblocking-collective"],
                is_random: true,
            },
            // Loses bytes in collective accesses through some datatypes (seed 19 with 4 ranks).
            Stock { prefix: "", component: Some("ompio"), lacks: &[], is_random: false },
        ],
    }
}

fn same_bytes(mpi: Mpi) {
    let program = Program::c("same_bytes", mpi);
    let random = if is_full_run() { 500 } else { 25 };
    for ranks in [1, 2, 4] {
        let scratch = Scratch::new();
        let job = |name: String, lacks: &[&str], seeds: u32| {
            let kinds = if lacks.is_empty() { "all" } else { "without-nonblocking-collectives" };
            let job = Job::new(&scratch, &program, ranks).argument(name).argument(kinds);
            job.argument("0").argument(seeds.to_string())
        };
        job("svm:/same/bytes".into(), &[], random).succeed();
        for (number, stock) in drivers(mpi).iter().enumerate() {
            let files = scratch.new_directory(&format!("stock-{number}"));
            let name = format!("{}{}", stock.prefix, files.join("bytes").display());
            let seeds = if stock.is_random { random } else { 0 };
            let job = job(name, stock.lacks, seeds).files(Files::Stock);
            match stock.component {
                Some(component) => job.variable("OMPI_MCA_io", component).succeed(),
                None => job.succeed(),
            };
            let kinds = KINDS.iter().filter(|kind| !stock.lacks.contains(kind)).map(|kind| kind.to_string());
            for kind in kinds.chain((0..seeds).map(|seed| format!("random-{seed}"))) {
                let theirs =
                    fs::read(files.join(format!("bytes.{kind}"))).expect("the stock file can be read");
                let ours = Installation::get().cat(&scratch, &format!("/same/bytes.{kind}"));
                assert!(!theirs.is_empty(), "{kind}: stock wrote nothing");
                compare(&ours, &theirs, &format!("{kind} of {ranks} ranks, {mpi} {:?}", stock.component));
            }
        }
    }
}

fn compare(ours: &[u8], theirs: &[u8], what: &str) {
    let first = ours.iter().zip(theirs).position(|(a, b)| a != b);
    let sizes = (ours.len(), theirs.len());
    assert!(first.is_none() && sizes.0 == sizes.1, "{what}: sizes {sizes:?}, first difference at {first:?}");
}

#[test]
fn mpich() {
    same_bytes(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    same_bytes(Mpi::DebianOpenMpi);
}
