//! Shapes as attributes of their datatypes.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi::{Abi, Datatype, SUCCESS};
use crate::calls::Mpi;
use crate::failure::{ErrorClass, Failure};

use super::{Shape, reading};

/// The attribute's key, once it is made. While an attribute is looked at or set, this is locked: setting one frees that
/// of before.
static KEY: Mutex<Option<c_int>> = Mutex::new(None);

/// Where the bytes of one `datatype` are.
///
/// # Errors
/// [`ErrorClass::Unsupported`], with the reason, where its addresses are out of range, it is made of too many levels,
/// or by a constructor that is not known here.
pub(crate) fn of<A: Abi>(mpi: &Mpi<A>, datatype: Datatype<A>) -> Result<Arc<Shape>, Failure> {
    // A panic elsewhere leaves the key whole.
    let mut key = KEY.lock().unwrap_or_else(PoisonError::into_inner);
    let key = match *key {
        Some(key) => key,
        None => *key.insert(mpi.datatype_key(not_copied::<A>, freed::<A>)?),
    };
    if let Some(kept) = mpi.datatype_attribute(datatype, key) {
        let kept = kept.cast::<Shape>().cast_const();
        // SAFETY: only `keep` stores attributes under this key, each an Arc's pointer that it owns until `freed`
        // is called for it, which nobody causes while the key is locked but for a program that frees a type in use.
        return Ok(unsafe {
            Arc::increment_strong_count(kept);
            Arc::from_raw(kept)
        });
    }
    let shape = reading::shape(mpi, datatype).filter(|shape| is_right(mpi, datatype, shape));
    let shape = Arc::new(shape.ok_or_else(|| {
        let bytes = mpi.type_size(datatype);
        let obstacle = reading::obstacle(mpi, datatype);
        let message = format!("a datatype of {bytes} bytes cannot be used for files: {obstacle}");
        Failure::new(ErrorClass::Unsupported, message)
    })?);
    keep(mpi, datatype, key, &shape);
    Ok(shape)
}

/// Keeps the shape of `datatype`, which has one, with `copy` as well, which nobody but the caller has yet.
pub(crate) fn share<A: Abi>(mpi: &Mpi<A>, datatype: Datatype<A>, copy: Datatype<A>) {
    // Where there is none, the copy is read for itself.
    let Ok(shape) = of(mpi, datatype) else { return };
    if let Some(key) = *KEY.lock().unwrap_or_else(PoisonError::into_inner) {
        keep(mpi, copy, key, &shape);
    }
}

/// Keeps `shape` with `datatype`, while the `key` is locked.
fn keep<A: Abi>(mpi: &Mpi<A>, datatype: Datatype<A>, key: c_int, shape: &Arc<Shape>) {
    let kept = Arc::into_raw(Arc::clone(shape));
    if !mpi.set_datatype_attribute(datatype, key, kept.cast_mut().cast()) {
        // SAFETY: MPI did not take it. The datatype is read again the next time.
        drop(unsafe { Arc::from_raw(kept) });
    }
}

/// Whether the shape of `datatype` is kept with it: never so with a new datatype, whatever its handle was before.
pub(crate) fn is_kept<A: Abi>(mpi: &Mpi<A>, datatype: Datatype<A>) -> bool {
    let key = KEY.lock().unwrap_or_else(PoisonError::into_inner);
    key.is_some_and(|key| mpi.datatype_attribute(datatype, key).is_some())
}

/// Whether the shape agrees with what MPI says of the whole: a combiner that means something else here would hardly
/// have as many bytes. (True extents are no such check: those of arrays that MPICH deals out are not always right.)
fn is_right<A: Abi>(mpi: &Mpi<A>, datatype: Datatype<A>, shape: &Shape) -> bool {
    u64::try_from(shape.bytes()) == Ok(mpi.type_size(datatype))
}

/// A copy of a datatype that the program or ROMIO makes is read for itself.
unsafe extern "C" fn not_copied<A: Abi>(
    _datatype: Datatype<A>,
    _key: c_int,
    _extra: *mut c_void,
    _attribute: *mut c_void,
    _copy: *mut c_void,
    is_copied: *mut c_int,
) -> c_int {
    // SAFETY: MPI gives a place for the flag.
    unsafe { is_copied.write(0) };
    SUCCESS
}

unsafe extern "C" fn freed<A: Abi>(
    _datatype: Datatype<A>,
    _key: c_int,
    attribute: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    // SAFETY: `keep` stored an Arc's pointer, and MPI calls this once for each.
    drop(unsafe { Arc::from_raw(attribute.cast::<Shape>().cast_const()) });
    SUCCESS
}
