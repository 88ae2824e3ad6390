//! Where a program is in a view, and where that is in the file.
//!
//! ROMIO computes this by its own flattened lists, which are wrong for some datatypes (of its 4.0 and before: types
//! with parts of no bytes, dealt-out arrays, tiles that begin before the ones before them end), and in numbers that may
//! overflow. What it refuses it calls a success in some functions. So it is not asked.

use std::ffi::c_int;
use std::sync::Arc;

use crate::abi::{Abi, MpiFile, SEEK_CUR, SEEK_END, SEEK_SET, SUCCESS, amode};
use crate::calls::Mpi;
use crate::failure::{self, ErrorClass, Failure};
use crate::handle;
use crate::layout::RomioFile;
use crate::shared_pointer;
use crate::view::View;

/// Sets the individual file pointer to `offset` etypes from the view's beginning; returns where that is in the file,
/// bytes.
pub(crate) fn seek<A: Abi>(mpi: &Mpi<A>, fd: &mut RomioFile<A>, offset: i64) -> Result<i64, Failure> {
    let (place, position) = place(mpi, fd, offset)?;
    match position {
        Some(position) => note(fd, place, position),
        None => (fd.fp_ind, fd.fp_sys_posn) = (place, -1),
    }
    Ok(place)
}

/// Where `offset` etypes from the view's beginning is in the file, bytes; and, in a view with gaps, which byte of the
/// view's data that is.
fn place<A: Abi>(mpi: &Mpi<A>, fd: &RomioFile<A>, offset: i64) -> Result<(i64, Option<i64>), Failure> {
    let found = match strided(mpi, fd) {
        Some(view) => view.place(offset).map(|(place, position)| (place, Some(position))),
        None => fd.checked_byte_offset(offset).filter(|_| offset >= 0).map(|place| (place, None)),
    };
    found.ok_or_else(|| {
        let name = fd.name().to_string_lossy();
        Failure::new(ErrorClass::Argument, format!("svm:{name}: etype {offset} lies outside of the view"))
    })
}

/// Sets the individual file pointer to where byte `position` of the view's data is: where tiles of the view begin
/// before the ones before them end, that would be laborious to find out again.
pub(crate) fn note<A: Abi>(fd: &mut RomioFile<A>, place: i64, position: i64) {
    if let Ok(handle) = handle::of(fd) {
        handle.note_pointer(Some((place, position)));
    }
    fd.fp_ind = place;
    fd.fp_sys_posn = -1;
}

/// How many etypes are before the individual file pointer.
///
/// # Errors
/// `MPI_ERR_UNSUPPORTED_OPERATION` in sequential mode.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's.
pub unsafe fn position<A: Abi>(mpi: &Mpi<A>, fd: *const RomioFile<A>) -> Result<i64, Failure> {
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &*fd };
    may_be_asked_for(fd)?;
    let without_gaps = || (fd.fp_ind - fd.byte_offset(0)) / unit(fd);
    Ok(strided(mpi, fd).map_or_else(without_gaps, |view| view.etypes_before_pointer()))
}

/// Where the individual file pointer goes, etypes from the view's beginning.
///
/// # Errors
/// As [`position`]; `MPI_ERR_ARG` where that is outside of the view, or `whence` is none of MPI's; that the end of the
/// file cannot be asked for.
///
/// # Safety
/// As [`position`].
pub unsafe fn target<A: Abi>(
    mpi: &Mpi<A>,
    fd: *const RomioFile<A>,
    offset: i64,
    whence: c_int,
) -> Result<i64, Failure> {
    // SAFETY: the caller vouches for the file.
    let before = unsafe { position(mpi, fd) }?;
    // SAFETY: as above.
    let fd = unsafe { &*fd };
    let refused = |what: String| {
        Failure::new(ErrorClass::Argument, format!("svm:{}: {what}", fd.name().to_string_lossy()))
    };
    let base = match whence {
        SEEK_SET => 0,
        SEEK_CUR => before,
        SEEK_END => {
            handle::of(fd)?.size_to_see()?;
            end(mpi, fd)?
        }
        _ => return Err(refused(format!("a file pointer is not moved by the way {whence}"))),
    };
    let target = base.checked_add(offset).ok_or_else(|| {
        refused(format!("{offset} etypes from etype {base} are further than a file pointer goes"))
    })?;
    place(mpi, fd, target).map(|_| target)
}

