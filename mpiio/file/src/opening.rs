//! How a file is opened.

use std::ffi::{CString, OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use mpi::ffi;
use mpi::topology::traits::Communicator;

use crate::error::{Error, ErrorClass};
use crate::file::File;
use crate::hints::Hints;
use crate::sys::{self, Failure, Handle};

/// How a file is opened: MPI's modes, and hints.
///
/// ```no_run
/// # use mpi::traits::*;
/// # fn main() -> Result<(), svmio_file::Error> {
/// # let universe = mpi::initialize().unwrap();
/// use svmio_file::{Hints, OpenOptions};
///
/// let file = OpenOptions::new()
///     .read(true)
///     .write(true)
///     .create(true)
///     .hints(Hints::new().with("svm_placement", "round_robin"))
///     .open(&universe.world(), "svm:/results/step1")?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    truncate: bool,
    further: c_int,
    hints: Hints,
}

impl OpenOptions {
    /// Neither for reading nor for writing, which MPI refuses.
    pub fn new() -> Self {
        Self::default()
    }

    /// For reading.
    #[must_use]
    pub fn read(mut self, is_wanted: bool) -> Self {
        self.read = is_wanted;
        self
    }

    /// For writing.
    #[must_use]
    pub fn write(mut self, is_wanted: bool) -> Self {
        self.write = is_wanted;
        self
    }

    /// The file is made where there is none.
    #[must_use]
    pub fn create(self, is_wanted: bool) -> Self {
        self.mode(ffi::MPI_MODE_CREATE, is_wanted)
    }

    /// There is to be no file yet: with [`create`](OpenOptions::create).
    #[must_use]
    pub fn exclusive(self, is_wanted: bool) -> Self {
        self.mode(ffi::MPI_MODE_EXCL, is_wanted)
    }

    /// What was in the file is gone. MPI has no such mode: the size is set to 0 when the file is open.
    #[must_use]
    pub fn truncate(mut self, is_wanted: bool) -> Self {
        self.truncate = is_wanted;
        self
    }

    /// All pointers stand at the file's end first.
    #[must_use]
    pub fn append(self, is_wanted: bool) -> Self {
        self.mode(ffi::MPI_MODE_APPEND, is_wanted)
    }

    /// The file is removed when it is closed.
    #[must_use]
    pub fn delete_on_close(self, is_wanted: bool) -> Self {
        self.mode(ffi::MPI_MODE_DELETE_ON_CLOSE, is_wanted)
    }

    /// Nobody else opens the file meanwhile.
    #[must_use]
    pub fn unique(self, is_wanted: bool) -> Self {
        self.mode(ffi::MPI_MODE_UNIQUE_OPEN, is_wanted)
    }

    /// The file is read and written only from its beginning to its end, by the shared pointer.
    #[must_use]
    pub fn sequential(self, is_wanted: bool) -> Self {
        self.mode(ffi::MPI_MODE_SEQUENTIAL, is_wanted)
    }

    /// With these hints.
    #[must_use]
    pub fn hints(mut self, hints: Hints) -> Self {
        self.hints = hints;
        self
    }

    /// Opens the file `name`, together with all ranks of the communicator, which name the same file and the same modes.
    ///
    /// # Errors
    /// What MPI says of it, on all ranks: [`ErrorClass::NoSuchFile`], [`ErrorClass::FileExists`],
    /// [`ErrorClass::Access`], [`ErrorClass::AccessMode`], and others.
    pub fn open<C: Communicator>(&self, communicator: &C, name: impl AsRef<OsStr>) -> Result<File, Error> {
        let name = Path::new(name.as_ref());
        let told = |failure| Error::of(name, failure);
        let c_name = c_name(name)?;
        let info = self.hints.to_info().map_err(told)?;
        let handle = Handle::open(communicator, &c_name, self.modes(), &info).map_err(told)?;
        let file = File::opened(handle, name.to_owned());
        if self.truncate {
            file.set_size(0)?;
        }
        Ok(file)
    }

    fn mode(mut self, mode: u32, is_wanted: bool) -> Self {
        if is_wanted {
            self.further |= mode as c_int;
        } else {
            self.further &= !(mode as c_int);
        }
        self
    }

    fn modes(&self) -> c_int {
        let main = match (self.read, self.write) {
            (true, true) => ffi::MPI_MODE_RDWR,
            (true, false) => ffi::MPI_MODE_RDONLY,
            (false, true) => ffi::MPI_MODE_WRONLY,
            (false, false) => 0,
        };
        // The end of what is emptied is its beginning, and pointers stay where they are when that is done.
        let further =
            if self.truncate { self.further & !(ffi::MPI_MODE_APPEND as c_int) } else { self.further };
        main as c_int | further
    }
}

/// Removes the file `name`. One rank does it for all, by a thread that may call MPI.
///
/// # Errors
/// What MPI says of it: [`ErrorClass::NoSuchFile`], [`ErrorClass::FileInUse`], and others.
pub fn delete(name: impl AsRef<OsStr>) -> Result<(), Error> {
    let name = Path::new(name.as_ref());
    let told = |failure| Error::of(name, failure);
    let info = Hints::new().to_info().map_err(told)?;
    sys::delete(&c_name(name)?, &info).map_err(told)
}

impl Error {
    pub(crate) fn of(file: &Path, failure: Failure) -> Self {
        Self::new(file.to_owned(), failure.call, failure.class(), failure.text())
    }
}

fn c_name(name: &Path) -> Result<CString, Error> {
    CString::new(name.as_os_str().as_bytes()).map_err(|_| {
        let text = "a zero byte is in the name".to_owned();
        Error::new(name.to_owned(), "MPI_File_open", ErrorClass::BadFileName, text)
    })
}
