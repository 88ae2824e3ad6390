//! The calls into the dynamic loader and the kernel, behind safe faces where they can be safe.

use std::ffi::{CStr, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::pid_t;

/// `unsigned ucp_worker_progress(ucp_worker_h)`, as in UCX's `ucp/api/ucp.h` since 1.0.
type UcpWorkerProgress = unsafe extern "C" fn(*mut c_void) -> c_uint;

const UCP_LIBRARY: &CStr = c"libucp.so.0";
const UCP_WORKER_PROGRESS: &CStr = c"ucp_worker_progress";

/// UCX's own `ucp_worker_progress`, null until the first call found it.
static REAL_UCP_WORKER_PROGRESS: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Calls UCX's own `ucp_worker_progress`.
///
/// # Safety
///
/// `worker` is a live UCX worker.
#[inline]
pub(crate) unsafe fn real_ucp_worker_progress(worker: *mut c_void) -> c_uint {
    // Relaxed: the address is all there is to pass on between threads. Whoever finds it finds the same
    // one, and the code behind it was made visible by the loader before anyone could call us.
    let mut address = REAL_UCP_WORKER_PROGRESS.load(Ordering::Relaxed);
    if address.is_null() {
        address = find_ucp_worker_progress();
        REAL_UCP_WORKER_PROGRESS.store(address, Ordering::Relaxed);
    }
    // SAFETY: `address` is not null (`find_ucp_worker_progress` does not return then) and the loader gave
    // it for UCX's function, whose type this is.
    let function = unsafe { std::mem::transmute::<*mut c_void, UcpWorkerProgress>(address) };
    // SAFETY: the caller's promise.
    unsafe { function(worker) }
}

/// Finds UCX's function; ends the process with a message where there is none.
///
/// Asked of the library by its name first: where MPI was loaded by `dlopen` (Python), it is not among the
/// objects that `RTLD_NEXT` searches. `RTLD_NEXT` serves a UCX that goes by another name.
#[cold]
fn find_ucp_worker_progress() -> *mut c_void {
    // SAFETY: both names are NUL-terminated and live for ever; RTLD_NOLOAD loads nothing, and the
    // reference that it takes is kept for the life of the process, so the address stays good.
    let mut address = unsafe {
        let library = libc::dlopen(UCP_LIBRARY.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() { ptr::null_mut() } else { libc::dlsym(library, UCP_WORKER_PROGRESS.as_ptr()) }
    };
    if address.is_null() {
        // SAFETY: as above; RTLD_NEXT never answers with this library's own function.
        address = unsafe { libc::dlsym(libc::RTLD_NEXT, UCP_WORKER_PROGRESS.as_ptr()) };
    }
    if address.is_null() {
        const MESSAGE: &[u8] = b"libsvmio_yield.so: no ucp_worker_progress in any loaded library; \
            run with `svmio run --no-yield`\n";
        // SAFETY: the buffer is valid for its length.
        unsafe { libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len()) };
        std::process::abort();
    }
    address
}

/// Lets another runnable process of the session have the core.
pub(crate) fn yield_core() {
    // SAFETY: takes no arguments and has no preconditions.
    unsafe { libc::sched_yield() };
}

/// The name that the kernel shows for the calling thread, padded with zeros.
pub(crate) fn process_name() -> [u8; 16] {
    let mut name = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes (TASK_COMM_LEN), which is what `name` holds.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// Makes the calling process the leader of a new process group in its session; its id, or -1 and `errno`.
pub(crate) fn become_process_group_leader() -> pid_t {
    // SAFETY: plain system calls without pointers.
    unsafe { if libc::setpgid(0, 0) == 0 { libc::getpid() } else { -1 } }
}

/// The kernel's `setsid`; the new session's id, or -1 and `errno`.
pub(crate) fn real_setsid() -> pid_t {
    // By number, because the C library's function of that name is the one that this library replaces.
    // SAFETY: a plain system call without arguments.
    let session = unsafe { libc::syscall(libc::SYS_setsid) };
    // The kernel returns a pid_t, widened.
    session as pid_t
}
