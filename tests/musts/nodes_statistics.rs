//! Each rank tells at the end what its files on several nodes cost, if it is asked to.

use svmio_tests::{Job, Mpi, Nodes, Program};

fn statistics(mpi: Mpi) {
    let program = Program::c("every_access_method", mpi);
    let scratch = Nodes::Emulated(4).scratch();
    let job = Job::new(&scratch, &program, 4).over(Nodes::Emulated(4));
    let output = job.argument("svm:/statistics").with_statistics().succeed();
    for rank in 0..4 {
        let told = format!("svmio: rank {rank} on node n{rank}: ");
        let line =
            output.lines().find_map(|line| line.split_once(&told)).unwrap_or_else(|| panic!("{output}"));
        assert!(line.1.contains(" requests to other nodes ("), "{}", line.1);
        assert!(rank == 0 || line.1.contains(" join"), "{}", line.1);
    }
}

#[test]
fn mpich() {
    statistics(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    statistics(Mpi::DebianOpenMpi);
}
