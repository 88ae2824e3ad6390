//! Accesses that return when they are done.

use super::*;
use mpi::datatype::traits::{Buffer, BufferMut};

/// Reads at an offset that is given.
pub(crate) type ReadAt = Function<
    unsafe extern "C" fn(
        MPI_File,
        ffi::MPI_Offset,
        *mut c_void,
        c_int,
        MPI_Datatype,
        *mut MPI_Status,
    ) -> c_int,
>;

/// Writes at an offset that is given.
pub(crate) type WriteAt = Function<
    unsafe extern "C" fn(
        MPI_File,
        ffi::MPI_Offset,
        *const c_void,
        c_int,
        MPI_Datatype,
        *mut MPI_Status,
    ) -> c_int,
>;

/// Reads where a pointer of the file's stands.
pub(crate) type Read =
    Function<unsafe extern "C" fn(MPI_File, *mut c_void, c_int, MPI_Datatype, *mut MPI_Status) -> c_int>;

/// Writes where a pointer of the file's stands.
pub(crate) type Write =
    Function<unsafe extern "C" fn(MPI_File, *const c_void, c_int, MPI_Datatype, *mut MPI_Status) -> c_int>;

macro_rules! functions {
    ($($constant:ident: $kind:ident = $function:ident;)*) => {$(
        pub(crate) const $constant: $kind = $kind { name: stringify!($function), function: ffi::$function };
    )*};
}
pub(super) use functions;

functions! {
    READ_AT: ReadAt = MPI_File_read_at;
    READ_AT_ALL: ReadAt = MPI_File_read_at_all;
    WRITE_AT: WriteAt = MPI_File_write_at;
    WRITE_AT_ALL: WriteAt = MPI_File_write_at_all;
    READ: Read = MPI_File_read;
    READ_ALL: Read = MPI_File_read_all;
    READ_SHARED: Read = MPI_File_read_shared;
    READ_ORDERED: Read = MPI_File_read_ordered;
    WRITE: Write = MPI_File_write;
    WRITE_ALL: Write = MPI_File_write_all;
    WRITE_SHARED: Write = MPI_File_write_shared;
    WRITE_ORDERED: Write = MPI_File_write_ordered;
}

impl Handle {
    pub(crate) fn read_at<B: BufferMut + ?Sized>(
        &self,
        with: &ReadAt,
        offset: ffi::MPI_Offset,
        buffer: &mut B,
    ) -> Result<Moved, Failure> {
        // SAFETY: the file is open, and the rest as `read_by` says.
        read_by(with.name, buffer, |address, count, datatype, status| unsafe {
            (with.function)(self.0, offset, address, count, datatype, status)
        })
    }

    pub(crate) fn read<B: BufferMut + ?Sized>(&self, with: &Read, buffer: &mut B) -> Result<Moved, Failure> {
        // SAFETY: as in `read_at`.
        read_by(with.name, buffer, |address, count, datatype, status| unsafe {
            (with.function)(self.0, address, count, datatype, status)
        })
    }

    pub(crate) fn write_at<B: Buffer + ?Sized>(
        &self,
        with: &WriteAt,
        offset: ffi::MPI_Offset,
        buffer: &B,
    ) -> Result<Moved, Failure> {
        // SAFETY: the file is open, and the rest as `written_by` says.
        written_by(with.name, buffer, |address, count, datatype, status| unsafe {
            (with.function)(self.0, offset, address, count, datatype, status)
        })
    }

    pub(crate) fn write<B: Buffer + ?Sized>(&self, with: &Write, buffer: &B) -> Result<Moved, Failure> {
        // SAFETY: as in `write_at`.
        written_by(with.name, buffer, |address, count, datatype, status| unsafe {
            (with.function)(self.0, address, count, datatype, status)
        })
    }
}

/// Has `call` fill `buffer`.
///
/// `BufferMut` promises that the address, count and datatype that `call` is given are of memory that may be written; it
/// is borrowed until `call` has returned, and whatever comes into it are values. The status is a place for one.
fn read_by<B: BufferMut + ?Sized>(
    name: &'static str,
    buffer: &mut B,
    call: impl FnOnce(*mut c_void, Count, MPI_Datatype, *mut MPI_Status) -> c_int,
) -> Result<Moved, Failure> {
    demand_active(name)?;
    let datatype = buffer.as_datatype();
    demand_any_bytes(name, datatype.as_raw())?;
    let extent = Extent::of(buffer, datatype.as_raw());
    let mut status = empty_status();
    let code = call(buffer.pointer_mut(), extent.count, datatype.as_raw(), &mut status);
    Failure::unless_success(name, code)?;
    Ok(extent.moved(&status))
}

/// Has `call` write what is in `buffer`.
///
/// `Buffer` promises that the address, count and datatype that `call` is given are of memory that may be read; it is
/// borrowed until `call` has returned. The status is a place for one.
fn written_by<B: Buffer + ?Sized>(
    name: &'static str,
    buffer: &B,
    call: impl FnOnce(*const c_void, Count, MPI_Datatype, *mut MPI_Status) -> c_int,
) -> Result<Moved, Failure> {
    demand_active(name)?;
    let datatype = buffer.as_datatype();
    let extent = Extent::of(buffer, datatype.as_raw());
    let mut status = empty_status();
    let code = call(buffer.pointer(), extent.count, datatype.as_raw(), &mut status);
    Failure::unless_success(name, code)?;
    Ok(extent.moved(&status))
}
