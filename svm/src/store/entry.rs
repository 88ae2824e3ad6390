//! The file that a name is: what it holds, and how it comes to the storage device.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use crate::name::{FileName, RESERVED_PREFIX};
use crate::object;
use crate::spare;
use crate::units::FileId;

use super::NAMES;

/// So many bytes are read: more than an identity has.
const LONGEST: u64 = 256;

/// Where it is, in the store at `root`.
pub(crate) fn path(root: &Path, name: &FileName) -> PathBuf {
    root.join(NAMES).join(name.as_path())
}

/// The identity that it holds.
///
/// # Errors
/// As [`Store::lookup`](super::Store::lookup).
pub(crate) fn read(root: &Path, name: &FileName) -> Result<FileId> {
    let path = path(root, name);
    let mut text = Vec::new();
    let read = fs::File::open(&path).and_then(|file| file.take(LONGEST).read_to_end(&mut text));
    read.map_err(|e| error(root, name, e))?;
    if text.is_empty() {
        // It gets its content before its name: that much went with its node.
        return Err(Error::Unwritten { name: name.to_string(), path });
    }
    let id = std::str::from_utf8(&text).ok().and_then(|text| text.trim_end().parse().ok());
    id.ok_or_else(|| Error::CorruptManifest {
        name: name.to_string(),
        path,
        reason: "it should hold the identity of a file".into(),
    })
}

/// What is to be the entry `name` of the file `id`, beside the place where it goes. With `durable` its bytes have
/// reached the storage device.
///
/// # Errors
/// What the operating system says.
pub(super) fn new(root: &Path, name: &FileName, id: FileId, durable: bool) -> Result<NamedTempFile> {
    let entry = path(root, name);
    let parent = entry.parent().expect("an entry lies below the names' directory");
    let file = tempfile::Builder::new().prefix(RESERVED_PREFIX).tempfile_in(parent);
    let file = file.map_err(|e| error(root, name, e))?;
    // At once: a file has no buffer, and an identity is formatted byte by byte.
    let (whole, text) = (file.as_file(), format!("{id}\n"));
    let written = spare::with_room(whole, || whole.write_all_at(text.as_bytes(), 0))
        .and_then(|()| if durable { whole.sync_all() } else { Ok(()) });
    written.map_err(|e| Error::io(format!("creating {name}"), parent, e))?;
    Ok(file)
}

/// Brings the directories that lead to it to the storage device.
///
/// # Errors
/// What the operating system says.
pub(super) fn sync_directories(root: &Path, name: &FileName) -> Result<()> {
    let entry = path(root, name);
    let directory = entry.parent().expect("an entry lies below the names' directory");
    sync_upwards(root, directory, || format!("creating {name}"))
}

/// Syncs a directory of the names, and those above it, of which each holds the name of the one below; one that is gone
/// has gone with its last file.
///
/// # Errors
/// What the operating system says.
pub(super) fn sync_upwards(root: &Path, directory: &Path, subject: impl Fn() -> String) -> Result<()> {
    for directory in directory.ancestors().take_while(|d| d.starts_with(root)) {
        match fs::File::open(directory).and_then(|d| d.sync_all()) {
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            synced => synced.map_err(|e| Error::io(subject(), directory, e))?,
        }
    }
    Ok(())
}

/// Has the storage device have the name of the file `id`, whose gate the caller holds, and the object that it leads to.
/// Nothing is done where the file does not have that name: whoever takes or gives it sees to that. It is written `anew`
/// where the device did not take it before: the system tells of that once, and takes it for written from then on.
///
/// # Errors
/// What is wrong with the name; what the operating system says.
pub(crate) fn settle(root: &Path, name: &FileName, id: FileId, anew: bool) -> Result<()> {
    match read(root, name) {
        Ok(known) if known == id => {}
        Ok(_) | Err(Error::NoSuchFile { .. } | Error::NotAFile { .. }) => return Ok(()),
        Err(e) => return Err(e),
    }
    let entry = path(root, name);
    let failed = |e: io::Error| Error::io(format!("syncing the name of {name}"), &entry, e);
    if anew {
        new(root, name, id, true)?.persist(&entry).map_err(|e| failed(e.error))?;
    } else {
        fs::File::open(&entry).and_then(|entry| entry.sync_all()).map_err(failed)?;
    }
    let objects = root.join(object::OBJECTS);
    fs::File::open(&objects)
        .and_then(|directory| directory.sync_all())
        .map_err(|e| Error::io(format!("syncing the name of {name}"), &objects, e))?;
    sync_directories(root, name)
}

/// That there is no such name.
pub(super) fn no_such_file(root: &Path, name: &FileName) -> Error {
    Error::NoSuchFile { name: name.to_string(), stores: vec![root.to_path_buf()] }
}

/// What keeps somebody from it.
pub(super) fn error(root: &Path, name: &FileName, error: io::Error) -> Error {
    let store = root.to_path_buf();
    let path_through_file = "a part of its path is a file, not a directory";
    match error.kind() {
        ErrorKind::NotFound => no_such_file(root, name),
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            Error::NotAFile { name: name.to_string(), store, reason: path_through_file }
        }
        ErrorKind::IsADirectory => {
            Error::NotAFile { name: name.to_string(), store, reason: "it is a directory" }
        }
        _ if error.raw_os_error() == Some(libc::ENAMETOOLONG) => {
            Error::NameTooLong { name: name.to_string(), store }
        }
        _ => Error::io(format!("opening {name}"), &path(root, name), error),
    }
}
