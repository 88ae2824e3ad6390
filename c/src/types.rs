//! The types and numbers of `svmio.h`, which is made from this file and the library's.

// As C writes them.
#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_int, c_uint, c_void};

/// All went well.
pub const SVM_SUCCESS: c_int = 0;
/// An argument makes no sense: a null pointer, an unknown flag, a handle or an address that is none, a name that is not
/// that of the other processes.
pub const SVM_ERR_ARGUMENT: c_int = -1;
/// It cannot be done at this time: before `svm_init`, while something is still mapped or used by another thread, while
/// other processes call another function.
pub const SVM_ERR_STATE: c_int = -2;
/// The name cannot be that of a file.
pub const SVM_ERR_NAME: c_int = -3;
/// There is no such file.
pub const SVM_ERR_NO_SUCH_FILE: c_int = -4;
/// The file exists already.
pub const SVM_ERR_EXISTS: c_int = -5;
/// Access is refused, or the file was not opened for that.
pub const SVM_ERR_ACCESS: c_int = -6;
/// It can only be read.
pub const SVM_ERR_READ_ONLY: c_int = -7;
/// There is no space for it.
pub const SVM_ERR_NO_SPACE: c_int = -8;
/// The disk quota is used up.
pub const SVM_ERR_QUOTA: c_int = -9;
/// The bytes cannot be mapped, or are not mapped.
pub const SVM_ERR_RANGE: c_int = -10;
/// This process may not serve page faults; `svm_error` names what would allow it. `svm_open`, `svm_read_at` and
/// `svm_write_at` reach the same bytes.
pub const SVM_ERR_FAULTS_REFUSED: c_int = -11;
/// Processes, nodes and stores do not fit together, or a setting makes no sense.
pub const SVM_ERR_UNSUPPORTED: c_int = -12;
/// Anything else: lost nodes, damaged files, what the operating system reports.
pub const SVM_ERR_OTHER: c_int = -13;
/// An error of svmio's own.
pub const SVM_ERR_INTERNAL: c_int = -14;

/// For loading, or reading.
pub const SVM_READ: c_uint = 1;
/// For storing, or writing. What is mapped for storing can be loaded, too.
pub const SVM_WRITE: c_uint = 2;
/// Makes the file where there is none.
pub const SVM_CREATE: c_uint = 4;
/// With `SVM_CREATE`: fails where the file exists.
pub const SVM_EXCLUSIVE: c_uint = 8;
/// This process opens the file by itself. Without it, all processes of the job make the call together.
pub const SVM_ALONE: c_uint = 16;

/// Others may hold the range likewise.
pub const SVM_LOCK_SHARED: c_int = 0;
/// Nobody else holds any of the range.
pub const SVM_LOCK_EXCLUSIVE: c_int = 1;

/// Nothing is known of how the program goes about these bytes.
pub const SVM_NORMAL: c_int = 0;
/// One page after the other: the next ones are fetched from the first fault on.
pub const SVM_SEQUENTIAL: c_int = 1;
/// Here and there: nothing is fetched ahead.
pub const SVM_RANDOM: c_int = 2;
/// Soon: they are fetched, without waiting for them.
pub const SVM_WILL_NEED: c_int = 3;
/// Not soon: what was stored goes home, and the pages go.
pub const SVM_DO_NOT_NEED: c_int = 4;

/// For `svm_options::ahead`: nothing is fetched ahead.
pub const SVM_NOTHING: u64 = u64::MAX;

/// An open file.
pub struct svm_file {
    _opaque: [u8; 0],
}

/// Told that bytes `start` to `end` of a file cannot be had, and why, before the thread that touched them gets SIGBUS.
/// It is called by a thread of svmio's and must not touch the mapping, nor call svmio. The thread that touched the
/// bytes waits for it, but for 5 s at most, for it may hold what this function waits for: a mutex, the lock of a stream
/// as stdout, an interpreter's lock as Python's. Then it gets its signal before this function has got on; who touches
/// lost bytes later gets it at once, and this function hears of that when it has returned. `svm_unmap` returns when it
/// has heard of all: whoever unmaps must not hold what it waits for.
pub type svm_on_loss =
    Option<unsafe extern "C" fn(context: *mut c_void, start: u64, end: u64, problem: *const c_char)>;

/// How a file is to be opened and mapped. All zero, but for `size`, is what is meant where no options are given; later
/// releases have more of them at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct svm_options {
    /// `sizeof(svm_options)`: how many of these the program knows.
    pub size: usize,
    /// The most memory for pages that were fetched, and the copies by which changes are found; bytes, at least 1 MiB.
    /// 0: 256 MiB.
    pub limit: u64,
    /// The most bytes that are fetched ahead of a row of faults at a time, at most a quarter of `limit`. 0: 4 MiB;
    /// `SVM_NOTHING`: none.
    pub ahead: u64,
    /// How many threads serve the faults of this mapping: each has its own, one more that fetches ahead, and one that
    /// tells of what is lost. 0: 8; at most 1024. A mapping takes five file descriptors, however many threads it has; its
    /// file takes three, and one for each of its segments that is kept open.
    pub handlers: u64,
    /// Bytes of a segment of a file that is made: a power of two from 64 KiB to 1 GiB. 0: 16 MiB.
    pub segment_size: u64,
    /// Whom to tell of pages that are lost; may be null.
    pub on_loss: svm_on_loss,
    /// What `on_loss` is given.
    pub context: *mut c_void,
}

/// Gathers bytes among the ranks of a program: each gives `length` bytes at `own` and gets those of all, by rank, at
/// `all`. It returns on none before all have called it. Returns 0 where that went well.
pub type svm_all_gather = Option<
    unsafe extern "C" fn(context: *mut c_void, own: *const c_void, length: usize, all: *mut c_void) -> c_int,
>;

/// By what the ranks of a program tell each other things: for MPI, a function that calls `MPI_Allgather`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct svm_exchange {
    /// `sizeof(svm_exchange)`.
    pub size: usize,
    /// This process, from 0 on.
    pub rank: c_int,
    /// How many there are.
    pub ranks: c_int,
    /// Called by whatever thread calls a function that all make together, and by no two at a time.
    pub all_gather: svm_all_gather,
    /// What `all_gather` is given.
    pub context: *mut c_void,
}
