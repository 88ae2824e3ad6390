//! Names of files: paths within a store.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};

/// How the names begin that the store itself uses beside the files' names.
pub(crate) const RESERVED_PREFIX: &str = ".svmio-";

/// How the names begin by which programs and people mean files of svmio.
const PREFIX: &[u8] = b"svm:";

/// What follows `svm:`, in any case, as ROMIO takes its own prefixes; `None` where `text` does not begin so.
pub fn strip_prefix(text: &OsStr) -> Option<&OsStr> {
    let (prefix, rest) = text.as_bytes().split_at_checked(PREFIX.len())?;
    prefix.eq_ignore_ascii_case(PREFIX).then(|| OsStr::from_bytes(rest))
}

/// The name of a file in a store: a path from the store's root, with directories.
///
/// `/results/step1.h5`, `results/step1.h5` and `results/./old/../step1.h5` are one name. Directories need
/// not be made: they come with their first file and go with their last.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileName(PathBuf);

impl FileName {
    /// The name that a program wrote as `text`.
    ///
    /// # Errors
    /// [`Error::BadName`] where nothing is left of it, where it climbs above the root, or where a part of it is
    /// one of the store's own names.
    pub fn new(text: impl AsRef<OsStr>) -> Result<FileName> {
        let text = text.as_ref();
        let bad = |reason| Error::BadName { name: text.to_string_lossy().into_owned(), reason };
        if text.as_bytes().ends_with(b"/") {
            return Err(bad("it ends in '/', which names a directory"));
        }
        let path = normalise(text).ok_or_else(|| bad("it leads above the store's root"))?;
        if path.as_os_str().is_empty() {
            return Err(bad("it is empty"));
        }
        if path.iter().any(|part| part.as_bytes().starts_with(RESERVED_PREFIX.as_bytes())) {
            return Err(bad("names that begin with .svmio- are the store's own"));
        }
        Ok(FileName(path))
    }

    /// The path relative to the store's root.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn from_relative(path: PathBuf) -> FileName {
        FileName(path)
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0.display())
    }
}

/// A directory within a store; the root is the empty path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryName(PathBuf);

impl DirectoryName {
    /// The directory that a person wrote as `text`; `/` and the empty text are the root.
    ///
    /// # Errors
    /// [`Error::BadName`] where it climbs above the root.
    pub fn new(text: impl AsRef<OsStr>) -> Result<DirectoryName> {
        let text = text.as_ref();
        normalise(text).map(DirectoryName).ok_or_else(|| Error::BadName {
            name: text.to_string_lossy().into_owned(),
            reason: "it leads above the store's root",
        })
    }

    /// The store's root.
    pub fn root() -> DirectoryName {
        DirectoryName(PathBuf::new())
    }

    /// The path relative to the store's root.
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for DirectoryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0.display())
    }
}

fn normalise(text: &OsStr) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for component in Path::new(text).components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::ParentDir => path.pop().then_some(())?,
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_has_one_name() {
        let name = FileName::new("/results/step1.h5").unwrap();
        for other in ["results/step1.h5", "//results/./x/../step1.h5"] {
            assert_eq!(FileName::new(other).unwrap(), name);
        }
        assert_eq!(name.to_string(), "/results/step1.h5");
    }

    #[test]
    fn the_prefix_is_taken_off_in_any_case_and_once() {
        let stripped = |text: &'static str| strip_prefix(OsStr::new(text)).and_then(OsStr::to_str);
        for (text, rest) in [("svm:/a", "/a"), ("SVM:x:y", "x:y"), ("Svm:svm:a", "svm:a"), ("svm:", "")] {
            assert_eq!(stripped(text), Some(rest), "{text}");
        }
        for text in ["", "svm", "/svm:a", "ufs:a"] {
            assert_eq!(stripped(text), None, "{text}");
        }
    }

    #[test]
    fn names_that_are_none_are_refused() {
        for bad in ["", "/", ".", "a/..", "../a", "/a/../../b", "a/", ".svmio-x", "a/.svmio-/b"] {
            assert!(matches!(FileName::new(bad), Err(Error::BadName { .. })), "{bad}");
        }
    }
}
