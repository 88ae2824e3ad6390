//! What all ranks do around an ordered access, and before the shared pointer is moved.

use crate::abi::{Abi, Datatype};
use crate::access::Direction;
use crate::calls::Mpi;
use crate::failure::{ErrorClass, Failure};
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

/// Why MPI refuses this rank's part of an ordered access, `count` of `datatype`, before it has waited for its turn: the
/// ranks behind it would wait for ever.
///
/// # Errors
/// The reason.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's; `datatype` is one of MPI's, or none.
pub unsafe fn check_ordered_part<A: Abi>(
    mpi: &Mpi<A>,
    fd: *const RomioFile<A>,
    count: i64,
    datatype: Datatype<A>,
) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &*fd };
    let refused = |class: ErrorClass, what: &str| {
        let message = format!("svm:{}: no ordered access: {what}", fd.name().to_string_lossy());
        Err(Failure::new(class, message))
    };
    let Ok(times) = u64::try_from(count) else {
        return refused(ErrorClass::Argument, &format!("the count, {count}, is negative"));
    };
    if datatype.0 == mpi.constants.datatype_null.0 {
        return refused(ErrorClass::Argument, "the datatype is MPI_DATATYPE_NULL");
    }
    if !mpi.is_committed(datatype) {
        return refused(ErrorClass::Argument, "the datatype is not committed");
    }
    let (bytes, unit) = (times.saturating_mul(mpi.type_size(datatype)), fd.etype_size());
    if unit != 0 && bytes % unit != 0 {
        return refused(ErrorClass::Io, &format!("{bytes} bytes are no multiple of an etype's {unit}"));
    }
    Ok(())
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
