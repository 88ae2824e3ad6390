//! Each rank tells at the end what its files cost, if it is asked to, and rank 0 what those of all did.

use std::path::Path;

use svmio_tests::memory_program::{Compiled, MemoryProgram};
use svmio_tests::{Job, Mpi, Nodes, Program, Scratch, requests};

/// The numbers of messages and bytes that a line tells behind `who`.
fn told(output: &str, who: &str) -> [u64; 2] {
    let told = format!("svmio: {who}: ");
    let line = output.lines().find_map(|line| line.split_once(&told)).unwrap_or_else(|| panic!("{output}")).1;
    let words: Vec<_> = line.split(' ').collect();
    assert_eq!([words[1], words[4]], ["messages", "bytes"], "{line}");
    [words[0], words[3]].map(|number| number.parse().unwrap_or_else(|_| panic!("{line}")))
}

/// That the sum over all ranks is the sum of what they tell.
fn check_sum(output: &str, ranks: u32, nodes: u32) {
    let each = (0..ranks).map(|rank| told(output, &format!("rank {rank} on node n{}", rank % nodes)));
    let sum = each.fold([0, 0], |[messages, bytes], told| [messages + told[0], bytes + told[1]]);
    assert_eq!(told(output, &format!("all {ranks} ranks on {nodes} nodes")), sum, "{output}");
    assert!(sum[0] > 0 && sum[1] > sum[0], "{output}");
}

fn statistics(mpi: Mpi) {
    let program = Program::c("every_access_method", mpi);
    let scratch = Nodes::Emulated(4).scratch();
    let job = Job::new(&scratch, &program, 4).over(Nodes::Emulated(4));
    let output = job.argument("svm:/statistics").with_statistics().succeed();
    check_sum(&output, 4, 4);
    assert!(output.contains(" requests to other nodes (") && output.contains(" join"), "{output}");
    let scratch = Scratch::new();
    let output = Job::new(&scratch, &program, 2).argument("svm:/statistics").with_statistics().succeed();
    for rank in 0..2 {
        let line = format!("svmio: rank {rank} of 2 on node ");
        let line = output.lines().find(|told| told.contains(&line)).unwrap_or_else(|| panic!("{output}"));
        assert!(line.contains("nothing went over any fabric"), "{line}");
    }
}

/// Small pieces that a node's ranks write together go home together: one exchange for a pair of nodes. Of many, each rank
/// packs its own.
fn exchanges(mpi: Mpi) {
    const ROUNDS: u64 = 5;
    let program = Program::c("exchanges", mpi);
    let (nodes, ranks) = (Nodes::Emulated(4), 8);
    for (bytes, expected) in [(4 << 10, 3 * ROUNDS), (256 << 10, 6 * ROUNDS)] {
        let scratch = nodes.scratch();
        let job = Job::new(&scratch, &program, ranks).over(nodes).argument("svm:/exchanges");
        let output = job.argument(bytes.to_string()).with_statistics().succeed();
        assert_eq!(requests(&output, "write"), expected, "{bytes} bytes of each rank\n{output}");
    }
}

#[test]
fn mpich_exchanges() {
    exchanges(Mpi::DebianMpich);
}

#[test]
fn openmpi_exchanges() {
    exchanges(Mpi::DebianOpenMpi);
}

#[test]
fn mpich() {
    statistics(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    statistics(Mpi::DebianOpenMpi);
}

#[test]
fn without_mpi() {
    let scratch = Scratch::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/memory/messages.c");
    let program = MemoryProgram::compile(&scratch, &source, Compiled::C);
    check_sum(&program.statistics(&Scratch::new(), 4, Some(2)), 4, 2);
    for processes in [1, 2] {
        let told = program.statistics(&Scratch::new(), processes, None);
        let lines = told.lines().filter(|line| line.contains("nothing went over any fabric")).count();
        assert_eq!(lines, processes as usize, "{told}");
    }
}
