//! The entries that read and write: contiguous or not, of one rank or of all, blocking or not.

use std::ffi::{c_int, c_void};

use crate::abi::{Datatype, Request};
use crate::access::{Access, Callers, Direction, Unit};
use crate::calls::Mpi;
use crate::contiguous::Position;
use crate::converting::converted;
use crate::failure::Failure;
use crate::handle::{self, Role};
use crate::host::{Count, HasHost};
use crate::layout::RomioFile;
use crate::shared_pointer;
use crate::strided;

use super::{coded, entry};

// What the SAFETY comments refer to as ROMIO's contract is the same as for the other entries of the table.

pub(super) unsafe extern "C" fn read_contig<A: HasHost, C: Count>(
    fd: *mut RomioFile<A>,
    buffer: *mut c_void,
    count: C,
    datatype: Datatype<A>,
    pointer: c_int,
    offset: i64,
    status: *mut A::Status,
    error_code: *mut c_int,
) {
    let position = Position { pointer, offset };
    // SAFETY: ROMIO's contract: the buffer has room for `count` contiguous `datatype`s.
    unsafe {
        entry::<A>(error_code, |mpi, _| {
            let (direction, count, unit) = (Direction::Read, count.get(), Unit::Bytes);
            let callers = Callers::One;
            let access = Access { direction, buffer, count, datatype, position, unit, callers, status };
            let outcome = converted(mpi, fd, &access, |access| strided::contiguously(mpi, fd, access));
            let outcome = outcome.map(|_| ());
            match handle::of(&*fd)?.role {
                Role::SharedPointer => shared_pointer::withheld(outcome),
                Role::Data => outcome,
            }
        });
    }
}

pub(super) unsafe extern "C" fn write_contig<A: HasHost, C: Count>(
    fd: *mut RomioFile<A>,
    buffer: *const c_void,
    count: C,
    datatype: Datatype<A>,
    pointer: c_int,
    offset: i64,
    status: *mut A::Status,
    error_code: *mut c_int,
) {
    let position = Position { pointer, offset };
    // SAFETY: ROMIO's contract: the buffer holds `count` contiguous `datatype`s. A shared file pointer's
    // write must find the lock that its read took, so that `entry`, which settles that, is not used.
    unsafe {
        let outcome = coded::<A>(|mpi, _| {
            let role = handle::of(&*fd)?.role;
            if role == Role::Data {
                shared_pointer::settle();
            }
            let (direction, count, unit) = (Direction::Write, count.get(), Unit::Bytes);
            let (buffer, callers) = (buffer.cast_mut(), Callers::One);
            let access = Access { direction, buffer, count, datatype, position, unit, callers, status };
            let outcome = converted(mpi, fd, &access, |access| strided::contiguously(mpi, fd, access));
            let outcome = outcome.map(|_| ());
            match role {
                Role::SharedPointer => shared_pointer::withheld(outcome),
                Role::Data => outcome,
            }
        });
        error_code.write(outcome);
    }
}

/// One rank's access to a view.
///
/// # Safety
/// As [`strided::independently`].
unsafe fn independently<A: HasHost>(
    mpi: &Mpi<A>,
    fd: *mut RomioFile<A>,
    access: &Access<A>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let moved = unsafe { converted(mpi, fd, access, |access| strided::independently(mpi, fd, access)) };
    moved.map(|_| ())
}

/// The four blocking strided entries: collective or not, reading or writing.
macro_rules! strided_entries {
    ($($name:ident: $direction:expr, $callers:ident, $run:expr;)*) => {$(
        pub(super) unsafe extern "C" fn $name<A: HasHost, C: Count>(
            fd: *mut RomioFile<A>,
            buffer: *mut c_void,
            count: C,
            datatype: Datatype<A>,
            pointer: c_int,
            offset: i64,
            status: *mut A::Status,
            error_code: *mut c_int,
        ) {
            let position = Position { pointer, offset };
            let (direction, count, unit, callers) = ($direction, count.get(), Unit::Etypes, Callers::$callers);
            let access = Access { direction, buffer, count, datatype, position, unit, callers, status };
            // SAFETY: ROMIO's contract.
            unsafe { entry::<A>(error_code, |mpi, _| $run(mpi, fd, &access)) };
        }
    )*};
}

strided_entries! {
    read_strided: Direction::Read, One, independently;
    write_strided: Direction::Write, One, independently;
    read_strided_coll: Direction::Read, All, strided::collectively;
    write_strided_coll: Direction::Write, All, strided::collectively;
}

/// The nonblocking entries.
macro_rules! nonblocking_entries {
    ($($name:ident: $direction:expr, $unit:expr, $callers:ident;)*) => {$(
        pub(super) unsafe extern "C" fn $name<A: HasHost, C: Count>(
            fd: *mut RomioFile<A>,
            buffer: *mut c_void,
            count: C,
            datatype: Datatype<A>,
            pointer: c_int,
            offset: i64,
            request: *mut Request<A>,
            error_code: *mut c_int,
        ) {
            let mut status = std::mem::MaybeUninit::<A::Status>::zeroed();
            let (position, unit, status) = (Position { pointer, offset }, $unit, status.as_mut_ptr());
            let (direction, count, callers) = ($direction, count.get(), Callers::$callers);
            // SAFETY: ROMIO's contract; the status is a local one that nobody reads.
            unsafe {
                entry::<A>(error_code, |mpi, _| {
                    let access = Access { direction, buffer, count, datatype, position, unit, callers, status };
                    request.write(mpi.constants.request_null);
                    request.write(converted(mpi, fd, &access, |access| strided::begin(mpi, fd, access))?);
                    Ok(())
                });
            }
        }
    )*};
}

nonblocking_entries! {
    iread_contig: Direction::Read, Unit::Bytes, One;
    iwrite_contig: Direction::Write, Unit::Bytes, One;
    iread_strided: Direction::Read, Unit::Etypes, One;
    iwrite_strided: Direction::Write, Unit::Etypes, One;
    iread_strided_coll: Direction::Read, Unit::Etypes, All;
    iwrite_strided_coll: Direction::Write, Unit::Etypes, All;
}
