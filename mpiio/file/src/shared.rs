//! Reading and writing by the pointer that all ranks share.

use mpi::datatype::traits::{Buffer, BufferMut};

use crate::error::Error;
use crate::file::File;
use crate::sys;
use crate::transferred::Transferred;

/// By the shared pointer: each access moves it on for all. `shared` ones come in any order, `ordered` ones, which are
/// collective, in the order of the ranks.
impl File {
    /// Reads what is next.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn read_shared<B: BufferMut + ?Sized>(&self, buffer: &mut B) -> Result<Transferred<'_>, Error> {
        self.brought(sys::READ_SHARED.name, self.handle().read(&sys::READ_SHARED, buffer))
    }

    /// Writes what is next.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn write_shared<B: Buffer + ?Sized>(&self, buffer: &B) -> Result<(), Error> {
        self.written(sys::WRITE_SHARED.name, self.handle().write(&sys::WRITE_SHARED, buffer))
    }

    /// Reads, one rank's part after the other's.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn read_ordered<B: BufferMut + ?Sized>(&self, buffer: &mut B) -> Result<Transferred<'_>, Error> {
        self.brought(sys::READ_ORDERED.name, self.handle().read(&sys::READ_ORDERED, buffer))
    }

    /// Writes, one rank's part after the other's.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn write_ordered<B: Buffer + ?Sized>(&self, buffer: &B) -> Result<(), Error> {
        self.written(sys::WRITE_ORDERED.name, self.handle().write(&sys::WRITE_ORDERED, buffer))
    }
}
