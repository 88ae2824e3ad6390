//! Open MPI: the table of ROMIO's driver for tests is exported and writable.
//!
//! Its entries are replaced by the device's, and `svm:NAME` is opened as `testfs:NAME`. ROMIO has to be the
//! file's io component, although `ompio` usually comes first: while a file of ours is being opened, ROMIO's
//! priority is the highest. All other files keep the component that they would have.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::{Plug, drawn, take_opened, version_after};
use crate::abi::openmpi::OpenMpi;
use crate::abi::{Abi, Comm, Info, MpiFile, SUCCESS, amode};
use crate::calls::Mpi;
use crate::circle;
use crate::failure::{ErrorClass, Failure};
use crate::host::{CountType, Generation, HasHost, Host};
use crate::layout::{FunctionTable, RomioFile, SLOTS, slot};
use crate::library::{Library, read_memory, symbol_size, write_memory};
use crate::reopening::Opener;
use crate::{appending, modes, shared_pointer, table};

/// ROMIO's components, newest first.
const COMPONENTS: [&CStr; 3] = [c"romio341", c"romio321", c"romio314"];
/// The highest priority that an io component can have.
const HIGHEST: c_int = 100;

impl Plug for OpenMpi {
    unsafe fn open(
        mpi: &'static Mpi<OpenMpi>,
        comm: Comm<OpenMpi>,
        name: &CStr,
        access_mode: c_int,
        info: Info<OpenMpi>,
        file: *mut MpiFile,
    ) -> c_int {
        let plugged = plugged(mpi);
        let team = circle::team(mpi, comm).for_file(name.to_string_lossy());
        let mine = plugged.as_ref().map(|_| ()).map_err(Failure::clone);
        if let Err(failure) = modes::agree(&team, mine, name, access_mode) {
            // SAFETY: the caller's pointer.
            unsafe { file.write(mpi.constants.file_null) };
            return mpi.report(failure.to_code(mpi));
        }
        let Ok(plugged) = plugged else { unreachable!("the ranks have agreed that all are plugged in") };
        let prefixed = [b"testfs:", name.to_bytes()].concat();
        let prefixed = CString::new(prefixed).expect("made of strings");
        take_opened();
        let raised = plugged.priority.raise();
        USERS_INFO.set(Some(info));
        // SAFETY: the caller's arguments; the name is a string.
        let code = unsafe { mpi.file_open(comm, prefixed.as_ptr(), access_mode, info, file) };
        USERS_INFO.set(None);
        drop(raised);
        let fd = take_opened();
        if code != SUCCESS {
            return code;
        }
        // SAFETY: the open has succeeded and stored the file.
        let file = unsafe { &mut *file };
        let mine = if fd.is_null() { Err(passed_over(mpi)) } else { Ok(()) };
        match team.agree_on(mine, [drawn()]) {
            // SAFETY: ROMIO's structure of the file, which nobody else knows yet.
            Ok([number]) => unsafe { renumber_pointer(&*fd.cast(), number.unsigned_abs()) },
            Err(failure) => {
                // SAFETY: the file is open; every rank closes it, because they have agreed.
                unsafe { mpi.file_close(file) };
                *file = mpi.constants.file_null;
                return mpi.report(failure.to_code(mpi));
            }
        }
        if access_mode & amode::APPEND != 0 {
            // SAFETY: the file is open, and every rank gets here.
            let code = unsafe { appending::to_the_end(mpi, fd.cast(), *file) };
            if code != SUCCESS {
                // SAFETY: the file is open; every rank closes it, because they have agreed.
                unsafe { mpi.file_close(file) };
                *file = mpi.constants.file_null;
                return code;
            }
        }
        files().insert(*file, fd as usize);
        SUCCESS
    }

    /// By the stock function, which has the communicator's error handler deal with it before it does anything else.
    unsafe fn refuse(
        mpi: &'static Mpi<OpenMpi>,
        comm: Comm<OpenMpi>,
        name: &CStr,
        _obstacle: &str,
        file: *mut MpiFile,
    ) -> c_int {
        // SAFETY: the caller's arguments.
        unsafe {
            file.write(mpi.constants.file_null);
            mpi.file_open(comm, name.as_ptr(), amode::RDONLY, mpi.constants.info_null, file)
        }
    }

