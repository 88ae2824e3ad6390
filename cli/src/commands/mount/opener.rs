//! Opening files: as the node's programs do where a file is on this node alone, and else only looking at it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::io::Errno as Number;
use svmio_svm::{Error, FileId, FileName, FileOffset, OpenOptions, Store, StoreSet};

use super::own_file::OwnFile;
use super::own_handle::OwnHandle;
use super::refused::{Answer, Refused};
use super::seen_file::SeenFile;

/// A file that somebody has open here.
#[derive(Debug)]
pub(super) enum OpenFile {
    Own(OwnHandle),
    Seen(SeenFile),
}

/// Opens files, those of this node each once.
#[derive(Debug)]
pub(super) struct Opener {
    stores: StoreSet,
    is_read_only: bool,
    open: Mutex<HashMap<FileId, Weak<OwnFile>>>,
}

impl Opener {
    pub(super) fn new(stores: StoreSet, is_read_only: bool) -> Opener {
        Opener { stores, is_read_only, open: Mutex::default() }
    }

    /// The one store whose files are this node's.
    ///
    /// # Errors
    /// Where there are several, or it is another host's: files are only read then, and made and changed by nobody.
    pub(super) fn own_store(&self) -> Answer<&Store> {
        match self.stores.stores() {
            [single] => Ok(single),
            _ => Err(Number::ROFS.into()),
        }
    }

    /// Opens the file `name`, which is `id`.
    ///
    /// # Errors
    /// That it is not that file any more, or why it cannot be opened.
    pub(super) fn open(&self, id: FileId, name: &FileName, for_writing: bool) -> Answer<OpenFile> {
        if self.own_store().is_ok() {
            match self.open_own(id, name, for_writing) {
                // A job over several nodes has it open, or it is of such a job.
                Err(Error::NodesMissing { .. } | Error::OpenInAnotherJob { .. }) if !for_writing => {}
                Err(error @ Error::NodesMissing { .. }) => {
                    tracing::warn!("{error}");
                    return Err(Number::ROFS.into());
                }
                Err(error) => return Err(error.into()),
                Ok(None) => return Err(Number::STALE.into()),
                Ok(Some(file)) => return Ok(OpenFile::Own(file)),
            }
        }
        match for_writing {
            true => Err(Number::ROFS.into()),
            false => Ok(OpenFile::Seen(SeenFile::open(&self.stores, name)?)),
        }
    }

    /// The same for changing a file of this node.
    ///
    /// # Errors
    /// As [`Opener::open`].
    pub(super) fn open_to_change(&self, id: FileId, name: &FileName) -> Answer<OwnHandle> {
        match self.open(id, name, true)? {
            OpenFile::Own(file) => Ok(file),
            OpenFile::Seen(_) => Err(Number::ROFS.into()),
        }
    }

    /// Makes the file `name`, or opens the one that is there, unless it is to be a new one.
    ///
    /// # Errors
    /// As [`Store::open_file`] and [`OwnFile::new`].
    pub(super) fn create(&self, name: &FileName, exclusive: bool) -> Answer<(FileId, OpenFile)> {
        let options = OpenOptions::read_write().create(true).exclusive(exclusive);
        let store = self.own_store()?;
        let file = Arc::new(OwnFile::new(store, name, store.open_file(name, &options)?, true)?);
        Ok((file.id(), OpenFile::Own(OwnHandle::new(self.shared(&file), true)?)))
    }

    /// The file `id`, if somebody has it open here.
    pub(super) fn known_own(&self, id: FileId) -> Option<Arc<OwnFile>> {
        self.known().get(&id).and_then(Weak::upgrade)
    }

    /// `None` where the name leads to another file.
    fn open_own(&self, id: FileId, name: &FileName, for_writing: bool) -> Result<Option<OwnHandle>, Error> {
        let [store] = self.stores.stores() else { return Ok(None) };
        if let Some(open) = self.known_own(id).filter(|open| open.is_writable() || !for_writing) {
            return match OwnHandle::new(open, for_writing) {
                Err(Error::NoSuchFile { .. }) => Ok(None),
                opened => opened.map(Some),
            };
        }
        let opened =
            |options, is_writable| OwnFile::new(store, name, store.open_file(name, &options)?, is_writable);
        let writing = || opened(OpenOptions::read_write(), true);
        let reading = || opened(OpenOptions::reading(), false);
        let opened = match self.is_read_only {
            true => reading(),
            false => match writing() {
                Err(Error::Access { .. } | Error::ReadOnly { .. }) if !for_writing => reading(),
                opened => opened,
            },
        };
        let file = Arc::new(opened?);
        if file.id() != id {
            return Ok(None);
        }
        OwnHandle::new(self.shared(&file), for_writing).map(Some)
    }

    /// The one that all share where somebody else has opened the same file meanwhile, or else `file`. Opening it may take
    /// long, and holds up nobody who opens or looks at another one.
    fn shared(&self, file: &Arc<OwnFile>) -> Arc<OwnFile> {
        let mut known = self.known();
        let open = known.get(&file.id()).and_then(Weak::upgrade);
        open.filter(|open| open.is_writable() || !file.is_writable()).unwrap_or_else(|| {
            known.retain(|_, other| other.strong_count() > 0);
            known.insert(file.id(), Arc::downgrade(file));
            Arc::clone(file)
        })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<FileId, Weak<OwnFile>>> {
        // A panic elsewhere leaves the map whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenFile {
    /// The file as one that can be changed.
    ///
    /// # Errors
    /// That it cannot.
    pub(super) fn own(&self) -> Answer<&OwnHandle> {
        match self {
            OpenFile::Own(file) => Ok(file),
            OpenFile::Seen(_) => Err(Number::ROFS.into()),
        }
    }

    /// Reads from `offset` on until `buffer` is full or the file ends, and says how many bytes it read.
    ///
    /// # Errors
    /// As [`File::read_at`](svmio_svm::File::read_at) and [`SeenFile::read`].
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Answer<usize> {
        let read = match self {
            OpenFile::Own(own) => own.access(|file| file.read_at(FileOffset(offset), buffer)),
            OpenFile::Seen(file) => file.read(offset, buffer),
        };
        read.map_err(Refused::from)
    }

    /// Where data begins at or behind `from`.
    ///
    /// # Errors
    /// That there is none.
    pub(super) fn data_from(&self, from: u64) -> Answer<u64> {
        match self.next_data(from)? {
            Some((start, _)) => Ok(start),
            None => Err(Number::NXIO.into()),
        }
    }

    /// Where a hole begins at or behind `from`; the end of the file counts as one.
    ///
    /// # Errors
    /// That `from` is not within the file.
    pub(super) fn hole_from(&self, from: u64) -> Answer<u64> {
        let size = self.size()?;
        if from >= size {
            return Err(Number::NXIO.into());
        }
        let mut at = from;
        while let Some((start, end)) = self.next_data(at)? {
            if start > at {
                break;
            }
            at = end;
        }
        Ok(at.min(size))
    }

    fn size(&self) -> Answer<u64> {
        match self {
            OpenFile::Own(own) => Ok(own.access(|file| Ok(file.size()))?),
            OpenFile::Seen(file) => Ok(file.size()),
        }
    }

    fn next_data(&self, from: u64) -> Answer<Option<(u64, u64)>> {
        let data = match self {
            OpenFile::Own(own) => own.access(|file| file.next_data(FileOffset(from))),
            OpenFile::Seen(file) => file.next_data(FileOffset(from)),
        };
        let size = self.size()?;
        Ok(data?.map(|range| (range.start.0, range.end.0)).filter(|(start, _)| *start < size))
    }
}
