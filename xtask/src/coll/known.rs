//! What of MPICH's tests of collectives fails, or cannot be built, with a stock MPI, and why.

use crate::mpi::Mpi;

/// Tests that fail with an MPI's own collectives.
#[derive(Debug)]
pub(crate) struct Failing {
    pub(crate) program: &'static str,
    pub(crate) mpi: Mpi,
    /// What the failed run prints; one that does not print it fails for another reason.
    pub(crate) sign: &'static str,
    pub(crate) reason: &'static str,
}

/// Found by running them; a run that is not listed here must pass.
pub(crate) const FAILING: &[Failing] = &[
    Failing {
        program: "allred",
        mpi: Mpi::DebianOpenMpi,
        sign: "Error for type MPI_INT8_T and op MPI_SUM",
        reason: "this MPI adds numbers of 8 bits with saturation, and the test's go round",
    },
    Failing {
        program: "nonblocking2",
        mpi: Mpi::DebianOpenMpi,
        sign: IN_ALLTOALLW,
        reason: KEPT_AS_INTEGERS,
    },
    Failing {
        program: "nonblocking3",
        mpi: Mpi::DebianOpenMpi,
        sign: IN_ALLTOALLW,
        reason: KEPT_AS_INTEGERS,
    },
    Failing {
        program: "oplxor",
        mpi: Mpi::DebianOpenMpi,
        sign: "MPI_LXOR and MPI_DOUBLE: Error class 10",
        reason: "the test applies MPI_LXOR to floating-point numbers, for which MPI does not define it",
    },
];

/// Also of the MPI's own, `PMPI_Ialltoallw`.
const IN_ALLTOALLW: &str = "MPI_Ialltoallw+";
const KEPT_AS_INTEGERS: &str = "the test keeps datatypes in integers, and this MPI's are pointers";

/// Programs that test what does not block, of a communicator whose group is there from the beginning with the preload
/// library: others begin with communicators of which svmio knows nothing yet, and are MPI's.
pub(crate) const NONBLOCKING: [&str; 6] =
    ["iallred", "ibarrier", "nballtoall1", "nbcoll2", "nbredscat3", "nonblocking"];

/// Whether `program` calls no collective that svmio does, or that its component does, if that is asked about: it shows
/// only that what is MPI's own still works.
pub(crate) fn is_not_ours(program: &str, by_component: bool) -> bool {
    let is_of_another_kind = program.starts_with(PERSISTENT) || program.starts_with(OF_NEIGHBOURS);
    is_of_another_kind
        || NOT_OURS.contains(&program)
        || (by_component && NOT_BLOCKING_ALONE.contains(&program))
        || (by_component && BEFORE_THE_WORLD.contains(&program))
}

/// Begins the names of what tests persistent collectives.
const PERSISTENT: &str = "p_";
/// Begins the names of what tests collectives of neighbours.
const OF_NEIGHBOURS: &str = "neighb_";

/// Of neighbours, too; of what one process does; and one whose communicators svmio does not know yet when it calls what
/// does not block.
const NOT_OURS: [&str; 4] = ["ring_neighbor_alltoall", "op_commutative", "reduce_local", "nonblocking3"];

/// What does not block, which the component leaves to others of Open MPI's.
const NOT_BLOCKING_ALONE: [&str; 6] =
    ["ibarrier", "nbcoll2", "nbredscat", "nbredscat3", "nonblocking", "nonblocking2"];

/// Of communicators that have few collectives, before `MPI_COMM_WORLD` has one: until then the component does not know when
/// they are to have a group.
const BEFORE_THE_WORLD: [&str; 2] = ["coll4", "scatterv"];

/// Why `program` cannot be built with `mpi`.
pub(crate) fn not_built(program: &str, mpi: Mpi) -> Option<&'static str> {
    if mpi != Mpi::DebianOpenMpi {
        return None;
    }
    if program.starts_with(PERSISTENT) {
        return Some("persistent collectives are of MPI 4.0, and this MPI has 3.1");
    }
    (program == "coll_large").then_some("operations with large counts are of MPI 4.0, and this MPI has 3.1")
}
