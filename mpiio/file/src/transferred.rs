//! How much a read has brought.

use std::path::Path;

use crate::error::{Error, ErrorClass};
use crate::sys::Moved;

/// What came of a read that did not fail: the file may have ended before its buffer was full.
#[derive(Debug, Clone, Copy)]
#[must_use = "a read may have been short: `demand_all` makes that an error"]
pub struct Transferred<'f> {
    moved: Moved,
    call: &'static str,
    file: &'f Path,
}

impl<'f> Transferred<'f> {
    pub(crate) fn new(moved: Moved, call: &'static str, file: &'f Path) -> Self {
        Self { moved, call, file }
    }

    /// How many bytes of data came; gaps in datatypes are none.
    pub fn bytes(&self) -> u64 {
        self.moved.bytes
    }

    /// How many whole elements of the buffer came.
    pub fn elements(&self) -> u64 {
        self.moved.bytes.checked_div(self.moved.bytes_of_element).unwrap_or(0)
    }

    /// Whether the whole buffer came.
    pub fn is_all(&self) -> bool {
        self.moved.bytes >= self.moved.wanted()
    }

    /// Nothing, where the whole buffer came.
    ///
    /// # Errors
    /// [`ErrorClass::Short`] that tells how much came, where the file ended before.
    pub fn demand_all(self) -> Result<(), Error> {
        if self.is_all() {
            return Ok(());
        }
        let text = format!("{} of {} bytes: the file ends there", self.moved.bytes, self.moved.wanted());
        Err(Error::new(self.file.to_owned(), self.call, ErrorClass::Short, text))
    }
}
