//! Shared libraries that are in the process already, and the symbols in them.
//!
//! A preloaded library cannot rely on the dynamic linker here: under Python the MPI library is loaded late
//! and privately, where neither undefined symbols nor `RTLD_NEXT` find it.

use std::ffi::{CStr, CString, c_int, c_void};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// A loaded library. It stays loaded.
#[derive(Debug, Clone, Copy)]
pub struct Library(*mut c_void);

// SAFETY: the handle of a library that is never closed may be used from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// A symbol that is not where it should be.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the symbol {symbol} is not in {place}")]
pub struct SymbolError {
    /// The symbol.
    pub symbol: String,
    /// Where it was looked for.
    pub place: String,
}

impl Library {
    /// The MPI library of this process. Its symbols are its own, also where others of the same name come
    /// before them in the process.
    ///
    /// # Errors
    /// [`SymbolError`] where no loaded library has MPI's functions.
    pub fn mpi() -> Result<Library, SymbolError> {
        let version = c"PMPI_Get_library_version";
        if let Ok(address) = Library::global().address(version) {
            let own = file_of(address).and_then(|path| Library::loaded(&path));
            // A program with MPI linked into itself is not to be had by its path.
            return Ok(own.unwrap_or(Library::next()));
        }
        loaded_objects()
            .into_iter()
            .filter(|path| {
                let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
                name.starts_with("libmpi.so") || name.starts_with("libmpich.so")
            })
            .filter_map(|path| Library::loaded(&path))
            .find(|library| library.address(version).is_ok())
            .ok_or_else(|| SymbolError {
                symbol: "MPI_Get_library_version".into(),
                place: "any loaded library".into(),
            })
    }

    /// The libraries that come after the calling one in the process.
    pub fn next() -> Library {
        Library(libc::RTLD_NEXT)
    }

    /// The function `symbol` of the libraries that come after the calling one in the process, which may have something of
    /// their own to do; where none has it, the function `of_mpi` of the MPI library.
    ///
    /// # Errors
    /// [`SymbolError`].
    ///
    /// # Safety
    /// `F` is a function pointer of the type that both have.
    pub unsafe fn behind<F: Copy>(symbol: &CStr, of_mpi: &CStr) -> Result<F, SymbolError> {
        // SAFETY: the caller vouches for the type.
        let function = |library: Library, symbol| unsafe { library.function::<F>(symbol) };
        function(Library::next(), symbol).or_else(|_| function(Library::mpi()?, of_mpi))
    }

    /// What symbols of the process are bound to where nothing else is said.
    pub fn global() -> Library {
        Library(libc::RTLD_DEFAULT)
    }

    /// The first loaded library whose file name begins with `prefix` and that has `symbol`.
    pub fn with_symbol(prefix: &str, symbol: &CStr) -> Option<Library> {
        let named =
            |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(prefix));
        let mut libraries =
            loaded_objects().into_iter().filter(named).filter_map(|path| Library::loaded(&path));
        libraries.find(|library| library.address(symbol).is_ok())
    }

    /// The library in the file `path`, if the process has loaded it.
    pub fn loaded(path: &Path) -> Option<Library> {
        open(path, libc::RTLD_NOW | libc::RTLD_NOLOAD)
    }

    /// The address of `symbol`.
    ///
    /// # Errors
    /// [`SymbolError`].
    pub fn address(&self, symbol: &CStr) -> Result<*mut c_void, SymbolError> {
        // SAFETY: the handle is one of `dlopen`'s that was never closed, RTLD_DEFAULT or RTLD_NEXT.
        let address = unsafe { libc::dlsym(self.0, symbol.as_ptr()) };
        if address.is_null() {
            return Err(SymbolError {
                symbol: symbol.to_string_lossy().into_owned(),
                place: "the process's MPI library".into(),
            });
        }
        Ok(address)
    }

    /// The address of the variable `symbol`: of the program's own copy where it has one. (The linker gives
    /// programs that are not position-independent copies of libraries' variables; the libraries use them, too.)
    ///
    /// # Errors
    /// [`SymbolError`].
    pub fn variable(&self, symbol: &CStr) -> Result<*mut c_void, SymbolError> {
        Library(libc::RTLD_DEFAULT).address(symbol).or_else(|_| self.address(symbol))
    }

    /// The function `symbol`.
    ///
    /// # Errors
    /// [`SymbolError`].
    ///
    /// # Safety
    /// `F` is a function pointer of the type that the function has.
    pub unsafe fn function<F: Copy>(&self, symbol: &CStr) -> Result<F, SymbolError> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let address = self.address(symbol)?;
        // SAFETY: the caller vouches for the type; the size is that of a pointer.
        Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
    }
}

