//! The stock functions of files.

use std::ffi::{c_char, c_int};

use super::Mpi;
use crate::abi::{Abi, Comm, Info, MpiFile, SEEK_SET};
use crate::telling;

impl<A: Abi> Mpi<A> {
    /// What `comm` is, where no file can be opened by it. Nothing else may be asked of MPI_COMM_NULL: that would end
    /// the job by the error handler of MPI_COMM_WORLD.
    pub(crate) fn obstacle(&self, comm: Comm<A>) -> Option<&'static str> {
        if comm.0 == self.constants.comm_null.0 {
            return Some("MPI_COMM_NULL");
        }
        let mut is_between_groups = 0;
        // SAFETY: stores one integer; an invalid communicator is MPI's to complain about.
        unsafe { (self.comm_test_inter)(comm, &raw mut is_between_groups) };
        (is_between_groups != 0).then_some("an intercommunicator")
    }

    /// The stock `MPI_File_open`.
    ///
    /// # Safety
    /// The arguments are as MPI wants them.
    pub unsafe fn file_open(
        &self,
        comm: Comm<A>,
        name: *const c_char,
        amode: c_int,
        info: Info<A>,
        file: *mut MpiFile,
    ) -> c_int {
        // SAFETY: the caller vouches for the arguments.
        unsafe { (self.file_open)(comm, name, amode, info, file) }
    }

    /// The stock `MPI_File_delete`.
    ///
    /// # Safety
    /// The arguments are as MPI wants them.
    pub unsafe fn file_delete(&self, name: *const c_char, info: Info<A>) -> c_int {
        // SAFETY: the caller vouches for the arguments.
        unsafe { (self.file_delete)(name, info) }
    }

    /// The stock `MPI_File_close`.
    ///
    /// # Safety
    /// `file` is an open file.
    pub unsafe fn file_close(&self, file: &mut MpiFile) -> c_int {
        // SAFETY: the caller vouches for the file.
        unsafe { (self.file_close)(file) }
    }

    /// The error code of the stock `MPI_File_get_position_shared`, which makes the pointer's file where there is none
    /// yet, and what it tells.
    ///
    /// # Safety
    /// `file` is an open file.
    pub unsafe fn shared_pointer(&self, file: MpiFile) -> (c_int, i64) {
        let mut position = 0;
        // SAFETY: the caller vouches for the file.
        let code = telling::heard(self, file, || unsafe {
            (self.file_get_position_shared)(file, &raw mut position)
        });
        (code, position)
    }

    /// The stock `MPI_File_preallocate`.
    ///
    /// # Safety
    /// `file` is an open file.
    pub unsafe fn file_preallocate(&self, file: MpiFile, size: i64) -> c_int {
        // SAFETY: the caller vouches for the file.
        telling::heard(self, file, || unsafe { (self.file_preallocate)(file, size) })
    }

    /// The stock `MPI_File_get_info`.
    ///
    /// # Safety
    /// The arguments are as MPI wants them.
    pub unsafe fn file_get_info(&self, file: MpiFile, info: *mut Info<A>) -> c_int {
        // SAFETY: the caller vouches for the arguments.
        unsafe { (self.file_get_info)(file, info) }
    }

    /// The stock `MPI_File_seek_shared`, from the beginning of the view.
    ///
    /// # Safety
    /// `file` is an open file, and every rank that opened it makes the same call.
    pub unsafe fn file_seek_shared(&self, file: MpiFile, offset: i64) -> c_int {
        // SAFETY: the caller vouches for the file.
        telling::heard(self, file, || unsafe { (self.file_seek_shared)(file, offset, SEEK_SET) })
    }
}
