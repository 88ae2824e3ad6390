//! The memory of simulated processes: zeroed, shared by all stacks of the one real process.

use crate::back_end::Backing;
use crate::error::Result;
use crate::mapping::{self, Pages};
use crate::memory::{SharedMemory, UserMemory};

/// Maps what `backing` tells.
///
/// # Errors
/// `Memory`; `OutOfBounds` where a file is too short; `System`.
pub(crate) fn map(backing: &Backing) -> Result<SharedMemory> {
    const WHAT: &str = "a simulated segment";
    match backing {
        // Of thousands of processes, hardly any touches all of its own.
        Backing::Anonymous { length } => mapping::anonymous(WHAT, *length, Pages::Untouched),
        Backing::File { file, offset, length } => mapping::of_file(WHAT, file, *offset, *length),
    }
}

/// Bytes of a segment.
pub(crate) fn length_of(backing: &Backing) -> u64 {
    match backing {
        Backing::Anonymous { length } | Backing::File { length, .. } => *length,
    }
}

/// Copies `length` bytes from `offset` on out of a process's own memory.
///
/// # Safety
/// The range must be valid, and unchanged meanwhile.
pub(crate) unsafe fn read_user(memory: UserMemory, offset: usize, length: usize) -> Vec<u8> {
    let part = memory.part(offset, length);
    // SAFETY: `part` keeps within the range, which the caller says is valid.
    unsafe { std::slice::from_raw_parts(part.start.as_ptr(), part.length) }.to_vec()
}

/// Copies `bytes` to `offset` of a process's own memory, as far as they are within it.
///
/// # Safety
/// The range must be valid, and no one else use it meanwhile.
pub(crate) unsafe fn write_user(memory: UserMemory, offset: usize, bytes: &[u8]) {
    let part = memory.part(offset, bytes.len());
    // SAFETY: `part` keeps within the range, which the caller says is valid; `bytes` is a buffer of our own.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), part.start.as_ptr(), part.length) };
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::sync::Arc;

    use super::map;
    use crate::back_end::Backing;
    use crate::error::Error;

    #[test]
    fn what_is_not_in_the_file_is_refused() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(5000).unwrap();
        let backing = Backing::File { file: Arc::new(file), offset: 4096, length: 905 };
        let short = map(&backing);
        assert!(matches!(short, Err(Error::OutOfBounds { size: 5000, .. })), "{short:?}");
    }
}
