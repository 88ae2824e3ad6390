//! svmio side by side with what it takes the place of.
//!
//! ```text
//!   bin/contiguous   independent contiguous access, by block size, on svmio and on the same MPI's stock drivers
//!
//!   phase            how fast the cores copy, and reach each other, while it is measured
//!   interleaved      A B A B …, and the medians: what drifts meets both alike
//! ```
//!
//! The MPI programs and the way they are started are those of the tests (`svmio-tests`): an installation as
//! users have it, named by `SVMIO_INSTALLATION`.

pub mod interleaved;
pub mod phase;
