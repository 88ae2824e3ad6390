//! Standard output.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Serialize;

use super::error::CommandError;

/// Standard output, buffered; [`Output::finish`] it.
pub(crate) struct Output {
    writer: BufWriter<File>,
    is_terminal: bool,
}

impl Output {
    /// # Errors
    /// [`CommandError::Output`] where it is closed.
    pub(crate) fn new() -> Result<Output, CommandError> {
        Ok(Output { writer: BufWriter::new(raw()?), is_terminal: io::stdout().is_terminal() })
    }

    /// Writes one line.
    ///
    /// # Errors
    /// [`CommandError::Output`].
    pub(crate) fn line(&mut self, text: impl AsRef<[u8]>) -> Result<(), CommandError> {
        let bytes = text.as_ref();
        self.writer.write_all(bytes).and_then(|()| self.writer.write_all(b"\n")).map_err(CommandError::Output)
    }

    /// A path as it is printed: byte for byte, but for a terminal without what it would take for commands.
    pub(crate) fn path(&self, path: &Path) -> Vec<u8> {
        let mut bytes = path.as_os_str().as_bytes().to_vec();
        if self.is_terminal {
            bytes.iter_mut().filter(|b| b.is_ascii_control()).for_each(|b| *b = b'?');
        }
        bytes
    }

    /// Writes `value` as JSON.
    ///
    /// # Errors
    /// [`CommandError::Output`].
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), CommandError> {
        serde_json::to_writer_pretty(&mut self.writer, value).map_err(|e| CommandError::Output(e.into()))?;
        self.line("")
    }

    /// Brings everything out.
    ///
    /// # Errors
    /// [`CommandError::Output`].
    pub(crate) fn finish(mut self) -> Result<(), CommandError> {
        self.writer.flush().map_err(CommandError::Output)
    }
}

/// `1 file`, `2 files`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Standard output without any buffer: for bytes that come in large pieces.
///
/// # Errors
/// [`CommandError::Output`] where it is closed.
pub(crate) fn raw() -> Result<File, CommandError> {
    let descriptor = io::stdout().as_fd().try_clone_to_owned().map_err(CommandError::Output)?;
    Ok(File::from(descriptor))
}
