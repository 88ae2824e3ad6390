//! Where a file is to be put.

use std::io;
use std::path::Path;

use super::error::CommandError;

/// That a file can be put at `path`, for somebody who is about to do for long what is to be in it.
///
/// # Errors
/// [`CommandError::Outside`] where there is no directory for it, or one of its name.
pub(crate) fn check(path: &Path) -> Result<(), CommandError> {
    obstacle(path).map_or(Ok(()), |source| {
        Err(CommandError::Outside { action: "writing", path: path.to_owned(), source })
    })
}

/// What keeps a file from being put at `path`: that there is no directory for it, or one of its name.
pub(crate) fn obstacle(path: &Path) -> Option<io::Error> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !directory.is_dir() {
        let problem = format!("there is no directory {} (mkdir -p makes it)", directory.display());
        return Some(io::Error::new(io::ErrorKind::NotFound, problem));
    }
    let problem = "it is a directory: give the name of a file in it";
    path.is_dir().then(|| io::Error::new(io::ErrorKind::IsADirectory, problem))
}
