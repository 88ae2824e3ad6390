//! The preload library of collectives for programs on Open MPI. See [`svmio_coll`].
//!
//! Open MPI's Fortran functions call the `PMPI_` names of the C ones, so that those are enough. Beyond the
//! collectives it takes `MPI_Comm_free` and `MPI_Comm_disconnect`, and passes them on: see
//! [`svmio_coll::export_freeing`].

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use svmio_adio::abi::openmpi::OpenMpi;
use svmio_adio::abi::{Comm, Datatype, Op, Request, SUCCESS};

svmio_coll::export_collectives!(OpenMpi);
svmio_coll::export_freeing!(OpenMpi);
