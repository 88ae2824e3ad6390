//! Setting a view without ROMIO's own flattening of the file type.
//!
//! ROMIO makes a list of all pieces of a file type when a view is set: megabytes for a vector of a million blocks. That
//! of its older releases also refuses types that are right, and writes beyond its list for some, those without data among
//! them. The device needs no such list. So ROMIO is given a simple type of the same kind for the time of the call, and the
//! program's own one is put in its place then.

use std::ffi::c_int;
use std::sync::PoisonError;

use crate::abi::{Abi, Datatype, SUCCESS};
use crate::calls::Mpi;
use crate::flatten;
use crate::handle;
use crate::layout::RomioFile;
use crate::pointer;

/// `MPI_File_set_view` in the representation "native" by `stock`, which is given the file type to use; after
/// [`put_back`].
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

/// Before ROMIO gives up the view of the file `fd`: it finds its own copy of the file type, to which its list of pieces
/// belongs.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's.
pub unsafe fn put_back<A: Abi>(mpi: &Mpi<A>, fd: *mut RomioFile<A>) {
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &mut *fd };
    let Ok(handle) = handle::of(fd) else { return };
    handle.note_pointer(None);
    let romios = handle.replaced.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(romios) = romios.and_then(|romios| romios.downcast::<Datatype<A>>().ok()) {
        mpi.free_datatype(std::mem::replace(&mut fd.filetype, *romios));
    }
}

/// The gap that a simple type of the same kind has, bytes, for a file type that obeys MPI's rules. ROMIO has the say about
/// all others, and about predefined ones.
fn gap_in<A: Abi>(
    mpi: &Mpi<A>,
    displacement: i64,
    etype: Datatype<A>,
    filetype: Datatype<A>,
) -> Option<isize> {
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
