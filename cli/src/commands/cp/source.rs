//! What is copied: bytes, and where there are none.

use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use svmio_svm::{FileName, FileOffset, SegmentSize, StoreSet, StoredFile};

use super::super::error::CommandError;
use super::super::interruption::Interruption;
use super::super::store_path::Found;
use super::place::Place;

/// An open source.
pub(super) enum Source {
    InStore {
        file: Box<StoredFile>,
        /// With `svm:`.
        name: String,
        /// When it was opened: others may write to it.
        size: u64,
    },
    Outside {
        file: File,
        path: PathBuf,
        size: u64,
    },
    /// Bytes that come one after the other, until they end.
    Stream {
        file: File,
        path: PathBuf,
    },
}

impl Source {
    /// # Errors
    /// What keeps it from being read.
    pub(super) fn open(place: &Place, stores: &StoreSet) -> Result<Source, CommandError> {
        match place {
            Place::InStore(path) => match path.find(stores)? {
                Found::File(name) => {
                    let file = stores.open(&name)?;
                    file.check_whole()?;
                    Ok(Source::in_store(file, &name))
                }
                Found::Directory(name) => Err(is_directory(format!("svm:{name}"))),
            },
            Place::Outside(path) => Source::open_outside(path),
            Place::Stream => {
                let path = PathBuf::from("standard input");
                let input = io::stdin().as_fd().try_clone_to_owned().map_err(|e| reading(&path, e))?;
                Ok(Source::Stream { file: File::from(input), path })
            }
        }
    }

    fn in_store(file: StoredFile, name: &FileName) -> Source {
        let size = file.size();
        Source::InStore { file: Box::new(file), name: format!("svm:{name}"), size }
    }

    fn open_outside(path: &Path) -> Result<Source, CommandError> {
        let file = File::open(path).map_err(|e| reading(path, e))?;
        let metadata: fs::Metadata = file.metadata().map_err(|e| reading(path, e))?;
        if metadata.is_dir() {
            return Err(is_directory(path.display().to_string()));
        }
        let path = path.to_path_buf();
        // The kernel's own files (/proc) are regular, have no size, and yet have bytes.
        if metadata.is_file() && metadata.len() > 0 {
            Ok(Source::Outside { file, path, size: metadata.len() })
        } else {
            Ok(Source::Stream { file, path })
        }
    }

    /// The size, bytes; `None` where only its end tells.
    pub(super) fn size(&self) -> Option<u64> {
        match self {
            Source::InStore { size, .. } | Source::Outside { size, .. } => Some(*size),
            Source::Stream { .. } => None,
        }
    }

    /// Whether only its end tells the size, which may be any.
    pub(super) fn may_be_long(&self) -> bool {
        match self {
            // Empty, or one of the kernel's own files.
            Source::Stream { file, .. } => !file.metadata().is_ok_and(|it| it.is_file() && it.len() == 0),
            Source::InStore { .. } | Source::Outside { .. } => false,
        }
    }

    /// The size of the segments, where it has any.
    pub(super) fn segment_size(&self) -> Option<SegmentSize> {
        match self {
            Source::InStore { file, .. } => Some(file.segment_size()),
            _ => None,
        }
    }

    /// The first range at or behind `from` that is not a hole; `None` up to the end.
    ///
    /// # Errors
    /// What keeps it from being read.
    pub(super) fn next_data(&self, from: u64) -> Result<Option<Range<u64>>, CommandError> {
        match self {
            Source::InStore { file, size, .. } => {
                let data = file.next_data(FileOffset(from))?;
                Ok(data.and_then(|data| within(data.start.0..data.end.0, *size)))
            }
            Source::Outside { file, path, size } if from < *size => {
                next_data(file, from, *size).map_err(|e| reading(path, e))
            }
            Source::Outside { .. } => Ok(None),
            Source::Stream { .. } => Ok(Some(from..u64::MAX)),
        }
    }

    /// Reads bytes from `offset` on; none at the end. A stream gives those that come next.
    ///
    /// # Errors
    /// What keeps it from being read.
    pub(super) fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize, CommandError> {
        loop {
            let (read, path) = match self {
                Source::InStore { file, .. } => return Ok(file.read_at(FileOffset(offset), buffer)?),
                Source::Outside { file, path, .. } => (file.read_at(buffer, offset), path),
                Source::Stream { file, path } => (file.read(buffer), path),
            };
            match read {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => return read.map_err(|e| reading(path, e)),
            }
        }
    }

    /// How long the copy is, once all was read up to `read`; `ended` where there was less than [`next_data`] had told.
    ///
    /// [`next_data`]: Source::next_data
    ///
    /// # Errors
    /// [`CommandError::BecameShorter`]; what keeps its size from being known.
    pub(super) fn end(&self, read: u64, ended: bool) -> Result<u64, CommandError> {
        match self {
            Source::InStore { file, name, size } => {
                // Unlike the kernel's own files, it never tells of more than there is: it was shorter, if only for a while.
                let end = if ended { None } else { end(*size, file.size(), None) };
                end.ok_or_else(|| CommandError::BecameShorter { name: name.clone() })
            }
            Source::Stream { .. } => Ok(read),
            Source::Outside { file, path, size } => {
                let now = file.metadata().map_err(|e| reading(path, e))?.len();
                end(*size, now, ended.then_some(read))
                    .ok_or_else(|| CommandError::BecameShorter { name: path.display().to_string() })
            }
        }
    }

