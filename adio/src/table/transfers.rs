//! The entries that read and write: contiguous or not, of one rank or of all, blocking or not.

use std::ffi::{c_int, c_void};

use crate::abi::{Datatype, Request};
use crate::access::{self, Access, Callers, Direction, Unit};
use crate::contiguous::Position;
use crate::converting::converted;
use crate::failure::Failure;
use crate::handle::{self, Role};
use crate::host::{Count, HasHost};
use crate::layout::RomioFile;
use crate::plug;
use crate::shared_pointer;
use crate::strided;

use super::{coded, entry};

/// Notes why a read has failed whose data ROMIO converts: it returns what comes of that. What it returns of a write is
/// the failure.
///
/// # Safety
/// `fd` is ROMIO's file.
unsafe fn noted<A: HasHost, T>(fd: *mut RomioFile<A>, outcome: Result<T, Failure>) -> Result<T, Failure> {
    outcome.inspect_err(|failure| {
        // SAFETY: the caller's promise.
        if unsafe { (*fd).is_external32() } {
            plug::note_unread(failure.clone());
        }
    })
}

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
            let (callers, may_be_converted) = (Callers::One, true);
            let access = Access {
                direction,
                buffer,
                count,
                datatype,
                position,
                unit,
                callers,
                may_be_converted,
                status,
            };
            let outcome = noted(fd, strided::contiguously(mpi, fd, &access)).map(|_| ());
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
            let (buffer, callers, may_be_converted) = (buffer.cast_mut(), Callers::One, true);
            let access = Access {
                direction,
                buffer,
                count,
                datatype,
                position,
                unit,
                callers,
                may_be_converted,
                status,
            };
            let outcome = strided::contiguously(mpi, fd, &access).map(|_| ());
            match role {
                Role::SharedPointer => shared_pointer::withheld(outcome),
                Role::Data => outcome,
            }
        });
        error_code.write(outcome);
    }
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
            let may_be_converted = access::may_be_converted();
            let access = Access {
                direction, buffer, count, datatype, position, unit, callers, may_be_converted, status,
            };
            // SAFETY: ROMIO's contract.
            unsafe {
                entry::<A>(error_code, |mpi, _| {
                    noted(fd, converted(mpi, fd, &access, |access| $run(mpi, fd, access)))
                });
            }
        }
    )*};
}

strided_entries! {
    read_strided: Direction::Read, One, |mpi, fd, access| strided::independently(mpi, fd, access).map(|_| ());
    write_strided: Direction::Write, One, |mpi, fd, access| strided::independently(mpi, fd, access).map(|_| ());
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
                entry::<A>(error_code, |mpi, host| {
                    let may_be_converted =
                        callers == Callers::All || host.generation().converts_nonblocking();
                    let access = Access {
                        direction, buffer, count, datatype, position, unit, callers, may_be_converted, status,
                    };
                    request.write(mpi.constants.request_null);
                    let begun = converted(mpi, fd, &access, |access| strided::begin(mpi, fd, access));
                    request.write(noted(fd, begun)?);
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
