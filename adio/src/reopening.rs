//! Opening the same files again and again: what ROMIO made of a file is kept when it is closed.
//!
//! Most of what opening a file costs is ROMIO's own: communicators, info objects, hints, agreements. A program that
//! opens a file for the second time by the same communicator will mostly do so again. So from then on closing it leaves
//! ROMIO's structure in place, without what the device had of the file, and the next open of the same name in the same
//! mode takes it again. To the store and to other processes the file is closed in between.
//!
//! Ranks agree on each step, because each of them has to take the same way:
//!
//! | step | what all have to say yes to |
//! |---|---|
//! | an open that ROMIO carries out | no hints, a plain mode; whether the name has been here before |
//! | a close | view, hints and pointers are as they were after the open |
//! | an open of what was kept | the same file, and unchanged as far as that counts, see `svmio_svm::Store::reopen` |
//!
//! An attribute of the communicator tells when that is freed; then ROMIO closes what was kept.

use std::cell::Cell;
use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use svmio_svm::joined;
use svmio_svm::team::Team;
use svmio_svm::{File, FileName, Store};

use crate::abi::{Abi, Comm, Info, MpiFile, SUCCESS, amode};
use crate::calls::Mpi;
use crate::circle;
use crate::closing;
use crate::failure::Failure;
use crate::handle::{self, Handle, Role};
use crate::layout::RomioFile;
use crate::opening;
use crate::outcome::Outcome;
use crate::placement::Rule;
use crate::plug::Plug;
use crate::venue::{self, Venue};

/// How many closed files are kept per communicator.
const KEPT: usize = 8;
/// How many names per communicator are known to have been opened.
const NAMES: usize = 16;
/// The access modes in which opening a file that exists changes nothing.
const PLAIN: c_int = amode::RDONLY | amode::WRONLY | amode::RDWR | amode::CREATE;

/// What the ranks of a communicator have opened by it; the same on all of them, up to how each spells the names.
#[derive(Debug)]
pub struct Opener<A: Abi> {
    comm: Comm<A>,
    /// Names that were opened, and how.
    names: Vec<(CString, c_int)>,
    /// Open files that may be kept, and kept ones, in the order in which they were opened and closed.
    files: Vec<Known<A>>,
}

/// A file that is open or kept.
#[derive(Debug)]
struct Known<A: Abi> {
    file: MpiFile,
    fd: *mut RomioFile<A>,
    team: Arc<Team>,
    name: CString,
    access_mode: c_int,
    /// What its collective accesses return.
    outcome: Outcome,
    is_open: bool,
}

// SAFETY: ROMIO's structure is followed by the thread that opens, closes or frees the communicator, one at a time.
unsafe impl<A: Abi> Send for Known<A> {}

/// What an open has to say to being kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// The name has been here before: the file may be kept.
    Returning,
    /// The first time: the name is remembered.
    New,
    /// Something about it is special.
    Excluded,
}

impl Standing {
    pub(crate) fn number(self) -> i64 {
        self as i64
    }

    pub(crate) fn from_number(number: i64) -> Standing {
        match number {
            0 => Standing::Returning,
            1 => Standing::New,
            _ => Standing::Excluded,
        }
    }
}

thread_local! {
    /// The standing of the open that this thread is carrying out; at its end the one that the ranks agreed on.
    static STANDING: Cell<Standing> = const { Cell::new(Standing::Excluded) };
}

/// The standing of the open that this thread is carrying out. Where several threads may call MPI, nothing is kept:
/// ranks could open and close in different orders.
pub(crate) fn standing<A: Abi>(mpi: &Mpi<A>) -> Standing {
    if mpi.has_many_threads() { Standing::Excluded } else { STANDING.get() }
}

/// Notes what the ranks agreed on.
pub(crate) fn note_agreed(standing: Standing) {
    STANDING.set(standing);
}

