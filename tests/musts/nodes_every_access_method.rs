//! One program uses every data access routine of MPI-3.1 on files that are spread over four nodes.

use std::time::Duration;

use svmio_tests::{Hosts, Job, Mpi, Nodes, Program};

fn every_access_method(nodes: Nodes, mpi: Mpi) {
    let program = Program::c("every_access_method", mpi);
    for ranks in nodes.numbers_of_ranks() {
        let scratch = nodes.scratch();
        // Beside other tests it takes more than a minute over hosts.
        let job = Job::new(&scratch, &program, ranks).over(nodes).limit(Duration::from_secs(300));
        let output = job.argument("svm:/some/where/file").argument("over-nodes").succeed();
        assert!(output.contains("every access method works"), "{output}");
        nodes.demand_stores(&scratch);
    }
}

#[test]
fn mpich_on_emulated_nodes() {
    every_access_method(Nodes::Emulated(4), Mpi::DebianMpich);
}

#[test]
fn openmpi_on_emulated_nodes() {
    every_access_method(Nodes::Emulated(4), Mpi::DebianOpenMpi);
}

#[test]
fn mpich5_on_emulated_nodes() {
    every_access_method(Nodes::Emulated(4), Mpi::WheelMpich);
}

#[test]
fn openmpi5_on_emulated_nodes() {
    every_access_method(Nodes::Emulated(4), Mpi::WheelOpenMpi);
}

#[test]
fn mpich_on_hosts() {
    every_access_method(Nodes::Hosts(&Hosts::new(4)), Mpi::DebianMpich);
}

#[test]
fn openmpi_on_hosts() {
    every_access_method(Nodes::Hosts(&Hosts::new(4)), Mpi::DebianOpenMpi);
}

fn fortran(nodes: Nodes, mpi: Mpi) {
    let program = Program::fortran("fortran", mpi);
    let scratch = nodes.scratch();
    let output = Job::new(&scratch, &program, 4).over(nodes).argument("svm:/from/fortran").succeed();
    assert!(output.contains("Fortran works"), "{output}");
    nodes.demand_stores(&scratch);
}

#[test]
fn mpich_fortran() {
    fortran(Nodes::Emulated(4), Mpi::DebianMpich);
    fortran(Nodes::Hosts(&Hosts::new(4)), Mpi::DebianMpich);
}

#[test]
fn openmpi_fortran() {
    fortran(Nodes::Emulated(4), Mpi::DebianOpenMpi);
    fortran(Nodes::Hosts(&Hosts::new(4)), Mpi::DebianOpenMpi);
}
