//! The functions that a program calls by name, for any family.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use svmio_adio::abi::{Abi, Comm, Datatype, Info, MpiFile, SEEK_SET, SUCCESS};
use svmio_adio::environment::{self, Concern};
use svmio_adio::layout::RomioFile;
use svmio_adio::library::{Library, SymbolError};
use svmio_adio::plug::{self, Plug};
use svmio_adio::{Direction, ErrorClass, Failure, Mpi, heard};
use svmio_adio::{pointer, reopening};

use crate::claim::Claims;

/// By which of its two names a function of MPI's was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefix {
    /// By the one that programs call.
    Mpi,
    /// By the one that tools call that stand between a program and MPI.
    Pmpi,
}

impl Prefix {
    /// The next library's function of the same name, which may be such a tool's; where there is none, MPI's own.
    ///
    /// # Safety
    /// `F` is a function pointer of the type that both have, which are called `name`, and `profiled` by the other name.
    unsafe fn next<F: Copy>(self, name: &CStr, profiled: &CStr) -> Result<F, SymbolError> {
        let name = if self == Self::Mpi { name } else { profiled };
        // SAFETY: the caller vouches for the type.
        unsafe { Library::behind(name, profiled) }
    }
}

/// `MPI_File_open`.
///
/// # Safety
/// The arguments are those of `MPI_File_open`.
pub unsafe fn file_open<A: Plug>(
    comm: Comm<A>,
    name: *const c_char,
    amode: c_int,
    info: Info<A>,
    file: *mut MpiFile,
) -> c_int {
    with_stock::<A>(|mpi| {
        // SAFETY: the caller vouches for the arguments.
        unsafe {
            match claimed(name) {
                Some(name) if !mpi.is_active() => {
                    file.write(mpi.constants.file_null);
                    mpi.report(without_init(&name).to_code(mpi))
                }
                Some(name) => reopening::open(mpi, comm, &name, amode, info, file),
                None => {
                    let code = mpi.file_open(comm, name, amode, info, file);
                    // It may be that what claims the name is mistyped. Of a communicator by which a file was opened,
                    // the rank can be asked; MPICH 5 calls it a success, too, if a handler of the program's has been
                    // told that there is no communicator.
                    let is_open = code == SUCCESS && comm.0 != mpi.constants.comm_null.0;
                    if is_open && mpi.rank(comm) == 0 {
                        environment::tell(&[Concern::Files]);
                    }
                    code
                }
            }
        }
    })
}

/// `MPI_File_close`.
///
/// # Safety
/// The argument is that of `MPI_File_close`.
pub unsafe fn file_close<A: Plug>(file: *mut MpiFile) -> c_int {
    with_stock::<A>(|mpi| {
        // SAFETY: the caller vouches for the argument.
        let file = unsafe { &mut *file };
        // SAFETY: as above, on every rank.
        match unsafe { reopening::close(mpi, *file) } {
            Some(code) => {
                *file = mpi.constants.file_null;
                code
            }
            None => {
                let Some(fd) = A::opened(*file) else {
                    // SAFETY: the caller's argument.
                    return unsafe { mpi.file_close(file) };
                };
                // SAFETY: an open file of the device's is ROMIO's structure; the caller vouches for the other ranks.
                unsafe { svmio_adio::close_ahead(mpi, fd) };
                A::closed(*file);
                plug::take_unclosed();
                let mut code = SUCCESS;
                let told = mpi.report_closed(*file, || {
                    // SAFETY: the caller's argument.
                    code = unsafe { mpi.file_close(file) };
                    let unclosed = plug::take_unclosed().filter(|_| code == SUCCESS);
                    unclosed.map_or(SUCCESS, |failure| failure.to_code(mpi))
                });
                if told == SUCCESS { code } else { told }
            }
        }
    })
}

/// `MPI_File_delete`.
///
/// # Safety
/// The arguments are those of `MPI_File_delete`.
pub unsafe fn file_delete<A: Plug>(name: *const c_char, info: Info<A>) -> c_int {
    with_stock::<A>(|mpi| {
        // SAFETY: the caller vouches for the arguments.
        let Some(name) = (unsafe { claimed(name) }) else {
            // SAFETY: as above.
            return unsafe { mpi.file_delete(name, info) };
        };
        let outcome = if mpi.is_active() {
            svmio_adio::delete(OsStr::from_bytes(name.to_bytes()))
        } else {
            Err(Failure::new(
                ErrorClass::Other,
                "MPI_File_delete was called outside of MPI_Init and MPI_Finalize",
            ))
        };
        outcome.map_or_else(|failure| mpi.report(failure.to_code(mpi)), |()| 0)
    })
}