/// `MPI_File_open` for the file `name` of the device's. Error handlers have been called on return.
///
/// # Safety
/// The arguments are those of `MPI_File_open`, on every rank of `comm`.
pub unsafe fn open<A: Plug>(
    mpi: &'static Mpi<A>,
    comm: Comm<A>,
    name: &CStr,
    access_mode: c_int,
    info: Info<A>,
    file: *mut MpiFile,
) -> c_int {
    if let Some(obstacle) = mpi.obstacle(comm) {
        // SAFETY: the caller vouches for the arguments.
        return unsafe { A::refuse(mpi, comm, name, obstacle, file) };
    }
    let is_plain = access_mode & !PLAIN == 0 && info.0 == mpi.constants.info_null.0;
    // SAFETY: the caller vouches for the arguments.
    if let Some(kept) = unsafe { open_kept(mpi, comm, name, access_mode, is_plain) } {
        // SAFETY: the caller's pointer.
        unsafe { file.write(kept) };
        return SUCCESS;
    }
    STANDING.set(match is_plain {
        true if was_opened::<A>(comm, name, access_mode) => Standing::Returning,
        true => Standing::New,
        false => Standing::Excluded,
    });
    // SAFETY: the caller vouches for the arguments.
    let code = unsafe { circle::opening(mpi, comm, || A::open(mpi, comm, name, access_mode, info, file)) };
    let standing = STANDING.replace(Standing::Excluded);
    if code == SUCCESS && standing != Standing::Excluded {
        // SAFETY: the open has succeeded and stored the file.
        remember(mpi, comm, name, access_mode, standing, unsafe { *file });
    }
    code
}

/// `MPI_File_close` of a file that stays; `None` where ROMIO has to close it.
///
/// # Safety
/// `file` is an open file, and every rank that opened it makes the same call.
pub unsafe fn close<A: Plug>(mpi: &'static Mpi<A>, file: MpiFile) -> Option<c_int> {
    let fd = A::opened(file)?;
    let known = openers::<A>()
        .iter()
        .find_map(|opener| opener.open(file).map(|position| Arc::clone(&opener.files[position].team)));
    // SAFETY: an open file of the device's is ROMIO's structure, of which nobody makes references meanwhile.
    let fd = unsafe { &mut *fd };
    // Like everything else that decides whether the ranks ask each other: the same on all of them.
    let team = known?;
    let (stays, committed) = match handle::of(fd) {
        Ok(handle) => {
            handle.under_way.settle();
            (handle.is_as_opened() && fd.is_as_opened(mpi.constants.byte), handle.file.is_committed())
        }
        Err(_) => (false, false),
    };
    // Everyone has written what he wanted to when this returns, and whoever changed what is to be committed has said
    // so.
    let asked = team.maxima([i64::from(!stays), i64::from(!committed)]);
    let stays = asked.map_err(Failure::from).and_then(|[goes, uncommitted]| match (goes, uncommitted) {
        (0, 0) => Ok(true),
        (0, _) => {
            let handle = handle::of(fd)?;
            let committed = if team.member() == 0 { handle.file.commit(true) } else { Ok(()) };
            team.outcome_of(0, committed.map_err(Failure::from)).map(|()| true)
        }
        _ => Ok(false),
    });
    // What fails here fails again when ROMIO closes the file, and is told then.
    let stays = stays.unwrap_or(false);
    let victim = {
        let mut openers = openers::<A>();
        let opener = openers.iter_mut().find(|opener| opener.open(file).is_some())?;
        let mut known = opener.files.remove(opener.open(file)?);
        if stays {
            known.is_open = false;
            opener.files.push(known);
        }
        opener.surplus()
    };
    if stays {
        closing::part_with(fd);
        A::closed(file);
    }
    if let Some(mut victim) = victim {
        // SAFETY: a kept file is open for ROMIO; every rank keeps the same ones.
        unsafe { mpi.file_close(&mut victim) };
    }
    stays.then_some(SUCCESS)
}

