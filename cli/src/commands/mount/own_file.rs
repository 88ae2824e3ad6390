//! A file of this node alone, open as its programs have it open: all see each other's writes at once.
//!
//! Nobody else is kept from it once those who have it open here have closed it. The kernel tells that twice: before
//! `close` returns, but also of each copy of a descriptor, and in the background, when there is none any more. So the
//! file is given up at the former, and opened again for who goes on with another copy: until the latter it is held, so
//! that it is there for him whoever removes it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::SystemTime;

use svmio_svm::{Error, File, FileId, FileName, FileOffset, Hold, OpenOptions, Result, Store};

/// Such a file, one for all who have it open here.
#[derive(Debug)]
pub(super) struct OwnFile {
    id: FileId,
    /// By which it was opened first.
    name: FileName,
    is_writable: bool,
    place: RwLock<Place>,
    /// For who goes on when the place has been given up.
    hold: Hold,
    /// When it was last written to here; `None` where that has been committed.
    written: Mutex<Option<SystemTime>>,
    /// Held by who commits: who closes it meanwhile is not told of success that may turn out to be none.
    settling: Mutex<()>,
    /// Held by who appends: nobody else here comes between looking for the end and writing there.
    appending: Mutex<()>,
}

/// Our place among those who have the file open.
#[derive(Debug)]
struct Place {
    /// `None` where it has been given up.
    file: Option<Arc<File>>,
    /// How many here have not closed it.
    users: usize,
}

/// Whether somebody counts among the users of a file; changed with its place.
#[derive(Debug, Default)]
pub(super) struct Use(AtomicBool);

impl OwnFile {
    /// The file that was opened by `name`. Nobody uses it so far.
    ///
    /// # Errors
    /// As [`Store::hold`].
    pub(super) fn new(store: &Store, name: &FileName, file: File, is_writable: bool) -> Result<OwnFile> {
        Ok(OwnFile {
            id: file.id(),
            name: name.clone(),
            is_writable,
            hold: store.hold(&file, name)?,
            place: RwLock::new(Place { file: Some(Arc::new(file)), users: 0 }),
            written: Mutex::default(),
            settling: Mutex::default(),
            appending: Mutex::default(),
        })
    }

    /// The file's identity.
    pub(super) fn id(&self) -> FileId {
        self.id
    }

    /// The name by which it was opened first.
    pub(super) fn name(&self) -> &FileName {
        &self.name
    }

    /// Whether it can be written to.
    pub(super) fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Accesses the file, which is not given up meanwhile, nor before the user leaves.
    ///
    /// # Errors
    /// Those of the access; as [`Hold::open`] where it had been given up.
    pub(super) fn access<T>(&self, by: &Use, access: impl FnOnce(&File) -> Result<T>) -> Result<T> {
        loop {
            let place = self.place();
            if by.is_counted()
                && let Some(file) = &place.file
            {
                return access(file);
            }
            drop(place);
            self.enter(by)?;
        }
    }

    /// Has somebody use the file, who may do so already.
    ///
    /// # Errors
    /// As [`Hold::open`] where it had been given up.
    pub(super) fn enter(&self, user: &Use) -> Result<Arc<File>> {
        let mut place = self.place_to_change();
        let file = match &place.file {
            Some(file) => Arc::clone(file),
            None => {
                let options =
                    if self.is_writable { OpenOptions::read_write() } else { OpenOptions::reading() };
                let file = Arc::new(self.hold.open(&options)?);
                Arc::clone(place.file.insert(file))
            }
        };
        place.users += usize::from(user.change(true));
        Ok(file)
    }

    /// Has somebody not use the file any more. With the last one it is committed and given up, unless it has lost its
    /// name: then nobody else comes to open it.
    ///
    /// # Errors
    /// As [`File::commit`]; it is not given up then.
    pub(super) fn leave(&self, user: &Use) -> Result<()> {
        let mut place = self.place_to_change();
        place.users -= usize::from(user.change(false));
        if place.users > 0 {
            return Ok(());
        }
        if let Some(file) = &place.file {
            self.settle(file)?;
        }
        let file = place.file.take_if(|file| !file.is_removed());
        // There may be somebody who syncs it still.
        if let Some(file) = file.and_then(Arc::into_inner) {
            file.keep();
        }
        Ok(())
    }

