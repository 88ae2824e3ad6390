//! The list of the kernel's symbols, hidden from libfabric where there is no adapter whose driver would be in it.
//!
//! libfabric before 1.18.1 reads `/proc/kallsyms` twice when it is first asked anything, for what the kernel's InfiniBand
//! drivers can do, whether there is such an adapter or not. The kernel takes a quarter of a second to write that list.

use std::ffi::{CStr, c_char, c_void};
use std::fs;
use std::io;

use plthook::{ObjectFile, Replacement};

/// Until it is dropped, the library finds no list.
pub(super) struct Hidden {
    _function: Option<Replacement>,
}

impl Hidden {
    /// Hides the list from a loaded library, unless the machine has an adapter of InfiniBand's kind.
    ///
    /// # Safety
    /// `library` is a handle of `dlopen`'s that is not closed before this value is dropped, and no other thread hides
    /// anything from the same library meanwhile.
    pub(super) unsafe fn from(library: *mut c_void) -> Self {
        if has_adapter() {
            return Self { _function: None };
        }
        let ours: Fopen = open_unless_symbols;
        // SAFETY: the caller's promise; the function in place of `fopen` is one of the same type.
        let replaced = unsafe {
            ObjectFile::open_by_handle(library)
                .and_then(|library| library.replace("fopen", ours as *const c_void))
        };
        // Newer ones may have no such call.
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
    match fs::read_dir("/sys/class/infiniband") {
        Ok(mut adapters) => adapters.next().is_some(),
        Err(problem) => problem.kind() != io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::ofi::sys::library;
    use crate::ofi::{OfiSettings, provider::Offer};

    /// What the first question may read from files and sockets, in bytes; the list has more than ten million.
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
        library().unwrap();
        let before = bytes_read();
        Offer::choose(&OfiSettings { address: "127.0.0.1".into(), ..OfiSettings::default() }).unwrap();
        let read = bytes_read() - before;
        assert!(read < LITTLE || has_adapter(), "{read} bytes");
        // It is there for others, and for libfabric later.
        assert!(fs::metadata("/proc/kallsyms").is_ok());
    }

    fn bytes_read() -> u64 {
        let all = fs::read_to_string("/proc/thread-self/io").unwrap();
        let line = all.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
        line.parse().unwrap()
    }
}
