//! The preload library for programs on Open MPI. See [`svmio_mpiio`].
//!
//! Open MPI's Fortran functions call the `PMPI_` names, which are therefore taken, too. Beyond the functions
//! of all families it takes `MPI_File_get_info`, for which Open MPI does not ask ROMIO; and those that spawn processes,
//! see [`spawning`].

pub mod spawning;

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use svmio_adio::Mpi;
use svmio_adio::abi::openmpi::{OpenMpi, Status};
use svmio_adio::abi::{Comm, Datatype, Info, MpiFile, Request};
use svmio_adio::plug::openmpi::info_of;
use svmio_mpiio::{Prefix, file_close, file_delete, file_open, file_preallocate, finalize, with_stock};

macro_rules! named {
    ($($prefix:ident: $open:ident, $delete:ident, $close:ident, $get_info:ident, $preallocate:ident,
       $finalize:ident;)*) => {$(
        /// `MPI_File_open` of MPI-3.1.
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $open(
            comm: Comm<OpenMpi>,
            name: *const c_char,
            amode: c_int,
            info: Info<OpenMpi>,
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
        pub unsafe extern "C" fn $delete(name: *const c_char, info: Info<OpenMpi>) -> c_int {
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
            unsafe { file_close::<OpenMpi>(file) }
        }

        /// `MPI_File_get_info` of MPI-3.1.
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get_info(file: MpiFile, info: *mut Info<OpenMpi>) -> c_int {
            with_stock::<OpenMpi>(|mpi| {
                // SAFETY: the caller's arguments.
                unsafe {
                    match info_of(file) {
                        Some(own) => mpi.duplicate_info(own, info),
                        None => mpi.file_get_info(file, info),
                    }
                }
            })
        }

        /// `MPI_File_preallocate` of MPI-3.1.
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $preallocate(file: MpiFile, size: i64) -> c_int {
            // SAFETY: the caller's arguments.
            unsafe { file_preallocate::<OpenMpi>(file, size) }
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

named! {
    Mpi: MPI_File_open, MPI_File_delete, MPI_File_close, MPI_File_get_info, MPI_File_preallocate, MPI_Finalize;
    Pmpi: PMPI_File_open, PMPI_File_delete, PMPI_File_close, PMPI_File_get_info, PMPI_File_preallocate,
        PMPI_Finalize;
}

svmio_mpiio::export_collective!(OpenMpi);
svmio_mpiio::export_get_view!(OpenMpi);
svmio_mpiio::export_ordered!(OpenMpi);
svmio_mpiio::export_shared_pointer!(OpenMpi);
svmio_mpiio::export_pointer!(OpenMpi);
svmio_mpiio::export_read!(OpenMpi);
svmio_mpiio::export_set_atomicity!(OpenMpi);
svmio_mpiio::export_set_size!(OpenMpi);
svmio_mpiio::export_set_view!(OpenMpi);
svmio_mpiio::export_split!(OpenMpi);
svmio_mpiio::export_write!(OpenMpi);
svmio_mpiio::export_write_by_all!(OpenMpi);

/// By what `libsvmio` finds the functions of this library: see [`svmio_c`].
#[unsafe(no_mangle)]
pub extern "C" fn svmio_c_functions() -> *const svmio_c::Functions {
    svmio_c::beside_mpi()
}

svmio_adio::export_initialization!(svmio_mpiio::initializing, svmio_mpiio::initialized::<OpenMpi>);
svmio_mpiio::warm_up_on_load!(OpenMpi);
