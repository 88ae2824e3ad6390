//! A file of this node alone, open as its programs have it open: all see each other's writes at once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use svmio_svm::{File, FileOffset, Result};

use super::attributes::Facts;

/// Such a file, open once for all who have it open here.
#[derive(Debug)]
pub(super) struct OwnFile {
    /// There until this is dropped.
    file: Option<File>,
    is_writable: bool,
    /// When it was last written to here; `None` where that has been committed.
    written: Mutex<Option<SystemTime>>,
    /// Held by who appends: nobody else here comes between looking for the end and writing there.
    appending: Mutex<()>,
}

impl OwnFile {
    pub(super) fn new(file: File, is_writable: bool) -> OwnFile {
        OwnFile { file: Some(file), is_writable, written: Mutex::default(), appending: Mutex::default() }
    }

    /// Whether it can be written to.
    pub(super) fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        self.file.as_ref().expect("it is there until this is dropped")
    }

    /// Writes all of `data`: at `offset`, or at the end of the file.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub(super) fn write(&self, offset: Option<u64>, data: &[u8]) -> Result<()> {
        // Before and not after: what is committed meanwhile may lack these bytes.
        *self.written() = Some(SystemTime::now());
        match offset {
            Some(offset) => self.file().write_at(FileOffset(offset), data),
            None => {
                let _alone = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
                self.file().write_at(FileOffset(self.file().size()), data)
            }
        }
    }

    /// # Errors
    /// As [`File::set_size`].
    pub(super) fn set_size(&self, size: u64) -> Result<()> {
        *self.written() = Some(SystemTime::now());
        self.file().set_size(size)
    }

    /// # Errors
    /// As [`File::preallocate`].
    pub(super) fn preallocate(&self, size: u64) -> Result<()> {
        *self.written() = Some(SystemTime::now());
        self.file().preallocate(size)
    }

    /// Commits what was written here, as closing a file does.
    ///
    /// # Errors
    /// As [`File::commit`].
    pub(super) fn settle(&self) -> Result<()> {
        let written = self.written().take();
        let settle = || {
            if written.is_some() {
                self.file().commit(true)?;
                self.touch();
            }
            Ok(())
        };
        settle().inspect_err(|_| self.have_been_written(written))
    }

    /// Brings what was written here to the storage device, and commits it.
    ///
    /// # Errors
    /// As [`File::sync_data`] and [`File::commit`].
    pub(super) fn sync(&self) -> Result<()> {
        let written = self.written().take();
        let sync = || {
            self.file().sync_data()?;
            self.file().commit(true)
        };
        sync().inspect_err(|_| self.have_been_written(written))?;
        if written.is_some() {
            self.touch();
        }
        Ok(())
    }

    /// Has the file have been changed at `time`.
    ///
    /// # Errors
    /// As [`OwnFile::settle`] and [`File::set_modified`].
    pub(super) fn set_modified(&self, time: SystemTime) -> Result<()> {
        // Otherwise closing the file would set another one.
        self.settle()?;
        self.file().set_modified(time)
    }

    /// What there is to tell of it, whether it has a name or not.
    ///
    /// # Errors
    /// As [`File::storage`].
    pub(super) fn facts(&self, is_named: bool) -> Result<Facts> {
        let mut storage = self.file().storage()?;
        storage.modified = storage.modified.max(self.written_at());
        Ok(Facts { size: self.file().size(), storage, is_named })
    }

    /// When it was last written to here, unless that has been committed since.
    pub(super) fn written_at(&self) -> Option<SystemTime> {
        *self.written()
    }

    /// Has it have been changed now. A time is nothing to fail for.
    fn touch(&self) {
        if let Err(error) = self.file().touch() {
            tracing::debug!("{error}");
        }
    }

    fn have_been_written(&self, before: Option<SystemTime>) {
        let mut written = self.written();
        *written = before.max(*written);
    }

    fn written(&self) -> MutexGuard<'_, Option<SystemTime>> {
        // A panic elsewhere leaves the time whole.
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if let Err(error) = self.settle() {
            tracing::warn!("closing {}: {error}", self.file().name());
        }
        if let Some(file) = self.file.take() {
            file.keep();
        }
    }
}
