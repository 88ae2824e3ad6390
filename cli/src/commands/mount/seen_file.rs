//! A file of several nodes, or of other hosts, as `svmio cat` sees it: what the stores held of it when it was opened.
//! Who reads on where it ended then has it looked at anew.

use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use svmio_svm::{Error, ErrorKind, FileId, FileName, FileOffset, Result, Storage, StoreSet, StoredFile};

use super::attributes::Facts;

/// Such a file, open once for each who opens it.
#[derive(Debug)]
pub(super) struct SeenFile {
    stores: StoreSet,
    name: FileName,
    seen: RwLock<Arc<StoredFile>>,
}

impl SeenFile {
    /// # Errors
    /// As [`StoreSet::look`].
    pub(super) fn open(stores: &StoreSet, name: &FileName) -> Result<SeenFile> {
        let seen = RwLock::new(Arc::new(stores.look(name)?));
        Ok(SeenFile { stores: stores.clone(), name: name.clone(), seen })
    }

    /// The file's identity.
    pub(super) fn id(&self) -> FileId {
        self.seen().id()
    }

    /// Reads from `offset` on until `buffer` is full or the file ends, and says how many bytes it read.
    ///
    /// # Errors
    /// As [`StoredFile::read_at`].
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let read = self.seen().read_at(FileOffset(offset), buffer)?;
        if read > 0 || buffer.is_empty() {
            return Ok(read);
        }
        self.look_again()?.read_at(FileOffset(offset), buffer)
    }

    /// As [`StoredFile::next_data`].
    pub(super) fn next_data(&self, from: FileOffset) -> Result<Option<Range<FileOffset>>> {
        self.seen().next_data(from)
    }

    /// How long it was, bytes.
    pub(super) fn size(&self) -> u64 {
        self.seen().size()
    }

    /// What there is to tell of it; it has lost its name.
    ///
    /// # Errors
    /// As [`StoredFile::storage`].
    pub(super) fn facts(&self) -> Result<Facts> {
        let seen = self.seen();
        let storage = match seen.storage() {
            // Nobody else had it open.
            Err(error) if error.kind() == ErrorKind::NoSuchFile => Storage::default(),
            storage => storage?,
        };
        Ok(Facts { size: seen.size(), storage, is_named: false })
    }

    /// The file as it is now, if it has its name still.
    fn look_again(&self) -> Result<Arc<StoredFile>> {
        let before = self.seen();
        let now = match self.stores.look(&self.name) {
            Ok(now) if now.id() == before.id() => Arc::new(now),
            Ok(_) | Err(Error::NoSuchFile { .. } | Error::NotAFile { .. }) => return Ok(before),
            Err(e) => return Err(e),
        };
        *self.seen.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&now);
        Ok(now)
    }

    fn seen(&self) -> Arc<StoredFile> {
        // Replaced as a whole: a panic elsewhere leaves it so.
        Arc::clone(&self.seen.read().unwrap_or_else(PoisonError::into_inner))
    }
}
