//! Copying from user memory to user memory, done by both ends together.
//!
//! The message is divided into chunks. Two words in the receiver's inbox say which chunk is the next that nobody has
//! claimed, and how many are finished. Each end claims with a fetch-and-add and copies, the sender by writing, the
//! receiver by reading; whoever finishes the last chunk tells the other. An end that never comes leaves all chunks to
//! the other, so nothing waits for a program that computes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::context::Context;
use super::layout::Layout;
use super::user;
use crate::back_end::{MemoryKey, Place, Remote};
use crate::error::Result;
use crate::memory::{SharedMemory, UserMemory};
use crate::segment::RemoteSegment;

/// Which end this is.
#[derive(Debug, Clone)]
pub(super) enum Words {
    /// The receiver, with the words in its inbox.
    Own { inbox: SharedMemory, slot: u8 },
    /// The receiver alone: the sender does not take part.
    Alone(Arc<[AtomicU64; 2]>),
    /// The sender.
    Peers { slot: u8 },
}

const CLAIMED: usize = 0;
const FINISHED: usize = 1;

/// One message, as one end of it sees it.
#[derive(Debug)]
pub(super) struct Sharing {
    words: Words,
    memory: UserMemory,
    remote: Remote,
    /// The peer's: who copies from or to the peer's memory says so there.
    inbox: Arc<RemoteSegment>,
    chunk: u64,
}

/// What came of copying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copied {
    /// There may be more to copy; the caller wanted it to stop.
    Stopped,
    /// All chunks are claimed; the other end is still at one.
    Exhausted,
    /// All chunks are finished, and this end finished the last one.
    Finished,
}

impl Sharing {
    /// Of this end's `memory`, not empty, with what the peer that owns `inbox` registered under `key`, `chunk` bytes at
    /// a time.
    pub(super) fn new(
        words: Words,
        memory: UserMemory,
        inbox: Arc<RemoteSegment>,
        key: MemoryKey,
        chunk: u64,
    ) -> Self {
        let remote = Remote { owner: inbox.owner(), place: Place::Registered(key) };
        Self { words, memory, remote, inbox, chunk: chunk.max(1) }
    }

    /// Sets the words to the beginning; before the other end learns of them.
    pub(super) fn reset(inbox: &SharedMemory, slot: u8) -> Result<()> {
        for index in [CLAIMED, FINISHED] {
            inbox.word64(word(slot, index))?.store(0, Ordering::Release);
        }
        Ok(())
    }

    /// Copies until all is claimed, or until `stop` says so; it is asked before each chunk.
    ///
    /// # Safety
    /// The memory must be valid, and for the receiver nobody else's; the end of the operation is what ends that.
    pub(super) unsafe fn copy(&self, context: &Context, mut stop: impl FnMut() -> bool) -> Result<Copied> {
        let length = self.memory.length as u64;
        let chunks = length.div_ceil(self.chunk);
        loop {
            if stop() {
                return Ok(Copied::Stopped);
            }
            let claimed = self.add(context, CLAIMED)?;
            if claimed >= chunks {
                return Ok(Copied::Exhausted);
            }
            let offset = claimed * self.chunk;
            let part = self.memory.part(offset as usize, self.chunk.min(length - offset) as usize);
            let lease = context.lease(&self.inbox)?;
            if let Words::Peers { .. } = &self.words {
                // SAFETY: as the caller promises.
                let bytes = unsafe { user::bytes(part) };
                context.settle(&self.remote, offset, bytes)?;
            } else {
                // SAFETY: as the caller promises; this end claimed the chunk, and no other will write to it.
                let bytes = unsafe { user::bytes_mut(part) };
                context.fabric.read(&self.remote, offset, bytes)?;
            }
            drop(lease);
            if self.add(context, FINISHED)? + 1 == chunks {
                return Ok(Copied::Finished);
            }
        }
    }

    /// Adds one to a word and returns what it was.
    fn add(&self, context: &Context, index: usize) -> Result<u64> {
        // AcqRel: whoever finishes the last chunk has seen all others finished.
        match &self.words {
            Words::Own { inbox, slot } => {
                Ok(inbox.word64(word(*slot, index))?.fetch_add(1, Ordering::AcqRel))
            }
            Words::Alone(words) => Ok(words[index].fetch_add(1, Ordering::AcqRel)),
            Words::Peers { slot } => match self.inbox.mapping() {
                Some(memory) => Ok(memory.word64(word(*slot, index))?.fetch_add(1, Ordering::AcqRel)),
                None => context.fabric.fetch_add(&self.inbox.remote(), word(*slot, index), 1),
            },
        }
    }
}

fn word(slot: u8, index: usize) -> u64 {
    Layout::claims(slot) + 8 * index as u64
}