/// How many etypes are before the end of the file: none where the view begins beyond it.
fn end<A: Abi>(mpi: &Mpi<A>, fd: &RomioFile<A>) -> Result<i64, Failure> {
    let size = handle::of(fd)?.file.size();
    let without_gaps = || {
        let bytes = i64::try_from(size).unwrap_or(i64::MAX).saturating_sub(fd.byte_offset(0)).max(0);
        bytes / unit(fd) + i64::from(bytes % unit(fd) > 0)
    };
    Ok(strided(mpi, fd).map_or_else(without_gaps, |view| view.etypes_before(size)))
}

/// Where `offset` etypes from the view's beginning is in the file, bytes.
///
/// # Errors
/// As [`position`]; `MPI_ERR_ARG` where that is outside of the view.
///
/// # Safety
/// As [`position`].
pub unsafe fn byte_offset<A: Abi>(
    mpi: &Mpi<A>,
    fd: *const RomioFile<A>,
    offset: i64,
) -> Result<i64, Failure> {
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &*fd };
    may_be_asked_for(fd)?;
    place(mpi, fd, offset).map(|(place, _)| place)
}

/// The error code of asking where the shared file pointer of `file` is, which makes the pointer's file where there is
/// none yet, and what is told: also in sequential mode, where programs may not ask. Several threads may ask at once:
/// ROMIO hears of that mode again when the last one has.
///
/// # Safety
/// `fd` is ROMIO's structure of the device's file `file`, of which nobody has references.
pub unsafe fn shared<A: Abi>(mpi: &Mpi<A>, fd: *mut RomioFile<A>, file: MpiFile) -> (c_int, i64) {
    // SAFETY: the caller vouches for the file.
    unsafe {
        match open_shared(mpi, fd, file) {
            SUCCESS => told(mpi, fd, file),
            code => (code, 0),
        }
    }
}

/// What [`shared`] tells, where no other thread opens the pointer.
///
/// # Safety
/// As [`shared`].
unsafe fn told<A: Abi>(mpi: &Mpi<A>, fd: *mut RomioFile<A>, file: MpiFile) -> (c_int, i64) {
    // SAFETY: the caller vouches for the file, which stays open meanwhile.
    let handle = unsafe { handle::shared(&*fd) };
    // SAFETY: as above.
    let is_sequential = unsafe { (*fd).is_sequential() };
    let Some(handle) = handle.ok().filter(|_| is_sequential) else {
        // SAFETY: as above.
        return unsafe { mpi.shared_pointer(file) };
    };
    // SAFETY: as above; this is the place of one integer.
    let mode = unsafe { &raw mut (*fd).access_mode };
    handle.without_sequential.enter(|| {
        // SAFETY: ROMIO's structure, of which no references are held; threads write there one after the other.
        unsafe { mode.write(mode.read() & !amode::SEQUENTIAL) }
    });
    // SAFETY: as above.
    let told = unsafe { mpi.shared_pointer(file) };
    handle.without_sequential.leave(|| {
        // SAFETY: as above.
        unsafe { mode.write(mode.read() | amode::SEQUENTIAL) }
    });
    told
}

/// The error code of opening the shared file pointer of `file`, if it is not open. Of several threads one opens it.
///
/// # Safety
/// As [`shared`].
pub unsafe fn open_shared<A: Abi>(mpi: &Mpi<A>, fd: *mut RomioFile<A>, file: MpiFile) -> c_int {
    let opened = || {
        // SAFETY: the caller vouches for the file.
        let code = unsafe { if (*fd).has_shared_pointer() { SUCCESS } else { told(mpi, fd, file).0 } };
        // Who goes on into MPI holds no lock of the pointer: another thread may wait for it there, and have what MPI
        // takes first.
        shared_pointer::settle();
        code
    };
    // SAFETY: the caller vouches for the file, which stays open meanwhile.
    match unsafe { handle::shared(&*fd) } {
        // No rank waits for another one in there.
        Ok(handle) => handle.opening_pointer.take(opened),
        Err(_) => opened(),
    }
}