    fn opened(file: MpiFile) -> Option<*mut RomioFile<OpenMpi>> {
        files().get(&file).map(|fd| *fd as *mut RomioFile<OpenMpi>)
    }

    fn closed(file: MpiFile) {
        files().remove(&file);
    }

    fn reopened(file: MpiFile, fd: *mut RomioFile<OpenMpi>) {
        files().insert(file, fd as usize);
    }

    fn openers() -> &'static Mutex<Vec<Opener<OpenMpi>>> {
        static OPENERS: Mutex<Vec<Opener<OpenMpi>>> = Mutex::new(Vec::new());
        &OPENERS
    }
}

thread_local! {
    static USERS_INFO: Cell<Option<Info<OpenMpi>>> = const { Cell::new(None) };
}

/// Gives the shared pointer of a file that was just opened a name of its own: with ROMIO's number, files that a process
/// opens under one name in the same second have the same pointer.
///
/// # Safety
/// `fd` is ROMIO's structure of an open file, and nobody has used its shared pointer.
unsafe fn renumber_pointer(fd: &RomioFile<OpenMpi>, number: u64) {
    if !fd.shared_fp_fname.is_null() {
        // SAFETY: ROMIO's own string, by the caller's word; its length stays.
        let name = unsafe { CStr::from_ptr(fd.shared_fp_fname) }.to_bytes().len();
        // SAFETY: so many bytes of it are there, and nobody else looks at them.
        renumber(unsafe { std::slice::from_raw_parts_mut(fd.shared_fp_fname.cast(), name) }, number);
    }
}

