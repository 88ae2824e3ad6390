//! How a file is to be opened.

use serde::{Deserialize, Serialize};

use crate::placement::Placement;
use crate::units::SegmentSize;

/// How to open a file. By default for reading an existing one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OpenOptions {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) create: bool,
    pub(crate) exclusive: bool,
    pub(crate) temporary: bool,
    pub(crate) segment_size: Option<SegmentSize>,
    pub(crate) placement: Placement,
}

impl OpenOptions {
    /// For reading only.
    pub fn reading() -> OpenOptions {
        OpenOptions { read: true, ..OpenOptions::default() }
    }

    /// For reading and writing.
    pub fn read_write() -> OpenOptions {
        OpenOptions { read: true, write: true, ..OpenOptions::default() }
    }

    /// For writing only.
    pub fn writing() -> OpenOptions {
        OpenOptions { write: true, ..OpenOptions::default() }
    }

    /// Makes the file where there is none.
    pub fn create(mut self, yes: bool) -> OpenOptions {
        self.create = yes;
        self
    }

    /// With [`OpenOptions::create`]: fails where the file exists.
    pub fn exclusive(mut self, yes: bool) -> OpenOptions {
        self.exclusive = yes;
        self
    }

    /// A file made by this call needs to survive neither a crash nor a reboot, and goes for good if its last
    /// user dies without removing it.
    pub fn temporary(mut self, yes: bool) -> OpenOptions {
        self.temporary = yes;
        self
    }

    /// The segment size of a file made by this call; [`SegmentSize::DEFAULT`] where none is given.
    pub fn segment_size(mut self, size: Option<SegmentSize>) -> OpenOptions {
        self.segment_size = size;
        self
    }

    /// Which node becomes the home of a segment that this handle is the first to write to, where nobody places it
    /// for a collective access.
    pub fn placement(mut self, placement: Placement) -> OpenOptions {
        self.placement = placement;
        self
    }
}
