//! The user's memory, of which an operation has the use until its outcome is set.

use crate::memory::UserMemory;

/// Reads a part of it.
///
/// # Safety
/// The memory must be valid, and not be written to, as long as the slice is used.
pub(super) unsafe fn bytes<'a>(memory: UserMemory) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(memory.start.as_ptr(), memory.length) }
}

/// Writes to a part of it.
///
/// # Safety
/// The memory must be valid and nobody else use it as long as the slice is used.
pub(super) unsafe fn bytes_mut<'a>(memory: UserMemory) -> &'a mut [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(memory.start.as_ptr(), memory.length) }
}
