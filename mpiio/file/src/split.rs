//! Collective accesses around a computation: MPI's split ones, whose two halves cannot be forgotten this way.

use mpi::datatype::traits::{Buffer, BufferMut};

use crate::Offset;
use crate::error::Error;
use crate::file::File;
use crate::sys;
use crate::transferred::Transferred;

/// Around a computation: the access begins, `computation` is called, and the access is waited for. All ranks take part;
/// of a file, one such access goes on at a time. Where the first half fails nothing is computed.
impl File {
    /// Reads at an offset.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn split_read_at_all<B: BufferMut + ?Sized, T>(
        &self,
        offset: Offset,
        buffer: &mut B,
        computation: impl FnOnce() -> T,
    ) -> Result<(Transferred<'_>, T), Error> {
        let halves = &sys::SPLIT_READ_AT_ALL;
        let (moved, computed) =
            self.told(self.handle().split_read_at(halves, offset, buffer, computation))?;
        Ok((Transferred::new(moved, halves.end.name, self.name()), computed))
    }

    /// Reads by this rank's pointer.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn split_read_all<B: BufferMut + ?Sized, T>(
        &self,
        buffer: &mut B,
        computation: impl FnOnce() -> T,
    ) -> Result<(Transferred<'_>, T), Error> {
        self.split_read(&sys::SPLIT_READ_ALL, buffer, computation)
    }

    /// Reads by the shared pointer, one rank's part after the other's.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn split_read_ordered<B: BufferMut + ?Sized, T>(
        &self,
        buffer: &mut B,
        computation: impl FnOnce() -> T,
    ) -> Result<(Transferred<'_>, T), Error> {
        self.split_read(&sys::SPLIT_READ_ORDERED, buffer, computation)
    }

    /// Writes at an offset.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn split_write_at_all<B: Buffer + ?Sized, T>(
        &self,
        offset: Offset,
        buffer: &B,
        computation: impl FnOnce() -> T,
    ) -> Result<T, Error> {
        let halves = &sys::SPLIT_WRITE_AT_ALL;
        let (moved, computed) =
            self.told(self.handle().split_write_at(halves, offset, buffer, computation))?;
        self.written(halves.end.name, Ok(moved))?;
        Ok(computed)
    }

    /// Writes by this rank's pointer.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn split_write_all<B: Buffer + ?Sized, T>(
        &self,
        buffer: &B,
        computation: impl FnOnce() -> T,
    ) -> Result<T, Error> {
        self.split_write(&sys::SPLIT_WRITE_ALL, buffer, computation)
    }

    /// Writes by the shared pointer, one rank's part after the other's.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn split_write_ordered<B: Buffer + ?Sized, T>(
        &self,
        buffer: &B,
        computation: impl FnOnce() -> T,
    ) -> Result<T, Error> {
        self.split_write(&sys::SPLIT_WRITE_ORDERED, buffer, computation)
    }

    fn split_read<B: BufferMut + ?Sized, T>(
        &self,
        halves: &sys::SplitRead,
        buffer: &mut B,
        computation: impl FnOnce() -> T,
    ) -> Result<(Transferred<'_>, T), Error> {
        let (moved, computed) = self.told(self.handle().split_read(halves, buffer, computation))?;
        Ok((Transferred::new(moved, halves.end.name, self.name()), computed))
    }

    fn split_write<B: Buffer + ?Sized, T>(
        &self,
        halves: &sys::SplitWrite,
        buffer: &B,
        computation: impl FnOnce() -> T,
    ) -> Result<T, Error> {
        let (moved, computed) = self.told(self.handle().split_write(halves, buffer, computation))?;
        self.written(halves.end.name, Ok(moved))?;
        Ok(computed)
    }
}
