//! Bringing the device into a stock ROMIO, by family.
//!
//! Nothing is trusted before it has been checked: the library's version, the structures' layout by values
//! that are known, and memory by asking the kernel. What is not known gets an error that names the version.

pub mod mpich;
pub mod openmpi;

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

use crate::abi::{Comm, Info, MpiFile};
use crate::calls::Mpi;
use crate::failure::Failure;
use crate::host::HasHost;
use crate::layout::RomioFile;
use crate::noted::Noted;
use crate::reopening::Opener;

/// A family into whose ROMIO the device can be plugged.
pub trait Plug: HasHost {
    /// `MPI_File_open` for the file `name` of the device's. Error handlers have been called on return.
    ///
    /// # Safety
    /// The arguments are those of `MPI_File_open`, on every rank of `comm`.
    unsafe fn open(
        mpi: &'static Mpi<Self>,
        comm: Comm<Self>,
        name: &CStr,
        amode: c_int,
        info: Info<Self>,
        file: *mut MpiFile,
    ) -> c_int;

    /// `MPI_File_open` for the file `name` of the device's where `comm` is one by which none can be opened: `obstacle`
    /// says what it is. Waits for nobody. Error handlers have been called on return.
    ///
    /// # Safety
    /// The arguments are those of `MPI_File_open`.
    unsafe fn refuse(
        mpi: &'static Mpi<Self>,
        comm: Comm<Self>,
        name: &CStr,
        obstacle: &str,
        file: *mut MpiFile,
    ) -> c_int;

    /// ROMIO's structure of an open file; `None` where it is not one of the device's.
    fn opened(file: MpiFile) -> Option<*mut RomioFile<Self>>;

    /// Called when a file of the device's is closed, whether ROMIO keeps it or is about to close it.
    fn closed(_file: MpiFile) {}

    /// Called when a file is opened again that ROMIO has kept.
    fn reopened(_file: MpiFile, _fd: *mut RomioFile<Self>) {}

    /// Where it is kept what communicators have opened.
    fn openers() -> &'static Mutex<Vec<Opener<Self>>>;
}

thread_local! {
    /// ROMIO's file that this thread opened last.
    static OPENED: Cell<*mut c_void> = const { Cell::new(std::ptr::null_mut()) };
}

/// Called when ROMIO opens a file of the device's. The first one since [`take_opened`] counts: ROMIO may open
/// the shared file pointer of a file on the way.
pub(crate) fn note_opened(fd: *mut c_void) {
    if OPENED.get().is_null() {
        OPENED.set(fd);
    }
}

/// ROMIO's file that this thread opened since it last asked; null where there is none.
fn take_opened() -> *mut c_void {
    OPENED.replace(std::ptr::null_mut())
}

thread_local! {
    /// Why a file of the device's was not closed as it should have been.
    static UNCLOSED: Noted<Failure> = const { Noted::nothing() };
}

/// Called when closing a file of the device's fails, which ROMIO does not hear of.
pub(crate) fn note_unclosed(failure: Failure) {
    UNCLOSED.with(|unclosed| unclosed.set(failure));
}

/// Called when a file of the device's was closed, and stays where it should have gone. That it was not closed as it should
/// have been comes before that.
pub(crate) fn note_unremoved(failure: Failure) {
    UNCLOSED.with(|unclosed| unclosed.set(unclosed.take().unwrap_or(failure)));
}

/// The failure of this thread's last close since it last asked.
pub fn take_unclosed() -> Option<Failure> {
    UNCLOSED.with(Noted::take)
}

/// A number at random, for ranks to take the largest of theirs; not negative.
fn drawn() -> i64 {
    (RandomState::new().hash_one(0) >> 1) as i64
}

/// The numbers that follow `mark` in a version text: major and minor.
fn version_after(mark: &str, text: &str) -> Option<(u32, u32)> {
    let rest = text[text.find(mark)? + mark.len()..].trim_start();
    let mut numbers = rest.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found() {
        assert_eq!(version_after("MPICH Version:", "MPICH Version:      4.0.2\nMPICH Release"), Some((4, 0)));
        assert_eq!(version_after("MPICH Version:", "MPICH Version:\t5.0.0rc1"), Some((5, 0)));
        assert_eq!(version_after("Open MPI v", "Open MPI v4.1.4, package: Debian"), Some((4, 1)));
        assert_eq!(version_after("Open MPI v", "Intel(R) MPI Library 2021.1"), None);
    }
}
