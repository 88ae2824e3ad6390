//! What all ranks do around an ordered access, and before the shared pointer is moved.

use crate::abi::Abi;
use crate::access::Direction;
use crate::failure::Failure;
use crate::handle;
use crate::layout::RomioFile;
use crate::visibility::Visibility;

/// Before the shared pointer of the file `fd` is moved: nobody is at an earlier access, and where several nodes share
/// the file, each sees what the others wrote.
///
/// # Errors
/// What keeps a node from giving or seeing it, on all ranks.
///
/// # Safety
/// As [`after_ordered_access`].
pub unsafe fn exchange<A: Abi>(fd: *const RomioFile<A>) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &*fd };
    let handle = handle::of(fd)?;
    handle.begin_change()?;
    handle.show_all()
}

/// Begins an ordered access to the file `fd`: where several nodes share it, and it is a read that follows a collective
/// write, all see what was written.
///
/// # Errors
/// What keeps a node from giving or seeing it, on all ranks.
///
/// # Safety
/// As [`after_ordered_access`].
pub unsafe fn before_ordered_access<A: Abi>(
    fd: *const RomioFile<A>,
    direction: Direction,
) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the file.
    let handle = handle::of(unsafe { &*fd })?;
    if direction == Direction::Read { handle.show_unshown() } else { Ok(()) }
}

/// Ends an ordered access to the file `fd`: all hear of what has failed, for none comes to the next one where one is
/// missing; and where several nodes share it, they know how long it is then, and see what was written: what is kept
/// back by each would save little, as they write one after the other.
///
/// # Errors
/// What failed on any rank, on all; that a rank is lost.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's, and every rank of the file makes the same call.
pub unsafe fn after_ordered_access<A: Abi>(
    fd: *const RomioFile<A>,
    direction: Direction,
) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &*fd };
    let handle = handle::of(fd)?;
    handle.asking.resume();
    handle.tell_failures(match (handle.company(), direction) {
        (Some(_), Direction::Write) if handle.visibility == Visibility::Sync => handle.show_all(),
        (Some(_), _) => handle.team.end_of_write(&handle.file, Ok(())),
        (None, _) => Ok(()),
    })
}
