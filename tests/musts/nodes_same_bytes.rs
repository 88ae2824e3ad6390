//! A program's file that is spread over four nodes has the same bytes as its file on the same MPI's stock driver, for a
//! later job on those nodes.

use std::fs;

use svmio_tests::{Files, Hosts, Job, Mpi, Nodes, Program, Scratch, Stock, is_full_run, stock};

fn same_bytes(nodes: Nodes, mpi: Mpi) {
    let program = Program::c("same_bytes", mpi);
    let reader = Program::c("copy_out", mpi);
    let stock = &Stock::of(mpi)[0];
    assert!(stock.is_random, "the best driver can be trusted with everything");
    let seeds = if is_full_run() { 250 } else { 5 };
    for ranks in nodes.numbers_of_ranks() {
        let scratch = nodes.scratch();
        let write = |scratch, name: String, lacks: &[&str]| {
            let kinds = if lacks.is_empty() { "all" } else { "without-nonblocking-collectives" };
            let job = Job::new(scratch, &program, ranks).argument(name).argument(kinds);
            job.argument("0").argument(seeds.to_string())
        };
        write(&scratch, "svm:/same/bytes".into(), &[]).over(nodes).succeed();
        nodes.demand_stores(&scratch);

        // Who keeps the stock file, and where, makes no difference to it: one node, in memory.
        let memory = Scratch::new();
        let theirs = memory.new_directory("stock");
        let name = format!("{}{}", stock.prefix, theirs.join("bytes").display());
        let job = write(&memory, name, stock.lacks).files(Files::Stock);
        stock.component.into_iter().fold(job, |job, io| job.variable("OMPI_MCA_io", io)).succeed();

        let kinds: Vec<String> =
            stock.kinds().map(str::to_owned).chain((0..seeds).map(|seed| format!("random-{seed}"))).collect();
        let copies = scratch.new_directory("copies");
        // With another number of ranks than wrote.
        let job = Job::new(&scratch, &reader, if ranks == 4 { 8 } else { 4 }).over(nodes);
        let job = job.argument("svm:/same/bytes").argument(copies.join("bytes"));
        let output = kinds.iter().fold(job, |job, kind| job.argument(kind)).succeed();
        assert!(output.contains("all files are copied"), "{output}");
        for kind in &kinds {
            let read = |directory: &std::path::Path| {
                fs::read(directory.join(format!("bytes.{kind}"))).expect("both jobs made the file")
            };
            let (ours, theirs) = (read(&copies), read(&theirs));
            assert!(!theirs.is_empty(), "{kind}: stock wrote nothing");
            stock::compare(&ours, &theirs, &format!("{kind} of {ranks} ranks, {mpi}"));
        }
    }
}

#[test]
fn mpich_on_emulated_nodes() {
    same_bytes(Nodes::Emulated(4), Mpi::DebianMpich);
}

#[test]
fn openmpi_on_emulated_nodes() {
    same_bytes(Nodes::Emulated(4), Mpi::DebianOpenMpi);
}

#[test]
fn mpich_on_hosts() {
    same_bytes(Nodes::Hosts(&Hosts::new(4)), Mpi::DebianMpich);
}

#[test]
fn openmpi_on_hosts() {
    same_bytes(Nodes::Hosts(&Hosts::new(4)), Mpi::DebianOpenMpi);
}
