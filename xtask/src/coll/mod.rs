//! MPICH's own tests of the collectives as a suite: built with Debian's MPIs, run with the MPI's collectives and with
//! svmio's.

pub(crate) mod known;
pub(crate) mod runs;
