//! The device's entries in ROMIO's function table: from C's arguments to ours, and back to an error code.

mod transfers;

use std::ffi::{CStr, OsStr, c_char, c_int, c_short, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

use svmio_svm::LockMode;

use crate::abi::{Info, Request, SUCCESS};
use crate::calls::Mpi;
use crate::closing;
use crate::failure::{ErrorClass, Failure};
use crate::handle::{self, Handle, Role};
use crate::hints;
use crate::host::{Count, CountType, HasHost, Host};
use crate::layout::{self, Fcntl, FunctionTable, RomioFile, SLOTS, feature, slot};
use crate::opening;
use crate::plug;
use crate::pointer;
use crate::shared_pointer;
use crate::telling;
use crate::viewing;

use transfers::{
    iread_contig, iread_strided, iread_strided_coll, iwrite_contig, iwrite_strided, iwrite_strided_coll,
    read_contig, read_strided, read_strided_coll, write_contig, write_strided, write_strided_coll,
};

/// What `MPI_File_get_info` tells as `romio_filesystem_type`.
pub const NAME: &CStr = c"SVM: svmio, shared virtual memory of the job's nodes";

/// The device's table for a host of ROMIO's.
pub fn build<A: HasHost>(host: &Host<A>) -> FunctionTable {
    match host.generation().count {
        CountType::Int => build_for::<A, c_int>(),
        CountType::Aint => build_for::<A, isize>(),
    }
}

fn build_for<A: HasHost, C: Count>() -> FunctionTable {
    let mut table = [std::ptr::null(); SLOTS];
    table[slot::OPEN] = open::<A> as *const c_void;
    table[slot::OPEN_COLL] = open_coll::<A> as *const c_void;
    table[slot::READ_CONTIG] = read_contig::<A, C> as *const c_void;
    table[slot::WRITE_CONTIG] = write_contig::<A, C> as *const c_void;
    table[slot::READ_STRIDED_COLL] = read_strided_coll::<A, C> as *const c_void;
    table[slot::WRITE_STRIDED_COLL] = write_strided_coll::<A, C> as *const c_void;
    table[slot::SEEK_INDIVIDUAL] = seek_individual::<A> as *const c_void;
    table[slot::FCNTL] = fcntl::<A> as *const c_void;
    table[slot::SET_INFO] = set_info::<A> as *const c_void;
    table[slot::READ_STRIDED] = read_strided::<A, C> as *const c_void;
    table[slot::WRITE_STRIDED] = write_strided::<A, C> as *const c_void;
    table[slot::CLOSE] = close::<A> as *const c_void;
    table[slot::IREAD_CONTIG] = iread_contig::<A, C> as *const c_void;
    table[slot::IWRITE_CONTIG] = iwrite_contig::<A, C> as *const c_void;
    table[slot::READ_DONE] = done::<A> as *const c_void;
    table[slot::WRITE_DONE] = done::<A> as *const c_void;
    table[slot::READ_COMPLETE] = complete::<A> as *const c_void;
    table[slot::WRITE_COMPLETE] = complete::<A> as *const c_void;
    table[slot::IREAD_STRIDED] = iread_strided::<A, C> as *const c_void;
    table[slot::IWRITE_STRIDED] = iwrite_strided::<A, C> as *const c_void;
    table[slot::FLUSH] = flush::<A> as *const c_void;
    table[slot::RESIZE] = resize::<A> as *const c_void;
    table[slot::DELETE] = delete::<A> as *const c_void;
    table[slot::FEATURE] = feature::<A> as *const c_void;
    table[slot::NAME] = NAME.as_ptr().cast();
    table[slot::IREAD_STRIDED_COLL] = iread_strided_coll::<A, C> as *const c_void;
    table[slot::IWRITE_STRIDED_COLL] = iwrite_strided_coll::<A, C> as *const c_void;
    table[slot::SET_LOCK] = set_lock::<A> as *const c_void;
    FunctionTable(table)
}

/// Runs `body` and stores what becomes of it as ROMIO wants it.
///
/// # Safety
/// `error_code` is valid for a write.
unsafe fn entry<A: HasHost>(
    error_code: *mut c_int,
    body: impl FnOnce(&'static Mpi<A>, &'static Host<A>) -> Result<(), Failure>,
) {
    shared_pointer::settle();
    // SAFETY: the caller vouches for the pointer.
    unsafe { error_code.write(coded(body)) };
}

fn coded<A: HasHost>(body: impl FnOnce(&'static Mpi<A>, &'static Host<A>) -> Result<(), Failure>) -> c_int {
    ran(body).map_or_else(|failure| telling::code_for_romio::<A>(&failure), |()| SUCCESS)
}

fn ran<A: HasHost>(
    body: impl FnOnce(&'static Mpi<A>, &'static Host<A>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mpi = Mpi::<A>::get()?;
    match A::host().get() {
        Some(host) => body(mpi, host),
        None => Err(Failure::new(ErrorClass::Other, "svmio's device was called before it was plugged in")),
    }
}

// In all of the following, ROMIO passes its own valid file and pointers, and calls from one thread at a time
// per file: that is the contract of a driver in adioi.h, and what the SAFETY comments refer to.

unsafe extern "C" fn open<A: HasHost>(fd: *mut RomioFile<A>, error_code: *mut c_int) {
    // SAFETY: ROMIO's contract.
    unsafe { entry::<A>(error_code, |mpi, _| opening::open_alone(mpi, &mut *fd)) }
}

unsafe extern "C" fn open_coll<A: HasHost>(
    fd: *mut RomioFile<A>,
    _rank: c_int,
    access_mode: c_int,
    error_code: *mut c_int,
) {
    // SAFETY: ROMIO's contract; every rank of the file opens.
    unsafe {
        entry::<A>(error_code, |mpi, _| {
            plug::note_opened(fd.cast());
            opening::open_collectively(mpi, &mut *fd, access_mode)
        });
    }
}

unsafe extern "C" fn close<A: HasHost>(fd: *mut RomioFile<A>, error_code: *mut c_int) {
    // SAFETY: ROMIO's contract; every rank of the file closes.
    unsafe {
        entry::<A>(error_code, |mpi, _| {
            viewing::finish(mpi, viewing::put_back(fd));
            // For ROMIO it is closed: MPICH's would look for an error handler in the structure that it has freed, Open
            // MPI's would say nothing. The preload library tells it.
            closing::close(mpi, &mut *fd).unwrap_or_else(plug::note_unclosed);
            Ok(())
        });
    }
}

unsafe extern "C" fn delete<A: HasHost>(name: *const c_char, error_code: *mut c_int) {
    // SAFETY: ROMIO's contract: the name is a string.
    unsafe {
        entry::<A>(error_code, |_, _| closing::remove(OsStr::from_bytes(CStr::from_ptr(name).to_bytes())))
    }
}

unsafe extern "C" fn seek_individual<A: HasHost>(
    fd: *mut RomioFile<A>,
    offset: i64,
    _whence: c_int,
    error_code: *mut c_int,
) -> i64 {
    let mut place = 0;
    // SAFETY: ROMIO's contract; it counts from the beginning of the view always.
    unsafe {
        entry::<A>(error_code, |mpi, _| {
            place = pointer::seek(mpi, &mut *fd, offset)?;
            Ok(())
        });
    }
    place
}

unsafe extern "C" fn done<A: HasHost>(
    _request: *mut Request<A>,
    _status: *mut A::Status,
    error_code: *mut c_int,
) -> c_int {
    // SAFETY: ROMIO's contract.
    unsafe { error_code.write(SUCCESS) };
    1
}

unsafe extern "C" fn complete<A: HasHost>(
    _request: *mut Request<A>,
    _status: *mut A::Status,
    error_code: *mut c_int,
) {
    // SAFETY: ROMIO's contract.
    unsafe { error_code.write(SUCCESS) };
}

unsafe extern "C" fn fcntl<A: HasHost>(
    fd: *mut RomioFile<A>,
    command: c_int,
    argument: *mut Fcntl<A>,
    error_code: *mut c_int,
) {
    // SAFETY: ROMIO's contract.
    unsafe {
        entry::<A>(error_code, |_, _| {
            let (fd, argument) = (&mut *fd, &mut *argument);
            let handle = handle::of(fd)?;
            match command {
                layout::fcntl::GET_SIZE => {
                    let told = |size: u64| i64::try_from(size).unwrap_or(i64::MAX);
                    // ROMIO may not look whether this succeeds.
                    argument.fsize = told(handle.file.size());
                    argument.fsize = told(handle.size_to_see()?);
                }
                layout::fcntl::SET_DISKSPACE => {
                    let bytes = argument.diskspace.unsigned_abs();
                    let preallocated = match handle.company() {
                        Some(company) => handle.file.preallocate_over(bytes, &company.nodes()),
                        None => handle.file.preallocate(bytes),
                    };
                    preallocated.map_err(|e| handle.located(e.into()))?;
                }
                layout::fcntl::SET_ATOMICITY => {
                    // All ranks call this: accesses in the new mode find what was written in the old one.
                    handle.begin_change()?;
                    handle.show_all()?;
                    handle.set_atomic(argument.atomicity != 0);
                    fd.atomicity = c_int::from(argument.atomicity != 0);
                }
                _ => {
                    let message = format!("svmio's device does not know the file control command {command}");
                    return Err(Failure::new(ErrorClass::Argument, message));
                }
            }
            Ok(())
        });
    }
}

unsafe extern "C" fn set_info<A: HasHost>(fd: *mut RomioFile<A>, users: Info<A>, error_code: *mut c_int) {
    // SAFETY: ROMIO's contract.
    unsafe {
        entry::<A>(error_code, |mpi, host| {
            // The user's hints come before those of ROMIO's file of hints.
            let given = users;
            let users = A::users_info(given);
            // Ours are not ROMIO's, of which some tell all that they were ever given as if it were in force.
            mpi.with_merged_info(users, given, hints::is_own, |info| {
                hints::overrule(mpi, info)?;
                hints::hand_to_romio(host, &mut *fd, info)
            })?;
            hints::tell_sieving(mpi, users, (*fd).info)?;
            hints::tell_unknown(mpi, users, (*fd).comm, (*fd).name());
            // Of an open file only what is in force is told.
            match handle::of(&*fd) {
                Ok(handle) => handle.note_hints(),
                Err(_) => hints::take(mpi, users, (*fd).info, (*fd).name())?,
            }
            Ok(())
        });
    }
}

unsafe extern "C" fn flush<A: HasHost>(fd: *mut RomioFile<A>, error_code: *mut c_int) {
    // SAFETY: ROMIO's contract; every rank of the file flushes.
    unsafe {
        entry::<A>(error_code, |_, _| {
            let handle = handle::of(&*fd)?;
            // Where a rank is lost, the others still give away what they keep back.
            let begun = handle.begin_flush();
            let synced = handle.team.sync(&handle.file).map_err(Failure::from);
            let synced = synced.inspect(|()| handle.heading.note_shown());
            handle.tell_failures(begun.and(synced))
        });
    }
}

unsafe extern "C" fn resize<A: HasHost>(fd: *mut RomioFile<A>, size: i64, error_code: *mut c_int) {
    // SAFETY: ROMIO's contract; every rank of the file resizes.
    unsafe {
        entry::<A>(error_code, |_, _| {
            let handle = handle::of(&*fd)?;
            Ok(handle.team.set_size(&handle.file, size.unsigned_abs())?)
        });
    }
}

unsafe extern "C" fn feature<A: HasHost>(_fd: *mut RomioFile<A>, flag: c_int) -> c_int {
    let has = matches!(
        flag,
        feature::LOCKS
            | feature::SHARED_FILE_POINTERS
            | feature::ATOMIC_MODE
            | feature::SCALABLE_OPEN
            | feature::UNLINK_AFTER_CLOSE
            | feature::TWO_PHASE
            | feature::SCALABLE_RESIZE
            | feature::IMMEDIATELY_VISIBLE
    );
    c_int::from(has)
}

unsafe extern "C" fn set_lock<A: HasHost>(
    fd: *mut RomioFile<A>,
    _command: c_int,
    kind: c_int,
    offset: i64,
    _whence: c_int,
    length: i64,
) -> c_int {
    let outcome = ran::<A>(|_, _| {
        // SAFETY: ROMIO's contract.
        let handle = handle::of(unsafe { &*fd })?;
        if handle.role == Role::Data && handle.is_atomic() {
            // ROMIO locks what it reads, too, as if it wrote there. In atomic mode each access locks for itself, and
            // knows better: readers share, and nothing that is only read gets a home.
            return Ok(());
        }
        let start = u64::try_from(offset).unwrap_or(0);
        let range = start..start.saturating_add(u64::try_from(length).unwrap_or(0));
        locked_as_asked(handle, kind as c_short, range)
    });
    outcome.map_or_else(|failure| A::error_class(failure.class), |()| SUCCESS)
}

/// Locks `range`, or unlocks it, as a `kind` of `fcntl`'s says. ROMIO does not look at the outcome: what follows has to
/// fail for it. An access to data locks for itself; the shared pointer is missed for the whole call.
fn locked_as_asked(handle: &Handle, kind: c_short, range: Range<u64>) -> Result<(), Failure> {
    const READ: c_short = libc::F_RDLCK as c_short;
    const UNLOCK: c_short = libc::F_UNLCK as c_short;
    let outcome = match kind {
        UNLOCK => handle.unlock(&range),
        READ => handle.lock(range, LockMode::Shared),
        _ => handle.lock(range, LockMode::Exclusive),
    };
    outcome.map_err(|failure| handle.located(failure)).inspect_err(|failure| {
        tracing::error!("{failure}");
        if handle.role == Role::SharedPointer {
            shared_pointer::note_missed(failure);
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use svmio_svm::team::Team;
    use svmio_svm::{FileName, OpenOptions, Store};

    use super::*;
    use crate::placement::Rule;
    use crate::venue::Venue;

    #[test]
    #[expect(clippy::reversed_empty_ranges, reason = "it cannot be locked")]
    fn a_shared_pointer_that_cannot_be_locked_is_missed_for_the_call() {
        let directory = tempfile::tempdir().expect("directories can be made");
        let store = Store::open(directory.path()).expect("a new store opens");
        let name = FileName::new("/.f.shfp.1").expect("it is a name");
        let opened = |role| {
            let file = store.open_file(&name, &OpenOptions::read_write().create(true)).expect("it opens");
            let (team, venue) = (Arc::new(Team::alone()), Venue::OneNode(store.clone()));
            Handle::new(file, role, team, venue, Rule::FirstTouch)
        };
        for (role, is_missed) in [(Role::SharedPointer, true), (Role::Data, false)] {
            let handle = opened(role);
            let (_, missed) = shared_pointer::missed_in(|| {
                let lock = |range| locked_as_asked(&handle, libc::F_WRLCK as c_short, range);
                lock(0..8).expect("it can be locked");
                locked_as_asked(&handle, libc::F_UNLCK as c_short, 0..8).expect("it is locked");
                shared_pointer::demand().expect("it is not missed yet");
                lock(8..0).expect_err("nothing lies there");
                assert_eq!(shared_pointer::demand().is_err(), is_missed, "{role:?}");
                SUCCESS
            });
            assert_eq!(missed.is_some(), is_missed, "{role:?}");
        }
    }
}