    /// Writes all of `data`: at `offset`, or at the end of the file.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub(super) fn write(&self, file: &File, offset: Option<u64>, data: &[u8]) -> Result<()> {
        self.change(|| match offset {
            Some(offset) => file.write_at(FileOffset(offset), data),
            None => {
                let _alone = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
                file.write_at(FileOffset(file.size()), data)
            }
        })
    }

    /// Changes the file, and notes that. After and not before: who commits meanwhile takes the note away, and what he
    /// commits may lack the change.
    ///
    /// # Errors
    /// Those of `change`.
    pub(super) fn change<T>(&self, change: impl FnOnce() -> Result<T>) -> Result<T> {
        let changed = change();
        // What failed may have been done in part.
        *self.written() = Some(SystemTime::now());
        changed
    }

    /// Commits what was written here, as closing a file does.
    ///
    /// # Errors
    /// As [`File::commit`].
    pub(super) fn settle(&self, file: &File) -> Result<()> {
        let _alone = self.settling();
        let written = self.written().take();
        let settle = || {
            if written.is_some() {
                file.commit(true)?;
                touch(file);
            }
            Ok(())
        };
        settle().inspect_err(|_| self.have_been_written(written))
    }

    /// Commits what was written here, if anything was.
    ///
    /// # Errors
    /// As [`File::commit`].
    pub(super) fn settle_if_open(&self) -> Result<()> {
        let file = self.place().file.clone();
        file.map_or(Ok(()), |file| self.settle(&file))
    }

    /// Brings what was written here to the storage device, and commits it.
    ///
    /// # Errors
    /// As [`File::sync_data`] and [`File::commit`].
    pub(super) fn sync(&self, file: &File) -> Result<()> {
        let _alone = self.settling();
        let written = self.written().take();
        let sync = || {
            file.sync_left()?;
            file.commit(true)
        };
        sync().inspect_err(|_| self.have_been_written(written))?;
        if written.is_some() {
            touch(file);
        }
        Ok(())
    }

    /// When it was last written to here, unless that has been committed since.
    pub(super) fn written_at(&self) -> Option<SystemTime> {
        *self.written()
    }

    fn have_been_written(&self, before: Option<SystemTime>) {
        let mut written = self.written();
        *written = before.max(*written);
    }

    fn settling(&self) -> MutexGuard<'_, ()> {
        self.settling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn written(&self) -> MutexGuard<'_, Option<SystemTime>> {
        // A panic elsewhere leaves the time whole.
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self) -> RwLockReadGuard<'_, Place> {
        // A panic elsewhere leaves the place whole, here and below.
        self.place.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn place_to_change(&self) -> RwLockWriteGuard<'_, Place> {
        self.place.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        // It has lost its name, or could not be committed when its last user left.
        let place = self.place.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = place.file.take() else { return };
        if let Err(error) = self.settle(&file) {
            warn_of_closing(&self.name, &error);
        }
        if let Some(file) = Arc::into_inner(file) {
            file.keep();
        }
    }
}

impl Use {
    fn is_counted(&self) -> bool {
        // Relaxed, here and below: the lock of the place orders it.
        self.0.load(Ordering::Relaxed)
    }

    /// Whether that was a change. The caller may change the place.
    fn change(&self, is_counted: bool) -> bool {
        self.0.swap(is_counted, Ordering::Relaxed) != is_counted
    }
}

/// Tells of what nobody waits for.
pub(super) fn warn_of_closing(name: &FileName, error: &Error) {
    tracing::warn!("closing {name}: {error}");
}

/// Has the file have been changed now. A time is nothing to fail for.
fn touch(file: &File) {
    if let Err(error) = file.touch() {
        tracing::debug!("{error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_while_somebody_else_closes_the_file_is_committed_by_its_own_close() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let name = FileName::new("/f").unwrap();
        let opened = store.open_file(&name, &OpenOptions::read_write().create(true)).unwrap();
        let open = OwnFile::new(&store, &name, opened, true).unwrap();
        let (writer, closer) = (Use::default(), Use::default());
        let file = open.enter(&writer).unwrap();
        open.enter(&closer).unwrap();
        open.write(&file, Some(0), b"before").unwrap();
        let written = open.change(|| {
            open.settle(&file)?;
            open.leave(&closer)?;
            file.write_at(FileOffset(6), b" and meanwhile")
        });
        written.unwrap();
        open.settle(&file).unwrap();
        assert!(file.is_committed());
    }
}
