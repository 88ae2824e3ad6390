//! Loading libfabric when it is first needed.
//!
//! It is not linked, because svmio's upper layers live in a library that is preloaded into MPI programs, whose MPI
//! brings a libfabric of its own: whoever uses another fabric must not meet a second one, nor miss one.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::kernel_symbols::Hidden;
use super::signals::Dispositions;
use super::stand_ins::{self, StandIns};
use super::{API_VERSION, FI_MAJOR_VERSION, FI_MINOR_VERSION, fi_info, fid_fabric};
use crate::error::{Error, Result};

type Getinfo =
    unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const fi_info, *mut *mut fi_info) -> c_int;
type Freeinfo = unsafe extern "C" fn(*mut fi_info);
type Dupinfo = unsafe extern "C" fn(*const fi_info) -> *mut fi_info;
type Fabric = unsafe extern "C" fn(*mut super::fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;
type Strerror = unsafe extern "C" fn(c_int) -> *const c_char;
type Version = unsafe extern "C" fn() -> u32;

/// The exported functions; all others are reached through the tables of the objects.
pub(in crate::ofi) struct Library {
    handle: Handle,
    /// Whether nobody in the process has asked it anything yet.
    is_unasked: AtomicBool,
    getinfo: Getinfo,
    /// `fi_freeinfo`.
    pub(in crate::ofi) freeinfo: Freeinfo,
    /// `fi_dupinfo`; of nothing, it makes an empty one.
    pub(in crate::ofi) dupinfo: Dupinfo,
    /// `fi_fabric`.
    pub(in crate::ofi) fabric: Fabric,
    strerror: Strerror,
}

/// What `dlopen` has answered.
struct Handle(*mut c_void);

// SAFETY: the dynamic linker's functions may be called from any thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// The library; it is loaded once and stays.
///
/// # Errors
/// `Provider` where it is missing or too old.
pub(in crate::ofi) fn library() -> Result<&'static Library> {
    static LIBRARY: OnceLock<Result<Library>> = OnceLock::new();
    LIBRARY.get_or_init(load).as_ref().map_err(Clone::clone)
}

impl Library {
    /// The dynamic linker's handle of it.
    #[cfg(test)]
    pub(super) fn handle(&self) -> *mut c_void {
        self.handle.0
    }

    /// What an error number, of either sign, means.
    pub(in crate::ofi) fn describe(&self, code: isize) -> String {
        let code = c_int::try_from(code.unsigned_abs()).unwrap_or(0);
        // SAFETY: takes any number and answers a constant text.
        let text = unsafe { CStr::from_ptr((self.strerror)(code)) };
        text.to_string_lossy().into_owned()
    }

    /// Asks for what a provider offers, without letting it change how signals are handled, or search the kernel's
    /// symbols for what cannot be there.
    ///
    /// # Safety
    /// As for `fi_getinfo` of `fi_getinfo(3)`.
    pub(in crate::ofi) unsafe fn query(
        &self,
        node: *const c_char,
        flags: u64,
        hints: *const fi_info,
        found: &mut *mut fi_info,
    ) -> c_int {
        let _signals = Dispositions::save();
        // Relaxed: whoever has the turn of `_signals` sees what those before it did.
        let is_first = self.is_unasked.swap(false, Ordering::Relaxed);
        // SAFETY: the library is never unloaded. Nobody else replaces functions of it: it was loaded here, and one
        // thread only is the first.
        let _symbols = is_first.then(|| unsafe { Hidden::from(self.handle.0) });
        // SAFETY: the caller's promise.
        unsafe { (self.getinfo)(API_VERSION, node, std::ptr::null(), flags, hints, found) }
    }
}

const NAME: &CStr = c"libfabric.so.1";

fn load() -> Result<Library> {
    let (handle, is_unasked) = {
        let _signals = Dispositions::save();
        let is_new = !stand_ins::is_loaded(NAME);
        // SAFETY: a constant name; the library's constructors only set it up.
        let open = || unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let stand_ins = StandIns::load();
        let handle = match open() {
            // It may look for functions that these lack.
            handle if handle.is_null() && !stand_ins.is_empty() => {
                stand_ins.unload();
                open()
            }
            handle => handle,
        };
        (handle, AtomicBool::new(is_new))
    };
    if handle.is_null() {
        return Err(failed(format!("{}; on Debian: apt-get install libfabric1", last_problem())));
    }
    // SAFETY: the types are those of `fi_version(3)`, `fi_getinfo(3)`, `fi_fabric(3)`, `fi_errno(3)`, of the
    // version of the binary interface that the headers belong to; the library is never unloaded.
    unsafe {
        let version = std::mem::transmute::<*mut c_void, Version>(symbol(handle, c"fi_version")?);
        let version = version();
        if version < API_VERSION {
            let problem = format!(
                "the installed library is version {}.{}, this program needs {FI_MAJOR_VERSION}.{FI_MINOR_VERSION}",
                version >> 16,
                version & 0xFFFF,
            );
            return Err(failed(problem));
        }
        Ok(Library {
            handle: Handle(handle),
            is_unasked,
            getinfo: std::mem::transmute::<*mut c_void, Getinfo>(symbol(handle, c"fi_getinfo")?),
            freeinfo: std::mem::transmute::<*mut c_void, Freeinfo>(symbol(handle, c"fi_freeinfo")?),
            dupinfo: std::mem::transmute::<*mut c_void, Dupinfo>(symbol(handle, c"fi_dupinfo")?),
            fabric: std::mem::transmute::<*mut c_void, Fabric>(symbol(handle, c"fi_fabric")?),
            strerror: std::mem::transmute::<*mut c_void, Strerror>(symbol(handle, c"fi_strerror")?),
        })
    }
}

/// Finds an exported function, in the version of the binary interface that the headers describe: a newer library's
/// default one may have larger structures. (From 1.20 on the headers describe the newest.)
fn symbol(handle: *mut c_void, name: &CStr) -> Result<*mut c_void> {
    const IS_OLD: bool = FI_MAJOR_VERSION == 1 && FI_MINOR_VERSION < 20;
    let has_structures = matches!(name.to_bytes(), b"fi_getinfo" | b"fi_freeinfo" | b"fi_dupinfo");
    // SAFETY: `handle` is a loaded library; the names are strings.
    let found = unsafe {
        if IS_OLD && has_structures {
            libc::dlvsym(handle, name.as_ptr(), c"FABRIC_1.3".as_ptr())
        } else {
            libc::dlsym(handle, name.as_ptr())
        }
    };
    if found.is_null() { Err(failed(last_problem())) } else { Ok(found) }
}

pub(super) fn last_problem() -> String {
    // SAFETY: called right after a failure; the text stays until the next call on this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the dynamic linker does not say why".into();
    }
    // SAFETY: not null, hence a string.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn failed(problem: String) -> Error {
    Error::Provider { doing: "loading libfabric".into(), provider: "none yet".into(), problem }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;
    use std::ptr;

    use super::library;

    #[test]
    fn loading_leaves_the_handling_of_signals_alone() {
        let library = library().unwrap();
        assert_eq!(library.describe(-11), "Resource temporarily unavailable");
        let mut action = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: only asks; there is room for the answer, which is there when the call succeeds.
        let action = unsafe {
            assert_eq!(libc::sigaction(libc::SIGILL, ptr::null(), action.as_mut_ptr()), 0);
            action.assume_init()
        };
        // libpsm2 would have put itself there.
        assert_eq!(action.sa_sigaction, libc::SIG_DFL);
    }
}
