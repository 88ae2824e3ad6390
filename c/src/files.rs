//! Open files: what C holds of them, and what it reads and writes without mapping.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use svmio_svm::session::Session;
use svmio_svm::{File, FileName, FileOffset, OpenOptions, SegmentSize, strip_prefix};

use crate::failure::{Failure, Result, reported};
use crate::job::{self, Members, Scope};
use crate::together::{Call, Disagreement};
use crate::types::*;

/// An open file.
pub(crate) struct OpenFile {
    pub(crate) file: Arc<File>,
    pub(crate) members: Arc<Members>,
    pub(crate) scope: Scope,
    /// It goes when it is closed.
    is_unnamed: bool,
}

impl OpenFile {
    /// Does something with those who have it open.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&Session) -> T) -> T {
        self.members.with(self.scope, work)
    }

    /// Which file it is, for people and for comparison.
    pub(crate) fn told(&self) -> String {
        format!("{} (file {})", self.file.name(), self.file.id())
    }

    /// Closes it, on all who have it open.
    pub(crate) fn close(self) -> Result {
        let closed = self.with(|session| session.close(&self.file, self.is_unnamed));
        Ok(closed?)
    }

    /// Closes it here, where the others cannot be told any more.
    pub(crate) fn close_severed(self) -> Result {
        let closed = self.with(|session| session.close_severed(&self.file, self.is_unnamed));
        Ok(closed?)
    }
}

/// What C asks for when it opens a file.
pub(crate) struct Asked {
    /// None for memory that has no name.
    name: Option<FileName>,
    options: OpenOptions,
    /// It is opened only if it can be made.
    is_exclusive: bool,
    scope: Scope,
}

impl Asked {
    /// # Safety
    /// `name` is null or a text.
    pub(crate) unsafe fn from_c(name: *const c_char, flags: c_uint, options: &svm_options) -> Result<Asked> {
        const KNOWN: c_uint = SVM_READ | SVM_WRITE | SVM_CREATE | SVM_EXCLUSIVE | SVM_ALONE;
        if flags & !KNOWN != 0 {
            return Err(Failure::argument(format!("there is no flag {:#x}", flags & !KNOWN)));
        }
        let has = |flag: c_uint| flags & flag != 0;
        let name = if name.is_null() {
            None
        } else {
            // SAFETY: the caller's promise.
            Some(file_name(unsafe { CStr::from_ptr(name) })?)
        };
        let opened = match (has(SVM_READ), has(SVM_WRITE)) {
            (_, true) if name.is_none() => OpenOptions::read_write(),
            (true, true) => OpenOptions::read_write(),
            (false, true) => OpenOptions::writing(),
            (true, false) if name.is_some() => OpenOptions::reading(),
            (true, false) => return Err(Failure::argument("memory without a name needs SVM_WRITE")),
            (false, false) => return Err(Failure::argument("the flags have neither SVM_READ nor SVM_WRITE")),
        };
        if has(SVM_EXCLUSIVE) && !has(SVM_CREATE) {
            return Err(Failure::argument("SVM_EXCLUSIVE makes no sense without SVM_CREATE"));
        }
        let segment_size = match options.segment_size {
            0 => None,
            bytes => Some(SegmentSize::new(bytes).map_err(|error| Failure::argument(error.to_string()))?),
        };
        let (is_exclusive, scope) = (has(SVM_EXCLUSIVE), Scope::of(flags));
        let opened = opened.create(has(SVM_CREATE)).exclusive(is_exclusive).segment_size(segment_size);
        Ok(Asked { name, options: opened, is_exclusive, scope })
    }

    /// What is to be opened, for people and for comparison.
    pub(crate) fn told(&self) -> String {
        self.name.as_ref().map_or_else(|| "memory without a name".into(), ToString::to_string)
    }

    /// After it was opened for nothing: what this call has certainly made goes.
    pub(crate) fn take_back(&self, open: &OpenFile) {
        if let Some(name) = self.name.as_ref().filter(|_| self.is_exclusive) {
            open.with(|session| session.take_back(name));
        }
    }

    /// Opens it.
    pub(crate) fn open(&self, members: Arc<Members>) -> Result<OpenFile> {
        let file = members.with(self.scope, |session| match &self.name {
            Some(name) => session.open(name, &self.options),
            None => session.open_unnamed(&self.options),
        })?;
        let is_unnamed = self.name.is_none();
        Ok(OpenFile { file: Arc::new(file), members, scope: self.scope, is_unnamed })
    }
}

