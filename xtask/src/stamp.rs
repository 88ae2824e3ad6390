//! Steps that need not be done twice: a stamp file remembers what a step was done for.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A file that holds the description of the last finished run of a step.
#[derive(Debug)]
pub(crate) struct Stamp {
    file: PathBuf,
    description: String,
}

impl Stamp {
    /// The stamp in `folder` of a step that depends on nothing but `description`.
    pub(crate) fn new(folder: &Path, description: impl Into<String>) -> Self {
        Self { file: folder.join(".svmio-stamp"), description: description.into() }
    }

    /// Whether the step was finished for this very description.
    pub(crate) fn is_current(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|found| found == self.description)
    }

    /// Records that the step is finished.
    pub(crate) fn write(&self) -> Result<()> {
        fs::write(&self.file, &self.description)
            .with_context(|| format!("cannot write {}", self.file.display()))
    }
}
