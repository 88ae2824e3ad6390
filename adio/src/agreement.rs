//! Ranks agreeing on whether something worked: no rank goes on alone, and all give the same reason.

use std::ffi::c_int;

use crate::abi::{Abi, Comm};
use crate::calls::Mpi;
use crate::failure::{ErrorClass, Failure};

/// Succeeds on every rank of `comm` or fails on every rank, with the failure of one of those where it
/// failed. Returns on no rank before every rank has called it.
pub(crate) fn all<A: Abi>(mpi: &Mpi<A>, comm: Comm<A>, mine: Result<(), Failure>) -> Result<(), Failure> {
    let rank = mpi.rank(comm);
    let failed = mpi.maximum(comm, if mine.is_err() { rank + 1 } else { 0 })?;
    if failed == 0 {
        return Ok(());
    }
    let mine = if rank == failed - 1 { mine.map_err(|failure| failure.on_rank(rank)) } else { Ok(()) };
    from(mpi, comm, failed - 1, mine)
}

/// The outcome of rank `root`, on every rank of `comm`. What the others give is not looked at.
pub(crate) fn from<A: Abi>(
    mpi: &Mpi<A>,
    comm: Comm<A>,
    root: c_int,
    mine: Result<(), Failure>,
) -> Result<(), Failure> {
    let message = mine.as_ref().err().map(|failure| failure.message.clone()).unwrap_or_default();
    let class = mine.as_ref().err().map_or(0, |failure| failure.class.to_wire());
    let mut header = [class.to_ne_bytes(), (message.len() as c_int).to_ne_bytes()].concat();
    mpi.broadcast(comm, root, &mut header)?;
    let number = |at: usize| c_int::from_ne_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let (class, length) = (number(0), number(4));
    if class == 0 {
        return Ok(());
    }
    let mut bytes = message.into_bytes();
    bytes.resize(usize::try_from(length).unwrap_or(0), b' ');
    mpi.broadcast(comm, root, &mut bytes)?;
    Err(Failure::new(ErrorClass::from_wire(class), String::from_utf8_lossy(&bytes)))
}
