//! Which store a command works on.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use svmio_svm::Store;

use super::error::CommandError;

/// Which store a command works on.
#[derive(Debug, Args)]
pub(crate) struct StoreOption {
    /// The store [default: SVMIO_STORE, else /dev/shm/svmio-UID]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    store: Option<PathBuf>,
}

impl StoreOption {
    /// The store, made where there is none: for commands that put something into it.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub(crate) fn open_or_make(&self) -> Result<Store, CommandError> {
        Ok(match self.named() {
            Some(path) => Store::open(&path)?,
            None => Store::from_environment()?,
        })
    }

    /// The store, where there is one. The default one may be made: it can hold nothing else.
    ///
    /// # Errors
    /// [`CommandError::NoStore`]; otherwise as [`Store::open`].
    pub(crate) fn open(&self) -> Result<Store, CommandError> {
        match self.named() {
            // A mistyped directory should not come into being.
            Some(path) if matches!(path.try_exists(), Ok(false)) => Err(CommandError::NoStore { path }),
            _ => self.open_or_make(),
        }
    }

    fn named(&self) -> Option<PathBuf> {
        let from_environment = || std::env::var_os("SVMIO_STORE").filter(|path| !path.is_empty());
        self.store.clone().or_else(|| from_environment().map(PathBuf::from))
    }
}
