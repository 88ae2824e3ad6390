//! `libsvmio`: the names that C sees, from which `svmio.h` is made, with [`svmio_c::Functions`] behind them.
//!
//! Which functions these are is found out at the first call: those of svmio's preload library for MPI where the process
//! has it, whatever way this library got into it, else those that are linked with this one.

#![allow(
    clippy::missing_safety_doc,
    reason = "what is said of functions here is the header's: in C all pointers lead to what their types say, or are null"
)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use svmio_c::{FUNCTIONS, Functions, NAME, RELEASE, svm_exchange, svm_file, svm_options};

fn functions() -> &'static Functions {
    static FOUND: OnceLock<&Functions> = OnceLock::new();
    FOUND.get_or_init(|| of_preloaded().unwrap_or(&FUNCTIONS))
}

/// Those of the preload library, if there is one of this release.
fn of_preloaded() -> Option<&'static Functions> {
    // SAFETY: the name is a text.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, NAME.as_ptr()) };
    if symbol.is_null() {
        return None;
    }
    // SAFETY: nobody else has a function of this name, and its type has been this in all releases.
    let beside_mpi: extern "C" fn() -> *const Functions = unsafe { std::mem::transmute(symbol) };
    // SAFETY: the table is there as long as the program; of another release's only the first two fields are looked at,
    // and these have been there in all.
    let (table, release, bytes) = unsafe {
        let table = beside_mpi();
        (table, std::ffi::CStr::from_ptr((*table).release), (*table).bytes)
    };
    // SAFETY: as above; it is a table of this release.
    (release == RELEASE && bytes == size_of::<Functions>()).then(|| unsafe { &*table })
}

/// Joins the processes of the job that the environment tells of (`svmio start` sets it, and so may a batch
/// system: `SVMIO_JOB_RANK`, `SVMIO_JOB_SIZE`, `SVMIO_JOB_MASTER`, `SVMIO_JOB_SECRET`); where it tells of none,
/// this process is by itself. All processes of the job call it; where one cannot, it fails there at once, and on the
/// others within 30 s. Programs of MPI call `svm_init_with`.
#[unsafe(no_mangle)]
pub extern "C" fn svm_init() -> c_int {
    (functions().init)()
}

/// Joins the processes that can already tell each other something, such as the ranks of a communicator. All of
/// them call it; the first thing that they tell each other is whether they can. `exchange` may go on return; what
/// its context points to may not, until `svm_finalize`.
///
/// Where there is nothing by which the others could be told (`exchange` or its `all_gather` is a null pointer, its
/// `size` is none, its `ranks` is below 1), it returns at once, and the others wait in their `all_gather`: end them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_init_with(exchange: *const svm_exchange) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { (functions().init_with)(exchange) }
}

/// Leaves the job, when all processes do. Nothing may be mapped or open any more: that is `SVM_ERR_STATE`, on
/// all of them. In programs of MPI it comes before `MPI_Finalize`. A process that ends without it counts as
/// lost. Where one is lost, the others leave all the same, each by itself, with an error.
#[unsafe(no_mangle)]
pub extern "C" fn svm_finalize() -> c_int {
    (functions().finalize)()
}

/// This process's number in the job, from 0 on; negative: an error.
#[unsafe(no_mangle)]
pub extern "C" fn svm_rank() -> c_int {
    (functions().rank)()
}

/// How many processes the job has; negative: an error.
#[unsafe(no_mangle)]
pub extern "C" fn svm_size() -> c_int {
    (functions().size)()
}

/// Opens a file, or makes it with `SVM_CREATE`, and maps `length` of its bytes from `offset` on: for stores and
/// loads with `SVM_WRITE`, which makes the file that long, else for loads. All processes make the call
/// together, each with the bytes that it wants and for what it wants them, unless the flags have `SVM_ALONE`; it
/// succeeds on all of them or on none. Who maps for loads may have what another one makes of the file by this call;
/// where it fails the file stays as long as it was, and with `SVM_EXCLUSIVE` none is left. Whether
/// they have `SVM_ALONE`, and the name, are the same on all.
/// Whether the file is made (`SVM_CREATE`, `SVM_EXCLUSIVE`), and with which segments, is as rank 0 says.
///
/// `name` is a path from the store's root, with or without `svm:` before it. A null pointer makes memory that
/// has no name, zeros, gone with the last who has it mapped. `options` may be null. `*address` is where the
/// first byte is; it is aligned as `offset` is within a page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_map(
    name: *const c_char,
    flags: c_uint,
    offset: u64,
    length: usize,
    options: *const svm_options,
    address: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { (functions().map)(name, flags, offset, length, options, address) }
}

/// Maps a part of a file that is open. Each process does so by itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_map_file(
    file: *const svm_file,
    offset: u64,
    length: usize,
    options: *const svm_options,
    address: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { (functions().map_file)(file, offset, length, options, address) }
}

/// Ends the mapping that begins at `address`, after what was stored is where others look for it; locks on it
/// are released before. Where `svm_map` has made it, its file is closed, and all who have called that call this
/// together. An address where no mapping begins, a null pointer, too, counts as one of such a mapping, so that the
/// others hear of it, unless it lies in a mapping that this process ends by itself, or ended. Where a process is lost,
/// the others' mappings end all the same, each by itself, with an error, after what was stored is where others look
/// for it, as far as that is there. So it is for `svm_close`.
#[unsafe(no_mangle)]
pub extern "C" fn svm_unmap(address: *mut c_void) -> c_int {
    (functions().unmap)(address)
}

