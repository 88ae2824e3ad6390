//! Accesses that go on while the program does something else.

use std::mem::ManuallyDrop;

use mpi::datatype::traits::{Buffer, BufferMut};
use mpi::ffi::MPI_Request;
use mpi::request::Scope;

use super::blocking::functions;
use super::*;

/// Begins to read at an offset that is given.
pub(crate) type ImmediateReadAt = Function<
    unsafe extern "C" fn(
        MPI_File,
        ffi::MPI_Offset,
        *mut c_void,
        c_int,
        MPI_Datatype,
        *mut MPI_Request,
    ) -> c_int,
>;

/// Begins to write at an offset that is given.
pub(crate) type ImmediateWriteAt = Function<
    unsafe extern "C" fn(
        MPI_File,
        ffi::MPI_Offset,
        *const c_void,
        c_int,
        MPI_Datatype,
        *mut MPI_Request,
    ) -> c_int,
>;

/// Begins to read where a pointer of the file's stands.
pub(crate) type ImmediateRead =
    Function<unsafe extern "C" fn(MPI_File, *mut c_void, c_int, MPI_Datatype, *mut MPI_Request) -> c_int>;

/// Begins to write where a pointer of the file's stands.
pub(crate) type ImmediateWrite =
    Function<unsafe extern "C" fn(MPI_File, *const c_void, c_int, MPI_Datatype, *mut MPI_Request) -> c_int>;

functions! {
    IREAD_AT: ImmediateReadAt = MPI_File_iread_at;
    IREAD_AT_ALL: ImmediateReadAt = MPI_File_iread_at_all;
    IWRITE_AT: ImmediateWriteAt = MPI_File_iwrite_at;
    IWRITE_AT_ALL: ImmediateWriteAt = MPI_File_iwrite_at_all;
    IREAD: ImmediateRead = MPI_File_iread;
    IREAD_ALL: ImmediateRead = MPI_File_iread_all;
    IREAD_SHARED: ImmediateRead = MPI_File_iread_shared;
    IWRITE: ImmediateWrite = MPI_File_iwrite;
    IWRITE_ALL: ImmediateWrite = MPI_File_iwrite_all;
    IWRITE_SHARED: ImmediateWrite = MPI_File_iwrite_shared;
}

/// A request of MPI's that is not over, on a buffer that is borrowed for `'a`.
///
/// The scope knows of it until it is over, and does not end before. So the buffer is MPI's for as long as it needs it,
/// also when this is forgotten: the scope ends the program then.
pub(crate) struct Request<'a, S: Scope<'a>> {
    request: MPI_Request,
    pub(crate) call: &'static str,
    extent: Extent,
    scope: S,
    buffer: std::marker::PhantomData<std::cell::Cell<&'a ()>>,
}

impl<'a, S: Scope<'a>> Request<'a, S> {
    /// Waits until it is over.
    pub(crate) fn wait(self) -> Result<Moved, Failure> {
        let mut request = ManuallyDrop::new(self);
        request.wait_here()
    }

    /// What came of it, if it is over.
    pub(crate) fn test(self) -> Result<Result<Moved, Failure>, Self> {
        let mut this = ManuallyDrop::new(self);
        let (mut is_over, mut status) = (0, empty_status());
        if let Err(failure) = demand_active(this.call) {
            return Ok(Err(failure));
        }
        let quiet = Quiet::begin();
        // SAFETY: the request is of MPI's making, and not over; the places of the answers are ours.
        let code = unsafe { ffi::MPI_Test(&mut this.request, &mut is_over, &mut status) };
        drop(quiet);
        if code == ffi::MPI_SUCCESS as c_int && is_over == 0 {
            return Err(ManuallyDrop::into_inner(this));
        }
        Ok(this.over(code, &status))
    }

    fn wait_here(&mut self) -> Result<Moved, Failure> {
        // Where MPI has ended nobody can say whether it is done with the buffer: the scope goes on to know of it.
        demand_active(self.call)?;
        let mut status = empty_status();
        let quiet = Quiet::begin();
        // SAFETY: as in `test`.
        let code = unsafe { ffi::MPI_Wait(&mut self.request, &mut status) };
        drop(quiet);
        self.over(code, &status)
    }

    /// What came of it, `code` being what MPI says of its end.
    fn over(&mut self, code: c_int, status: &MPI_Status) -> Result<Moved, Failure> {
        // SAFETY: it was registered when it began, and MPI needs its buffer no more; it is called once, since whoever
        // calls it has taken the request.
        unsafe { self.scope.unregister() };
        Failure::unless_success(self.call, code)?;
        Ok(self.extent.moved(status))
    }
}

