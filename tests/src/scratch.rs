//! A place for what one test makes: gone when the test is over, and in memory where that can be.
//!
//! What a test run that was killed could not remove, the next one does.

use std::fs;
use std::path::{Path, PathBuf};

use crate::leftovers;

/// A directory with a store in it.
#[derive(Debug)]
pub struct Scratch {
    directory: tempfile::TempDir,
    store: PathBuf,
}

impl Scratch {
    /// A new one, on a tmpfs.
    ///
    /// # Panics
    /// Where `/dev/shm` cannot be written to.
    #[expect(clippy::new_without_default, reason = "each one is another directory")]
    pub fn new() -> Scratch {
        leftovers::remove_once();
        let directory = leftovers::directory_in(Path::new("/dev/shm"));
        let directory = directory.expect("the tests need a writable tmpfs on /dev/shm");
        let store = directory.path().join("store");
        Scratch { directory, store }
    }

    /// A new one that [hosts](crate::Hosts) see as well: outside of `/dev/shm`, of which each has its own.
    ///
    /// # Panics
    /// Where temporary files cannot be written.
    pub fn seen_by_hosts() -> Scratch {
        leftovers::remove_once();
        let directory = leftovers::directory();
        let store = directory.path().join("store");
        Scratch { directory, store }
    }

    /// The same with its store elsewhere below it.
    pub fn with_store(mut self, place: impl AsRef<Path>) -> Scratch {
        self.store = self.directory.path().join(place);
        self
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The store's directory, which the first that uses it makes.
    pub fn store(&self) -> &Path {
        &self.store
    }

    /// The path of a file or directory in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The path of a new, empty directory in it.
    ///
    /// # Panics
    /// Where it cannot be made.
    pub fn new_directory(&self, name: &str) -> PathBuf {
        let path = self.file(name);
        fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }
}