/// Replaces the digits behind the mark of a shared pointer's name by as many of `number`: `.shfp.PROCESS.RANDOM` in
/// ROMIO 3.2, `.shfp.RANDOM.PROCESS` in 3.4, where what is random goes by the second.
fn renumber(name: &mut [u8], mut number: u64) {
    const MARK: &[u8] = b".shfp.";
    let Some(mark) = name.windows(MARK.len()).rposition(|part| part == MARK) else { return };
    for digit in name[mark + MARK.len()..].iter_mut().rev().filter(|byte| byte.is_ascii_digit()) {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// The info object with which this thread is opening a file of the device's: the ROMIO of Open MPI 5.0 gets an
/// empty one in its place.
pub(crate) fn users_info() -> Option<Info<OpenMpi>> {
    USERS_INFO.get()
}

/// The info object that ROMIO keeps for an open file of the device's: Open MPI itself does not ask it.
pub fn info_of(file: MpiFile) -> Option<Info<OpenMpi>> {
    // SAFETY: an entry is made when ROMIO has opened the file and removed when it closes it.
    OpenMpi::opened(file).map(|fd| unsafe { (*fd).info })
}

/// Open files of the device's, and ROMIO's structure of each.
fn files() -> MutexGuard<'static, HashMap<MpiFile, usize>> {
    static FILES: OnceLock<Mutex<HashMap<MpiFile, usize>>> = OnceLock::new();
    FILES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Plugged {
    priority: Priority,
}

/// The device in this process's ROMIO; plugged in by the first call.
fn plugged(mpi: &'static Mpi<OpenMpi>) -> &'static Result<Plugged, Failure> {
    static PLUGGED: OnceLock<Result<Plugged, Failure>> = OnceLock::new();
    PLUGGED.get_or_init(|| plug_in(mpi))
}

fn plug_in(mpi: &'static Mpi<OpenMpi>) -> Result<Plugged, Failure> {
    match version_after(OpenMpi::VERSION_MARK, mpi.version()) {
        Some((4 | 5, _)) => {}
        _ => return Err(unknown(mpi, "this release is not known")),
    }
    let library = Library::mpi().map_err(|e| unknown(mpi, &e.to_string()))?;
    let openers = [open_framework, open_by_a_file];
    let opened = || {
        openers.iter().find_map(|open| {
            open(mpi, &library);
            Priority::find(&library)
        })
    };
    let priority = Priority::find(&library).or_else(opened).ok_or_else(|| switched_off(mpi))?;
    let symbol = c"ADIO_TESTFS_operations";
    let romio = match library.address(symbol) {
        Ok(_) => library,
        Err(_) => Library::with_symbol("mca_io_romio", symbol)
            .ok_or_else(|| unknown(mpi, "its tables are hidden"))?,
    };
    let (testfs, slots) = driver_table(mpi, &romio, symbol, b"TESTFS:")?;
    let (ufs, ufs_slots) = driver_table(mpi, &romio, c"ADIO_UFS_operations", b"UFS:")?;
    if slots != ufs_slots {
        return Err(unknown(mpi, "its drivers' tables differ in length"));
    }
    let generation = Generation { count: CountType::Int, has_set_lock: slots == SLOTS };
    if !generation.has_set_lock {
        shared_pointer::romio_does_not_lock();
    }
    let mut generic = [std::ptr::null(); SLOTS];
    // SAFETY: `driver_table` has found that many entries there.
    generic[..slots].copy_from_slice(unsafe { std::slice::from_raw_parts(ufs.cast(), slots) });
    let host = OpenMpi::host().get_or_init(|| Host::new(generation, FunctionTable(generic)));
    let entries: Vec<u8> =
        table::build(host).0[..slots].iter().flat_map(|entry| (*entry as usize).to_ne_bytes()).collect();
    // SAFETY: the driver for tests is used by nobody but us: its functions do nothing but print.
    if !unsafe { write_memory(testfs.cast_mut(), &entries) } {
        return Err(unknown(mpi, "its drivers' tables are read-only"));
    }
    Ok(Plugged { priority })
}

/// The table of a driver whose name begins with `mark`, and its number of entries.
fn driver_table(
    mpi: &Mpi<OpenMpi>,
    romio: &Library,
    symbol: &CStr,
    mark: &[u8],
) -> Result<(*const c_void, usize), Failure> {
    let otherwise = || unknown(mpi, "its drivers' tables are laid out otherwise");
    let address: *const c_void = romio.address(symbol).map_err(|e| unknown(mpi, &e.to_string()))?;
    let slots = symbol_size(address).map_or(0, |bytes| bytes as usize / size_of::<*const c_void>());
    if slots != SLOTS && slots != slot::SET_LOCK {
        return Err(otherwise());
    }
    let entries = read_memory(address, slots * size_of::<*const c_void>()).ok_or_else(otherwise)?;
    let entry = &entries[slot::NAME * 8..slot::NAME * 8 + 8];
    let name = usize::from_ne_bytes(entry.try_into().expect("eight bytes")) as *const c_void;
    let driver = read_memory(name, mark.len()).ok_or_else(otherwise)?;
    // Our own name: the table was ours before, in a process that finalised and initialised MPI again.
    if driver != mark && driver != table::NAME.to_bytes()[..mark.len()] {
        return Err(otherwise());
    }
    Ok((address, slots))
}

/// Has Open MPI load its io components as its own `MPI_File_open` begins with it, each time. Nothing is opened by them:
/// for a file, `ompio` would load a dozen components of its own, which takes longer than all else about a first open.
fn open_framework(mpi: &Mpi<OpenMpi>, library: &Library) {
    type Open = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
    // `MPI_File_open` holds a lock meanwhile, which is not to be had here.
    if mpi.has_many_threads() {
        return;
    }
    let Ok(framework) = library.variable(c"ompi_io_base_framework") else { return };
    // SAFETY: the type of the function in mca_base_framework.h.
    let Ok(open) = (unsafe { library.function::<Open>(c"mca_base_framework_open") }) else { return };
    // SAFETY: the framework of that name, which Open MPI opens likewise, and closes once when it is finalized. What
    // fails shows by what is not there.
    unsafe { open(framework, 0) };
}

/// The same by a file. Serves where the above does not.
fn open_by_a_file(mpi: &Mpi<OpenMpi>, library: &Library) {
    let Ok(comm_self) = library.variable(c"ompi_mpi_comm_self") else { return };
    let mut file = mpi.constants.file_null;
    let name = c"/dev/null".as_ptr();
    // SAFETY: a file that exists on every machine, opened for reading on this rank alone, and closed.
    unsafe {
        let info = mpi.constants.info_null;
        if mpi.file_open(Comm(comm_self as usize), name, amode::RDONLY, info, &raw mut file) == SUCCESS {
            mpi.file_close(&mut file);
        }
    }
}

/// The priority of Open MPI's ROMIO component: the variable behind its MCA parameter.
#[derive(Debug)]
struct Priority {
    variable: usize,
    /// How many opens have it raised, and what it was before.
    raised: Mutex<(usize, c_int)>,
}

struct Raised<'p>(&'p Priority);

impl Priority {
    fn find(library: &Library) -> Option<Priority> {
        type Find = unsafe extern "C" fn(*const c_char, *const c_char, *const c_char, *const c_char) -> c_int;
        type Get = unsafe extern "C" fn(c_int, *mut *mut c_int, *mut c_int, *mut *const c_char) -> c_int;
        // SAFETY: the types of both functions in opal/mca/base/mca_base_var.h of 4.1 and 5.0.
        let (find, get): (Find, Get) = unsafe {
            (library.function(c"mca_base_var_find").ok()?, library.function(c"mca_base_var_get_value").ok()?)
        };
        COMPONENTS.iter().find_map(|component| {
            let (project, framework, name) = (c"ompi".as_ptr(), c"io".as_ptr(), c"priority".as_ptr());
            // SAFETY: four strings.
            let index = unsafe { find(project, framework, component.as_ptr(), name) };
            if index < 0 {
                return None;
            }
            let mut variable: *mut c_int = std::ptr::null_mut();
            let (source, file) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: stores the address of the variable; the other two are optional.
            let code = unsafe { get(index, &raw mut variable, source, file) };
            let readable = read_memory(variable.cast(), size_of::<c_int>()).is_some();
            (code == SUCCESS && readable)
                .then(|| Priority { variable: variable as usize, raised: Mutex::new((0, 0)) })
        })
    }

    /// Raises the priority until the result is dropped.
    fn raise(&self) -> Raised<'_> {
        let mut raised = self.lock();
        if raised.0 == 0 {
            raised.1 = self.replace(HIGHEST);
        }
        raised.0 += 1;
        Raised(self)
    }

    fn replace(&self, priority: c_int) -> c_int {
        // SAFETY: the variable belongs to a component that stays loaded. Open MPI reads it when it opens
        // a file; one that another thread opens meanwhile may get ROMIO, which does it no harm.
        unsafe { std::ptr::replace(self.variable as *mut c_int, priority) }
    }

    fn lock(&self) -> MutexGuard<'_, (usize, c_int)> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        let mut raised = self.0.lock();
        raised.0 -= 1;
        if raised.0 == 0 {
            self.0.replace(raised.1);
        }
    }
}