/// The file that holds the code or the variable at `address`.
pub(crate) fn file_of(address: *const c_void) -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `dladdr` reads no memory at `address` and fills `info`, or returns 0.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) } != 0;
    // SAFETY: zeroed is a valid value of this structure of pointers.
    let info = unsafe { info.assume_init() };
    if !found || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: where `dladdr` succeeds the name is a string that lives as long as the library is loaded.
    path_of(unsafe { CStr::from_ptr(info.dli_fname) })
}

/// The size in bytes that the symbol at exactly `address` has in its library's symbol table.
pub(crate) fn symbol_size(address: *const c_void) -> Option<u64> {
    /// `RTLD_DL_SYMENT` of glibc's `dlfcn.h`.
    const RTLD_DL_SYMENT: c_int = 1;
    unsafe extern "C" {
        fn dladdr1(
            address: *const c_void,
            info: *mut libc::Dl_info,
            extra: *mut *mut c_void,
            flags: c_int,
        ) -> c_int;
    }
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let mut symbol: *mut c_void = std::ptr::null_mut();
    // SAFETY: with RTLD_DL_SYMENT the function stores the address of a symbol table entry in `extra`.
    let found = unsafe { dladdr1(address, info.as_mut_ptr(), &raw mut symbol, RTLD_DL_SYMENT) } != 0;
    if !found || symbol.is_null() {
        return None;
    }
    // SAFETY: the entry belongs to a loaded library's symbol table, which nobody changes.
    let symbol = unsafe { &*symbol.cast::<libc::Elf64_Sym>() };
    Some(symbol.st_size)
}

/// Copies `length` bytes of this process's memory at `address`; `None` where there is none to be read. At
/// most 4,096 bytes.
pub(crate) fn read_memory(address: *const c_void, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0u8; length];
    let to = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
    let from = libc::iovec { iov_base: address.cast_mut(), iov_len: length };
    // SAFETY: the kernel reads the memory itself and fails where there is none; the vector has room for as much.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) };
    if read == length as isize {
        return Some(bytes);
    }
    // A container may forbid that, even to a process by itself.
    read_memory_by_pipe(address, length)
}

fn read_memory_by_pipe(address: *const c_void, length: usize) -> Option<Vec<u8>> {
    let (reader, writer) = std::io::pipe().ok()?;
    // SAFETY: the kernel reads the memory itself and fails where there is none.
    let written = unsafe { libc::write(writer.as_raw_fd(), address, length) };
    let mut bytes = vec![0u8; length];
    (written == length as isize && (&reader).read_exact(&mut bytes).is_ok()).then_some(bytes)
}

/// Stores `bytes` in this process's memory at `address`; false, and nothing stored, where it is not writable.
/// At most 4,096 bytes, within one page or in memory of one kind.
///
/// # Safety
/// What lies at `address` may be replaced, and nobody reads it meanwhile.
pub(crate) unsafe fn write_memory(address: *mut c_void, bytes: &[u8]) -> bool {
    let Ok((reader, mut writer)) = std::io::pipe() else { return false };
    if writer.write_all(bytes).is_err() {
        return false;
    }
    // SAFETY: the kernel writes the memory itself and fails where it may not; the caller vouches for the rest.
    unsafe { libc::read(reader.as_raw_fd(), address, bytes.len()) == bytes.len() as isize }
}

fn open(path: &Path, flags: c_int) -> Option<Library> {
    use std::os::unix::ffi::OsStrExt;
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: the path is a string; libraries that MPI itself loads have no constructors that matter here.
    let handle = unsafe { libc::dlopen(path.as_ptr(), flags) };
    (!handle.is_null()).then_some(Library(handle))
}

fn loaded_objects() -> Vec<PathBuf> {
    unsafe extern "C" fn collect(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        paths: *mut c_void,
    ) -> c_int {
        // SAFETY: `dl_iterate_phdr` passes a valid structure, and the pointer that was given to it.
        let (info, paths) = unsafe { (&*info, &mut *paths.cast::<Vec<PathBuf>>()) };
        if !info.dlpi_name.is_null() {
            // SAFETY: the name of a loaded object is a string.
            paths.extend(path_of(unsafe { CStr::from_ptr(info.dlpi_name) }));
        }
        0
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    // SAFETY: the callback gets the vector that lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut paths).cast()) };
    paths
}

fn path_of(name: &CStr) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes()));
    (!path.as_os_str().is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memory_that_is_there_is_read() {
        let text = *b"in this process";
        for read in [read_memory, read_memory_by_pipe] {
            assert_eq!(read(text.as_ptr().cast(), text.len()).as_deref(), Some(&text[..]));
            // Nothing is mapped in the first page.
            assert_eq!(read(std::ptr::without_provenance(16), 8), None);
        }
    }
}
