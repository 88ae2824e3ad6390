//! The barriers of MPI programs by the components that their user chooses: on one node and on several, by both
//! adapters.

use svmio_tests::collectives::{ALL_BEGUN, counted};
use svmio_tests::{Controller, Job, Mpi, Nodes, Program, is_full_run};

/// Each component that has barriers, and a setting of it that is not its usual one.
const CHOICES: [(&str, &str); 6] = [
    ("hardware", ""),
    ("schedule", "schedule.algorithm=tree:3"),
    ("schedule", "schedule.algorithm=x1tree"),
    ("tuned", "tuned.every=50"),
    ("network", ""),
    ("basic", ""),
];

fn rounds() -> String {
    String::from(if is_full_run() { "20000" } else { "300" })
}

/// How the hardware barrier is reached. A busy machine may hold up the controller for longer than it has by default.
fn hardware(controller: &Controller) -> String {
    format!("hardware.device={} hardware.limit=20000", controller.device())
}

/// The barriers of the world and of its halves by what is chosen.
fn held(mpi: Mpi, nodes: Nodes, ranks: u32, adapter: &'static str) {
    let program = Program::c("collectives_barriers", mpi);
    let controller = Controller::start();
    for (component, setting) in CHOICES {
        let scratch = nodes.scratch();
        let is_over_network = !matches!(nodes, Nodes::One);
        if is_over_network && component == "network" {
            // It is what there is anyway.
            continue;
        }
        let chosen = format!("barrier={component} {setting} {}", hardware(&controller));
        let job = Job::new(&scratch, &program, ranks)
            .over(nodes)
            .collectives(adapter)
            .variable("SVMIO_COMPONENTS", &chosen)
            .variable("SVMIO_STATS", "1")
            .variable("SVMIO_LOG", "info");
        let job = if is_over_network {
            job.variable("SVMIO_COLLECTIVES_NODES", "all").variable("SVMIO_FABRIC", "ofi")
        } else {
            job
        };
        let shared = scratch.path().join("shared");
        let output = job.argument(shared.display().to_string()).argument(rounds()).succeed();
        assert!(output.contains("all barriers held"), "{chosen}: {output}");
        let told = format!("by the component {component}");
        assert!(output.matches(&told).count() >= 3, "{chosen}: of the world and two halves: {output}");
        assert!(counted(&output, "barrier").0 > 0, "{chosen}: {output}");
    }
}

/// What cannot be had is told, and barriers are the usual ones.
fn refused(mpi: Mpi) {
    let program = Program::c("collectives_barriers", mpi);
    for (chosen, told) in [
        ("barrier=hardware", "no device is named"),
        ("bcast=basic", "SVMIO_COLLECTIVES_OFF=bcast leaves bcast to MPI"),
        ("barrier=hardwear", "no component is called \"hardwear\""),
    ] {
        let nodes = Nodes::One;
        let scratch = nodes.scratch();
        let job = Job::new(&scratch, &program, 3).collectives("preload").variable("SVMIO_COMPONENTS", chosen);
        let shared = scratch.path().join("shared");
        let output = job.argument(shared.display().to_string()).argument("10").succeed();
        assert!(output.contains("all barriers held") && output.contains(told), "{chosen}: {output}");
    }
}

/// Who cannot do its part of another collective leaves the barrier, too, and nobody waits for it there.
fn left(mpi: Mpi) {
    let program = Program::c("collectives_refused", mpi);
    let controller = Controller::start();
    for (component, setting) in CHOICES {
        let nodes = Nodes::One;
        let scratch = nodes.scratch();
        let chosen = format!("barrier={component} {setting} {}", hardware(&controller));
        let job =
            Job::new(&scratch, &program, 3).collectives("preload").variable("SVMIO_COMPONENTS", &chosen);
        let output = job.variable(ALL_BEGUN.0, ALL_BEGUN.1).argument("waiting").succeed();
        assert_eq!(output.matches("was told").count(), 3, "{chosen}: {output}");
    }
}

macro_rules! mpis {
    ($($name:ident: $mpi:ident;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn those_of_components_hold() {
                held(Mpi::$mpi, Nodes::One, 4, "preload");
            }

            #[test]
            fn those_of_components_hold_over_nodes() {
                held(Mpi::$mpi, Nodes::Emulated(2), 4, "preload");
            }

            #[test]
            fn what_cannot_be_had_is_told() {
                refused(Mpi::$mpi);
            }

            #[test]
            fn nobody_waits_for_one_who_has_left() {
                left(Mpi::$mpi);
            }
        }
    )*};
}

mpis! {
    mpich: DebianMpich;
    openmpi: DebianOpenMpi;
}

/// The component of Open MPI's framework does the same.
#[test]
fn the_component_has_them_too() {
    held(Mpi::DebianOpenMpi, Nodes::One, 4, "component");
}
