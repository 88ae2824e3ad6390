//! Contiguous reads and writes: what every other access comes down to.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use svmio_svm::{FileOffset, LockMode};

use crate::abi::Abi;
use crate::failure::{ErrorClass, Failure};
use crate::handle::{self, Handle, Role};
use crate::layout::{INDIVIDUAL, RomioFile};
use crate::shared_pointer;

/// Where in the file an access goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    /// Whether it is the individual file pointer or `offset`.
    pub(crate) pointer: c_int,
    /// Bytes from the beginning of the file.
    pub(crate) offset: i64,
}

/// Reads `length` bytes to `to` and returns how many there were before the end of the file.
///
/// # Safety
/// `to` is valid for writes of `length` bytes.
pub(crate) unsafe fn read<A: Abi>(
    fd: &mut RomioFile<A>,
    to: *mut c_void,
    length: u64,
    position: Position,
) -> Result<u64, Failure> {
    let handle = handle::of(fd)?;
    let offset = offset(fd, position)?;
    let read = || {
        // SAFETY: the caller vouches for `to`.
        Ok(unsafe { handle.file.read_into(offset, to.cast(), length as usize) }? as u64)
    };
    let read = match handle.role {
        Role::SharedPointer => shared_pointer::before_read(handle).and_then(|()| read()),
        Role::Data => locked(handle, offset.0..offset.0.saturating_add(length), LockMode::Shared, read),
    };
    let read = read.map_err(|failure| handle.located(failure))?;
    advance(fd, position, read);
    Ok(read)
}

/// Writes `length` bytes from `source`.
///
/// # Safety
/// `source` is valid for reads of `length` bytes.
pub(crate) unsafe fn write<A: Abi>(
    fd: &mut RomioFile<A>,
    source: *const c_void,
    length: u64,
    position: Position,
) -> Result<u64, Failure> {
    let handle = handle::of(fd)?;
    let offset = offset(fd, position)?;
    let write = || {
        // SAFETY: the caller vouches for `source`.
        unsafe { handle.file.write_from(offset, source.cast(), length as usize) }?;
        Ok(length)
    };
    let written = match handle.role {
        Role::SharedPointer => shared_pointer::write(handle, write),
        Role::Data => locked(handle, offset.0..offset.0.saturating_add(length), LockMode::Exclusive, write),
    };
    let written = written.map_err(|failure| handle.located(failure))?;
    advance(fd, position, written);
    Ok(written)
}

/// Runs an access to `range` of the data, in atomic mode while holding a lock on it, so that others see it as they are
/// to.
fn locked(
    handle: &Handle,
    range: Range<u64>,
    mode: LockMode,
    access: impl FnOnce() -> Result<u64, Failure>,
) -> Result<u64, Failure> {
    match mode {
        mode if handle.is_atomic() => handle.locked(range, mode, access),
        LockMode::Shared => handle.reading(range, access),
        LockMode::Exclusive => handle.writing(range, access),
    }
}

fn offset<A: Abi>(fd: &RomioFile<A>, position: Position) -> Result<FileOffset, Failure> {
    let offset = if position.pointer == INDIVIDUAL { fd.fp_ind } else { position.offset };
    u64::try_from(offset).map(FileOffset).map_err(|_| {
        let message = format!("offset {offset} of svm:{} lies before the file", fd.name().to_string_lossy());
        Failure::new(ErrorClass::Argument, message)
    })
}

fn advance<A: Abi>(fd: &mut RomioFile<A>, position: Position, bytes: u64) {
    if position.pointer == INDIVIDUAL {
        fd.fp_ind = fd.fp_ind.saturating_add_unsigned(bytes);
    }
    fd.fp_sys_posn = -1;
}
