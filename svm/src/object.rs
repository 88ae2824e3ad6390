//! A file's directory in the store: what is in it, and how it goes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::CWD;

use crate::manifest;
use crate::segment;
use crate::spare::Keeping;
use crate::units::{FileId, SegmentIndex};

/// The file name of the shared state.
pub(crate) const STATE: &str = "state";
const SEGMENT_PREFIX: &str = "segment-";

/// Where files with a name lie.
pub(crate) const OBJECTS: &str = "objects";
/// Where files lie that have lost their name and are still open or held.
pub(crate) const DELETED: &str = "deleted";

/// How the names of objects begin that are being made for a file of other nodes.
pub(crate) const UNFINISHED_PREFIX: &str = ".installing-";

/// How the names of objects begin that nobody has and no name leads to, and that are being removed.
pub(crate) const RECLAIMED_PREFIX: &str = ".reclaimed-";

/// What the file system says of a file, as far as it can be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Storage {
    /// Bytes that its segments take up, with those that were only preallocated.
    pub allocated: u64,
    /// When it was last committed, or a system call wrote to it: what is stored into memory that is there already is
    /// seen where the store is on a disk.
    pub modified: Option<SystemTime>,
}

impl Storage {
    /// Of two parts of a file.
    pub(crate) fn and(self, other: Storage) -> Storage {
        Storage { allocated: self.allocated + other.allocated, modified: self.modified.max(other.modified) }
    }
}

/// What the manifest and the segments in a file's directory take up, and when one of them was last changed.
pub(crate) fn storage(directory: &Path) -> io::Result<Storage> {
    /// Bytes: what the system counts in.
    const BLOCK: u64 = 512;
    let mut storage = Storage::default();
    for (path, is_segment) in contents(directory)? {
        let metadata = match fs::metadata(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        let allocated = if is_segment { metadata.blocks() * BLOCK } else { 0 };
        storage = storage.and(Storage { allocated, modified: metadata.modified().ok() });
    }
    Ok(storage)
}

/// Has the manifest and the segments in a file's directory have been changed at `time`.
pub(crate) fn set_modified(directory: &Path, time: SystemTime) -> io::Result<()> {
    for (path, _) in contents(directory)? {
        match File::open(path).and_then(|file| file.set_modified(time)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            set => set?,
        }
    }
    Ok(())
}

/// Has the manifest in a file's directory have been changed now.
pub(crate) fn touch(directory: &Path) -> io::Result<()> {
    File::open(directory.join(manifest::FILE_NAME))?.set_modified(SystemTime::now())
}

/// The manifest and the segments in a file's directory; which of them are segments.
fn contents(directory: &Path) -> io::Result<Vec<(PathBuf, bool)>> {
    let mut contents = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_segment = name.to_str().and_then(segment_of).is_some();
        if is_segment || name == manifest::FILE_NAME {
            contents.push((entry.path(), is_segment));
        }
    }
    Ok(contents)
}

/// The directory of a file with a name.
pub(crate) fn path(store: &Path, id: FileId) -> PathBuf {
    store.join(OBJECTS).join(id.to_string())
}

/// The directory of a file that has lost its name.
pub(crate) fn deleted_path(store: &Path, id: FileId) -> PathBuf {
    store.join(DELETED).join(id.to_string())
}

/// A directory for an object without a name that is being removed. It is nobody else's: whoever was making the file makes
/// its object anew, and may remove that before this one is gone.
pub(crate) fn reclaimed_path(store: &Path) -> io::Result<PathBuf> {
    Ok(store.join(DELETED).join(format!("{RECLAIMED_PREFIX}{}", FileId::random()?)))
}

/// The file name of a segment.
pub(crate) fn segment_name(index: SegmentIndex) -> String {
    format!("{SEGMENT_PREFIX}{:010}", index.0)
}

/// The segment that a file name belongs to.
pub(crate) fn segment_of(file_name: &str) -> Option<SegmentIndex> {
    let digits = file_name.strip_prefix(SEGMENT_PREFIX)?;
    (digits.len() == 10).then(|| digits.parse().ok().map(SegmentIndex)).flatten()
}

/// Whether an open file has no directory entry any more.
pub(crate) fn is_unlinked(file: &File) -> io::Result<bool> {
    Ok(rustix::fs::fstat(file)?.st_nlink == 0)
}

/// Removes the directory of a file of `store` that nobody has open. The storage of its segments is free on return, even
/// where another process still keeps them mapped in its cache, or kept for new ones ([`crate::spare`]).
pub(crate) fn destroy(store: &Path, directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let of_file = directory.file_name().unwrap_or_default().to_string_lossy();
    // Of what is being reclaimed, several processes may be about it at once (`verify`): one would take the storage away
    // of what another one has kept.
    let mut keeping = if of_file.starts_with(RECLAIMED_PREFIX) { None } else { Keeping::of(store) };
    for entry in entries {
        let entry = entry?;
        let Some(index) = entry.file_name().to_str().and_then(segment_of) else { continue };
        let path = entry.path();
        let kept = keeping.as_mut().map_or(Ok(false), |keeping| keeping.keep(&path, &of_file, index));
        let is_kept = kept.unwrap_or_else(|e| {
            tracing::debug!("{} is not kept: {e}", path.display());
            false
        });
        if is_kept {
            continue;
        }
        match segment::empty(CWD, &path) {
            // Somebody else removes it, too.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            emptied => emptied?,
        }
    }
    // Somebody who came too late may put a state there, and finds it unlinked then.
    const MOST: usize = 16;
    for _ in 1..MOST {
        match fs::remove_dir_all(directory) {
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => std::thread::yield_now(),
            removed => return unless_gone(removed),
        }
    }
    unless_gone(fs::remove_dir_all(directory))
}

/// What comes of a removal: somebody else may have been faster.
fn unless_gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