/// What a program has said of how it wants things.
///
/// # Safety
/// `options` is null or points to as many bytes as its size says.
pub(crate) unsafe fn options(options: *const svm_options) -> Result<svm_options> {
    const OWN: usize = size_of::<svm_options>();
    // SAFETY: all of it may be zero: numbers, and pointers that may be null.
    let mut known: svm_options = unsafe { std::mem::zeroed() };
    if options.is_null() {
        return Ok(known);
    }
    // SAFETY: the caller's promise; the size is the first of it.
    let size = unsafe { options.cast::<usize>().read() };
    if size < size_of::<usize>() || size > 4096 {
        return Err(Failure::argument(format!(
            "the options say that they have {size} bytes: set their size to sizeof(svm_options)"
        )));
    }
    // SAFETY: the caller vouches for `size` bytes; no more than there are in `known` are copied.
    let beyond = unsafe {
        std::ptr::copy_nonoverlapping(options.cast::<u8>(), (&raw mut known).cast::<u8>(), size.min(OWN));
        std::slice::from_raw_parts(options.cast::<u8>().wrapping_add(size.min(OWN)), size.saturating_sub(OWN))
    };
    if beyond.iter().any(|&byte| byte != 0) {
        return Err(Failure::argument(
            "the options ask for something that this release of svmio does not know: use the newer one",
        ));
    }
    Ok(known)
}

/// Where C's handles lead: numbers, which are given out once.
static OPEN: Mutex<BTreeMap<usize, Arc<OpenFile>>> = Mutex::new(BTreeMap::new());

/// The number of the next handle.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// They look like addresses of something aligned.
const SHIFT: u32 = 4;

/// Set in handles of files that a process has opened by itself.
const OWN: usize = 1 << 3;

/// A handle that no other file has or had.
fn new_handle(scope: Scope) -> usize {
    // Relaxed: only different numbers matter.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    (number << SHIFT) | if scope == Scope::Own { OWN } else { 0 }
}

/// Who makes calls of a handle, also when its file has been closed; of a handle that has never been, all.
fn scope_of(handle: *const svm_file) -> Scope {
    let handle = handle.addr();
    // Relaxed: whoever has got a handle from another thread has got the number before it, too.
    let has_been = handle >> SHIFT < NEXT.load(Ordering::Relaxed);
    if has_been && handle & OWN != 0 { Scope::Own } else { Scope::All }
}

fn open_files() -> MutexGuard<'static, BTreeMap<usize, Arc<OpenFile>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file of a handle.
pub(crate) fn of_handle(handle: *const svm_file) -> Result<Arc<OpenFile>> {
    open_files().get(&handle.addr()).cloned().ok_or_else(no_such_handle)
}

fn no_such_handle() -> Failure {
    Failure::argument("the file is none that svm_open has opened, or has been closed")
}

/// That no file is open.
pub(crate) fn none_is_open() -> Result {
    match open_files().values().next() {
        None => Ok(()),
        Some(open) => Err(Failure::state(format!("{} is open: call svm_close first", open.file.name()))),
    }
}

/// `svm_open`.
///
/// # Safety
/// Pointers are null or lead to what their types say.
pub(crate) unsafe extern "C" fn open(
    name: *const c_char,
    flags: c_uint,
    options: *const svm_options,
    file: *mut *mut svm_file,
) -> c_int {
    reported(|| {
        let (members, scope) = (job::members()?, Scope::of(flags));
        let asked = if file.is_null() {
            Err(Failure::argument("svm_open: there is no place for the file: a null pointer"))
        } else {
            // SAFETY: the caller's promise.
            unsafe { self::options(options).and_then(|options| Asked::from_c(name, flags, &options)) }
        };
        let (asked, _) = members.begin(scope, "svm_open", asked, Asked::told)?;
        let (open, handle) = (Arc::new(asked.open(members)?), new_handle(scope));
        open_files().insert(handle, open);
        // SAFETY: the caller's promise.
        unsafe { file.write(std::ptr::without_provenance_mut(handle)) };
        Ok(())
    })
}

