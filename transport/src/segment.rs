//! Memory that peers reach: one's own, exported or registered, and theirs, connected.

use std::sync::Arc;

use crate::back_end::{BackEnd, Drain, MemoryKey, Piece, Place, Remote};
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::memory::SharedMemory;
use crate::units::{Interrupt, Rank, SegmentId};

/// An exported segment of this process. Dropping it ends the export.
#[derive(Debug)]
pub struct LocalSegment {
    back_end: Arc<dyn BackEnd>,
    id: SegmentId,
    memory: SharedMemory,
}

impl LocalSegment {
    pub(crate) fn new(back_end: &Arc<dyn BackEnd>, id: SegmentId, memory: SharedMemory) -> Self {
        Self { back_end: Arc::clone(back_end), id, memory }
    }

    /// Under which id it is exported.
    #[must_use]
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// Its bytes.
    #[must_use]
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }
}

impl Drop for LocalSegment {
    fn drop(&mut self) {
        self.back_end.remove(self.id);
    }
}

/// A connected segment of another process. Dropping it disconnects.
#[derive(Debug)]
pub struct RemoteSegment {
    fabric: Fabric,
    remote: Remote,
    id: SegmentId,
    length: u64,
    mapping: Option<SharedMemory>,
}

impl RemoteSegment {
    pub(crate) fn new(
        fabric: &Fabric,
        id: SegmentId,
        remote: Remote,
        length: u64,
        mapping: Option<SharedMemory>,
    ) -> Self {
        Self { fabric: fabric.clone(), remote, id, length, mapping }
    }

    /// Whose it is.
    #[must_use]
    pub fn owner(&self) -> Rank {
        self.remote.owner
    }

    /// Under which id it is exported.
    #[must_use]
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Where transfers to it go.
    #[must_use]
    pub fn remote(&self) -> Remote {
        self.remote
    }

    /// The segment in this process's address space, where the fabric maps directly.
    #[must_use]
    pub fn mapping(&self) -> Option<&SharedMemory> {
        self.mapping.as_ref()
    }

    /// Writes `bytes` to `offset`.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::PeerLost`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_scattered(&[Piece { offset, bytes }])
    }

    /// Writes `parts` one behind the other from `offset` on.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::PeerLost`].
    pub fn write_gathered(&self, mut offset: u64, parts: &[&[u8]]) -> Result<()> {
        let pieces: Vec<_> = parts
            .iter()
            .map(|bytes| {
                let piece = Piece { offset, bytes };
                offset = offset.saturating_add(bytes.len() as u64);
                piece
            })
            .collect();
        self.write_scattered(&pieces)
    }

    /// Writes each piece to its own place.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] before anything is written; [`Error::PeerLost`].
    pub fn write_scattered(&self, pieces: &[Piece<'_>]) -> Result<()> {
        self.check_pieces(pieces)?;
        self.fabric.write(&self.remote, pieces)
    }

    /// Writes each piece to its own place, then triggers an interrupt of the segment's owner.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] before anything is written; [`Error::PeerLost`].
    pub fn write_and_trigger(&self, pieces: &[Piece<'_>], interrupt: Interrupt) -> Result<()> {
        self.check_pieces(pieces)?;
        self.fabric.write_and_trigger(&self.remote, pieces, interrupt)
    }

    fn check_pieces(&self, pieces: &[Piece<'_>]) -> Result<()> {
        pieces.iter().try_for_each(|piece| self.check_bounds(piece.offset, piece.bytes.len() as u64))
    }

    /// Reads from `offset`.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::PeerLost`], [`Error::Unsupported`] where the fabric does not read.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.check_bounds(offset, into.len() as u64)?;
        self.fabric.read(&self.remote, offset, into)
    }

    /// Adds to the word at `offset` and returns what it was.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Misaligned`], [`Error::PeerLost`].
    pub fn fetch_add(&self, offset: u64, amount: u64) -> Result<u64> {
        self.check_bounds(offset, 8)?;
        self.fabric.fetch_add(&self.remote, offset, amount)
    }

    /// Sets the word at `offset` to `new` if it is `expected`; returns what it was.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Misaligned`], [`Error::PeerLost`].
    pub fn compare_swap(&self, offset: u64, expected: u64, new: u64) -> Result<u64> {
        self.check_bounds(offset, 8)?;
        self.fabric.compare_swap(&self.remote, offset, expected, new)
    }

    fn check_bounds(&self, offset: u64, length: u64) -> Result<()> {
        if offset.checked_add(length).is_some_and(|end| end <= self.length) {
            return Ok(());
        }
        let what = format!("segment {} of rank {}", self.id, self.remote.owner);
        Err(Error::OutOfBounds { what, offset, length, size: self.length })
    }
}

impl Drop for RemoteSegment {
    fn drop(&mut self) {
        if let Place::Segment(connection) = self.remote.place {
            self.fabric.back_end().disconnect(connection);
        }
    }
}

/// User memory that peers can reach. Dropping it ends that.
#[derive(Debug)]
pub struct Registration {
    back_end: Arc<dyn BackEnd>,
    key: MemoryKey,
    is_revoked: bool,
}

impl Registration {
    pub(crate) fn new(back_end: &Arc<dyn BackEnd>, key: MemoryKey) -> Self {
        Self { back_end: Arc::clone(back_end), key, is_revoked: false }
    }

    /// Ends it while `writer` may be writing: the memory can be used again when the answer says that nothing comes any
    /// more.
    ///
    /// # Errors
    /// This, where nothing comes once it is dropped.
    pub fn revoke(mut self, writer: Rank) -> std::result::Result<Arc<Drain>, Self> {
        let Some(drain) = self.back_end.revoke(self.key, writer) else { return Err(self) };
        // The key may be another registration's from now on.
        self.is_revoked = true;
        Ok(drain)
    }

    /// What a peer needs to write there.
    #[must_use]
    pub fn key(&self) -> MemoryKey {
        self.key
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if !self.is_revoked {
            self.back_end.unregister(self.key);
        }
    }
}
