//! Paths in a store, as people type them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::builder::{OsStringValueParser, TypedValueParser};
use svmio_svm::{DirectoryName, Error, FileName, StoreSet, strip_prefix};

use super::error::CommandError;

/// A path in a store: the name of a file, or of a directory, or of what may turn out to be either.
#[derive(Debug, Clone)]
pub(crate) struct StorePath {
    file: Option<FileName>,
    directory: DirectoryName,
    has_prefix: bool,
}

/// What a path leads to.
#[derive(Debug)]
pub(crate) enum Found {
    File(FileName),
    Directory(DirectoryName),
}

impl StorePath {
    /// The path `text`, with or without `svm:`.
    ///
    /// # Errors
    /// [`Error::BadName`] where no file and no directory can be called so.
    pub(crate) fn new(text: &OsStr) -> Result<StorePath, Error> {
        let without_prefix = strip_prefix(text);
        let (text, has_prefix) = (without_prefix.unwrap_or(text), without_prefix.is_some());
        let directory = DirectoryName::new(text)?;
        let mut path = StorePath { file: None, directory, has_prefix };
        if !path.is_root() && !text.as_bytes().ends_with(b"/") {
            path.file = Some(FileName::new(text)?);
        }
        Ok(path)
    }

    /// The store's root.
    pub(crate) fn root() -> StorePath {
        StorePath { file: None, directory: DirectoryName::root(), has_prefix: false }
    }

    /// Reads one from the command line. The empty text is refused: it is what is left of an unset variable.
    pub(crate) fn parser() -> impl TypedValueParser<Value = StorePath> {
        OsStringValueParser::new().try_map(|text: OsString| {
            if text.is_empty() {
                return Err(bad_name(&text, "it is empty; the store's root is written /"));
            }
            StorePath::new(&text)
        })
    }

    /// Reads from the command line what is about to be removed: the root only where it is written as such, and not
    /// where a variable in a longer path was empty.
    pub(crate) fn parser_for_removal() -> impl TypedValueParser<Value = StorePath> {
        OsStringValueParser::new().try_map(|text: OsString| {
            let path = StorePath::new(&text)?;
            if path.is_root() && strip_prefix(&text).unwrap_or(&text) != "/" {
                return Err(bad_name(
                    &text,
                    "it leads to the store's root, all of which svmio rm -r / removes",
                ));
            }
            Ok(path)
        })
    }

    fn is_root(&self) -> bool {
        self.directory.as_path().as_os_str().is_empty()
    }

    /// Whether it was written with `svm:`.
    pub(crate) fn has_prefix(&self) -> bool {
        self.has_prefix
    }

    /// The file's name; `None` where only a directory can be meant.
    pub(crate) fn as_file(&self) -> Option<&FileName> {
        self.file.as_ref()
    }

    /// How a file, or directory, is called in its directory; of the root nothing.
    pub(crate) fn last_part(&self) -> Option<&OsStr> {
        self.directory.as_path().file_name()
    }

    /// The file that is meant by this where something called `name` is to go: of a directory, the one of that name in it.
    ///
    /// # Errors
    /// [`CommandError::NoName`] where only a directory can be meant, and there is no name; [`Error::BadName`].
    pub(crate) fn destination(
        &self,
        name: Option<&OsStr>,
        stores: &StoreSet,
    ) -> Result<FileName, CommandError> {
        match &self.file {
            Some(file) if !matches!(self.find(stores), Ok(Found::Directory(_))) => Ok(file.clone()),
            _ => {
                let name = name.ok_or_else(|| CommandError::NoName { directory: format!("svm:{self}") })?;
                Ok(FileName::new(self.directory.as_path().join(name))?)
            }
        }
    }

    /// What is there in `stores`. A damaged name is a file's, and so is one of two files: opening it tells what is
    /// wrong.
    ///
    /// # Errors
    /// As [`StoreSet::lookup`] and [`StoreSet::list`].
    pub(crate) fn find(&self, stores: &StoreSet) -> Result<Found, Error> {
        let not_a_file = match &self.file {
            None => None,
            Some(name) => match stores.lookup(name) {
                Ok(_)
                | Err(Error::CorruptManifest { .. } | Error::Unwritten { .. } | Error::TwoFiles { .. }) => {
                    return Ok(Found::File(name.clone()));
                }
                // A directory, or below a file.
                Err(error @ Error::NotAFile { .. }) => Some(error),
                Err(error) => return Err(error),
            },
        };
        match stores.list(&self.directory) {
            Ok(_) => Ok(Found::Directory(self.directory.clone())),
            Err(error) => Err(not_a_file.unwrap_or(error)),
        }
    }
}

impl std::fmt::Display for StorePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.directory.fmt(f)
    }
}

fn bad_name(text: &OsStr, reason: &'static str) -> Error {
    Error::BadName { name: text.to_string_lossy().into_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_path_is_written_in_several_ways() {
        for text in ["svm:/a/b", "svm:a/b", "SVM:/a/b", "Svm:a/b", "/a/b", "a/b", "a//x/../b"] {
            let path = StorePath::new(OsStr::new(text)).unwrap();
            assert_eq!((path.to_string().as_str(), path.as_file().is_some()), ("/a/b", true), "{text}");
            assert_eq!(path.has_prefix(), text.to_lowercase().starts_with("svm:"), "{text}");
        }
        for text in ["", "/", "svm:", "svm:/", "a/.."] {
            let path = StorePath::new(OsStr::new(text)).unwrap();
            assert_eq!((path.to_string().as_str(), path.as_file()), ("/", None), "{text}");
        }
        assert!(StorePath::new(OsStr::new("a/")).unwrap().as_file().is_none());
        assert!(matches!(StorePath::new(OsStr::new("../a")), Err(Error::BadName { .. })));
    }
}
