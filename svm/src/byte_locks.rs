//! Locks on bytes of a file that belong to what `open` returned: `fcntl` with `F_OFD_SETLK` (Linux 3.15).
//!
//! The bytes need not exist; the kernel keeps a record of who has locked which, and drops a process's locks when it dies,
//! however it dies. Descriptors made by `try_clone` or `dup`, and those of a `fork`ed child, share the locks of the
//! original: they are never kept apart.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Bytes of a file, by their offset and number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes {
    pub(crate) start: i64,
    /// 0 means: to the end of all files.
    pub(crate) len: i64,
}

impl Bytes {
    /// Those of `range`, which is not empty, and ends where files can end.
    pub(crate) fn of(range: &Range<u64>) -> Bytes {
        Bytes { start: range.start.cast_signed(), len: (range.end - range.start).cast_signed() }
    }
}

/// How many may have a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All who want a shared one.
    Shared,
    /// One.
    Exclusive,
}

/// Takes an exclusive lock on `bytes` if no other open file description has any. Returns whether it has.
pub(crate) fn try_lock(file: &File, bytes: Bytes) -> io::Result<bool> {
    match fcntl(file, libc::F_OFD_SETLK, libc::F_WRLCK, bytes) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Takes a lock on `bytes` as soon as nobody else has one that forbids it.
pub(crate) fn wait_for_lock(file: &File, kind: Kind, bytes: Bytes) -> io::Result<()> {
    let kind = match kind {
        Kind::Shared => libc::F_RDLCK,
        Kind::Exclusive => libc::F_WRLCK,
    };
    loop {
        match fcntl(file, libc::F_OFD_SETLKW, kind, bytes) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Gives the lock on `bytes` back, if there is one.
pub(crate) fn unlock(file: &File, bytes: Bytes) -> io::Result<()> {
    fcntl(file, libc::F_OFD_SETLK, libc::F_UNLCK, bytes).map(drop)
}

/// Whether another open file description has a lock on any of `bytes`.
pub(crate) fn locked_by_another(file: &File, bytes: Bytes) -> io::Result<bool> {
    let found = fcntl(file, libc::F_OFD_GETLK, libc::F_WRLCK, bytes)?;
    Ok(i32::from(found.l_type) != libc::F_UNLCK)
}

fn fcntl(file: &File, command: libc::c_int, kind: libc::c_int, bytes: Bytes) -> io::Result<libc::flock> {
    // SAFETY: `flock` is a structure of integers, for which zero is a value. The kernel wants
    // `l_pid` to be zero for these commands.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = kind as libc::c_short;
    request.l_whence = libc::SEEK_SET as libc::c_short;
    request.l_start = bytes.start;
    request.l_len = bytes.len;
    // SAFETY: the descriptor is open as long as `file` is borrowed, and `request` is the structure
    // that these commands read and write.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut request) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(request),
    }
}
