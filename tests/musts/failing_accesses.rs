//! An access that fails says why, by class and text, whatever the MPI makes of what ROMIO tells it.

use svmio_tests::{Job, Mpi, Nodes, Program};

fn failing_accesses(nodes: Nodes, mpi: Mpi, ranks: u32) {
    let program = Program::c("failing_accesses", mpi);
    for outcome in ["own", "shared"] {
        let scratch = nodes.scratch();
        let job = Job::new(&scratch, &program, ranks).over(nodes).variable("SVMIO_OUTCOME", outcome);
        let output = job.argument("svm:/failing").succeed();
        assert!(output.contains("all have failed"), "{output}");
        assert!(!output.contains("INTERNAL ERROR"), "{output}");
    }
}

#[test]
fn mpich() {
    failing_accesses(Nodes::One, Mpi::DebianMpich, 2);
}

#[test]
fn openmpi() {
    failing_accesses(Nodes::One, Mpi::DebianOpenMpi, 2);
}

#[test]
fn mpich_5() {
    failing_accesses(Nodes::One, Mpi::WheelMpich, 2);
}

#[test]
fn openmpi_5() {
    failing_accesses(Nodes::One, Mpi::WheelOpenMpi, 2);
}

#[test]
fn on_emulated_nodes() {
    for mpi in [Mpi::DebianMpich, Mpi::DebianOpenMpi, Mpi::WheelMpich] {
        failing_accesses(Nodes::Emulated(2), mpi, 2);
    }
}

#[test]
fn a_handler_of_which_the_program_keeps_nothing_is_called_each_time() {
    for mpi in [Mpi::DebianMpich, Mpi::DebianOpenMpi, Mpi::WheelMpich, Mpi::WheelOpenMpi] {
        let program = Program::c("freed_handler", mpi);
        for nodes in [Nodes::One, Nodes::Emulated(2)] {
            let scratch = nodes.scratch();
            let output = Job::new(&scratch, &program, 2).over(nodes).argument("svm:/handled").succeed();
            assert!(output.contains("it was called each time"), "{mpi}, {nodes:?}: {output}");
        }
    }
}

#[test]
fn what_a_handler_writes_to_another_file_as_a_split_access_fails_to_begin_is_written_when_it_returns() {
    for mpi in [Mpi::DebianMpich, Mpi::DebianOpenMpi, Mpi::WheelMpich, Mpi::WheelOpenMpi] {
        let program = Program::c("dump_in_handler", mpi);
        for nodes in [Nodes::One, Nodes::Emulated(2)] {
            let scratch = nodes.scratch();
            let job = Job::new(&scratch, &program, 2).over(nodes);
            let output = job.argument("svm:/handled").argument("svm:/dump").succeed();
            assert!(output.contains("each dump is whole"), "{mpi}, {nodes:?}: {output}");
        }
    }
}
