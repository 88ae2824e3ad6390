//! ROMIO's own test programs as a suite: built with each MPI, run on stock MPI-IO and on svmio.

pub(crate) mod compile;
pub(crate) mod known;
pub(crate) mod programs;
pub(crate) mod runs;
