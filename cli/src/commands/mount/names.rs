//! Which file of the stores a path below the mount point is.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use svmio_svm::{DirectoryName, Error, FileName, strip_prefix};

/// The names of the files that are shown.
#[derive(Debug)]
pub(super) struct Names {
    prefix: PathBuf,
}

impl Names {
    /// Those of files below the directory `text`, with or without `svm:`.
    ///
    /// # Errors
    /// [`Error::BadName`] where no directory can be called so.
    pub(super) fn below(text: &OsStr) -> Result<Names, Error> {
        let directory = DirectoryName::new(strip_prefix(text).unwrap_or(text))?;
        Ok(Names { prefix: directory.as_path().to_path_buf() })
    }

    /// The name of the file `path`.
    ///
    /// # Errors
    /// [`Error::BadName`] for one that a store cannot have.
    pub(super) fn file(&self, path: &Path) -> Result<FileName, Error> {
        FileName::new(self.prefix.join(path))
    }

    /// The name of the directory `path`.
    ///
    /// # Errors
    /// As [`Names::file`].
    pub(super) fn directory(&self, path: &Path) -> Result<DirectoryName, Error> {
        if !path.as_os_str().is_empty() {
            // What cannot be a file's name cannot be a part of one.
            self.file(path)?;
        }
        DirectoryName::new(self.prefix.join(path))
    }

    /// The path of a file that is below the directory of all.
    pub(super) fn path_of<'n>(&self, name: &'n FileName) -> Option<&'n Path> {
        name.as_path().strip_prefix(&self.prefix).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_below_the_mount_point_is_one_below_the_prefix() {
        for (prefix, name) in [("/a/b", "/a/b/x"), ("svm:/a/./b/", "/a/b/x"), ("/", "/x"), ("a/../c", "/c/x")]
        {
            let names = Names::below(OsStr::new(prefix)).unwrap();
            let file = names.file(Path::new("x")).unwrap();
            assert_eq!(file.to_string(), name, "{prefix}");
            assert_eq!(names.path_of(&file), Some(Path::new("x")));
            assert_eq!(names.directory(Path::new("x")).unwrap().to_string(), name);
            assert!(names.directory(Path::new("")).is_ok());
            assert!(matches!(names.directory(Path::new(".svmio-x")), Err(Error::BadName { .. })));
        }
        assert!(matches!(Names::below(OsStr::new("..")), Err(Error::BadName { .. })));
    }
}
