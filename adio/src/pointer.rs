//! Where a program is in a view, and where that is in the file.
//!
//! ROMIO computes this by its own flattened lists, which are wrong for some datatypes (of its 4.0 and before: types
//! with parts of no bytes, dealt-out arrays, tiles that begin before the ones before them end). Views without gaps are
//! left to it.

use std::ffi::c_int;
use std::sync::Arc;

use crate::abi::{Abi, MpiFile, SEEK_CUR, SEEK_END, SUCCESS, amode};
use crate::calls::Mpi;
use crate::failure::{self, ErrorClass, Failure};
use crate::handle;
use crate::layout::RomioFile;
use crate::view::View;

/// Sets the individual file pointer to `offset` etypes from the view's beginning; returns where that is in the file,
/// bytes.
pub(crate) fn seek<A: Abi>(mpi: &Mpi<A>, fd: &mut RomioFile<A>, offset: i64) -> Result<i64, Failure> {
    let Some(view) = strided(mpi, fd) else {
        fd.fp_ind = fd.byte_offset(offset);
        fd.fp_sys_posn = -1;
        return Ok(fd.fp_ind);
    };
    let (place, position) = view.place(offset).ok_or_else(|| {
        let name = fd.name().to_string_lossy();
        Failure::new(ErrorClass::Argument, format!("svm:{name}: etype {offset} lies outside of the view"))
    })?;
    note(fd, place, position);
    Ok(place)
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

/// How many etypes are before the individual file pointer. `None` where ROMIO knows it as well, or has to say that it
/// cannot be asked for.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's.
pub unsafe fn position<A: Abi>(mpi: &Mpi<A>, fd: *const RomioFile<A>) -> Option<i64> {
    // SAFETY: the caller vouches for the file.
    strided(mpi, unsafe { &*fd }).map(|view| view.etypes_before_pointer())
}

/// Learns how long the file is, where that is to be seen at once.
///
/// # Errors
/// That it cannot be asked for.
///
/// # Safety
/// As [`position`].
pub unsafe fn learn_end<A: Abi>(fd: *const RomioFile<A>) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the file.
    handle::of(unsafe { &*fd })?.size_to_see().map(drop)
}

/// How many etypes are before the end of the file: none where the view begins beyond it, which ROMIO does not take into
/// account. `None` as with [`position`].
///
/// # Safety
/// As [`position`].
pub unsafe fn end<A: Abi>(mpi: &Mpi<A>, fd: *const RomioFile<A>) -> Option<i64> {
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &*fd };
    let size = handle::of(fd).ok()?.file.size();
    let is_beyond = || may_be_asked_for(fd) && fd.byte_offset(0) > i64::try_from(size).unwrap_or(i64::MAX);
    strided(mpi, fd).map(|view| view.etypes_before(size)).or_else(|| is_beyond().then_some(0))
}

/// Where `offset` etypes from the view's beginning is in the file, bytes. `None` as with [`position`].
///
/// # Safety
/// As [`position`].
pub unsafe fn byte_offset<A: Abi>(mpi: &Mpi<A>, fd: *const RomioFile<A>, offset: i64) -> Option<i64> {
    // SAFETY: the caller vouches for the file.
    strided(mpi, unsafe { &*fd })?.place(offset).map(|(place, _)| place)
}

/// The error code of asking where the shared file pointer of `file` is, which makes the pointer's file where there is
/// none yet, and what is told: also in sequential mode, where programs may not ask.
///
/// # Safety
/// `fd` is ROMIO's structure of the device's file `file`, of which nobody has references.
pub unsafe fn shared<A: Abi>(mpi: &Mpi<A>, fd: *mut RomioFile<A>, file: MpiFile) -> (c_int, i64) {
    // SAFETY: the caller vouches for the file; this is the place of one integer.
    let mode = unsafe { &raw mut (*fd).access_mode };
    // SAFETY: as above.
    unsafe {
        let before = mode.read();
        mode.write(before & !amode::SEQUENTIAL);
        let told = mpi.shared_pointer(file);
        mode.write(before);
        told
    }
}

/// The error code of opening the shared file pointer of `file`, if it is not open.
///
/// # Safety
/// As [`shared`].
pub unsafe fn open_shared<A: Abi>(mpi: &Mpi<A>, fd: *mut RomioFile<A>, file: MpiFile) -> c_int {
    // SAFETY: the caller vouches for the file.
    if unsafe { (*fd).has_shared_pointer() } {
        return SUCCESS;
    }
    // SAFETY: as above.
    unsafe { shared(mpi, fd, file).0 }
}

/// Where rank 0 finds that the shared file pointer of `file` goes, etypes from the view's beginning: the same on all
/// ranks.
///
/// # Errors
/// `MPI_ERR_NOT_SAME` where the ranks do not ask for the same, `MPI_ERR_ARG` where that is before the view; that the
/// pointer cannot be read, or that a rank is lost: on all ranks.
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
            SEEK_END => unsafe { end(mpi, fd) }.map_or_else(|| end_without_gaps(unsafe { &*fd }), Ok)?,
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

/// The same as [`end`] in a view without gaps.
fn end_without_gaps<A: Abi>(fd: &RomioFile<A>) -> Result<i64, Failure> {
    let size = i64::try_from(handle::of(fd)?.file.size()).unwrap_or(i64::MAX);
    let unit = (fd.byte_offset(1) - fd.byte_offset(0)).max(1);
    let bytes = size.saturating_sub(fd.byte_offset(0)).max(0);
    Ok(bytes / unit + i64::from(bytes % unit > 0))
}

/// The view, if it has gaps, and pointers may be asked for.
fn strided<A: Abi>(mpi: &Mpi<A>, fd: &RomioFile<A>) -> Option<View> {
    if fd.filetype.0 == mpi.constants.byte.0 || !may_be_asked_for(fd) {
        return None;
    }
    View::of(mpi, fd).ok().filter(|view| !view.is_contiguous())
}

/// Whether the individual file pointer may be asked for, and set.
fn may_be_asked_for<A: Abi>(fd: &RomioFile<A>) -> bool {
    fd.orig_access_mode & amode::SEQUENTIAL == 0
}