/// `MPI_File_preallocate`: a failure is told on all ranks, and not on the first one only.
///
/// # Safety
/// The arguments are those of `MPI_File_preallocate`.
pub unsafe fn file_preallocate<A: Plug>(file: MpiFile, size: i64) -> c_int {
    with_stock::<A>(|mpi| {
        // SAFETY: the caller vouches for the arguments, and for the other ranks.
        unsafe {
            let Some(fd) = A::opened(file) else { return mpi.file_preallocate(file, size) };
            if let Err(failure) = svmio_adio::before_preallocation(fd, size) {
                return mpi.report_on(file, failure.to_code(mpi));
            }
            let code = agree(mpi, file, mpi.file_preallocate(file, size));
            if code != SUCCESS {
                return code;
            }
            match svmio_adio::after_preallocation(fd) {
                Err(failure) => mpi.report_on(file, failure.to_code(mpi)),
                Ok(()) => code,
            }
        }
    })
}

/// `MPI_Finalize`: this process leaves MPI, and the clusters that it takes part in then. Also where svmio cannot be used
/// with this MPI.
pub fn finalize(prefix: Prefix) -> c_int {
    static IS_BEGUN: AtomicBool = AtomicBool::new(false);
    // A tool that is the next library comes back here. Relaxed: MPI is finalized by one thread.
    let is_first = !IS_BEGUN.swap(true, Ordering::Relaxed);
    if is_first {
        svmio_logging::start();
        reopening::finish();
        svmio_adio::begin_finish();
    }
    type Finalize = unsafe extern "C" fn() -> c_int;
    // SAFETY: the type of the function in mpi.h.
    let code = match unsafe { prefix.next::<Finalize>(c"MPI_Finalize", c"PMPI_Finalize") } {
        // SAFETY: the caller finalizes MPI.
        Ok(next) => unsafe { next() },
        Err(missing) => {
            tracing::error!("MPI cannot be finalized: {missing}");
            // No class of errors has this number in all MPIs, but success has: anything else will do.
            SUCCESS + 1
        }
    };
    if is_first {
        svmio_adio::finish();
    }
    code
}

/// An ordered access of so many of a datatype, which `access` carries out. ROMIO passes a token from rank to rank, and
/// keeps it where a rank cannot get at the shared file pointer, or has its part refused; so both is tried before, on all
/// ranks.
///
/// # Safety
/// `file` is an open file, and every rank that opened it makes the same call.
pub unsafe fn file_ordered<A: Plug>(
    file: MpiFile,
    direction: Direction,
    (count, datatype): (i64, Datatype<A>),
    access: impl FnOnce(&Mpi<A>) -> c_int,
) -> c_int {
    with_stock::<A>(|mpi| {
        if let Some(fd) = A::opened(file) {
            // SAFETY: an open file of the device's is ROMIO's structure.
            if let Err(failure) = unsafe { svmio_adio::demand_opened_for(fd, direction) } {
                return mpi.report_on(file, failure.to_code(mpi));
            }
            // SAFETY: as above; the caller vouches for the other ranks.
            let code = unsafe {
                let mine = match svmio_adio::check_ordered_part(mpi, fd, count, datatype) {
                    Err(failure) => mpi.report_on(file, failure.to_code(mpi)),
                    Ok(()) => pointer::shared(mpi, fd, file).0,
                };
                svmio_adio::settle();
                agree(mpi, file, mine)
            };
            if code != SUCCESS {
                return code;
            }
        }
        // SAFETY: the same.
        let code = unsafe {
            svmio_adio::collective(mpi, direction, || A::opened(file), || heard(mpi, file, || access(mpi)))
        };
        svmio_adio::settle();
        // SAFETY: as above. A rank whose access failed takes part, too.
        let ended =
            A::opened(file).map_or(Ok(()), |fd| unsafe { svmio_adio::after_ordered_access(fd, direction) });
        match ended {
            Err(failure) if code == SUCCESS => mpi.report_on(file, failure.to_code(mpi)),
            _ => code,
        }
    })
}

/// A collective access that blocks, which `stock` carries out.
///
/// # Safety
/// `file` is an open file, and every rank that opened it makes the same call.
pub unsafe fn file_collective<A: Plug>(
    file: MpiFile,
    direction: Direction,
    stock: impl FnOnce(&Mpi<A>) -> c_int,
) -> c_int {
    with_stock::<A>(|mpi| {
        // SAFETY: an open file of the device's is ROMIO's structure; the caller vouches for the other ranks.
        unsafe {
            svmio_adio::collective(mpi, direction, || A::opened(file), || heard(mpi, file, || stock(mpi)))
        }
    })
}

/// The beginning of a split collective access, which `stock` carries out. ROMIO hears of none for which the file was not
/// opened: it would take it for begun.
///
/// # Safety
/// `file` is an open file, and every rank that opened it makes the same call.
pub unsafe fn file_split_begin<A: Plug>(
    file: MpiFile,
    direction: Direction,
    stock: impl FnOnce(&Mpi<A>) -> c_int,
) -> c_int {
    with_stock::<A>(|mpi| {
        // SAFETY: an open file of the device's is ROMIO's structure.
        let opened =
            A::opened(file).map_or(Ok(()), |fd| unsafe { svmio_adio::demand_opened_for(fd, direction) });
        if let Err(failure) = opened {
            return mpi.report_on(file, failure.to_code(mpi));
        }
        // SAFETY: the caller vouches for the file and for the other ranks.
        unsafe { file_collective::<A>(file, direction, |mpi| svmio_adio::split::beginning(|| stock(mpi))) }
    })
}