/// Called before MPI is finalized: communicators that go from now on take nothing along.
pub fn finish() {
    FINALIZING.store(true, Ordering::Release);
}

/// Whether what is kept is left to the end of the process.
static FINALIZING: AtomicBool = AtomicBool::new(false);

/// Opens a kept file, on all ranks or on none.
///
/// # Safety
/// The arguments are those of `MPI_File_open`, on every rank of `comm`.
unsafe fn open_kept<A: Plug>(
    mpi: &'static Mpi<A>,
    comm: Comm<A>,
    name: &CStr,
    access_mode: c_int,
    is_plain: bool,
) -> Option<MpiFile> {
    let (position, kept, team) = {
        let openers = openers::<A>();
        let opener = openers.iter().find(|opener| opener.comm.0 == comm.0)?;
        // The same on all ranks: then all of them go on, as those who had the first one open.
        let team = Arc::clone(&opener.files.iter().find(|known| !known.is_open)?.team);
        let meant = |known: &Known<A>| {
            is_plain && !known.is_open && *known.name == *name && known.access_mode == access_mode
        };
        let position = opener.files.iter().rposition(meant);
        let kept =
            position.map(|position| (opener.files[position].fd, Arc::clone(&opener.files[position].team)));
        (position, kept, team)
    };
    let reopened = position.and_then(|_| reopen(name, access_mode));
    let (first, second) = reopened.as_ref().map_or((0, 0), |(file, _)| halves(&file.id().to_bytes()));
    let position = position.filter(|_| reopened.is_some());
    let number = position.map_or(-1, |position| position as i64);
    let mine = [number, !number, first, !first, second, !second];
    // The largest number is the smallest, too, where all are the same.
    let same = |[a, b, c, d, e, f]: [i64; 6]| a >= 0 && a == !b && c == !d && e == !f;
    let is_agreed = team.maxima(mine).is_ok_and(same);
    let (position, (fd, team), (file, store)) = match (position, kept, reopened) {
        (Some(position), Some(kept), Some(reopened)) if is_agreed => (position, kept, reopened),
        (_, _, reopened) => {
            // It will be opened at once the long way, most often.
            reopened.into_iter().for_each(|(file, _)| file.keep());
            return None;
        }
    };
    let (handle, outcome) = {
        let mut openers = openers::<A>();
        let opener = openers.iter_mut().find(|opener| opener.comm.0 == comm.0)?;
        let known = &mut opener.files[position];
        known.is_open = true;
        (known.file, known.outcome)
    };
    // SAFETY: a kept file is open for ROMIO, and nobody makes references of its structure meanwhile.
    let fd = unsafe { &mut *fd };
    let mut opened = Handle::new(file, Role::Data, team, Venue::OneNode(store), Rule::FirstTouch);
    opened.may_be_kept = true;
    opened.outcome = outcome;
    fd.fp_ind = 0;
    fd.fp_sys_posn = -1;
    venue::note_open(OsStr::from_bytes(fd.name().to_bytes()), &opened.venue);
    handle::attach(fd, opened);
    A::reopened(handle, fd);
    mpi.reset_error_handler(handle);
    Some(handle)
}

/// The file `name` as this process has kept it, and the store in which it is.
fn reopen(name: &CStr, access_mode: c_int) -> Option<(File, Store)> {
    if joined::latest().is_some() {
        return None;
    }
    let store = Store::from_environment().ok()?;
    let name = FileName::new(OsStr::from_bytes(name.to_bytes())).ok()?;
    let file = store.reopen(&name, &opening::options(access_mode)).ok()??;
    Some((file, store))
}

fn halves(bytes: &[u8; 16]) -> (i64, i64) {
    let (first, second) = bytes.split_at(8);
    let number = |half: &[u8]| i64::from_ne_bytes(half.try_into().expect("eight bytes"));
    (number(first), number(second))
}

