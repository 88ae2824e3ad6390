//! Converting to and from `external32` what ROMIO leaves as it is.
//!
//! ROMIO up to 4.0 converts nothing that one rank reads or writes without blocking, and none of them what is read in
//! order. Who else accesses the same bytes gets them converted, and so do these here. Where such an access is told as
//! one that blocks (in atomic mode, of bytes in a row), nothing tells it from those that ROMIO converts.

use crate::abi::Abi;
use crate::access::{Access, Direction};
use crate::calls::Mpi;
use crate::failure::Failure;
use crate::layout::RomioFile;

/// Runs an access that is over when `run` returns, with its data converted where the view asks for that and ROMIO has
/// not done it.
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
    if access.may_be_converted || !unsafe { (*fd).is_external32() } {
        return run(access);
    }
    let Access { direction, buffer, count, datatype, .. } = *access;
    // Of a read, too: what lies behind the end of the file is not read, and stays as it is.
    // SAFETY: the caller vouches for the buffer.
    let mut packed = unsafe { mpi.packed(buffer, count, datatype) }?;
    let (bytes, byte) = (packed.len() as i64, mpi.constants.byte);
    let own = Access {
        buffer: packed.as_mut_ptr().cast(),
        count: bytes,
        datatype: byte,
        may_be_converted: true,
        ..*access
    };
    let outcome = run(&own)?;
    if direction == Direction::Read {
        // SAFETY: as above.
        unsafe { mpi.unpack(&packed, buffer, count, datatype) }?;
    }
    Ok(outcome)
}