impl<'a, S: Scope<'a>> Drop for Request<'a, S> {
    fn drop(&mut self) {
        // Who wants to know has waited for it.
        let _ = self.wait_here();
    }
}

impl Handle {
    pub(crate) fn immediate_read_at<'a, B: BufferMut + ?Sized, S: Scope<'a>>(
        &'a self,
        with: &ImmediateReadAt,
        scope: S,
        offset: ffi::MPI_Offset,
        buffer: &'a mut B,
    ) -> Result<Request<'a, S>, Failure> {
        // SAFETY: the file is open, and the rest as `begin_reading` says.
        begin_reading(with.name, scope, buffer, |address, count, datatype, request| unsafe {
            (with.function)(self.0, offset, address, count, datatype, request)
        })
    }

    pub(crate) fn immediate_read<'a, B: BufferMut + ?Sized, S: Scope<'a>>(
        &'a self,
        with: &ImmediateRead,
        scope: S,
        buffer: &'a mut B,
    ) -> Result<Request<'a, S>, Failure> {
        // SAFETY: as in `immediate_read_at`.
        begin_reading(with.name, scope, buffer, |address, count, datatype, request| unsafe {
            (with.function)(self.0, address, count, datatype, request)
        })
    }

    pub(crate) fn immediate_write_at<'a, B: Buffer + ?Sized, S: Scope<'a>>(
        &'a self,
        with: &ImmediateWriteAt,
        scope: S,
        offset: ffi::MPI_Offset,
        buffer: &'a B,
    ) -> Result<Request<'a, S>, Failure> {
        // SAFETY: the file is open, and the rest as `begin_writing` says.
        begin_writing(with.name, scope, buffer, |address, count, datatype, request| unsafe {
            (with.function)(self.0, offset, address, count, datatype, request)
        })
    }

    pub(crate) fn immediate_write<'a, B: Buffer + ?Sized, S: Scope<'a>>(
        &'a self,
        with: &ImmediateWrite,
        scope: S,
        buffer: &'a B,
    ) -> Result<Request<'a, S>, Failure> {
        // SAFETY: as in `immediate_write_at`.
        begin_writing(with.name, scope, buffer, |address, count, datatype, request| unsafe {
            (with.function)(self.0, address, count, datatype, request)
        })
    }
}

/// Has `call` begin to fill `buffer`.
///
/// `BufferMut` promises that the address, count and datatype that `call` is given are of memory that may be written; it
/// is borrowed for longer than the scope lives, which lives until the request is over. So does the file.
fn begin_reading<'a, B: BufferMut + ?Sized, S: Scope<'a>>(
    name: &'static str,
    scope: S,
    buffer: &'a mut B,
    call: impl FnOnce(*mut c_void, Count, MPI_Datatype, *mut MPI_Request) -> c_int,
) -> Result<Request<'a, S>, Failure> {
    demand_active(name)?;
    let datatype = buffer.as_datatype();
    demand_any_bytes(name, datatype.as_raw())?;
    let extent = Extent::of(buffer, datatype.as_raw());
    begin(name, scope, extent, |request| call(buffer.pointer_mut(), extent.count, datatype.as_raw(), request))
}

/// Has `call` begin to write what is in `buffer`.
///
/// `Buffer` promises that the address, count and datatype that `call` is given are of memory that may be read; it is
/// borrowed as in [`begin_reading`].
fn begin_writing<'a, B: Buffer + ?Sized, S: Scope<'a>>(
    name: &'static str,
    scope: S,
    buffer: &'a B,
    call: impl FnOnce(*const c_void, Count, MPI_Datatype, *mut MPI_Request) -> c_int,
) -> Result<Request<'a, S>, Failure> {
    demand_active(name)?;
    let datatype = buffer.as_datatype();
    let extent = Extent::of(buffer, datatype.as_raw());
    begin(name, scope, extent, |request| call(buffer.pointer(), extent.count, datatype.as_raw(), request))
}

fn begin<'a, S: Scope<'a>>(
    name: &'static str,
    scope: S,
    extent: Extent,
    call: impl FnOnce(*mut MPI_Request) -> c_int,
) -> Result<Request<'a, S>, Failure> {
    // SAFETY: MPI's constant.
    let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
    Failure::unless_success(name, call(&mut request))?;
    scope.register();
    Ok(Request { request, call: name, extent, scope, buffer: std::marker::PhantomData })
}
