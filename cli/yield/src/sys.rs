//! The calls into the dynamic loader and the kernel, behind safe faces where they can be safe.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{pid_t, size_t, ssize_t};

/// `unsigned ucp_worker_progress(ucp_worker_h)`, as in UCX's `ucp/api/ucp.h` since 1.0.
type UcpWorkerProgress = unsafe extern "C" fn(*mut c_void) -> c_uint;
/// `ucs_status_ptr_t ucp_disconnect_nb(ucp_ep_h)`, as in `ucp/api/ucp_compat.h` since 1.0.
type UcpDisconnect = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
/// `void ucp_worker_destroy(ucp_worker_h)`, as in `ucp/api/ucp.h` since 1.0.
type UcpWorkerDestroy = unsafe extern "C" fn(*mut c_void);
type Read = unsafe extern "C" fn(c_int, *mut c_void, size_t) -> ssize_t;

const UCP_LIBRARY: &CStr = c"libucp.so.0";

static REAL_UCP_WORKER_PROGRESS: UcpFunction = UcpFunction::new(c"ucp_worker_progress");
static REAL_UCP_DISCONNECT: UcpFunction = UcpFunction::new(c"ucp_disconnect_nb");
static REAL_UCP_WORKER_DESTROY: UcpFunction = UcpFunction::new(c"ucp_worker_destroy");

/// The next `read` after this library's: the C library's, or another preloaded library's. Null until
/// [`find_read`].
static REAL_READ: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Calls UCX's own `ucp_worker_progress`.
///
/// # Safety
///
/// `worker` is a live UCX worker.
#[inline]
pub(crate) unsafe fn real_ucp_worker_progress(worker: *mut c_void) -> c_uint {
    // SAFETY: the address is that of UCX's function of this name, whose type this is.
    let function =
        unsafe { std::mem::transmute::<*mut c_void, UcpWorkerProgress>(REAL_UCP_WORKER_PROGRESS.address()) };
    // SAFETY: the caller's promise.
    unsafe { function(worker) }
}

/// Calls UCX's own `ucp_disconnect_nb`.
///
/// # Safety
///
/// `endpoint` is a live UCX endpoint.
pub(crate) unsafe fn real_ucp_disconnect_nb(endpoint: *mut c_void) -> *mut c_void {
    // SAFETY: the address is that of UCX's function of this name, whose type this is.
    let function =
        unsafe { std::mem::transmute::<*mut c_void, UcpDisconnect>(REAL_UCP_DISCONNECT.address()) };
    // SAFETY: the caller's promise.
    unsafe { function(endpoint) }
}

/// Calls UCX's own `ucp_worker_destroy`.
///
/// # Safety
///
/// `worker` is a live UCX worker, of which this is the end.
pub(crate) unsafe fn real_ucp_worker_destroy(worker: *mut c_void) {
    // SAFETY: the address is that of UCX's function of this name, whose type this is.
    let function =
        unsafe { std::mem::transmute::<*mut c_void, UcpWorkerDestroy>(REAL_UCP_WORKER_DESTROY.address()) };
    // SAFETY: the caller's promise.
    unsafe { function(worker) }
}

/// Calls the `read` that the program would have without this library.
///
/// # Safety
///
/// `buffer` is valid for `length` bytes, or the kernel refuses it.
#[inline]
pub(crate) unsafe fn real_read(descriptor: c_int, buffer: *mut c_void, length: size_t) -> ssize_t {
    // Relaxed: written before the program begins.
    let address = REAL_READ.load(Ordering::Relaxed);
    if address.is_null() {
        // Another library's beginning, which comes before this one's. The kernel returns what the C library does,
        // widened.
        // SAFETY: the caller's promise.
        return unsafe { libc::syscall(libc::SYS_read, descriptor, buffer, length) } as ssize_t;
    }
    // SAFETY: not null, so the loader gave it for a function of this name, whose type this is.
    let function = unsafe { std::mem::transmute::<*mut c_void, Read>(address) };
    // SAFETY: the caller's promise.
    unsafe { function(descriptor, buffer, length) }
}

/// Looks for the next `read`. Not when it is first called, which may be in a signal's handler.
pub(crate) fn find_read() {
    // SAFETY: the name is NUL-terminated; RTLD_NEXT never answers with this library's own function.
    REAL_READ.store(unsafe { libc::dlsym(libc::RTLD_NEXT, c"read".as_ptr()) }, Ordering::Relaxed);
}

/// A function of UCX's, found on first use.
struct UcpFunction {
    name: &'static CStr,
    /// Null until the first call found it.
    address: AtomicPtr<c_void>,
}

impl UcpFunction {
    const fn new(name: &'static CStr) -> UcpFunction {
        UcpFunction { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Where it is; never null.
    #[inline]
    fn address(&self) -> *mut c_void {
        // Relaxed: the address is all there is to pass on between threads. Whoever finds it finds the same
        // one, and the code behind it was made visible by the loader before anyone could call us.
        let mut address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            address = self.find();
            self.address.store(address, Ordering::Relaxed);
        }
        address
    }

    /// Finds UCX's function; ends the process with a message where there is none.
    ///
    /// Asked of the library by its name first: where MPI was loaded by `dlopen` (Python), it is not among the
    /// objects that `RTLD_NEXT` searches. `RTLD_NEXT` serves a UCX that goes by another name.
    #[cold]
    fn find(&self) -> *mut c_void {
        // SAFETY: both names are NUL-terminated and live for ever; RTLD_NOLOAD loads nothing, and the
        // reference that it takes is kept for the life of the process, so the address stays good.
        let mut address = unsafe {
            let library = libc::dlopen(UCP_LIBRARY.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if library.is_null() { ptr::null_mut() } else { libc::dlsym(library, self.name.as_ptr()) }
        };
        if address.is_null() {
            // SAFETY: as above; RTLD_NEXT never answers with this library's own function.
            address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        }
        if address.is_null() {
            complain(b"libsvmio_yield.so: no ");
            complain(self.name.to_bytes());
            complain(b" in any loaded library; run with `svmio run --no-yield`\n");
            std::process::abort();
        }
        address
    }
}

fn complain(text: &[u8]) {
    // SAFETY: the buffer is valid for its length.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

/// Whether a read from the descriptor would come back at once, waiting for that up to so many milliseconds.
///
/// So would one from a descriptor that cannot be read from.
pub(crate) fn is_readable(descriptor: c_int, milliseconds: c_int) -> bool {
    let mut question = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, valid and exclusively ours. An interrupted poll answers -1: not known to be.
    unsafe { libc::poll(&mut question, 1, milliseconds) > 0 }
}

/// Whether the environment has this value for the variable.
pub(crate) fn environment_says(name: &CStr, value: &CStr) -> bool {
    variable(name) == Some(value)
}

/// The variable's value, where that is a number that a descriptor can have.
pub(crate) fn number_in_environment(name: &CStr) -> Option<c_int> {
    variable(name)?.to_str().ok()?.parse().ok().filter(|number| *number >= 0)
}

/// The variable's value, until somebody changes the environment: for use at once.
fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name is NUL-terminated; so is the answer, and whoever changes the environment while another thread
    // may read it breaks its contract with the C library.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    }
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