fn switched_off(mpi: &Mpi<OpenMpi>) -> Failure {
    let message = format!(
        "svmio needs Open MPI's ROMIO component, which is missing or switched off (OMPI_MCA_io, --mca io) in '{}'; \
         let Open MPI choose, or install the component",
        first_line(mpi)
    );
    Failure::new(ErrorClass::Unsupported, message)
}

fn passed_over(mpi: &Mpi<OpenMpi>) -> Failure {
    let message = format!(
        "Open MPI gave a file of svmio's to another io component than ROMIO in '{}'; leave OMPI_MCA_io and the \
         components' priorities alone",
        first_line(mpi)
    );
    Failure::new(ErrorClass::Unsupported, message)
}

fn unknown(mpi: &Mpi<OpenMpi>, reason: &str) -> Failure {
    let message = format!(
        "svmio does not know the ROMIO inside '{}': {reason}. MPICH 4 and 5 and Open MPI 4 and 5 are known; files \
         without svm: work as ever",
        first_line(mpi)
    );
    Failure::new(ErrorClass::Unsupported, message)
}

fn first_line(mpi: &Mpi<OpenMpi>) -> &str {
    mpi.version().lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::renumber;

    #[test]
    fn a_name_keeps_its_length() {
        for (name, renumbered) in [
            ("/a/.b7.shfp.12045", "/a/.b7.shfp.34567"),
            ("/a/.b.shfp.305419896.8", "/a/.b.shfp.000123456.7"),
            ("/a/.c.shfp.1.shfp.123456789", "/a/.c.shfp.1.shfp.001234567"),
            ("/a/.b.shfp.", "/a/.b.shfp."),
            ("/a/12", "/a/12"),
            ("", ""),
        ] {
            let mut bytes = name.as_bytes().to_vec();
            renumber(&mut bytes, 1_234_567);
            assert_eq!(bytes, renumbered.as_bytes());
        }
    }
}
