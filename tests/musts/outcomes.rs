//! Who hears of a rank's failure in a collective access, and who waits for whom: as the hint `svm_outcome` says.

use svmio_tests::{Job, Mpi, Nodes, Program};

fn outcomes(nodes: Nodes, mpi: Mpi, ranks: u32) {
    let program = Program::c("outcomes", mpi);
    for how in ["hint", "variable", "some", "shared", "none"] {
        let scratch = nodes.scratch();
        let mut job = Job::new(&scratch, &program, ranks).over(nodes).argument("svm:/outcomes").argument(how);
        if matches!(nodes, Nodes::One) {
            job = job.variable("OUTCOMES_ONE_NODE", "1");
        }
        if how == "variable" {
            job = job.variable("SVMIO_OUTCOME", "own");
        }
        let output = job.succeed();
        assert!(output.contains("heard"), "{output}");
        let warning = "svm_outcome is shared: not all ranks ask for own";
        assert_eq!(output.contains(warning), how == "some", "{output}");
        nodes.demand_stores(&scratch);
    }
}

#[test]
fn mpich() {
    outcomes(Nodes::One, Mpi::DebianMpich, 3);
}

#[test]
fn openmpi() {
    outcomes(Nodes::One, Mpi::DebianOpenMpi, 3);
}

#[test]
fn mpich_5() {
    outcomes(Nodes::One, Mpi::WheelMpich, 3);
}

#[test]
fn openmpi_5() {
    outcomes(Nodes::One, Mpi::WheelOpenMpi, 3);
}

#[test]
fn on_emulated_nodes() {
    for mpi in Mpi::DEBIAN {
        outcomes(Nodes::Emulated(3), mpi, 3);
    }
}

#[test]
fn on_emulated_nodes_of_several_ranks() {
    for mpi in Mpi::DEBIAN {
        outcomes(Nodes::Emulated(2), mpi, 4);
    }
}
