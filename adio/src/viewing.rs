//! Setting a view without ROMIO's own flattening of the file type.
//!
//! ROMIO makes a list of all pieces of a file type when a view is set: megabytes for a vector of a million blocks. That
//! of its older releases also refuses types that are right, and writes beyond its list for some, those without data
//! among them. The device needs no such list. So ROMIO is given a simple type of the same kind for the time of the
//! call, and the program's own one is put in its place then.

use std::ffi::c_int;
use std::sync::PoisonError;

use crate::abi::{Abi, Datatype, SUCCESS};
use crate::calls::Mpi;
use crate::flatten;
use crate::handle;
use crate::layout::RomioFile;
use crate::pointer;

/// `MPI_File_set_view` in the representation "native" by `stock`, which is given the file type to use; within
/// [`replacing`].
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's, and the datatypes are the program's.
pub unsafe fn set_view<A: Abi>(
    mpi: &Mpi<A>,
    fd: *mut RomioFile<A>,
    (displacement, etype, filetype): (i64, Datatype<A>, Datatype<A>),
    stock: impl FnOnce(Datatype<A>) -> c_int,
) -> c_int {
    // All that may fail comes before, so that no rank fails alone in what all do together.
    let made = gap_in(mpi, displacement, etype, filetype).and_then(|gap| {
        let substitute = mpi.datatype_with_gap(mpi.type_size(etype), gap).ok()?;
        let own = mpi.duplicate(filetype).inspect_err(|_| mpi.free_datatype(substitute)).ok()?;
        Some((substitute, own))
    });
    let Some((substitute, own)) = made else { return stock(filetype) };
    let code = stock(substitute);
    mpi.free_datatype(substitute);
    if code != SUCCESS {
        mpi.free_datatype(own);
        return code;
    }
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &mut *fd };
    let romios = std::mem::replace(&mut fd.filetype, own);
    if let Ok(handle) = handle::of(fd) {
        *handle.replaced.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(romios));
    }
    if let Err(failure) = pointer::seek(mpi, fd, 0) {
        // So will each access, for the same reason.
        tracing::debug!("{}", failure.message);
    }
    code
}

/// A view for which ROMIO was given its own type again: what the device had in its place.
#[derive(Debug)]
#[must_use]
pub struct PutBack<A: Abi> {
    /// The program's type, and ROMIO's.
    types: Option<(Datatype<A>, Datatype<A>)>,
    pointer: Option<(i64, i64)>,
}

/// Before ROMIO gives up the view of the file `fd`, or refuses to: it finds its own copy of the file type, to which its
/// list of pieces belongs. [`finish`] has to follow.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's.
pub unsafe fn put_back<A: Abi>(fd: *mut RomioFile<A>) -> PutBack<A> {
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &mut *fd };
    let Ok(handle) = handle::of(fd) else { return PutBack { types: None, pointer: None } };
    let pointer = handle.take_pointer();
    let romios = handle.replaced.lock().unwrap_or_else(PoisonError::into_inner).take();
    let romios = romios.and_then(|romios| romios.downcast::<Datatype<A>>().ok());
    let types = romios.map(|romios| (std::mem::replace(&mut fd.filetype, *romios), *romios));
    PutBack { types, pointer }
}

/// `MPI_File_set_view` by `set`; where ROMIO refuses the new view, the one before
/// stays in force as it was.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's, of which nobody has references.
pub unsafe fn replacing<A: Abi>(mpi: &Mpi<A>, fd: *mut RomioFile<A>, set: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller vouches for the file.
    let before = unsafe { put_back(fd) };
    if let Some((_, romios)) = before.types {
        // By its shape it is known again: another type may be given the same handle when ROMIO has freed it.
        let _ = flatten::of(mpi, romios);
    }
    let code = set();
    // SAFETY: as above.
    unsafe {
        match code {
            SUCCESS => finish(mpi, before),
            _ => restore(mpi, &mut *fd, before),
        }
    }
    code
}

/// After ROMIO has given up a view.
pub fn finish<A: Abi>(mpi: &Mpi<A>, before: PutBack<A>) {
    if let Some((own, _)) = before.types {
        mpi.free_datatype(own);
    }
}

/// After ROMIO has refused a view: that of before is in force again, unless ROMIO itself has not kept it.
fn restore<A: Abi>(mpi: &Mpi<A>, fd: &mut RomioFile<A>, before: PutBack<A>) {
    if let Some((own, romios)) = before.types {
        if fd.filetype.0 != romios.0 || !flatten::is_kept(mpi, romios) {
            return mpi.free_datatype(own);
        }
        fd.filetype = own;
    }
    if let Ok(handle) = handle::of(fd) {
        handle.note_pointer(before.pointer);
        if let Some((_, romios)) = before.types {
            *handle.replaced.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(romios));
        }
    }
}

/// The gap that a simple type of the same kind has, bytes, for a file type that obeys MPI's rules. ROMIO has the say
/// about all others, and about predefined ones.
fn gap_in<A: Abi>(
    mpi: &Mpi<A>,
    displacement: i64,
    etype: Datatype<A>,
    filetype: Datatype<A>,
) -> Option<isize> {
    // Asking for the size of what is no type would end the job.
    if [etype, filetype].iter().any(|datatype| datatype.0 == mpi.constants.datatype_null.0) {
        return None;
    }
    let (unit, bytes) = (mpi.type_size(etype), mpi.type_size(filetype));
    if displacement < 0 || unit == 0 || bytes % unit != 0 || mpi.is_predefined(filetype) {
        return None;
    }
    let shape = flatten::of(mpi, filetype).ok()?;
    if shape.bounds().0 < 0 || !shape.is_ascending() {
        return None;
    }
    let has_gaps =
        bytes == 0 || !shape.is_run() || shape.bounds().0 != 0 || mpi.extent(filetype) != shape.bytes();
    Some(has_gaps.into())
}
