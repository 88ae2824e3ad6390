//! What ranks do together so that they see the same of a file: sync, resize, preallocate, and the end of it all.
//!
//! Where all ranks are on one node they share everything already. Where there are several nodes, each step waits for
//! all ranks' step before it: what a node keeps back is flushed, then made durable, then described at the master, and
//! only then do nodes look at what the others did.

use std::ffi::c_int;

use crate::abi::{Abi, Comm};
use crate::agreement;
use crate::calls::Mpi;
use crate::failure::Failure;
use crate::handle::Handle;

/// Makes everything that was written durable, and seen by all.
pub(crate) fn sync<A: Abi>(mpi: &Mpi<A>, comm: Comm<A>, handle: &Handle) -> Result<(), Failure> {
    let located = |error: svmio_svm::Error| handle.located(error.into());
    let Some(company) = handle.company() else {
        agreement::all(mpi, comm, handle.file.sync_data().map_err(located))?;
        let committed = if handle.rank == 0 { handle.file.commit(true) } else { Ok(()) };
        return agreement::from(mpi, comm, 0, committed.map_err(located));
    };
    flush(mpi, comm, handle)?;
    let synced = handle.file.sync_data();
    let synced = if company.is_first_of_node() { synced.and(handle.file.sync_node()) } else { synced };
    agreement::all(mpi, comm, synced.map_err(located))?;
    let committed = if handle.rank == 0 { handle.file.commit_synced() } else { Ok(()) };
    agreement::from(mpi, comm, 0, committed.map_err(located))?;
    refresh(mpi, comm, handle)
}

/// Ends a collective write, of which `mine` is this rank's outcome: all ranks know how long the file is then, though not
/// yet what the others wrote. MPI does not promise that much, but programs that ask for the size expect it.
pub(crate) fn end_of_write<A: Abi>(
    mpi: &Mpi<A>,
    comm: Comm<A>,
    handle: &Handle,
    mine: Result<(), Failure>,
) -> Result<(), Failure> {
    if handle.company().is_none() {
        return agreement::all(mpi, comm, mine);
    }
    let size = agreement::all_and_largest(mpi, comm, mine, handle.file.size())?;
    handle.file.note_size(size);
    Ok(())
}

/// Before a file is closed: its manifest is committed, unless it `goes` with this close.
pub(crate) fn close<A: Abi>(mpi: &Mpi<A>, comm: Comm<A>, handle: &Handle, goes: bool) -> Result<(), Failure> {
    let flushed = if handle.company().is_some() && !goes {
        flush(mpi, comm, handle)
    } else {
        // Everyone has written what he wanted to when this returns, and whoever changed what is to be committed has said so.
        let uncommitted = mpi.maximum(comm, c_int::from(!handle.file.is_committed()));
        if handle.venue.company().is_none() && uncommitted == Ok(0) {
            return Ok(());
        }
        uncommitted.map(|_| ())
    };
    let committed = match handle.rank {
        0 if !goes && flushed.is_ok() => {
            handle.file.commit(true).map_err(|error| handle.located(error.into()))
        }
        _ => Ok(()),
    };
    let outcome = agreement::from(mpi, comm, 0, committed);
    // Nobody uses it any more, though some may still hold it.
    if handle.rank == 0
        && let Err(error) = handle.file.closed_by_all()
    {
        tracing::warn!("{}: other nodes hold it open until the job ends: {error}", handle.file.name());
    }
    flushed.and(outcome)
}

/// Sets the size.
pub(crate) fn resize<A: Abi>(mpi: &Mpi<A>, comm: Comm<A>, handle: &Handle, size: u64) -> Result<(), Failure> {
    before_change(mpi, comm, handle)?;
    let resized = if handle.rank == 0 { handle.file.set_size(size) } else { Ok(()) };
    agreement::from(mpi, comm, 0, resized.map_err(|error| handle.located(error.into())))?;
    after_change(mpi, comm, handle)
}

/// Before rank 0 changes the file for all: where nodes keep something back, they give it away.
pub(crate) fn before_change<A: Abi>(mpi: &Mpi<A>, comm: Comm<A>, handle: &Handle) -> Result<(), Failure> {
    match handle.company() {
        Some(_) => flush(mpi, comm, handle),
        None => Ok(()),
    }
}

/// After rank 0 has changed the file for all, and all know.
pub(crate) fn after_change<A: Abi>(mpi: &Mpi<A>, comm: Comm<A>, handle: &Handle) -> Result<(), Failure> {
    match handle.company() {
        Some(_) => refresh(mpi, comm, handle),
        None => Ok(()),
    }
}

fn flush<A: Abi>(mpi: &Mpi<A>, comm: Comm<A>, handle: &Handle) -> Result<(), Failure> {
    agreement::all(mpi, comm, handle.file.flush().map_err(|error| handle.located(error.into())))
}

fn refresh<A: Abi>(mpi: &Mpi<A>, comm: Comm<A>, handle: &Handle) -> Result<(), Failure> {
    let is_first = handle.company().is_some_and(|company| company.is_first_of_node());
    let refreshed = if is_first { handle.file.refresh() } else { Ok(()) };
    agreement::all(mpi, comm, refreshed.map_err(|error| handle.located(error.into())))
}
