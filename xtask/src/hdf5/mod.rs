//! HDF5's own tests of its parallel part as a suite: built with Debian's HDF5 for each of Debian's MPIs, run on stock
//! MPI-IO and on svmio.

pub(crate) mod compile;
pub(crate) mod programs;
pub(crate) mod runs;
