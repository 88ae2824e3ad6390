//! Ranks that ask for different placements go by that of rank 0, all of them, which the others are told.

use std::time::Duration;

use svmio_tests::{Job, Mpi, Nodes, Program};

const NODES: Nodes<'_> = Nodes::Emulated(4);

fn differing_placements(mpi: Mpi) {
    let program = Program::c("differing_placements", mpi);
    let scratch = NODES.scratch();
    let job = Job::new(&scratch, &program, 4).over(NODES).limit(Duration::from_secs(60));
    let output = job.argument("svm:/differing").succeed();
    assert!(output.contains("placed together"), "{output}");
    let in_force = [
        "round_robin",
        "block",
        "first_touch",
        "first_touch",
        "round_robin",
        "block",
        "block",
        "first_touch",
    ];
    for (round, placement) in in_force.iter().enumerate() {
        assert!(output.contains(&format!("round {round}: {placement} is in force\n")), "{round}: {output}");
    }
    for told in [
        "/differing/0: svm_placement is round_robin, as on rank 0, and not block",
        "/differing/1: svm_placement is block, as on rank 0, and not first_touch",
        "/differing/2: svm_placement is first_touch, as on rank 0, and not round_robin",
    ] {
        assert_eq!(output.matches(told).count(), 1, "{told}: {output}");
    }
    NODES.demand_stores(&scratch);
}

#[test]
fn mpich() {
    differing_placements(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    differing_placements(Mpi::DebianOpenMpi);
}
