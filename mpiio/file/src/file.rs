//! A file that is open.

use std::ffi::{OsStr, c_int};
use std::path::{Path, PathBuf};

use mpi::Address;
use mpi::datatype::traits::Datatype;
use mpi::ffi;
use mpi::topology::traits::Communicator;

use crate::Offset;
use crate::error::Error;
use crate::hints::Hints;
use crate::opening::OpenOptions;
use crate::sys::{self, Failure, Handle};

/// A file that is open on all ranks of a communicator.
///
/// All ranks [close](File::close) it together. One that is dropped is closed there, so that all ranks must come by the
/// end of its scope, and no error is told; in a panic, and when MPI has ended, it is left as it is.
#[derive(Debug)]
pub struct File {
    handle: Handle,
    name: PathBuf,
}

/// From where an offset counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whence {
    /// The view's beginning.
    Start,
    /// Where the pointer stands.
    Current,
    /// The file's end.
    End,
}

impl File {
    /// Opens a file that exists for reading, together with all ranks of the communicator.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open<C: Communicator>(communicator: &C, name: impl AsRef<OsStr>) -> Result<Self, Error> {
        OpenOptions::new().read(true).open(communicator, name)
    }

    /// Makes a file, or empties it, for reading and writing, together with all ranks of the communicator.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn create<C: Communicator>(communicator: &C, name: impl AsRef<OsStr>) -> Result<Self, Error> {
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(communicator, name)
    }

    /// Closes the file, together with all ranks. What was written is for others to see then.
    ///
    /// # Errors
    /// What could not be written, or, of a file that is removed when it is closed, why it could not.
    pub fn close(self) -> Result<(), Error> {
        let Self { handle, name } = self;
        handle.close().map_err(|failure| Error::of(&name, failure))
    }

    /// The name by which it was opened.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Its size, in bytes.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn size(&self) -> Result<Offset, Error> {
        self.told(self.handle.ask(&sys::SIZE))
    }

    /// Sets its size, in bytes; collective.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn set_size(&self, bytes: Offset) -> Result<(), Error> {
        self.told(self.handle.order(&sys::SET_SIZE, bytes))
    }

    /// Sees to storage for so many bytes from the file's beginning, which it has at least then; collective.
    ///
    /// # Errors
    /// What MPI says of it: there may be no space.
    pub fn preallocate(&self, bytes: Offset) -> Result<(), Error> {
        self.told(self.handle.order(&sys::PREALLOCATE, bytes))
    }

    /// Brings what was written to the devices, and lets this rank see what others have written before; collective.
    ///
    /// # Errors
    /// What could not be brought there.
    pub fn sync(&self) -> Result<(), Error> {
        self.told(self.handle.sync())
    }

    /// Whether accesses are as if made one after the other.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn is_atomic(&self) -> Result<bool, Error> {
        self.told(self.handle.ask(&sys::ATOMICITY).map(|is_atomic| is_atomic != 0))
    }

    /// Whether accesses are to be as if made one after the other; collective.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn set_atomic(&self, is_atomic: bool) -> Result<(), Error> {
        self.told(self.handle.order(&sys::SET_ATOMICITY, c_int::from(is_atomic)))
    }

    /// MPI's modes (`MPI_MODE_…`, by [`mpi::ffi`]) by which it was opened.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn access_mode(&self) -> Result<i32, Error> {
        self.told(self.handle.ask(&sys::ACCESS_MODE))
    }

    /// The hints in force.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn hints(&self) -> Result<Hints, Error> {
        self.told(self.handle.info().and_then(|info| Hints::from_info(&info)))
    }

    /// Changes hints, where they can be changed for a file that is open; collective.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn set_hints(&self, hints: &Hints) -> Result<(), Error> {
        self.told(hints.to_info().and_then(|info| self.handle.set_info(&info)))
    }

    /// How many bytes of the file an element of this datatype takes in its representation, with gaps.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn type_extent<D: Datatype>(&self, datatype: &D) -> Result<Address, Error> {
        self.told(self.handle.type_extent(datatype.as_raw()))
    }

    /// Moves this rank's pointer, by elements of the etype.
    ///
    /// # Errors
    /// What MPI says of it: no pointer stands before the view's beginning.
    pub fn seek(&self, offset: Offset, whence: Whence) -> Result<(), Error> {
        self.told(self.handle.seek(&sys::SEEK, offset, whence.of_mpi()))
    }

    /// Where this rank's pointer stands, in elements of the etype.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn position(&self) -> Result<Offset, Error> {
        self.told(self.handle.ask(&sys::POSITION))
    }

    /// At which byte of the file an offset in the view lies.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn byte_offset(&self, offset: Offset) -> Result<Offset, Error> {
        self.told(self.handle.byte_offset(offset))
    }

    /// Moves the pointer that all ranks share, by elements of the etype; collective.
    ///
    /// # Errors
    /// What MPI says of it: no pointer stands before the view's beginning.
    pub fn seek_shared(&self, offset: Offset, whence: Whence) -> Result<(), Error> {
        self.told(self.handle.seek(&sys::SEEK_SHARED, offset, whence.of_mpi()))
    }

    /// Where the pointer that all ranks share stands, in elements of the etype.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn position_shared(&self) -> Result<Offset, Error> {
        self.told(self.handle.ask(&sys::POSITION_SHARED))
    }

    pub(crate) fn opened(handle: Handle, name: PathBuf) -> Self {
        Self { handle, name }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// A failure with the name of the file.
    pub(crate) fn told<T>(&self, outcome: Result<T, Failure>) -> Result<T, Error> {
        outcome.map_err(|failure| Error::of(&self.name, failure))
    }
}

impl Whence {
    fn of_mpi(self) -> c_int {
        let whence = match self {
            Self::Start => ffi::MPI_SEEK_SET,
            Self::Current => ffi::MPI_SEEK_CUR,
            Self::End => ffi::MPI_SEEK_END,
        };
        whence as c_int
    }
}
