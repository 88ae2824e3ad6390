//! Which datatypes are bytes in a row by MPI's own definition, as `MPI_DOUBLE` is. These are never freed, nor are their
//! handles given to others: so it is enough to remember the last one that was asked for, and MPI need not be asked of it
//! with every access.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::abi::{Abi, Datatype};
use crate::calls::Mpi;

/// The numbers of the last such datatype, and of the last other one: handles of those may be given again, but never to a
/// datatype of MPI's. 0 is no datatype's.
static ELEMENTARY: AtomicU64 = AtomicU64::new(0);
static OTHER: AtomicU64 = AtomicU64::new(0);

/// Whether MPI defines `datatype`, as bytes in a row that are as far apart as they are long. False, too, where that is
/// not known.
pub(crate) fn is_elementary<A: Abi>(mpi: &Mpi<A>, datatype: Datatype<A>) -> bool {
    let number = A::number(datatype.0);
    // Relaxed, here and below: the number is all that is passed on.
    if ELEMENTARY.load(Ordering::Relaxed) == number {
        return true;
    }
    if OTHER.load(Ordering::Relaxed) == number {
        return false;
    }
    let is_elementary = mpi.is_predefined(datatype)
        && super::is_one_run(mpi, datatype)
        && u64::try_from(mpi.extent(datatype)) == Ok(mpi.type_size(datatype));
    let last = if is_elementary { &ELEMENTARY } else { &OTHER };
    last.store(number, Ordering::Relaxed);
    is_elementary
}
