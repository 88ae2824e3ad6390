//! Collective accesses in two halves.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use mpi::datatype::traits::{Buffer, BufferMut};

use super::*;

/// The two halves of a function of MPI's.
pub(crate) struct Halves<B, E> {
    pub(crate) begin: Function<B>,
    pub(crate) end: Function<E>,
}

/// The halves of reading at an offset that is given.
pub(crate) type SplitReadAt = Halves<
    unsafe extern "C" fn(MPI_File, ffi::MPI_Offset, *mut c_void, c_int, MPI_Datatype) -> c_int,
    ReadEnd,
>;

/// The halves of writing at an offset that is given.
pub(crate) type SplitWriteAt = Halves<
    unsafe extern "C" fn(MPI_File, ffi::MPI_Offset, *const c_void, c_int, MPI_Datatype) -> c_int,
    WriteEnd,
>;

/// The halves of reading where a pointer of the file's stands.
pub(crate) type SplitRead =
    Halves<unsafe extern "C" fn(MPI_File, *mut c_void, c_int, MPI_Datatype) -> c_int, ReadEnd>;

/// The halves of writing where a pointer of the file's stands.
pub(crate) type SplitWrite =
    Halves<unsafe extern "C" fn(MPI_File, *const c_void, c_int, MPI_Datatype) -> c_int, WriteEnd>;

type ReadEnd = unsafe extern "C" fn(MPI_File, *mut c_void, *mut MPI_Status) -> c_int;
type WriteEnd = unsafe extern "C" fn(MPI_File, *const c_void, *mut MPI_Status) -> c_int;

macro_rules! halves {
    ($($constant:ident: $kind:ident = $begin:ident, $end:ident;)*) => {$(
        pub(crate) const $constant: $kind = $kind {
            begin: Function { name: stringify!($begin), function: ffi::$begin },
            end: Function { name: stringify!($end), function: ffi::$end },
        };
    )*};
}

halves! {
    SPLIT_READ_AT_ALL: SplitReadAt = MPI_File_read_at_all_begin, MPI_File_read_at_all_end;
    SPLIT_WRITE_AT_ALL: SplitWriteAt = MPI_File_write_at_all_begin, MPI_File_write_at_all_end;
    SPLIT_READ_ALL: SplitRead = MPI_File_read_all_begin, MPI_File_read_all_end;
    SPLIT_READ_ORDERED: SplitRead = MPI_File_read_ordered_begin, MPI_File_read_ordered_end;
    SPLIT_WRITE_ALL: SplitWrite = MPI_File_write_all_begin, MPI_File_write_all_end;
    SPLIT_WRITE_ORDERED: SplitWrite = MPI_File_write_ordered_begin, MPI_File_write_ordered_end;
}

impl Handle {
    pub(crate) fn split_read_at<B: BufferMut + ?Sized, T>(
        &self,
        with: &SplitReadAt,
        offset: ffi::MPI_Offset,
        buffer: &mut B,
        computation: impl FnOnce() -> T,
    ) -> Result<(Moved, T), Failure> {
        // SAFETY: the file is open, and the rest as `read_around` says.
        self.read_around(with, buffer, computation, |begin, address, count, datatype| unsafe {
            begin(self.0, offset, address, count, datatype)
        })
    }

    pub(crate) fn split_read<B: BufferMut + ?Sized, T>(
        &self,
        with: &SplitRead,
        buffer: &mut B,
        computation: impl FnOnce() -> T,
    ) -> Result<(Moved, T), Failure> {
        // SAFETY: as in `split_read_at`.
        self.read_around(with, buffer, computation, |begin, address, count, datatype| unsafe {
            begin(self.0, address, count, datatype)
        })
    }

    pub(crate) fn split_write_at<B: Buffer + ?Sized, T>(
        &self,
        with: &SplitWriteAt,
        offset: ffi::MPI_Offset,
        buffer: &B,
        computation: impl FnOnce() -> T,
    ) -> Result<(Moved, T), Failure> {
        // SAFETY: the file is open, and the rest as `write_around` says.
        self.write_around(with, buffer, computation, |begin, address, count, datatype| unsafe {
            begin(self.0, offset, address, count, datatype)
        })
    }

    pub(crate) fn split_write<B: Buffer + ?Sized, T>(
        &self,
        with: &SplitWrite,
        buffer: &B,
        computation: impl FnOnce() -> T,
    ) -> Result<(Moved, T), Failure> {
        // SAFETY: as in `split_write_at`.
        self.write_around(with, buffer, computation, |begin, address, count, datatype| unsafe {
            begin(self.0, address, count, datatype)
        })
    }

    /// Has `call` begin to fill `buffer`, computes, and waits for the end.
    ///
    /// `BufferMut` promises that the address, count and datatype that `call` is given are of memory that may be
    /// written; it is borrowed until the second half has returned.
    fn read_around<F: Copy, B: BufferMut + ?Sized, T>(
        &self,
        halves: &Halves<F, ReadEnd>,
        buffer: &mut B,
        computation: impl FnOnce() -> T,
        call: impl FnOnce(F, *mut c_void, Count, MPI_Datatype) -> c_int,
    ) -> Result<(Moved, T), Failure> {
        demand_active(halves.begin.name)?;
        let datatype = buffer.as_datatype();
        demand_any_bytes(halves.begin.name, datatype.as_raw())?;
        let extent = Extent::of(buffer, datatype.as_raw());
        let address = buffer.pointer_mut();
        let begun = call(halves.begin.function, address, extent.count, datatype.as_raw());
        Failure::unless_success(halves.begin.name, begun)?;
        // SAFETY: the first half of this very access has begun, with this address.
        let end = |status: &mut MPI_Status| unsafe { (halves.end.function)(self.0, address, status) };
        compute_before(halves.end.name, extent, computation, end)
    }

    /// Has `call` begin to write what is in `buffer`, computes, and waits for the end.
    ///
    /// `Buffer` promises that the address, count and datatype that `call` is given are of memory that may be read; it
    /// is borrowed as in `read_around`.
    fn write_around<F: Copy, B: Buffer + ?Sized, T>(
        &self,
        halves: &Halves<F, WriteEnd>,
        buffer: &B,
        computation: impl FnOnce() -> T,
        call: impl FnOnce(F, *const c_void, Count, MPI_Datatype) -> c_int,
    ) -> Result<(Moved, T), Failure> {
        demand_active(halves.begin.name)?;
        let datatype = buffer.as_datatype();
        let extent = Extent::of(buffer, datatype.as_raw());
        let address = buffer.pointer();
        let begun = call(halves.begin.function, address, extent.count, datatype.as_raw());
        Failure::unless_success(halves.begin.name, begun)?;
        // SAFETY: as in `read_around`.
        let end = |status: &mut MPI_Status| unsafe { (halves.end.function)(self.0, address, status) };
        compute_before(halves.end.name, extent, computation, end)
    }
}

/// Computes, and ends an access after it, also when the computation panics: its buffer is MPI's until then.
fn compute_before<T>(
    name: &'static str,
    extent: Extent,
    computation: impl FnOnce() -> T,
    end: impl FnOnce(&mut MPI_Status) -> c_int,
) -> Result<(Moved, T), Failure> {
    let computed = catch_unwind(AssertUnwindSafe(computation));
    let mut status = empty_status();
    let code = end(&mut status);
    let computed = computed.unwrap_or_else(|panic| resume_unwind(panic));
    Failure::unless_success(name, code)?;
    Ok((extent.moved(&status), computed))
}
