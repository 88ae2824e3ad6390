//! The preload library of collectives for programs on MPICH. See [`svmio_coll`].
//!
//! MPICH's Fortran functions call the C ones, so that those are enough. Beyond the collectives it takes
//! `MPI_Error_class` and `MPI_Request_get_status`, and passes them on: see [`svmio_adio::export_asking`]; likewise
//! `MPI_Comm_free` and `MPI_Comm_disconnect`, see [`svmio_coll::export_freeing`].

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use svmio_adio::abi::mpich::Mpich;
use svmio_adio::abi::{Comm, Datatype, Op, Request, SUCCESS};

svmio_coll::export_collectives!(Mpich);
svmio_coll::export_freeing!(Mpich);
svmio_coll::export_large_collectives!(Mpich);
svmio_adio::export_asking!();
