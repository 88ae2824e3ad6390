//! Where a copy comes from, and where it goes.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use svmio_svm::{Error, FileName, StoreSet};

use super::super::error::CommandError;
use super::super::store_path::StorePath;

/// A place as it was typed.
#[derive(Debug, Clone)]
pub(super) enum Place {
    InStore(StorePath),
    Outside(PathBuf),
    Stream,
}

/// The very file that is to be written.
#[derive(Debug, Clone)]
pub(super) enum Destination {
    InStore(FileName),
    Outside(PathBuf),
    Stream,
}

impl Place {
    /// The place that was typed as `text`.
    ///
    /// # Errors
    /// [`Error::BadName`].
    pub(super) fn new(text: &OsStr) -> Result<Place, Error> {
        Ok(match svmio_svm::strip_prefix(text) {
            Some(_) => Place::InStore(StorePath::new(text)?),
            None if text == "-" => Place::Stream,
            None => Place::Outside(text.into()),
        })
    }

    pub(super) fn is_in_store(&self) -> bool {
        matches!(self, Place::InStore(_))
    }

    /// The name that a file from here has in a directory.
    fn file_name(&self) -> Option<OsString> {
        match self {
            Place::InStore(path) => path.last_part().map(OsStr::to_owned),
            // Also of `dir/..`, and of `.` where that is a link.
            Place::Outside(path) => path.file_name().map(OsStr::to_owned),
            Place::Stream => None,
        }
    }
}

impl Destination {
    /// The file that `to` means for what comes from `from`.
    ///
    /// # Errors
    /// Where it exists and is not to be overwritten (`force`), is a directory, is the file that is copied.
    pub(super) fn choose(
        to: &Place,
        from: &Place,
        stores: &StoreSet,
        force: bool,
    ) -> Result<Destination, CommandError> {
        match to {
            Place::Stream => Ok(Destination::Stream),
            Place::InStore(path) => in_store(path, from, stores, force).map(Destination::InStore),
            Place::Outside(path) => outside(path, from, force).map(Destination::Outside),
        }
    }

    /// Whether it takes bytes one after the other, which stay when the copy fails.
    pub(super) fn is_stream(&self) -> bool {
        match self {
            Destination::InStore(_) => false,
            Destination::Outside(path) => fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()),
            Destination::Stream => true,
        }
    }
}

fn in_store(
    path: &StorePath,
    from: &Place,
    stores: &StoreSet,
    force: bool,
) -> Result<FileName, CommandError> {
    let name = path.destination(from.file_name().as_deref(), stores)?;
    let id = match stores.lookup(&name) {
        Ok(id) => id,
        Err(Error::NoSuchFile { .. }) => return Ok(name),
        Err(error) => return Err(error.into()),
    };
    if let Place::InStore(source) = from
        && let Some(source) = source.as_file()
        && stores.lookup(source)? == id
    {
        return Err(CommandError::SameFile { name: format!("svm:{name}") });
    }
    if force {
        return Ok(name);
    }
    Err(CommandError::StoreExists { name: format!("svm:{name}"), store: stores.place_of(&name) })
}

fn outside(path: &Path, from: &Place, force: bool) -> Result<PathBuf, CommandError> {
    let path = if path.is_dir() {
        let no_name = || CommandError::NoName { directory: path.display().to_string() };
        path.join(from.file_name().ok_or_else(no_name)?)
    } else if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(CommandError::NoDirectory { path: path.into() });
    } else {
        path.to_path_buf()
    };
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => Err(CommandError::IsDirectory {
            name: path.display().to_string(),
            way_out: "a file of that name cannot be put there",
        }),
        // A device or a pipe is written to, not replaced.
        Ok(metadata) if metadata.is_file() && !force => Err(CommandError::OutsideExists { path }),
        _ => Ok(path),
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::InStore(path) => write!(f, "svm:{path}"),
            Place::Outside(path) => path.display().fmt(f),
            Place::Stream => f.write_str("-"),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::InStore(name) => write!(f, "svm:{name}"),
            Destination::Outside(path) => path.display().fmt(f),
            Destination::Stream => f.write_str("standard output"),
        }
    }
}
