//! What of a segment's file has storage, and what that holds.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, fallocate};
use rustix::io::{Errno, retry_on_intr};

/// Gives `range` of `file` storage: all of it, or nothing where the file system is full, but where a signal comes in
/// between.
pub(crate) fn give_storage(file: &File, range: Range<u64>) -> io::Result<()> {
    /// Kernels before 6.12 give back, in memory, all that a call has reserved when a signal comes in the middle of it:
    /// with a timer that ticks every few milliseconds, a longer one would never end.
    const AT_ONCE: usize = 4 << 20;
    let reserve = |start, length| fallocate(file, FallocateFlags::empty(), start, length);
    match reserve(range.start, range.end - range.start) {
        Err(Errno::INTR) => {}
        whole => return Ok(whole?),
    }
    for start in range.clone().step_by(AT_ONCE) {
        retry_on_intr(|| reserve(start, (range.end - start).min(AT_ONCE as u64)))?;
    }
    Ok(())
}

/// Takes the storage of `range` of `file` back.
pub(crate) fn punch(file: &File, range: Range<u64>) -> io::Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(retry_on_intr(|| fallocate(file, flags, range.start, range.end - range.start))?)
}

/// Opens the segment at `path` in `directory` that nobody needs any more, to take its storage back; `None` where what is
/// there may be more than that: a link, or no file, or one that has another name, too. Whoever can write to the directory
/// can put such a thing there, of a file that is not his.
pub(crate) fn open_sole(directory: BorrowedFd<'_>, path: &Path) -> io::Result<Option<File>> {
    // Not waiting for who writes to a pipe either.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(directory, path, flags, Mode::empty()) {
        Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Ok(None),
        file => File::from(file?),
    };
    let metadata = file.metadata()?;
    // None where somebody else removes it, too.
    Ok((metadata.is_file() && metadata.nlink() <= 1).then_some(file))
}

/// Takes all storage back of the segment at `path` in `directory` that nobody needs any more, whoever has it mapped;
/// nothing is done to what [may be more than that](open_sole).
pub(crate) fn empty(directory: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    match open_sole(directory, path)? {
        Some(file) => punch(&file, 0..file.metadata()?.len()),
        None => Ok(()),
    }
}

/// The first range of `within` that has storage in `file`.
pub(crate) fn next_data(file: &File, within: Range<u64>) -> io::Result<Option<Range<u64>>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(within.start)) {
        Ok(start) if start < within.end => start,
        Ok(_) | Err(rustix::io::Errno::NXIO) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    Ok(Some(start..end.min(within.end)))
}

/// Whether `range` of `file` has no byte but zero, whatever of it has storage.
pub(crate) fn is_zero(file: &File, range: Range<u64>) -> io::Result<bool> {
    let mut rest = range;
    let mut buffer = vec![0u8; 1 << 16];
    while !rest.is_empty() {
        let Some(data) = next_data(file, rest.clone())? else { break };
        let mut at = data.start;
        while at < data.end {
            let length = buffer.len().min((data.end - at) as usize);
            file.read_exact_at(&mut buffer[..length], at)?;
            if buffer[..length].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += length as u64;
        }
        rest.start = data.end;
    }
    Ok(true)
}
