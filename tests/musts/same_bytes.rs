//! A program's file on svmio has the same bytes as its file on the same MPI's stock drivers.

use std::fs;

use svmio_tests::{Files, Installation, Job, Mpi, Program, Scratch, Stock, is_full_run, ranks_tried, stock};

fn same_bytes(mpi: Mpi) {
    let program = Program::c("same_bytes", mpi);
    let random = if is_full_run() { 500 } else { 25 };
    for ranks in ranks_tried(mpi, &[1, 2, 4]) {
        let scratch = Scratch::new();
        let job = |name: String, lacks: &[&str], seeds: u32| {
            let kinds = if lacks.is_empty() { "all" } else { "without-nonblocking-collectives" };
            let job = Job::new(&scratch, &program, ranks).argument(name).argument(kinds);
            job.argument("0").argument(seeds.to_string())
        };
        job("svm:/same/bytes".into(), &[], random).succeed();
        for (number, stock) in Stock::of(mpi).iter().enumerate() {
            let files = scratch.new_directory(&format!("stock-{number}"));
            let name = format!("{}{}", stock.prefix, files.join("bytes").display());
            let seeds = if stock.is_random { random } else { 0 };
            let job = job(name, stock.lacks, seeds).files(Files::Stock);
            match stock.component {
                Some(component) => job.variable("OMPI_MCA_io", component).succeed(),
                None => job.succeed(),
            };
            let kinds = stock.kinds().map(str::to_owned);
            for kind in kinds.chain((0..seeds).map(|seed| format!("random-{seed}"))) {
                let theirs =
                    fs::read(files.join(format!("bytes.{kind}"))).expect("the stock file can be read");
                let ours = Installation::get().cat(&scratch, &format!("/same/bytes.{kind}"));
                assert!(!theirs.is_empty(), "{kind}: stock wrote nothing");
                let what = format!("{kind} of {ranks} ranks, {mpi} {:?}", stock.component);
                stock::compare(&ours, &theirs, &what);
            }
        }
    }
}

#[test]
fn mpich() {
    same_bytes(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    same_bytes(Mpi::DebianOpenMpi);
}
