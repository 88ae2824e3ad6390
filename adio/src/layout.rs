//! ROMIO's structures, as its drivers see them.
//!
//! Facts from `adio/include/adio.h` and `adioi.h` of ROMIO 3.2.1 (Open MPI 4.1.4) and 4.0.2 (MPICH 4.0.2).
//! From `cookie` to `is_external32` the file structure is the same in all known releases.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};

use crate::abi::{Abi, Comm, Datatype, Errhandler, Info, Win, amode};
use crate::calls::Mpi;

/// What `cookie` is in every file structure.
pub const COOKIE: c_int = 2_487_376;

/// `ADIOI_FileD`: an open file of ROMIO's.
#[repr(C)]
pub struct RomioFile<A: Abi> {
    /// [`COOKIE`].
    pub cookie: c_int,
    /// The system's file descriptor; nothing of ours, −1.
    pub fd_sys: c_int,
    null_fd: c_int,
    fd_direct: c_int,
    direct_read: c_int,
    direct_write: c_int,
    d_mem: c_uint,
    d_miniosz: c_uint,
    /// A block size that suits collective accesses, bytes.
    pub blksize: c_long,
    /// The individual file pointer, bytes.
    pub fp_ind: i64,
    /// Where the system's file pointer is; −1: unknown.
    pub fp_sys_posn: i64,
    /// The driver's functions.
    pub fns: *const FunctionTable,
    /// The communicator of the open, duplicated.
    pub comm: Comm<A>,
    /// Whether the driver has opened the file.
    pub is_open: c_int,
    is_agg: c_int,
    /// The name, without its prefix; from `malloc`.
    pub filename: *mut c_char,
    /// One of ROMIO's numbers of file systems.
    pub file_system: c_int,
    /// The access mode in force.
    pub access_mode: c_int,
    /// The access mode that the user gave.
    pub orig_access_mode: c_int,
    disp: i64,
    etype: Datatype<A>,
    /// The file type of the view.
    pub filetype: Datatype<A>,
    etype_size: i64,
    /// ROMIO's hints in force.
    pub hints: *mut c_void,
    /// The info object that `MPI_File_get_info` copies.
    pub info: Info<A>,
    split_coll_count: c_int,
    split_status: A::Status,
    split_datatype: Datatype<A>,
    /// The name of the shared file pointer's file; from `malloc`.
    pub shared_fp_fname: *mut c_char,
    shared_fp_fd: *mut RomioFile<A>,
    async_count: c_int,
    perm: c_int,
    /// Whether the file is in atomic mode.
    pub atomicity: c_int,
    fortran_handle: c_int,
    err_handler: Errhandler<A>,
    /// The driver's own.
    pub fs_ptr: *mut c_void,
    file_realm_st_offs: *mut i64,
    file_realm_types: *mut Datatype<A>,
    my_cb_nodes_index: c_int,
    io_buf: *mut c_char,
    io_buf_window: Win<A>,
    io_buf_put_amounts: A::Handle,
    io_buf_put_amounts_window: Win<A>,
    is_external32: c_int,
}

/// `ADIO_Fcntl_t`.
#[repr(C)]
pub struct Fcntl<A: Abi> {
    disp: i64,
    etype: Datatype<A>,
    filetype: Datatype<A>,
    info: Info<A>,
    /// For [`fcntl::SET_ATOMICITY`].
    pub atomicity: c_int,
    /// For [`fcntl::GET_SIZE`], bytes.
    pub fsize: i64,
    /// For [`fcntl::SET_DISKSPACE`], bytes.
    pub diskspace: i64,
}

/// What `Fcntl` is asked for.
pub mod fcntl {
    use std::ffi::c_int;
    /// Switch atomic mode.
    pub const SET_ATOMICITY: c_int = 180;
    /// Preallocate.
    pub const SET_DISKSPACE: c_int = 188;
    /// Tell the size.
    pub const GET_SIZE: c_int = 200;
}

/// The pointer type of an access at the individual file pointer; all others give an offset.
pub const INDIVIDUAL: c_int = 101;

/// What `Feature` is asked for.
pub mod feature {
    use std::ffi::c_int;
    /// Byte-range locks.
    pub const LOCKS: c_int = 300;
    /// Shared file pointers.
    pub const SHARED_FILE_POINTERS: c_int = 301;
    /// Atomic mode.
    pub const ATOMIC_MODE: c_int = 302;
    /// One rank may open for all.
    pub const SCALABLE_OPEN: c_int = 304;
    /// A deleted file stays until it is closed.
    pub const UNLINK_AFTER_CLOSE: c_int = 305;
    /// Collective accesses by the generic functions.
    pub const TWO_PHASE: c_int = 306;
    /// One rank may resize for all.
    pub const SCALABLE_RESIZE: c_int = 307;
    /// Writes are seen by all at once.
    pub const IMMEDIATELY_VISIBLE: c_int = 308;
}

