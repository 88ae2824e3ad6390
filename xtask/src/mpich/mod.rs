//! MPICH's own tests of MPI's functions, of which its source package has a folder for each chapter of the standard.

pub(crate) mod compile;
pub(crate) mod testlist;
