//! Where a file is to be put.

use std::io;
use std::path::Path;

use rustix::fs::{Access, access};

use super::error::CommandError;

/// That a file can be put at `path`, for somebody who is about to do for long what is to be in it.
///
/// # Errors
/// [`CommandError::Outside`] where there is no directory for it, or one of its name, or nothing may be written there.
pub(crate) fn check(path: &Path) -> Result<(), CommandError> {
    obstacle(path).map_or(Ok(()), |source| {
        Err(CommandError::Outside { action: "writing", path: path.to_owned(), source })
    })
}

/// What keeps a file from being put at `path`: that there is no directory for it, or one of its name, or that neither the
/// directory may be written nor what is there.
pub(crate) fn obstacle(path: &Path) -> Option<io::Error> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !directory.is_dir() {
        let problem = format!("there is no directory {} (mkdir -p makes it)", directory.display());
        return Some(io::Error::new(io::ErrorKind::NotFound, problem));
    }
    if path.is_dir() {
        let problem = "it is a directory: give the name of a file in it";
        return Some(io::Error::new(io::ErrorKind::IsADirectory, problem));
    }
    if access(path, Access::WRITE_OK).is_ok() {
        return None;
    }
    access(directory, Access::WRITE_OK | Access::EXEC_OK).err().map(io::Error::from)
}