/// Brings what this process has stored by this mapping to the storage devices, as `MPI_File_sync` does. Like all
/// functions that
/// take a length, it concerns `length` bytes from `address` on, or, where that is 0, all up to the mapping's
/// end.
#[unsafe(no_mangle)]
pub extern "C" fn svm_sync(address: *mut c_void, length: usize) -> c_int {
    (functions().sync)(address, length)
}

/// Brings what this process has stored by this mapping where others look for it. They see it after `svm_refresh`, and
/// so does this process by other mappings that it has of the file.
#[unsafe(no_mangle)]
pub extern "C" fn svm_flush(address: *mut c_void) -> c_int {
    (functions().flush)(address)
}

/// Sees from now on, by this mapping, what others had flushed, or written and synced.
#[unsafe(no_mangle)]
pub extern "C" fn svm_refresh(address: *mut c_void) -> c_int {
    (functions().refresh)(address)
}

/// All who have opened the file meet: from then on each sees what all had stored, by whichever of the mappings that
/// they have of it. With a null pointer on all of them, all processes of the job meet, and no memory is concerned. An
/// error of one of them before they meet, an address that is none, too, is the error of all.
#[unsafe(no_mangle)]
pub extern "C" fn svm_barrier(address: *mut c_void) -> c_int {
    (functions().barrier)(address)
}

/// Waits until the bytes can be had, `SVM_LOCK_SHARED` or `SVM_LOCK_EXCLUSIVE`, and holds them: what others
/// have stored there under their locks is seen then, by this mapping. A thread that waits for itself is told so.
#[unsafe(no_mangle)]
pub extern "C" fn svm_lock(address: *mut c_void, length: usize, mode: c_int) -> c_int {
    (functions().lock)(address, length, mode)
}

/// Unlocks what was locked by a call with this address and length, after what was stored there by this mapping has got
/// home.
#[unsafe(no_mangle)]
pub extern "C" fn svm_unlock(address: *mut c_void, length: usize) -> c_int {
    (functions().unlock)(address, length)
}

/// Says how the bytes will be gone about: `SVM_NORMAL`, `SVM_SEQUENTIAL`, `SVM_RANDOM`, `SVM_WILL_NEED`,
/// `SVM_DO_NOT_NEED`.
#[unsafe(no_mangle)]
pub extern "C" fn svm_advise(address: *mut c_void, length: usize, advice: c_int) -> c_int {
    (functions().advise)(address, length, advice)
}

/// Fetches the bytes, as many as a half of `svm_options::limit`, and waits for them.
#[unsafe(no_mangle)]
pub extern "C" fn svm_fetch(address: *mut c_void, length: usize) -> c_int {
    (functions().fetch)(address, length)
}

/// Opens a file, or makes it with `SVM_CREATE`. All processes make the call together, unless the flags have
/// `SVM_ALONE`. Name and options are as for `svm_map`. Nothing is mapped: this works, too, where
/// `SVM_ERR_FAULTS_REFUSED` keeps from it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_open(
    name: *const c_char,
    flags: c_uint,
    options: *const svm_options,
    file: *mut *mut svm_file,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { (functions().open)(name, flags, options, file) }
}

/// Closes a file; all who have opened it together do. None of it may be mapped any more. A handle that is none, a
/// null pointer, too, counts as one of all processes, so that the others hear of it, unless `SVM_ALONE` had opened
/// it. The same holds for `svm_file_sync`.
#[unsafe(no_mangle)]
pub extern "C" fn svm_close(file: *mut svm_file) -> c_int {
    (functions().close)(file)
}

/// Reads `length` bytes from `offset` on, or as many as there are before the end of the file: `*got`. Where
/// `got` is null, fewer are `SVM_ERR_RANGE`. What this process has written it sees at once, what others have,
/// after `svm_file_sync`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_read_at(
    file: *const svm_file,
    offset: u64,
    buffer: *mut c_void,
    length: usize,
    got: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { (functions().read_at)(file, offset, buffer, length, got) }
}

/// Writes `length` bytes at `offset`, growing the file where needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_write_at(
    file: *const svm_file,
    offset: u64,
    buffer: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { (functions().write_at)(file, offset, buffer, length) }
}

/// How many bytes a file has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_file_size(file: *const svm_file, size: *mut u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { (functions().file_size)(file, size) }
}

/// What all have written is on the storage devices, and is seen by all: what `MPI_File_sync` does, with a
/// barrier behind it. All who have opened the file call it together.
#[unsafe(no_mangle)]
pub extern "C" fn svm_file_sync(file: *const svm_file) -> c_int {
    (functions().file_sync)(file)
}

/// Removes a file; by one process. Whoever has it open keeps it until closing it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_remove(name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { (functions().remove)(name) }
}

/// What the last call of this thread that failed had to say: the file, the node, and the way out. The text is
/// good until the next call of this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn svm_error() -> *const c_char {
    (functions().error)()
}

/// What a status means, in a few words.
#[unsafe(no_mangle)]
pub extern "C" fn svm_strerror(status: c_int) -> *const c_char {
    (functions().strerror)(status)
}