/// The end of a split collective access, which `stock` carries out.
///
/// # Safety
/// `file` is an open file, and every rank that opened it makes the same call.
pub unsafe fn file_split_end<A: Plug>(file: MpiFile, stock: impl FnOnce(&Mpi<A>) -> c_int) -> c_int {
    with_stock::<A>(|mpi| {
        // SAFETY: an open file of the device's is ROMIO's structure; the caller vouches for the other ranks.
        let ended = A::opened(file).map_or(Ok(()), |fd| unsafe { svmio_adio::split::end(mpi, fd) });
        let code = stock(mpi);
        match ended {
            Err(failure) => mpi.report_on(file, failure.to_code(mpi)),
            Ok(()) => code,
        }
    })
}

/// Moving the shared pointer, which `seek` carries out: what was written before is seen on all nodes after it. MPI asks
/// for a sync in between; but programs that write by the shared pointer, go back and read are common, ROMIO's own test
/// among them. Of ROMIO's ranks only the first one looks where the pointer goes, and keeps the others waiting where it
/// may not go there: so it is found out before, for all of them.
///
/// # Safety
/// `file` is an open file, and every rank that opened it makes the same call.
pub unsafe fn file_seek_shared<A: Plug>(
    file: MpiFile,
    offset: i64,
    whence: c_int,
    seek: impl FnOnce(&Mpi<A>, i64, c_int) -> c_int,
) -> c_int {
    with_stock::<A>(|mpi| {
        // SAFETY: an open file of the device's is ROMIO's structure; the caller vouches for the other ranks.
        let exchanged = A::opened(file).map_or(Ok(()), |fd| unsafe { svmio_adio::exchange(fd) });
        if let Err(failure) = exchanged {
            return mpi.report_on(file, failure.to_code(mpi));
        }
        // SAFETY: an open file of the device's is ROMIO's structure.
        let askable = |fd: &*mut RomioFile<A>| unsafe { !(**fd).is_sequential() };
        let (offset, whence) = match A::opened(file).filter(askable) {
            Some(fd) => {
                // SAFETY: as above.
                let (code, _) = unsafe { pointer::shared(mpi, fd, file) };
                svmio_adio::settle();
                // SAFETY: as above.
                let code = unsafe { agree(mpi, file, code) };
                if code != SUCCESS {
                    return code;
                }
                // SAFETY: as above.
                let target = unsafe { pointer::shared_target(mpi, fd, file, offset, whence) };
                svmio_adio::settle();
                match target {
                    Ok(target) => (target, SEEK_SET),
                    Err(failure) => return mpi.report_on(file, failure.to_code(mpi)),
                }
            }
            None => (offset, whence),
        };
        let code = heard(mpi, file, || seek(mpi, offset, whence));
        svmio_adio::settle();
        code
    })
}

/// Why `name` is not opened where MPI has been started by sessions alone: ROMIO would return a code without a text.
fn without_init(name: &CStr) -> Failure {
    let message = format!(
        "svm:{} cannot be opened outside of MPI_Init and MPI_Finalize, which ROMIO asks for: a program that uses \
         sessions has to call MPI_Init as well",
        name.to_string_lossy()
    );
    Failure::new(ErrorClass::Unsupported, message)
}

/// Where `file` is svmio's: makes an error of one rank one of all. The others' error handlers are called.
///
/// # Safety
/// `file` is an open file, and every rank that opened it makes the same call.
pub(crate) unsafe fn agree<A: Plug>(mpi: &Mpi<A>, file: MpiFile, mine: c_int) -> c_int {
    let Some(fd) = A::opened(file) else { return mine };
    // SAFETY: the file is one of the device's; the caller vouches for the other ranks.
    let agreed = unsafe { svmio_adio::agreed(mpi, fd, mine) };
    if agreed == mine { mine } else { mpi.report_on(file, agreed) }
}

/// Runs `body` with the process's MPI. Where that cannot be used, not even for files that are not svmio's, the
/// program hears why.
pub fn with_stock<A: Plug>(body: impl FnOnce(&'static Mpi<A>) -> c_int) -> c_int {
    svmio_logging::start();
    match Mpi::<A>::get() {
        Ok(mpi) => body(mpi),
        Err(failure) => {
            tracing::error!("{failure}");
            <A as Abi>::error_class(failure.class)
        }
    }
}

/// The name within svmio of the file that the program calls `name`.
///
/// # Safety
/// `name` is null or a string.
unsafe fn claimed(name: *const c_char) -> Option<CString> {
    static CLAIMS: OnceLock<Claims> = OnceLock::new();
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller vouches for the string.
    let name = unsafe { CStr::from_ptr(name) };
    let claimed = CLAIMS.get_or_init(Claims::from_environment).claimed(OsStr::from_bytes(name.to_bytes()))?;
    // Part of a string, or of one and the current directory: no zero within.
    CString::new(claimed.into_vec()).ok()
}
