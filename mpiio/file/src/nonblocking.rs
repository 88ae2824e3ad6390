//! Reading and writing that go on while the program does something else.

use std::fmt;

use mpi::datatype::traits::{Buffer, BufferMut};
use mpi::request::Scope;

use crate::Offset;
use crate::error::Error;
use crate::file::File;
use crate::sys::{self, Failure, Moved, Request};
use crate::transferred::Transferred;

/// An access that is not over.
///
/// Its buffer is borrowed for as long as the [scope](mpi::request::scope) in which it began. Dropped, it is waited for,
/// and what came of it is not told.
#[must_use = "what comes of an access is told when it is waited for"]
pub struct Pending<'a, S: Scope<'a>> {
    request: Request<'a, S>,
    direction: Direction,
    file: &'a File,
}

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

impl<'a, S: Scope<'a>> Pending<'a, S> {
    /// Waits until it is over. What was written was all of it, or fails.
    ///
    /// # Errors
    /// What MPI says of it. Where MPI was initialized for several threads at a time (`MPI_THREAD_MULTIPLE`) the error
    /// handler of `MPI_COMM_WORLD` and `MPI_COMM_SELF` hears of it first, which ends the job unless it was changed.
    pub fn wait(self) -> Result<Transferred<'a>, Error> {
        let Self { request, direction, file } = self;
        let call = request.call;
        direction.outcome(file, call, request.wait())
    }

    /// What came of it, if it is over; otherwise itself.
    ///
    /// # Errors
    /// Itself, where it is not over; within, what MPI says of it.
    pub fn test(self) -> Result<Result<Transferred<'a>, Error>, Self> {
        let Self { request, direction, file } = self;
        let call = request.call;
        match request.test() {
            Ok(moved) => Ok(direction.outcome(file, call, moved)),
            Err(request) => Err(Self { request, direction, file }),
        }
    }
}

impl Direction {
    fn outcome<'f>(
        self,
        file: &'f File,
        call: &'static str,
        moved: Result<Moved, Failure>,
    ) -> Result<Transferred<'f>, Error> {
        if self == Self::Write {
            file.written(call, moved)?;
        }
        file.brought(call, moved)
    }
}

impl<'a, S: Scope<'a>> fmt::Debug for Pending<'a, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Pending")
            .field("call", &self.request.call)
            .field("file", &self.file.name())
            .finish()
    }
}

/// Meanwhile: each returns when the access has begun, in a [scope](mpi::request::scope) that outlives it.
///
/// ```no_run
/// # use mpi::traits::*;
/// # fn main() -> Result<(), svmio_file::Error> {
/// # let universe = mpi::initialize().unwrap();
/// # let file = svmio_file::File::create(&universe.world(), "svm:/a")?;
/// # let compute = || ();
/// let numbers = [1.0, 2.0];
/// mpi::request::scope(|scope| {
///     let writing = file.immediate_write_at(scope, 0, &numbers[..])?;
///     compute();
///     writing.wait().map(drop)
/// })?;
/// # Ok(())
/// # }
/// ```
impl File {
    /// Begins to read at an offset.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn immediate_read_at<'a, B: BufferMut + ?Sized, S: Scope<'a>>(
        &'a self,
        scope: S,
        offset: Offset,
        buffer: &'a mut B,
    ) -> Result<Pending<'a, S>, Error> {
        self.pending(Direction::Read, self.handle().immediate_read_at(&sys::IREAD_AT, scope, offset, buffer))
    }

    /// Begins to read at an offset, all ranks together.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn immediate_read_at_all<'a, B: BufferMut + ?Sized, S: Scope<'a>>(
        &'a self,
        scope: S,
        offset: Offset,
        buffer: &'a mut B,
    ) -> Result<Pending<'a, S>, Error> {
        self.pending(
            Direction::Read,
            self.handle().immediate_read_at(&sys::IREAD_AT_ALL, scope, offset, buffer),
        )
    }

    /// Begins to write at an offset.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn immediate_write_at<'a, B: Buffer + ?Sized, S: Scope<'a>>(
        &'a self,
        scope: S,
        offset: Offset,
        buffer: &'a B,
    ) -> Result<Pending<'a, S>, Error> {
        self.pending(
            Direction::Write,
            self.handle().immediate_write_at(&sys::IWRITE_AT, scope, offset, buffer),
        )
    }

    /// Begins to write at an offset, all ranks together.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn immediate_write_at_all<'a, B: Buffer + ?Sized, S: Scope<'a>>(
        &'a self,
        scope: S,
        offset: Offset,
        buffer: &'a B,
    ) -> Result<Pending<'a, S>, Error> {
        self.pending(
            Direction::Write,
            self.handle().immediate_write_at(&sys::IWRITE_AT_ALL, scope, offset, buffer),
        )
    }

    /// Begins to read by this rank's pointer, which moves on at once.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn immediate_read<'a, B: BufferMut + ?Sized, S: Scope<'a>>(
        &'a self,
        scope: S,
        buffer: &'a mut B,
    ) -> Result<Pending<'a, S>, Error> {
        self.pending(Direction::Read, self.handle().immediate_read(&sys::IREAD, scope, buffer))
    }

    /// Begins to read by this rank's pointer, all ranks together.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn immediate_read_all<'a, B: BufferMut + ?Sized, S: Scope<'a>>(
        &'a self,
        scope: S,
        buffer: &'a mut B,
    ) -> Result<Pending<'a, S>, Error> {
        self.pending(Direction::Read, self.handle().immediate_read(&sys::IREAD_ALL, scope, buffer))
    }

    /// Begins to read by the pointer that all ranks share.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn immediate_read_shared<'a, B: BufferMut + ?Sized, S: Scope<'a>>(
        &'a self,
        scope: S,
        buffer: &'a mut B,
    ) -> Result<Pending<'a, S>, Error> {
        self.pending(Direction::Read, self.handle().immediate_read(&sys::IREAD_SHARED, scope, buffer))
    }

    /// Begins to write by this rank's pointer, which moves on at once.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn immediate_write<'a, B: Buffer + ?Sized, S: Scope<'a>>(
        &'a self,
        scope: S,
        buffer: &'a B,
    ) -> Result<Pending<'a, S>, Error> {
        self.pending(Direction::Write, self.handle().immediate_write(&sys::IWRITE, scope, buffer))
    }

    /// Begins to write by this rank's pointer, all ranks together.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn immediate_write_all<'a, B: Buffer + ?Sized, S: Scope<'a>>(
        &'a self,
        scope: S,
        buffer: &'a B,
    ) -> Result<Pending<'a, S>, Error> {
        self.pending(Direction::Write, self.handle().immediate_write(&sys::IWRITE_ALL, scope, buffer))
    }

    /// Begins to write by the pointer that all ranks share.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn immediate_write_shared<'a, B: Buffer + ?Sized, S: Scope<'a>>(
        &'a self,
        scope: S,
        buffer: &'a B,
    ) -> Result<Pending<'a, S>, Error> {
        self.pending(Direction::Write, self.handle().immediate_write(&sys::IWRITE_SHARED, scope, buffer))
    }

    fn pending<'a, S: Scope<'a>>(
        &'a self,
        direction: Direction,
        request: Result<Request<'a, S>, Failure>,
    ) -> Result<Pending<'a, S>, Error> {
        Ok(Pending { request: self.told(request)?, direction, file: self })
    }
}
