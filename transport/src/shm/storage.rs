//! Memory that can be shared: a file descriptor, and mappings of it.
//!
//! Anonymous memory has no name anywhere (`memfd_create`), so nothing is left behind, however a process ends.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};

use crate::error::{Error, Result};
use crate::mapping;
use crate::memory::SharedMemory;

use super::available;

/// Up to this many bytes the pages of reserved memory are entered into the page table when it is mapped: a first access
/// costs a fault of about 0.5 µs for each page, in the middle of the first messages. Beyond it, entering all would take
/// longer (from 1 ms on) than a connection should.
const POPULATED: usize = 4 << 20;

/// Kernels before 6.12 give back all that a call has reserved when a signal comes in the middle of it: with a timer that
/// ticks every few milliseconds, a longer one would never end.
const RESERVED_AT_ONCE: usize = 4 << 20;

/// What reserved memory is sealed with. Whoever maps it can rely on its length for ever: no access will be beyond the
/// end. And whoever is handed it knows by these seals that it is reserved: nothing else of ours has all of them.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A part of a file that holds shared memory.
#[derive(Debug)]
pub(super) struct Storage {
    file: OwnedFd,
    offset: u64,
    length: u64,
}

impl Storage {
    /// Fresh zeroed memory, all of it reserved.
    ///
    /// # Errors
    /// `Memory` where that much cannot be had.
    pub(super) fn reserve(what: &str, length: u64) -> Result<Self> {
        let short = |source: io::Error| Error::Memory { what: what.into(), length, source: Arc::new(source) };
        available::check(length).map_err(short)?;
        let reserve = || -> io::Result<OwnedFd> {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let file = rustix::fs::memfd_create(c"svmio", flags)?;
            for start in (0..length).step_by(RESERVED_AT_ONCE) {
                let step = (length - start).min(RESERVED_AT_ONCE as u64);
                rustix::io::retry_on_intr(|| {
                    rustix::fs::fallocate(&file, FallocateFlags::empty(), start, step)
                })?;
            }
            rustix::fs::fcntl_add_seals(&file, SEALS)?;
            Ok(file)
        };
        Ok(Self { file: reserve().map_err(short)?, offset: 0, length })
    }

    /// A part of the caller's file.
    ///
    /// # Errors
    /// `OutOfBounds` where the file is shorter; `System` where it cannot be asked.
    pub(super) fn of_file(file: &File, offset: u64, length: u64) -> Result<Self> {
        let doing = "exporting a part of a file";
        let file = file.try_clone().map_err(|error| Error::system(doing, error))?;
        Self::checked(file.into(), offset, length)
    }

    /// What a peer sent.
    ///
    /// # Errors
    /// `OutOfBounds` where it is shorter than the peer said; `System` where it cannot be asked.
    pub(super) fn received(file: OwnedFd, offset: u64, length: u64) -> Result<Self> {
        Self::checked(file, offset, length)
    }

    fn checked(file: OwnedFd, offset: u64, length: u64) -> Result<Self> {
        mapping::check_size(&file, offset, length)?;
        Ok(Self { file, offset, length })
    }

    /// First byte in the file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Whether all of it has storage. What does not come from `reserve` may have holes, and they are to stay holes:
    /// entering their pages would give them storage, as writing there does.
    fn is_reserved(&self) -> bool {
        // A file that cannot be sealed gives an error, or has one seal.
        rustix::fs::fcntl_get_seals(&self.file).is_ok_and(|seals| seals.contains(SEALS))
    }

    /// Maps it, shared, for reading and writing.
    ///
    /// # Errors
    /// `Memory` where there is no room for `what` in the address space; `System` where the system refuses.
    pub(super) fn map(&self, what: &str) -> Result<SharedMemory> {
        let memory = mapping::of_file(what, &self.file, self.offset, self.length)?;
        if memory.len() <= POPULATED && self.is_reserved() {
            // Only an acceleration; older kernels do not know it.
            let _ = mapping::enter_pages(&memory);
        }
        Ok(memory)
    }
}

impl AsFd for Storage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::{FileExt, MetadataExt};

    use rustix::fs::{MemfdFlags, SealFlags};

    use super::Storage;
    use crate::error::Error;

    #[test]
    fn reserved_memory_is_zeroed_shared_and_cannot_shrink() {
        let storage = Storage::reserve("a test", 10_000).unwrap();
        let (one, other) = (storage.map("a test").unwrap(), storage.map("a test").unwrap());
        let mut bytes = vec![1; 10_000];
        other.read(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 0));
        one.write(9_990, b"0123456789").unwrap();
        other.read(9_990, &mut bytes[..10]).unwrap();
        assert_eq!(&bytes[..10], b"0123456789");
        let file = File::from(storage.as_fd().try_clone_to_owned().unwrap());
        assert!(file.set_len(4096).is_err());
        assert!(file.set_len(40_960).is_err());
    }

    #[test]
    fn more_than_there_is_is_an_error() {
        for length in [1 << 50, u64::MAX] {
            let error = Storage::reserve("a test", length).unwrap_err();
            assert!(matches!(error, Error::Memory { length: wanted, .. } if wanted == length), "{error}");
        }
    }

    #[test]
    fn nothing_can_be_reserved_and_mapped() {
        let memory = Storage::reserve("a test", 0).unwrap().map("a test").unwrap();
        assert!(memory.is_empty());
        assert!(memory.write(0, b"x").is_err());
        memory.write(0, b"").unwrap();
    }

    #[test]
    fn only_what_was_reserved_gets_storage_by_being_mapped() {
        let reserved = Storage::reserve("a test", 10_000).unwrap();
        let handed_over = reserved.as_fd().try_clone_to_owned().unwrap();
        assert!(Storage::received(handed_over, 0, 10_000).unwrap().is_reserved());
        // All of it is a hole. One cannot be sealed, the other is, but not for good.
        let length = 1 << 20;
        for flags in [MemfdFlags::CLOEXEC, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING] {
            let file = File::from(rustix::fs::memfd_create(c"a test", flags).unwrap());
            file.set_len(length).unwrap();
            if flags.contains(MemfdFlags::ALLOW_SEALING) {
                rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).unwrap();
            }
            let own = Storage::of_file(&file, 0, length).unwrap();
            let handed_over = file.try_clone().unwrap().into();
            let received = Storage::received(handed_over, 0, length).unwrap();
            let _memory = [own, received].map(|storage| storage.map("a test").unwrap());
            assert_eq!(file.metadata().unwrap().blocks(), 0, "{flags:?}");
        }
    }

    #[test]
    fn a_part_of_a_file_is_that_part() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 * 4096).unwrap();
        let memory = Storage::of_file(&file, 4096, 5000).unwrap().map("a test").unwrap();
        memory.write(1, b"here").unwrap();
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, 4097).unwrap();
        assert_eq!(&bytes, b"here");
        assert!(matches!(Storage::of_file(&file, 8192, 4097), Err(Error::OutOfBounds { size: 12_288, .. })));
        assert!(Storage::of_file(&file, u64::MAX, 1).is_err());
        assert!(Storage::of_file(&file, 1, 1).unwrap().map("a test").is_err());
    }
}
