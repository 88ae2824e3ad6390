//! The list of the kernel's symbols, hidden from libfabric where there is no adapter whose driver would be in it.
//!
//! When Debian's libfabric (1.17) is first asked anything, it reads `/proc/kallsyms` through, twice, for what the
//! kernel's InfiniBand drivers can do, whether there is such an adapter or not. That takes a quarter of a second: the
//! kernel writes the list anew for each reader.

use std::ffi::{CStr, c_char, c_void};
use std::fs;
use std::io;
use std::path::Path;

use plthook::{ObjectFile, Replacement};

/// Until it is dropped, the library finds no list.
///
/// A process that another thread forks meanwhile never finds it. Where the kernel refuses to have the library's table
/// of functions written once more, nor does this one.
pub(super) struct Hidden {
    _function: Option<Replacement>,
}

impl Hidden {
    /// Hides the list from a loaded library, unless the machine has an adapter of InfiniBand's kind.
    ///
    /// # Safety
    /// `library` is a handle of `dlopen`'s that is not closed before this value is dropped, and nobody else replaces
    /// functions of that library meanwhile.
    pub(super) unsafe fn from(library: *mut c_void) -> Self {
        if has_adapter() {
            return Self { _function: None };
        }
        let ours: Fopen = open_unless_symbols;
        // SAFETY: the caller's promise. The function in place of `fopen` is one of the same type, and is there: this
        // code is being run until the old one is put back.
        let replaced = unsafe {
            ObjectFile::open_by_handle(library)
                .and_then(|library| library.replace("fopen", ours as *const c_void))
        };
        if let Err(problem) = &replaced {
            tracing::debug!("libfabric may search the kernel's symbols: {problem}");
        }
        Self { _function: replaced.ok() }
    }
}

type Fopen = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut libc::FILE;

/// `fopen`, to which that list is not there.
///
/// # Safety
/// As for `fopen(3)`.
unsafe extern "C" fn open_unless_symbols(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: a string, as the caller promises.
    if unsafe { CStr::from_ptr(path) } == c"/proc/kallsyms" {
        // SAFETY: this thread's own.
        unsafe { *libc::__errno_location() = libc::ENOENT };
        return std::ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    unsafe { libc::fopen(path, mode) }
}

/// Where it cannot be told, there is one.
fn has_adapter() -> bool {
    let is_empty = |directory| match fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_none(),
        Err(problem) => problem.kind() == io::ErrorKind::NotFound,
    };
    let can_tell = Path::new("/sys/class").is_dir();
    !(can_tell && is_empty("/sys/class/infiniband") && is_empty("/dev/infiniband"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::ptr;

    use super::*;
    use crate::ofi::sys::library;
    use crate::ofi::{OfiSettings, provider::Offer};

    /// What the first question may read from files and sockets, in bytes; the list has several million.
    const LITTLE: u64 = 1 << 20;

    #[test]
    fn the_first_question_takes_no_long_list_to_answer() {
        let name = "ofi::sys::kernel_symbols::tests::the_first_question_of_a_process";
        let arguments = ["--exact", name, "--ignored"];
        let asked = Command::new(std::env::current_exe().unwrap()).args(arguments).output().unwrap();
        let told = String::from_utf8_lossy(&asked.stdout);
        assert!(asked.status.success() && told.contains("1 passed"), "{told}");
    }

    #[test]
    #[ignore = "the body of a process that the other test starts"]
    fn the_first_question_of_a_process() {
        let handle = library().unwrap().handle();
        let (function, before) = (fopen_of(handle), bytes_read());
        Offer::choose(&OfiSettings { address: "127.0.0.1".into(), ..OfiSettings::default() }, None).unwrap();
        let read = bytes_read() - before;
        assert!(read < LITTLE || has_adapter(), "{read} bytes");
        assert_eq!(fopen_of(handle), function, "libfabric is as it was");
    }

    #[test]
    fn only_the_list_is_hidden() {
        // SAFETY: strings; what is opened is closed.
        unsafe {
            assert!(open_unless_symbols(c"/proc/kallsyms".as_ptr(), c"r".as_ptr()).is_null());
            assert_eq!(io::Error::last_os_error().kind(), io::ErrorKind::NotFound);
            let other = open_unless_symbols(c"/proc/self/stat".as_ptr(), c"r".as_ptr());
            assert_eq!(libc::fclose(ptr::NonNull::new(other).unwrap().as_ptr()), 0);
        }
    }

    /// What a library calls where it calls `fopen`.
    fn fopen_of(library: *mut c_void) -> usize {
        // SAFETY: a loaded library, which is not unloaded.
        let library = unsafe { ObjectFile::open_by_handle(library) }.unwrap();
        let symbol = library.symbols().find(|symbol| symbol.name.as_c_str() == c"fopen").unwrap();
        // SAFETY: an entry of the library's table.
        unsafe { *symbol.func_address as usize }
    }

    fn bytes_read() -> u64 {
        let all = fs::read_to_string("/proc/thread-self/io").unwrap();
        let line = all.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
        line.parse().unwrap()
    }
}
