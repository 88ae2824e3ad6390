//! The first collective write settles the size of a file's segments, so that each rank's data lies on its node; the
//! environment settles it, and where segments lie, for programs that give no hints.

use svmio_tests::{Job, Mpi, Nodes, Program};

fn chosen_segments(mpi: Mpi) {
    let program = Program::c("chosen_segments", mpi);
    let scratch = Nodes::Emulated(4).scratch();
    let job = |name: &str| Job::new(&scratch, &program, 4).over(Nodes::Emulated(4)).argument(name);
    let output = job("svm:/blocks").variable("SVMIO_STATS", "1").succeed();
    assert!(output.contains("segments of 262144 bytes, first_touch"), "{output}");
    // What was written stayed where it was.
    assert!(!output.contains(" write,") && !output.contains(" reserve,"), "{output}");
    // Who opens the file later finds it as it is.
    let output = job("svm:/blocks").succeed();
    assert!(output.contains("segments of 262144 bytes, first_touch"), "{output}");

    let asked = |size, placement| {
        job("svm:/asked").variable("SVMIO_SEGMENT_SIZE", size).variable("SVMIO_PLACEMENT", placement)
    };
    // All on one node.
    let output = asked("64K", "node=n2").variable("SVMIO_STATS", "1").succeed();
    assert!(output.contains("segments of 65536 bytes, node=n2"), "{output}");
    assert!(output.contains(" reserve,"), "{output}");
    let output = asked("three", "anywhere").succeed();
    for complaint in ["SVMIO_SEGMENT_SIZE=three is ignored", "SVMIO_PLACEMENT=anywhere is ignored"] {
        assert!(output.contains(complaint), "{output}");
    }
}

#[test]
fn mpich() {
    chosen_segments(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    chosen_segments(Mpi::DebianOpenMpi);
}