fn was_opened<A: Plug>(comm: Comm<A>, name: &CStr, access_mode: c_int) -> bool {
    let openers = openers::<A>();
    let opener = openers.iter().find(|opener| opener.comm.0 == comm.0);
    opener.is_some_and(|opener| {
        opener.names.iter().any(|(known, mode)| **known == *name && *mode == access_mode)
    })
}

/// Remembers an open that all ranks have agreed to remember.
fn remember<A: Plug>(
    mpi: &'static Mpi<A>,
    comm: Comm<A>,
    name: &CStr,
    access_mode: c_int,
    standing: Standing,
    file: MpiFile,
) {
    let is_new = openers::<A>().iter().all(|opener| opener.comm.0 != comm.0);
    if is_new {
        let Some(key) = attribute(mpi) else { return };
        // SAFETY: the communicator is valid, because a file was opened by it; the value is never looked at.
        if unsafe { mpi.set_attribute(comm, key, std::ptr::null_mut()) } != SUCCESS {
            return;
        }
    }
    let mut openers = openers::<A>();
    if is_new {
        openers.push(Opener { comm, names: Vec::new(), files: Vec::new() });
    }
    let Some(opener) = openers.iter_mut().find(|opener| opener.comm.0 == comm.0) else { return };
    match (standing, A::opened(file)) {
        (Standing::New, _) => {
            if opener.names.len() == NAMES {
                opener.names.remove(0);
            }
            opener.names.push((name.to_owned(), access_mode));
        }
        (Standing::Returning, Some(fd)) => {
            // SAFETY: an open file of the device's is ROMIO's structure.
            let Ok(handle) = handle::of(unsafe { &*fd }) else { return };
            let (team, name, outcome) = (Arc::clone(&handle.team), name.to_owned(), handle.outcome);
            opener.files.push(Known { file, fd, team, name, access_mode, outcome, is_open: true });
        }
        _ => {}
    }
}

/// The key of the attribute that tells when a communicator is freed.
fn attribute<A: Plug>(mpi: &'static Mpi<A>) -> Option<c_int> {
    // A process has one family of MPIs.
    static KEY: OnceLock<Option<c_int>> = OnceLock::new();
    *KEY.get_or_init(|| mpi.create_attribute(communicator_goes::<A>))
}

unsafe extern "C" fn communicator_goes<A: Plug>(
    comm: Comm<A>,
    _key: c_int,
    _value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    let opener = {
        let mut openers = openers::<A>();
        let position = openers.iter().position(|opener| opener.comm.0 == comm.0);
        position.map(|position| openers.remove(position))
    };
    let (Some(opener), Ok(mpi)) = (opener, Mpi::<A>::get()) else { return SUCCESS };
    // Acquire: pairs with `finish`.
    if FINALIZING.load(Ordering::Acquire) {
        return SUCCESS;
    }
    for mut known in opener.files.into_iter().filter(|known| !known.is_open) {
        // SAFETY: a kept file is open for ROMIO; freeing a communicator is collective, and every rank keeps the same
        // ones.
        unsafe { mpi.file_close(&mut known.file) };
    }
    SUCCESS
}

fn openers<A: Plug>() -> MutexGuard<'static, Vec<Opener<A>>> {
    let openers: &'static Mutex<Vec<Opener<A>>> = A::openers();
    openers.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<A: Abi> Opener<A> {
    /// Where the open file `file` is.
    fn open(&self, file: MpiFile) -> Option<usize> {
        self.files.iter().position(|known| known.is_open && known.file == file)
    }

    /// Takes out the file that was closed first, where there are too many.
    fn surplus(&mut self) -> Option<MpiFile> {
        let closed = self.files.iter().filter(|known| !known.is_open).count();
        let first = self.files.iter().position(|known| !known.is_open)?;
        (closed > KEPT).then(|| self.files.remove(first).file)
    }
}
