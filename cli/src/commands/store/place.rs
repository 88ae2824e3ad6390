//! Which directory a store is in, or is going to be.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use svmio_svm::Store;

use crate::commands::error::CommandError;

/// Which directory is meant.
#[derive(Debug, Args)]
pub(super) struct Place {
    /// The store [default: SVMIO_STORE, else /dev/shm/svmio-UID, or /dev/shm/svmio-UID-NODE with SVMIO_NODE]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: Option<PathBuf>,
}

/// What a directory holds, as far as stores are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing, or a store without a file.
    Nothing,
    /// Files.
    Files,
}

impl Place {
    /// The directory, for the user `user`.
    pub(super) fn path(&self, user: u32) -> PathBuf {
        self.asked_for().unwrap_or_else(|| Store::default_path(user))
    }

    /// The store in the directory `path`, which is this place's, or was chosen where none was asked for.
    ///
    /// # Errors
    /// As [`Store::open`]; where none was asked for, as [`Store::open_own`].
    pub(super) fn open(&self, path: &Path) -> Result<Store, CommandError> {
        // Others can make directories where stores are by themselves.
        Ok(if self.asked_for().is_some() { Store::open(path)? } else { Store::open_own(path)? })
    }

    /// The directory that was asked for, here or by the environment.
    pub(super) fn asked_for(&self) -> Option<PathBuf> {
        let variable = || std::env::var_os("SVMIO_STORE").filter(|path| !path.is_empty()).map(PathBuf::from);
        self.directory.clone().or_else(variable)
    }
}

impl Content {
    /// That of the directory `path`.
    ///
    /// # Errors
    /// Where it cannot be looked at.
    pub(super) fn of(path: &Path) -> Result<Content, CommandError> {
        /// A store's directories, with a file's identity or name for each file in them.
        const PARTS: [&str; 4] = ["names", "objects", "deleted", "aside"];
        /// What is no file's: the description, storage that is kept for what comes, and what tells of removed files.
        const OTHERS: [&str; 4] = ["store.json", "spare", "reserve", "removed"];
        let names = |path: &Path| -> Result<Vec<_>, CommandError> {
            let outside = |source| CommandError::Outside { action: "looking at", path: path.into(), source };
            let entries = fs::read_dir(path).map_err(outside)?;
            entries.map(|entry| entry.map(|entry| entry.file_name()).map_err(outside)).collect()
        };
        for name in names(path)? {
            let is_part = PARTS.iter().any(|part| name == *part);
            if is_part && !names(&path.join(&name))?.is_empty()
                || !is_part && OTHERS.iter().all(|other| name != *other)
            {
                return Ok(Content::Files);
            }
        }
        Ok(Content::Nothing)
    }
}
