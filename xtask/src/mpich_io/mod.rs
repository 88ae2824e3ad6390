//! MPICH's own tests of MPI-IO as a suite: built with each MPI, run on stock MPI-IO and on svmio.

pub(crate) mod known;
pub(crate) mod runs;
