//! Closing and removing files.
//!
//! ROMIO has all ranks wait for each other before it has the device close a file. Those of a cluster close it before
//! that ([`close_ahead`]), by means that end where a rank is lost.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, PoisonError};

use crate::abi::{Abi, Comm, amode};
use crate::calls::Mpi;
use crate::failure::{ErrorClass, Failure};
use crate::handle::{self, Handle, Role};
use crate::layout::RomioFile;
use crate::noted::Noted;
use crate::plug;
use crate::venue::{self, Venue};

/// Before ROMIO closes the file `fd` of a cluster's ranks: closes it for the device, which ROMIO hears when it does,
/// and lets ROMIO's own barrier, in which ranks would wait for one that is lost, be one of this rank alone. All ranks
/// have got here when this returns, and that is all that ROMIO's barrier is for.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's, of which nobody has references, and every rank of the file
/// makes the same call.
pub unsafe fn close_ahead<A: Abi>(mpi: &Mpi<A>, fd: *mut RomioFile<A>) {
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &mut *fd };
    let goes = goes(fd);
    let Ok(handle) = handle::of(fd) else { return };
    if handle.company().is_none() {
        return;
    }
    handle.under_way.settle();
    let ahead = Ahead { outcome: close_together(handle, goes), comm: fd.comm };
    *handle.closed_ahead.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(ahead));
    fd.comm = mpi.constants.comm_self;
}

/// Closes the file. The manifest is committed when it returns, on any rank.
pub(crate) fn close<A: Abi>(mpi: &Mpi<A>, fd: &mut RomioFile<A>) -> Result<(), Failure> {
    let goes = goes(fd);
    let Some(handle) = handle::detach(fd) else {
        return Ok(());
    };
    let name = OsStr::from_bytes(fd.name().to_bytes()).to_owned();
    let ahead = handle.closed_ahead.lock().unwrap_or_else(PoisonError::into_inner).take();
    let closed = match ahead.and_then(|ahead| ahead.downcast::<Ahead<A>>().ok()) {
        Some(ahead) => ahead.finish(mpi, fd, &handle),
        None => {
            handle.under_way.settle();
            close_together(&handle, goes)
        }
    };
    if handle.role == Role::Data {
        venue::note_closed(&name);
    }
    let going = Going { name: name.into(), venue: handle.venue.clone(), role: handle.role };
    GOING.with(|noted| noted.replace(goes.then_some(going)));
    if handle.role == Role::Data && closed.is_ok() {
        keep(handle);
    }
    closed
}

/// Closes the file for the device, while ROMIO keeps its structure. The manifest is committed.
pub(crate) fn part_with<A: Abi>(fd: &mut RomioFile<A>) {
    if let Some(handle) = handle::detach(fd) {
        venue::note_closed(OsStr::from_bytes(fd.name().to_bytes()));
        keep(handle);
    }
}

/// Removes the file `name`, which ROMIO may just have closed. Then it does not look at what comes of that, and the close
/// is told to have failed where the file stays.
pub(crate) fn remove(name: &OsStr) -> Result<(), Failure> {
    let going = match GOING.with(Noted::take) {
        Some(going) if *going.name == *name => going,
        _ => return delete(name),
    };
    match going.venue.remove(name) {
        // Somebody else was faster: another rank, most often, as each removes the file of its shared pointer.
        Err(failure) if failure.class == ErrorClass::NoSuchFile => {}
        Err(failure) if going.role == Role::Data => plug::note_unremoved(stays(name, &failure)),
        Err(failure) => tracing::debug!("{failure}"),
        Ok(()) => {}
    }
    Ok(())
}

/// That the file `name` is closed, and was not removed, or not all of it. Only the rank that was to remove it knows.
fn stays(name: &OsStr, failure: &Failure) -> Failure {
    let message = format!("svm:{} was closed, but removing it failed: {failure}", name.to_string_lossy());
    tracing::warn!("{message}");
    Failure::new(failure.class, message)
}

/// Removes the file `name`.
///
/// # Errors
/// `MPI_ERR_NO_SUCH_FILE` and the like, with the message to show.
pub fn delete(name: &OsStr) -> Result<(), Failure> {
    Venue::alone()?.remove(name)
}

thread_local! {
    /// The file that this thread closed last, if it goes when it is closed.
    static GOING: Noted<Going> = const { Noted::nothing() };
}

/// A file that goes when it is closed, and where it lives.
struct Going {
    name: Box<OsStr>,
    venue: Venue,
    role: Role,
}

/// A file that was closed before ROMIO closes it.
struct Ahead<A: Abi> {
    outcome: Result<(), Failure>,
    /// The file's own communicator.
    comm: Comm<A>,
}

impl<A: Abi> Ahead<A> {
    /// Gives ROMIO the file's communicator again, which it frees. Where a rank is lost, MPI may be busy with that as
    /// long as it exists: it stays for good, and ROMIO has one of this rank alone to free.
    fn finish(self, mpi: &Mpi<A>, fd: &mut RomioFile<A>, handle: &Handle) -> Result<(), Failure> {
        let is_whole = handle.company().is_none_or(|company| company.check().is_ok());
        let own = if is_whole { None } else { mpi.another_self() };
        if own.is_some() && handle.team.member() != 0 {
            // Each would be the first rank there, which removes the file.
            fd.access_mode &= !amode::DELETE_ON_CLOSE;
        }
        fd.comm = own.unwrap_or(self.comm);
        self.outcome
    }
}

/// All ranks' part of closing the file, which `goes` with that, or stays.
fn close_together(handle: &Handle, goes: bool) -> Result<(), Failure> {
    let begun = if goes { Ok(()) } else { handle.begin_flush() };
    let closed = handle.team.close(&handle.file, goes).map_err(Failure::from);
    handle.tell_failures(begun.and(closed))
}

fn goes<A: Abi>(fd: &RomioFile<A>) -> bool {
    fd.access_mode & amode::DELETE_ON_CLOSE != 0
}

/// Nobody else has it: nothing goes on in the background any more.
fn keep(handle: Arc<Handle>) {
    if let Some(handle) = Arc::into_inner(handle) {
        handle.file.keep();
    }
}
