//! The preload library for programs on MPICH. See [`svmio_mpiio`].
//!
//! MPICH's Fortran functions call the C ones, so that those are enough. Both names of each are taken: tools
//! that stand between program and MPI call the second. Beyond the functions of all families it takes
//! `MPI_Error_class` and `MPI_Request_get_status`, and passes them on: see [`svmio_adio::export_asking`].

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use svmio_adio::Mpi;
use svmio_adio::abi::mpich::Mpich;
use svmio_adio::abi::{Abi, Comm, Datatype, Info, MpiFile, Request};
use svmio_mpiio::{Prefix, file_close, file_delete, file_open, file_preallocate, finalize};

type Status = <Mpich as Abi>::Status;

macro_rules! exported {
    ($($prefix:ident: $open:ident, $delete:ident, $close:ident, $preallocate:ident, $finalize:ident;)*) => {$(
        /// `MPI_File_open` of MPI-3.1.
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $open(
            comm: Comm<Mpich>,
            name: *const c_char,
            amode: c_int,
            info: Info<Mpich>,
            file: *mut MpiFile,
        ) -> c_int {
            // SAFETY: the caller's arguments.
            unsafe { file_open(comm, name, amode, info, file) }
        }

        /// `MPI_File_delete` of MPI-3.1.
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $delete(name: *const c_char, info: Info<Mpich>) -> c_int {
            // SAFETY: the caller's arguments.
            unsafe { file_delete(name, info) }
        }

        /// `MPI_File_close` of MPI-3.1.
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $close(file: *mut MpiFile) -> c_int {
            // SAFETY: the caller's argument.
            unsafe { file_close::<Mpich>(file) }
        }

        /// `MPI_File_preallocate` of MPI-3.1.
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $preallocate(file: MpiFile, size: i64) -> c_int {
            // SAFETY: the caller's arguments.
            unsafe { file_preallocate::<Mpich>(file, size) }
        }
        /// `MPI_Finalize` of MPI-3.1.
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $finalize() -> c_int {
            finalize(Prefix::$prefix)
        }
    )*};
}

exported! {
    Mpi: MPI_File_open, MPI_File_delete, MPI_File_close, MPI_File_preallocate, MPI_Finalize;
    Pmpi: PMPI_File_open, PMPI_File_delete, PMPI_File_close, PMPI_File_preallocate, PMPI_Finalize;
}

svmio_adio::export_asking!();
svmio_mpiio::export_collective!(Mpich);
svmio_mpiio::export_collective!(Mpich, large);
svmio_mpiio::export_get_view!(Mpich);
svmio_mpiio::export_ordered!(Mpich);
svmio_mpiio::export_ordered!(Mpich, large);
svmio_mpiio::export_shared_pointer!(Mpich);
svmio_mpiio::export_pointer!(Mpich);
svmio_mpiio::export_read!(Mpich);
svmio_mpiio::export_read!(Mpich, large);
svmio_mpiio::export_set_atomicity!(Mpich);
svmio_mpiio::export_set_size!(Mpich);
svmio_mpiio::export_set_view!(Mpich);
svmio_mpiio::export_split!(Mpich);
svmio_mpiio::export_split!(Mpich, large);
svmio_mpiio::export_write!(Mpich);
svmio_mpiio::export_write!(Mpich, large);
svmio_mpiio::export_write_by_all!(Mpich);
svmio_mpiio::export_write_by_all!(Mpich, large);

/// By what `libsvmio` finds the functions of this library: see [`svmio_c`].
#[unsafe(no_mangle)]
pub extern "C" fn svmio_c_functions() -> *const svmio_c::Functions {
    svmio_c::beside_mpi()
}

svmio_adio::export_initialization!(svmio_mpiio::initializing, svmio_mpiio::initialized::<Mpich>);
svmio_mpiio::warm_up_on_load!(Mpich);