/// Positions in a [`FunctionTable`].
#[allow(missing_docs, reason = "the names are ROMIO's")]
pub mod slot {
    pub const OPEN: usize = 0;
    pub const OPEN_COLL: usize = 1;
    pub const READ_CONTIG: usize = 2;
    pub const WRITE_CONTIG: usize = 3;
    pub const READ_STRIDED_COLL: usize = 4;
    pub const WRITE_STRIDED_COLL: usize = 5;
    pub const SEEK_INDIVIDUAL: usize = 6;
    pub const FCNTL: usize = 7;
    pub const SET_INFO: usize = 8;
    pub const READ_STRIDED: usize = 9;
    pub const WRITE_STRIDED: usize = 10;
    pub const CLOSE: usize = 11;
    pub const IREAD_CONTIG: usize = 12;
    pub const IWRITE_CONTIG: usize = 13;
    pub const READ_DONE: usize = 14;
    pub const WRITE_DONE: usize = 15;
    pub const READ_COMPLETE: usize = 16;
    pub const WRITE_COMPLETE: usize = 17;
    pub const IREAD_STRIDED: usize = 18;
    pub const IWRITE_STRIDED: usize = 19;
    pub const FLUSH: usize = 20;
    pub const RESIZE: usize = 21;
    pub const DELETE: usize = 22;
    pub const FEATURE: usize = 23;
    pub const NAME: usize = 24;
    pub const IREAD_STRIDED_COLL: usize = 25;
    pub const IWRITE_STRIDED_COLL: usize = 26;
    /// From ROMIO 3.4 on.
    pub const SET_LOCK: usize = 27;
}

/// The length of the longest known table.
pub const SLOTS: usize = 28;

/// `ADIOI_Fns_struct`: a driver's functions, all of them pointers, and its name.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct FunctionTable(pub [*const c_void; SLOTS]);

// SAFETY: the entries are addresses of code and of one constant string.
unsafe impl Send for FunctionTable {}
// SAFETY: as above.
unsafe impl Sync for FunctionTable {}

impl<A: Abi> RomioFile<A> {
    /// The byte at which the `etypes`-th etype of a contiguous view begins, or the last one that can be told.
    pub fn byte_offset(&self, etypes: i64) -> i64 {
        self.etype_size.saturating_mul(etypes).saturating_add(self.disp)
    }

    /// The byte at which the `etypes`-th etype of a contiguous view begins, if there can be one.
    pub(crate) fn checked_byte_offset(&self, etypes: i64) -> Option<i64> {
        self.etype_size.checked_mul(etypes)?.checked_add(self.disp)
    }

    /// The bytes of the view's etype.
    pub fn etype_size(&self) -> u64 {
        u64::try_from(self.etype_size).unwrap_or(1)
    }

    /// The etype and the file type of the view.
    pub(crate) fn types(&mut self) -> [&mut Datatype<A>; 2] {
        [&mut self.etype, &mut self.filetype]
    }

    /// From now on ROMIO is not to convert data to the portable representation.
    pub(crate) fn hide_external32(&mut self) {
        self.is_external32 = 0;
    }

    /// Whether it is accessed by its shared pointer only, and ROMIO itself tells where a view begins.
    pub fn is_sequential(&self) -> bool {
        self.orig_access_mode & amode::SEQUENTIAL != 0
    }

    /// Whether all that a program can change of an open file, but for pointers and handlers, is as after the open.
    /// `byte` is `MPI_BYTE`.
    pub(crate) fn is_as_opened(&self, byte: Datatype<A>) -> bool {
        let idle = self.split_coll_count == 0 && self.async_count == 0 && self.shared_fp_fd.is_null();
        let viewed = self.disp == 0 && self.shows_all_bytes(byte);
        idle && viewed && self.atomicity == 0
    }

    /// Whether the view is one of bytes, and shows all of them from its displacement on. `byte` is `MPI_BYTE`.
    pub(crate) fn shows_all_bytes(&self, byte: Datatype<A>) -> bool {
        self.etype.0 == byte.0 && self.filetype.0 == byte.0
    }

    /// Whether ROMIO has the file's shared pointer open.
    pub(crate) fn has_shared_pointer(&self) -> bool {
        !self.shared_fp_fd.is_null()
    }

    /// Whether the view's file type has no data.
    pub(crate) fn shows_nothing(&self, mpi: &Mpi<A>) -> bool {
        self.filetype.0 != mpi.constants.byte.0 && mpi.type_size(self.filetype) == 0
    }

    /// The name, without its prefix.
    pub fn name(&self) -> &CStr {
        if self.filename.is_null() {
            return c"";
        }
        // SAFETY: ROMIO keeps a string here as long as the file is open.
        unsafe { CStr::from_ptr(self.filename) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::mpich::Mpich;
    use crate::abi::openmpi::OpenMpi;
    use std::mem::offset_of;

    /// Offsets that a C compiler gives for the headers of ROMIO 4.0.2 and 3.2.1.
    #[test]
    fn the_layout_is_that_of_the_c_headers() {
        macro_rules! offsets {
            ($abi:ty: $($field:ident),*) => { [$(offset_of!(RomioFile<$abi>, $field)),*] };
        }
        let mpich = offsets!(Mpich: cookie, fns, comm, is_open, filename, access_mode, filetype, hints, info,
            shared_fp_fname, atomicity, fs_ptr, is_external32);
        assert_eq!(mpich, [0, 56, 64, 68, 80, 92, 116, 128, 136, 168, 192, 208, 260]);
        let openmpi = offsets!(OpenMpi: cookie, fns, comm, is_open, filename, access_mode, filetype, hints, info,
            shared_fp_fname, atomicity, fs_ptr, is_external32);
        assert_eq!(openmpi, [0, 56, 64, 72, 80, 92, 120, 136, 144, 192, 216, 232, 296]);
        assert_eq!((offset_of!(Fcntl<Mpich>, fsize), size_of::<Fcntl<Mpich>>()), (24, 40));
        assert_eq!((offset_of!(Fcntl<OpenMpi>, fsize), size_of::<Fcntl<OpenMpi>>()), (40, 56));
    }
}
