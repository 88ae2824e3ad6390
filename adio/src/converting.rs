//! Converting to and from `external32`, in the place of ROMIO, which does not hear that a view asks for it.
//!
//! ROMIO converts in a buffer of its own that is too short for data with gaps between elements, or behind the beginning,
//! and writes beyond its end. What has another size there it stores so that only the same access finds it again. Its
//! releases up to 4.0 convert nothing that one rank reads or writes without blocking, and none of them what is read in
//! order. So a view's representation is [the handle's](crate::handle::Handle::is_external32), and told by
//! [`hidden_representation`](crate::viewing::hidden_representation).
//!
//! ```text
//!   buffer ── in the order of the datatype ──► bytes ── each element turned round ──► external32
//!                                                            (elements)
//! ```
//!
//! MPI's own functions for that are not of use: some take no struct, and no more than two gigabytes, and end the job over
//! what they do not take.

mod elements;

use crate::abi::Abi;
use crate::access::{Access, Direction};
use crate::calls::Mpi;
use crate::failure::{ErrorClass, Failure};
use crate::flatten::{self, Cursor, Shape};
use crate::handle;
use crate::layout::RomioFile;

use elements::Elements;

/// Runs an access that is over when `run` returns, with its data converted where the view asks for that.
///
/// # Errors
/// [`ErrorClass::Unsupported`] for elements that have another size or form in `external32`, and structs of millions of
/// different ones; that there is no memory for the data; those of `run`.
///
/// # Safety
/// `fd` and the parts of `access` are as ROMIO gave them.
pub(crate) unsafe fn converted<A: Abi, T>(
    mpi: &Mpi<A>,
    fd: *mut RomioFile<A>,
    access: &Access<A>,
    run: impl FnOnce(&Access<A>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    // SAFETY: ROMIO's file is valid.
    if !handle::of(unsafe { &*fd })?.is_external32() {
        return run(access);
    }
    let bytes = mpi.type_size(access.datatype).saturating_mul(access.count.unsigned_abs());
    if bytes == 0 {
        return run(access);
    }
    // SAFETY: as above.
    let name = || unsafe { (*fd).name() }.to_string_lossy();
    let elements = Elements::repeated_in(mpi, access.datatype).ok_or_else(|| {
        let message = format!(
            "svm:{}: no access: in external32 its elements have another size or form, as MPI_LONG, or they differ too often",
            name()
        );
        Failure::new(ErrorClass::Unsupported, message)
    })?;
    if elements.are_bytes() {
        return run(access);
    }
    let memory = Shape::clone(&*flatten::of(mpi, access.datatype)?)
        .repeated(access.count, mpi.extent(access.datatype))
        .ok_or_else(|| Failure::new(ErrorClass::Argument, "the buffer is larger than memory can be"))?;
    let mut packed = Vec::new();
    packed.try_reserve_exact(bytes as usize).map_err(|_| {
        let message = format!("svm:{}: no memory to convert {bytes} bytes in", name());
        Failure::new(ErrorClass::Other, message)
    })?;
    // Of a read, too: what lies behind the end of the file is not read, and stays as it is.
    // SAFETY: the caller vouches for the buffer.
    unsafe { gather(&memory, access.buffer.cast(), &mut packed) };
    elements.turn_round(&mut packed);
    let own = Access {
        buffer: packed.as_mut_ptr().cast(),
        count: packed.len() as i64,
        datatype: mpi.constants.byte,
        ..*access
    };
    let outcome = run(&own)?;
    if access.direction == Direction::Read {
        elements.turn_round(&mut packed);
        // SAFETY: as above.
        unsafe { scatter(&packed, &memory, access.buffer.cast()) };
    }
    Ok(outcome)
}

/// Appends the data of a buffer.
///
/// # Safety
/// All of `memory` is there, from `buffer` on.
unsafe fn gather(memory: &Shape, buffer: *const u8, packed: &mut Vec<u8>) {
    each_run(memory, |at, length| {
        // SAFETY: the caller's promise.
        packed.extend_from_slice(unsafe { std::slice::from_raw_parts(buffer.wrapping_offset(at), length) });
    });
}

/// Puts what [`gather`] found back.
///
/// # Safety
/// As there; it may be written to.
unsafe fn scatter(packed: &[u8], memory: &Shape, buffer: *mut u8) {
    let mut left = packed;
    each_run(memory, |at, length| {
        let (run, rest) = left.split_at(length);
        // SAFETY: the caller's promise; `packed` is memory of our own.
        unsafe { std::ptr::copy_nonoverlapping(run.as_ptr(), buffer.wrapping_offset(at), length) };
        left = rest;
    });
}

/// Tells of each run of bytes where it begins and how long it is.
fn each_run(memory: &Shape, mut each: impl FnMut(isize, usize)) {
    let mut cursor = Cursor::at(memory, 0);
    loop {
        let runs = cursor.ahead();
        for number in 0..runs.count {
            each((runs.at + runs.stride * number) as isize, runs.length as usize);
        }
        if !cursor.advance(runs.length * runs.count) {
            return;
        }
    }
}
