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
    as_on(mpi, comm, failed, mine)
}

/// The same; where all succeed, returns the largest `number` of all ranks.
pub(crate) fn all_and_largest<A: Abi>(
    mpi: &Mpi<A>,
    comm: Comm<A>,
    mine: Result<(), Failure>,
    number: u64,
) -> Result<u64, Failure> {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    all_and_three_largest(mpi, comm, mine, [number, 0, 0]).map(|[largest, ..]| largest.unsigned_abs())
}

/// The same of three numbers, each for itself.
pub(crate) fn all_and_three_largest<A: Abi>(
    mpi: &Mpi<A>,
    comm: Comm<A>,
    mine: Result<(), Failure>,
    [first, second, third]: [i64; 3],
) -> Result<[i64; 3], Failure> {
    let failed = if mine.is_err() { mpi.rank(comm) + 1 } else { 0 };
    let [failed, first, second, third] = mpi.maxima(comm, [failed.into(), first, second, third])?;
    as_on(mpi, comm, failed as c_int, mine).map(|()| [first, second, third])
}

/// The failure of rank `failed - 1` on all ranks; none where it is 0.
fn as_on<A: Abi>(
    mpi: &Mpi<A>,
    comm: Comm<A>,
    failed: c_int,
    mine: Result<(), Failure>,
) -> Result<(), Failure> {
    if failed == 0 {
        return Ok(());
    }
    let rank = mpi.rank(comm);
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
    told(mpi, comm, root, mine.map(|()| Vec::new())).map(|_| ())
}

/// What rank `root` has to tell, or its failure, on every rank of `comm`. What the others give is not looked at.
/// Few bytes, and no failure, are told in one broadcast.
pub(crate) fn told<A: Abi>(
    mpi: &Mpi<A>,
    comm: Comm<A>,
    root: c_int,
    mine: Result<Vec<u8>, Failure>,
) -> Result<Vec<u8>, Failure> {
    /// Bytes of the number of the failure's class, 0 for none, and of the text's length.
    const NUMBERS: usize = 12;
    /// Bytes of the text that come at once.
    const AT_ONCE: usize = 52;
    let (class, mut text) = match mine {
        Ok(text) => (0, text),
        Err(failure) => (failure.class.to_wire(), failure.message.into_bytes()),
    };
    let mut first = [0; NUMBERS + AT_ONCE];
    first[..4].copy_from_slice(&class.to_ne_bytes());
    first[4..NUMBERS].copy_from_slice(&(text.len() as u64).to_ne_bytes());
    let at_once = text.len().min(AT_ONCE);
    first[NUMBERS..NUMBERS + at_once].copy_from_slice(&text[..at_once]);
    mpi.broadcast(comm, root, &mut first)?;
    let class = c_int::from_ne_bytes(first[..4].try_into().expect("four bytes"));
    let length = u64::from_ne_bytes(first[4..NUMBERS].try_into().expect("eight bytes")) as usize;
    if length > AT_ONCE {
        text.resize(length, 0);
        mpi.broadcast(comm, root, &mut text)?;
    } else {
        text = first[NUMBERS..NUMBERS + length].to_vec();
    }
    match class {
        0 => Ok(text),
        _ => Err(Failure::new(ErrorClass::from_wire(class), String::from_utf8_lossy(&text))),
    }
}

/// A result's value, and its outcome without it.
pub(crate) fn parted<T>(result: Result<T, Failure>) -> (Option<T>, Result<(), Failure>) {
    match result {
        Ok(value) => (Some(value), Ok(())),
        Err(failure) => (None, Err(failure)),
    }
}