/// `svm_close`.
pub(crate) extern "C" fn close(file: *mut svm_file) -> c_int {
    reported(|| {
        const FUNCTION: &str = "svm_close";
        let Some(open) = open_files().remove(&file.addr()) else {
            return job::members()?.agree(scope_of(file), &Call::new(FUNCTION), Err(no_such_handle()));
        };
        let (members, scope, call) = (Arc::clone(&open.members), open.scope, Call::of(FUNCTION, open.told()));
        let (open, is_free) = match Arc::try_unwrap(open) {
            Ok(open) => (Ok(open), Ok(())),
            Err(shared) => {
                let busy = format!("{} is mapped still, or used by another thread", shared.file.name());
                (Err(shared), Err(Failure::state(busy)))
            }
        };
        match (members.step(scope, &call, is_free), open) {
            (Ok(()), Ok(open)) => open.close(),
            (Err(Disagreement::Severed(failure)), Ok(open)) => Err(failure.beside(open.close_severed())),
            (agreed, open) => {
                let kept = open.map_or_else(|shared| shared, Arc::new);
                open_files().insert(file.addr(), kept);
                Ok(agreed?)
            }
        }
    })
}

/// `svm_file_size`.
///
/// # Safety
/// `size` is null or leads to a number.
pub(crate) unsafe extern "C" fn file_size(file: *const svm_file, size: *mut u64) -> c_int {
    reported(|| {
        let open = of_handle(file)?;
        // SAFETY: the caller's promise.
        let size = unsafe { size.as_mut() };
        *size.ok_or_else(|| Failure::argument("there is no place for the size: a null pointer"))? =
            open.file.size();
        Ok(())
    })
}

/// `svm_read_at`.
///
/// # Safety
/// `buffer` is null or has room for `length` bytes; `got` is null or leads to a number.
pub(crate) unsafe extern "C" fn read_at(
    file: *const svm_file,
    offset: u64,
    buffer: *mut c_void,
    length: usize,
    got: *mut usize,
) -> c_int {
    reported(|| {
        let open = of_handle(file)?;
        check_buffer(buffer, length)?;
        // SAFETY: the caller's promise.
        let read = unsafe { open.file.read_into(FileOffset(offset), buffer.cast(), length) }?;
        // SAFETY: as above.
        if let Some(got) = unsafe { got.as_mut() } {
            *got = read;
        } else if read < length {
            let name = open.file.name();
            return Err(Failure {
                status: SVM_ERR_RANGE,
                message: format!("{name} ends {read} bytes behind {offset}, and {length} were to be read"),
            });
        }
        Ok(())
    })
}

/// `svm_write_at`.
///
/// # Safety
/// `buffer` is null or has `length` bytes.
pub(crate) unsafe extern "C" fn write_at(
    file: *const svm_file,
    offset: u64,
    buffer: *const c_void,
    length: usize,
) -> c_int {
    reported(|| {
        let open = of_handle(file)?;
        check_buffer(buffer, length)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { open.file.write_from(FileOffset(offset), buffer.cast(), length) }?)
    })
}

fn check_buffer(buffer: *const c_void, length: usize) -> Result {
    match buffer.is_null() && length > 0 {
        true => Err(Failure::argument(format!("{length} bytes at a null pointer"))),
        false => Ok(()),
    }
}

/// `svm_file_sync`.
pub(crate) extern "C" fn sync(file: *const svm_file) -> c_int {
    reported(|| {
        let members = job::members()?;
        let (open, _) =
            members.begin(scope_of(file), "svm_file_sync", of_handle(file), |open| open.told())?;
        Ok(open.with(|session| session.team().sync(&open.file))?)
    })
}

/// `svm_remove`.
///
/// # Safety
/// `name` is null or a text.
pub(crate) unsafe extern "C" fn remove(name: *const c_char) -> c_int {
    reported(|| {
        if name.is_null() {
            return Err(Failure::argument("svm_remove: the name is a null pointer"));
        }
        // SAFETY: the caller's promise.
        let name = file_name(unsafe { CStr::from_ptr(name) })?;
        Ok(job::members()?.with(Scope::Own, |session| session.remove(&name))?)
    })
}

/// The name `text`, with or without `svm:`.
fn file_name(text: &CStr) -> Result<FileName> {
    let text = OsStr::from_bytes(text.to_bytes());
    Ok(FileName::new(strip_prefix(text).unwrap_or(text))?)
}
