//! One access to a file, as ROMIO hands it over.

use std::ffi::c_void;

use crate::abi::{Abi, Datatype};
use crate::contiguous::Position;
use crate::layout::{INDIVIDUAL, RomioFile};

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the file into memory.
    Read,
    /// From memory into the file.
    Write,
}

/// What offsets are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// From the view's beginning.
    Etypes,
    /// From the file's; the view has no gaps, or is not looked at.
    Bytes,
}

/// A user's buffer, the part of the file, and the status to fill, as ROMIO hands them over.
#[derive(Clone, Copy)]
pub(crate) struct Access<A: Abi> {
    pub(crate) direction: Direction,
    pub(crate) buffer: *mut c_void,
    pub(crate) count: i64,
    pub(crate) datatype: Datatype<A>,
    pub(crate) position: Position,
    /// In what the offset is counted.
    pub(crate) unit: Unit,
    /// Whether all ranks make their parts of it in the same call.
    pub(crate) callers: Callers,
    pub(crate) status: *mut A::Status,
}

/// Who makes an access.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callers {
    /// This rank, as far as is known.
    One,
    /// All ranks that have the file open, each its part.
    All,
}

impl<A: Abi> Access<A> {
    /// The same access to a file whose view has no gaps, with its offset counted in the file's bytes.
    pub(crate) fn in_bytes(&self, fd: &RomioFile<A>) -> Access<A> {
        let position = match (self.position.pointer, self.unit) {
            (INDIVIDUAL, _) | (_, Unit::Bytes) => self.position,
            (pointer, Unit::Etypes) => Position { pointer, offset: fd.byte_offset(self.position.offset) },
        };
        Access { position, unit: Unit::Bytes, ..*self }
    }
}
