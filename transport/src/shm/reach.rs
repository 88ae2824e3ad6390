//! Remote memory as this process reaches it: mapped, or through the kernel.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::back_end::{ConnectionId, MemoryKey, Piece};
use crate::copying::copy_part;
use crate::dma::Direction;
use crate::error::{Error, Result};
use crate::membership::Membership;
use crate::memory::{SharedMemory, UserMemory};
use crate::units::Rank;

use super::copying;
use super::peer::Peer;
use super::process_memory::{Range, Way};

/// Bytes that are copied between two looks at the membership: some 60 µs.
const PART: usize = 1 << 20;

/// The connected segments.
#[derive(Debug, Default)]
pub(super) struct Connections {
    table: RwLock<HashMap<u64, SharedMemory>>,
    last: AtomicU64,
}

impl Connections {
    /// Numbers a connection to `memory`.
    pub(super) fn insert(&self, memory: SharedMemory) -> ConnectionId {
        // Relaxed: only a number that nobody else has.
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        self.table.write().unwrap_or_else(PoisonError::into_inner).insert(number, memory);
        ConnectionId(number)
    }

    /// Forgets a connection.
    pub(super) fn remove(&self, connection: ConnectionId) {
        let removed = self.table.write().unwrap_or_else(PoisonError::into_inner).remove(&connection.0);
        // Unmapping takes its time: not under the lock.
        drop(removed);
    }

    /// The memory of a connection.
    ///
    /// # Errors
    /// Where it is forgotten.
    pub(super) fn get(&self, connection: ConnectionId) -> Result<SharedMemory> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.get(&connection.0).cloned().ok_or_else(|| {
            let what = format!("the connections; number {} is disconnected", connection.0);
            Error::OutOfBounds { what, offset: connection.0, length: 1, size: table.len() as u64 }
        })
    }
}

/// Remote memory.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// A mapped segment.
    Mapped(SharedMemory),
    /// Private memory of a peer, which it has registered.
    Private(Registered),
}

/// Registered memory: what its key says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Registered {
    start: u64,
    length: u64,
    /// A part of its process's cookie.
    stamp: u64,
}

impl Registered {
    /// `memory` of the process with `cookie`.
    pub(super) fn new(memory: UserMemory, cookie: &[u8; 16]) -> Self {
        Self { start: memory.start.as_ptr() as u64, length: memory.length as u64, stamp: stamp(cookie) }
    }

    /// As it goes to the peers.
    pub(super) fn key(self) -> MemoryKey {
        MemoryKey([self.start, self.length, self.stamp])
    }

    /// As it came from `owner`.
    ///
    /// # Errors
    /// `Wire` where it is not a key of that process.
    pub(super) fn of_key(key: MemoryKey, membership: &Membership, owner: Rank, peer: &Peer) -> Result<Self> {
        let [start, length, stamp_of_key] = key.0;
        if stamp_of_key != stamp(&peer.address().cookie) || start.checked_add(length).is_none() {
            let problem = "a key of registered memory that is not one of this process";
            return Err(Error::wire(membership, owner, problem));
        }
        Ok(Self { start, length, stamp: stamp_of_key })
    }

    fn at(&self, offset: u64, length: usize) -> Result<u64> {
        let length = length as u64;
        if offset.checked_add(length).is_none_or(|end| end > self.length) {
            let what = "registered memory".into();
            return Err(Error::OutOfBounds { what, offset, length, size: self.length });
        }
        Ok(self.start + offset)
    }
}

fn stamp(cookie: &[u8; 16]) -> u64 {
    cookie.iter().take(8).fold(0, |stamp, &byte| stamp << 8 | u64::from(byte))
}

/// Remote memory and its owner.
pub(super) struct Reach<'a> {
    pub(super) membership: &'a Membership,
    pub(super) owner: Rank,
    pub(super) peer: &'a Peer,
    pub(super) target: &'a Target,
}

impl Reach<'_> {
    /// Whether `length` bytes from `offset` are there.
    ///
    /// # Errors
    /// `OutOfBounds`.
    pub(super) fn check(&self, offset: u64, length: usize) -> Result<()> {
        match self.target {
            Target::Mapped(memory) => memory.span(offset, length).map(drop),
            Target::Private(registered) => registered.at(offset, length).map(drop),
        }
    }

    /// Stores all pieces, in order, each closed by its last word.
    ///
    /// # Errors
    /// `OutOfBounds` before anything is stored; `PeerLost`, `System`.
    pub(super) fn write(&self, pieces: &[Piece<'_>]) -> Result<()> {
        match self.target {
            Target::Mapped(memory) => {
                if let [piece] = pieces {
                    return store(memory, piece);
                }
                pieces.iter().try_for_each(|piece| self.check(piece.offset, piece.bytes.len()))?;
                pieces.iter().try_for_each(|piece| store(memory, piece))
            }
            Target::Private(registered) => {
                let range = |piece: &Piece<'_>| {
                    let remote = registered.at(piece.offset, piece.bytes.len())?;
                    let local = piece.bytes.as_ptr().cast_mut();
                    Ok(Range { local, remote, length: piece.bytes.len() })
                };
                let ranges = pieces.iter().map(range).collect::<Result<Vec<_>>>()?;
                let memory = self.peer.memory(self.membership)?;
                // SAFETY: the local ranges are the pieces', only read; the remote ones are registered.
                unsafe { memory.copy(self.membership, self.owner, Way::Write, ranges.into_iter()) }
            }
        }
    }

    /// Copies between `local` and the remote memory from `offset` on, in parts.
    ///
    /// # Safety
    /// `local` must be valid and no part of the remote range; for [`Direction::Read`] nobody else may use it.
    ///
    /// # Errors
    /// `OutOfBounds` before anything is copied; `PeerLost`, `System`.
    pub(super) unsafe fn copy(&self, direction: Direction, local: UserMemory, offset: u64) -> Result<()> {
        match self.target {
            Target::Mapped(memory) => {
                let remote = memory.span(offset, local.length)?;
                let whole = local.length;
                for done in (0..whole).step_by(PART) {
                    self.membership.check(self.owner)?;
                    let length = (whole - done).min(PART);
                    // SAFETY: within both ranges: `span` checked the remote one, the caller promises the local one.
                    // That they do not overlap is part of that promise.
                    unsafe {
                        let (local, remote) = (local.start.as_ptr().add(done), remote.add(done));
                        match direction {
                            Direction::Write => copy_part(local, remote, length, whole),
                            Direction::Read => copy_part(remote, local, length, whole),
                        }
                    }
                }
                // Whoever is told of the end afterwards sees the bytes.
                std::sync::atomic::fence(Ordering::Release);
                Ok(())
            }
            Target::Private(registered) => {
                let remote = registered.at(offset, local.length)?;
                let range = Range { local: local.start.as_ptr(), remote, length: local.length };
                let way = match direction {
                    Direction::Write => Way::Write,
                    Direction::Read => Way::Read,
                };
                let memory = self.peer.memory(self.membership)?;
                // SAFETY: the caller's promise; the remote range is registered.
                unsafe { memory.copy(self.membership, self.owner, way, std::iter::once(range)) }
            }
        }
    }
}

fn store(memory: &SharedMemory, piece: &Piece<'_>) -> Result<()> {
    let to = memory.span(piece.offset, piece.bytes.len())?;
    // SAFETY: `span` checked the range, which belongs to shared memory: it begins and ends with whole words, since
    // mappings are made of pages, and no Rust reference to it exists.
    unsafe { copying::store(piece.bytes.as_ptr(), to, piece.bytes.len()) };
    Ok(())
}