/// Where rank 0 finds that the shared file pointer of `file` goes, etypes from the view's beginning: the same on all
/// ranks.
///
/// # Errors
/// `MPI_ERR_NOT_SAME` where the ranks do not ask for the same, `MPI_ERR_ARG` where that is before the view, or `whence`
/// is none of MPI's; that the pointer cannot be read, or that a rank is lost: on all ranks.
///
/// # Safety
/// `fd` is ROMIO's structure of the device's file `file`, and every rank of the file makes the same call.
pub unsafe fn shared_target<A: Abi>(
    mpi: &Mpi<A>,
    fd: *const RomioFile<A>,
    file: MpiFile,
    offset: i64,
    whence: c_int,
) -> Result<i64, Failure> {
    let (team, name) = {
        // SAFETY: the caller vouches for the file.
        let handle = handle::of(unsafe { &*fd })?;
        let (team, name) = (Arc::clone(&handle.team), handle.file.name().to_string());
        let [most, least, last, first] = team.maxima([offset, !offset, whence.into(), !i64::from(whence)])?;
        if (most, last) != (!least, !first) {
            let message =
                format!("{name}: the ranks move the shared file pointer differently, this one by {offset}");
            return Err(handle.located(Failure::new(ErrorClass::NotSame, message)));
        }
        (team, name)
    };
    // Refused by each rank, for it is the same on all of them.
    if ![SEEK_SET, SEEK_CUR, SEEK_END].contains(&whence) {
        let message = format!("{name}: the shared file pointer is not moved by the way {whence}");
        return Err(Failure::new(ErrorClass::Argument, message));
    }
    let found = || {
        let base = match whence {
            // SAFETY: the caller vouches for the file.
            SEEK_CUR => match unsafe { mpi.shared_pointer(file) } {
                (SUCCESS, position) => position,
                (code, _) => {
                    let failed = || Failure::new(ErrorClass::Io, format!("{name}: no shared file pointer"));
                    return Err(failure::behind(code).unwrap_or_else(failed));
                }
            },
            // SAFETY: as above.
            SEEK_END => end(mpi, unsafe { &*fd })?,
            _ => 0,
        };
        base.checked_add(offset).filter(|target| *target >= 0).ok_or_else(|| {
            let message = format!("{name}: the shared file pointer cannot go before the view's beginning");
            Failure::new(ErrorClass::Argument, message)
        })
    };
    let mine = if team.member() == 0 { found() } else { Ok(0) };
    let told = team.told(0, mine.map(|target| target.to_ne_bytes().to_vec()))?;
    told.try_into()
        .map(i64::from_ne_bytes)
        .map_err(|_| Failure::new(ErrorClass::Other, "rank 0 told no offset"))
}

/// The view, if it has gaps. In sequential mode nobody asks for a pointer in it.
fn strided<A: Abi>(mpi: &Mpi<A>, fd: &RomioFile<A>) -> Option<View> {
    if fd.filetype.0 == mpi.constants.byte.0 || fd.is_sequential() {
        return None;
    }
    View::of(mpi, fd).ok().filter(|view| !view.is_contiguous())
}

/// Bytes of an etype.
fn unit<A: Abi>(fd: &RomioFile<A>) -> i64 {
    i64::try_from(fd.etype_size()).unwrap_or(i64::MAX).max(1)
}

/// Whether the individual file pointer may be asked for, and set.
fn may_be_asked_for<A: Abi>(fd: &RomioFile<A>) -> Result<(), Failure> {
    if !fd.is_sequential() {
        return Ok(());
    }
    let name = fd.name().to_string_lossy();
    let message = format!("svm:{name}: in sequential mode there is no file pointer of one rank's own");
    Err(Failure::new(ErrorClass::Unsupported, message))
}
