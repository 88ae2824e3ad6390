//! What of MPICH's tests of MPI-IO is left out or fails on stock MPI-IO, and why.

use crate::comparison::Known;
use crate::mpi::Mpi;

/// The folders of MPICH's tests.
pub(crate) const FOLDERS: [&str; 2] = ["io", "errors/io"];

/// Programs that would say nothing of svmio, or ask for what no standard has, each with the reason.
pub(crate) const LEFT_OUT: &[(&str, &str)] = &[
    ("fileerrret", "its error handler has a failed open return MPI_SUCCESS, which only MPICH's own files do"),
    ("zero_count", "the file that it reads is the program itself"),
];

/// Found by running them; a run that is not listed here must pass.
pub(crate) const KNOWN: &[Known] = &[Known {
    program: "i_noncontig_coll2",
    mpis: &[Mpi::WheelOpenMpi],
    ranks: &[4],
    sign: "PMPI_Gatherv",
    reason: "the test gathers names into pieces of several allocations, by distances that overflow an int",
}];
