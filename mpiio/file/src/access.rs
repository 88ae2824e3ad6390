//! Reading and writing that return when they are done, at an offset that is given or where this rank's pointer stands.

use mpi::datatype::traits::{Buffer, BufferMut};

use crate::Offset;
use crate::error::{Error, ErrorClass};
use crate::file::File;
use crate::sys::{self, Failure, Moved};
use crate::transferred::Transferred;

/// By offset: in elements of the view's etype, from its beginning.
///
/// # Errors
/// All of them fail with what MPI says. Of reads that reach the file's end, [`Transferred`] tells how much came; a
/// write has written all, or fails.
///
/// # Panics
/// The crate `mpi` does, where a buffer has more than 2³¹ - 1 elements: a datatype of many takes their place.
impl File {
    /// Reads.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn read_at<B: BufferMut + ?Sized>(
        &self,
        offset: Offset,
        buffer: &mut B,
    ) -> Result<Transferred<'_>, Error> {
        self.brought(sys::READ_AT.name, self.handle().read_at(&sys::READ_AT, offset, buffer))
    }

    /// Reads, all ranks together.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn read_at_all<B: BufferMut + ?Sized>(
        &self,
        offset: Offset,
        buffer: &mut B,
    ) -> Result<Transferred<'_>, Error> {
        self.brought(sys::READ_AT_ALL.name, self.handle().read_at(&sys::READ_AT_ALL, offset, buffer))
    }

    /// Writes.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn write_at<B: Buffer + ?Sized>(&self, offset: Offset, buffer: &B) -> Result<(), Error> {
        self.written(sys::WRITE_AT.name, self.handle().write_at(&sys::WRITE_AT, offset, buffer))
    }

    /// Writes, all ranks together.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn write_at_all<B: Buffer + ?Sized>(&self, offset: Offset, buffer: &B) -> Result<(), Error> {
        self.written(sys::WRITE_AT_ALL.name, self.handle().write_at(&sys::WRITE_AT_ALL, offset, buffer))
    }
}

/// By this rank's pointer, which moves on by what was read or written.
impl File {
    /// Reads.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn read<B: BufferMut + ?Sized>(&self, buffer: &mut B) -> Result<Transferred<'_>, Error> {
        self.brought(sys::READ.name, self.handle().read(&sys::READ, buffer))
    }

    /// Reads, all ranks together.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn read_all<B: BufferMut + ?Sized>(&self, buffer: &mut B) -> Result<Transferred<'_>, Error> {
        self.brought(sys::READ_ALL.name, self.handle().read(&sys::READ_ALL, buffer))
    }

    /// Writes.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn write<B: Buffer + ?Sized>(&self, buffer: &B) -> Result<(), Error> {
        self.written(sys::WRITE.name, self.handle().write(&sys::WRITE, buffer))
    }

    /// Writes, all ranks together.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn write_all<B: Buffer + ?Sized>(&self, buffer: &B) -> Result<(), Error> {
        self.written(sys::WRITE_ALL.name, self.handle().write(&sys::WRITE_ALL, buffer))
    }
}

impl File {
    /// What came of a read.
    pub(crate) fn brought(
        &self,
        call: &'static str,
        moved: Result<Moved, Failure>,
    ) -> Result<Transferred<'_>, Error> {
        Ok(Transferred::new(self.told(moved)?, call, self.name()))
    }

    /// What came of a write: less than all of it is an error, though MPI may not say so.
    pub(crate) fn written(&self, call: &'static str, moved: Result<Moved, Failure>) -> Result<(), Error> {
        let moved = self.told(moved)?;
        if moved.bytes >= moved.wanted() {
            return Ok(());
        }
        let text = format!("{} of {} bytes were written", moved.bytes, moved.wanted());
        Err(Error::new(self.name().to_owned(), call, ErrorClass::Short, text))
    }
}