    /// Waits until there is something to read.
    ///
    /// # Errors
    /// [`CommandError::Interrupted`].
    pub(super) fn wait(&self, interruption: &Interruption) -> Result<(), CommandError> {
        match self {
            Source::Stream { file, path } => {
                interruption.wait_readable(file.as_fd()).map_err(|e| reading(path, e))?;
            }
            Source::InStore { .. } | Source::Outside { .. } => {}
        }
        interruption.check()
    }
}

/// How much of a file is copied that had `opened` bytes at first, has `now`, and could be read up to `ended`, where that
/// came before. `None` where it became shorter.
fn end(opened: u64, now: u64, ended: Option<u64>) -> Option<u64> {
    // The kernel's own files in /sys have a size larger than what there is to be read.
    (now >= opened).then(|| ended.unwrap_or(opened))
}

fn next_data(file: &File, from: u64, size: u64) -> io::Result<Option<Range<u64>>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(from)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        // A file system that knows nothing of holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(from..size)),
        Err(e) => return Err(e.into()),
    };
    let end = match rustix::fs::seek(file, SeekFrom::Hole(start)) {
        Ok(end) => end,
        // It became shorter meanwhile.
        Err(Errno::NXIO) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    Ok(within(start..end, size))
}

/// As much of `data` as lies before `size`, if any does.
fn within(data: Range<u64>, size: u64) -> Option<Range<u64>> {
    (data.start < size).then(|| data.start..data.end.min(size))
}

fn reading(path: &Path, source: io::Error) -> CommandError {
    CommandError::Outside { action: "reading", path: path.into(), source }
}

fn is_directory(name: String) -> CommandError {
    CommandError::IsDirectory { name, way_out: "svmio cp copies single files" }
}

#[cfg(test)]
mod tests {
    use svmio_svm::{OpenOptions, Store};

    use super::*;

    #[test]
    fn a_file_that_became_shorter_has_no_end_to_go_by() {
        assert_eq!(end(10, 10, None), Some(10));
        // What was appended meanwhile is not part of the copy.
        assert_eq!(end(10, 12, None), Some(10));
        assert_eq!(end(4096, 4096, Some(4)), Some(4));
        for ended in [None, Some(0), Some(9)] {
            assert_eq!(end(10, 9, ended), None, "{ended:?}");
        }
    }

    #[test]
    fn who_finds_no_more_data_behind_a_new_end_learns_that_it_is_one() {
        let named = tempfile::NamedTempFile::new().unwrap();
        named.as_file().set_len(1 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(named.as_file(), b"data", 1 << 19).unwrap();
        let mut source = Source::open_outside(named.path()).unwrap();
        assert_eq!(source.end(0, false).unwrap(), 1 << 20);
        for size in [100, 0] {
            named.as_file().set_len(size).unwrap();
            assert_eq!(source.next_data(0).unwrap(), None);
            assert_eq!(source.read_at(1 << 19, &mut [0; 4]).unwrap(), 0);
            assert!(matches!(source.end(0, false), Err(CommandError::BecameShorter { .. })));
        }
    }

    #[test]
    fn what_others_append_to_a_file_in_the_store_is_no_part_of_the_copy_and_what_they_cut_off_is_missed() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let name = FileName::new("/f").unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
        let file = store.open_file(&name, &options).unwrap();
        let segment = SegmentSize::MIN.bytes();
        file.write_at(FileOffset(0), &vec![1; segment as usize + 10]).unwrap();
        let stores = StoreSet::from(store);
        let mut source = Source::open(&Place::new("svm:/f".as_ref()).unwrap(), &stores).unwrap();
        let size = segment + 10;
        file.write_at(FileOffset(size), &vec![2; segment as usize]).unwrap();
        assert_eq!((source.size(), source.end(size, false).unwrap()), (Some(size), size));
        let mut at = 0;
        while let Some(data) = source.next_data(at).unwrap() {
            assert!(data.start == at && data.end <= size, "{data:?}");
            at = data.end;
        }
        assert_eq!((at, source.next_data(size + 1).unwrap()), (size, None));

        file.set_size(size - 1).unwrap();
        assert_eq!(source.read_at(size - 1, &mut [0]).unwrap(), 0);
        assert!(matches!(source.end(size, false), Err(CommandError::BecameShorter { .. })));
        // It was shorter while it was read, if not any more.
        file.set_size(size).unwrap();
        assert!(matches!(source.end(size - 1, true), Err(CommandError::BecameShorter { .. })));
    }
}
