//! What a program got by opening a file of this node alone, until all copies of the descriptor are closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use svmio_svm::{File, FileId, Result};

use super::attributes::Facts;
use super::own_file::{OwnFile, Use, warn_of_closing};

/// Such an open file; dropping it closes it.
#[derive(Debug)]
pub(super) struct OwnHandle {
    file: Arc<OwnFile>,
    for_writing: bool,
    place: Use,
    /// Whether pages of it may be mapped, which closing a descriptor tells nothing of.
    is_mapped: AtomicBool,
}

impl OwnHandle {
    /// # Errors
    /// As [`OwnFile::enter`].
    pub(super) fn new(file: Arc<OwnFile>, for_writing: bool) -> Result<OwnHandle> {
        let place = Use::default();
        file.enter(&place)?;
        Ok(OwnHandle { file, for_writing, place, is_mapped: AtomicBool::new(false) })
    }

    /// Whether the file can be written to.
    pub(super) fn is_writable(&self) -> bool {
        self.file.is_writable()
    }

    /// Accesses the file.
    ///
    /// # Errors
    /// As [`OwnFile::access`].
    pub(super) fn access<T>(&self, access: impl FnOnce(&File) -> Result<T>) -> Result<T> {
        self.file.access(&self.place, access)
    }

    /// Notes that pages of the file are mapped as memory.
    pub(super) fn note_mapping(&self) {
        // Relaxed: nothing else goes with it.
        self.is_mapped.store(true, Ordering::Relaxed);
    }

    /// The file's identity, if pages of it may be mapped and changed.
    pub(super) fn id_if_mapped(&self) -> Option<FileId> {
        let is_mapped = self.for_writing && self.is_mapped.load(Ordering::Relaxed);
        is_mapped.then(|| self.file.id())
    }

    /// As [`OwnFile::write`].
    pub(super) fn write(&self, offset: Option<u64>, data: &[u8]) -> Result<()> {
        self.access(|file| self.file.write(file, offset, data))
    }

    /// # Errors
    /// As [`File::set_size`].
    pub(super) fn set_size(&self, size: u64) -> Result<()> {
        self.access(|file| self.file.change(|| file.set_size(size)))
    }

    /// # Errors
    /// As [`File::preallocate`].
    pub(super) fn preallocate(&self, size: u64) -> Result<()> {
        self.access(|file| self.file.change(|| file.preallocate(size)))
    }

    /// A copy of the descriptor is closed: commits what was written, and gives the file up if nobody else here has it
    /// open. Who goes on with another copy has it again.
    ///
    /// # Errors
    /// As [`File::commit`].
    pub(super) fn flush(&self) -> Result<()> {
        if self.for_writing {
            self.file.settle_if_open()?;
        }
        if self.is_mapped.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.file.leave(&self.place)
    }

    /// As [`OwnFile::sync`].
    pub(super) fn sync(&self) -> Result<()> {
        // Not as an access: that may take long, and who closes the file elsewhere need not wait for it.
        let file = self.file.enter(&self.place)?;
        self.file.sync(&file)
    }

    /// As [`OwnFile::settle_if_open`].
    pub(super) fn settle(&self) -> Result<()> {
        self.file.settle_if_open().inspect_err(|error| warn_of_closing(self.file.name(), error))
    }

    /// Has the file have been changed at `time`.
    ///
    /// # Errors
    /// As [`OwnFile::settle`] and [`File::set_modified`].
    pub(super) fn set_modified(&self, time: SystemTime) -> Result<()> {
        self.access(|file| {
            // Otherwise closing the file would set another one.
            self.file.settle(file)?;
            file.set_modified(time)
        })
    }

    /// What there is to tell of it, whether it has a name or not.
    ///
    /// # Errors
    /// As [`File::storage`].
    pub(super) fn facts(&self, is_named: bool) -> Result<Facts> {
        self.access(|file| {
            let mut storage = file.storage()?;
            storage.modified = storage.modified.max(self.file.written_at());
            Ok(Facts { size: file.size(), storage, is_named })
        })
    }
}

impl Drop for OwnHandle {
    fn drop(&mut self) {
        if let Err(error) = self.file.leave(&self.place) {
            warn_of_closing(self.file.name(), &error);
        }
    }
}
