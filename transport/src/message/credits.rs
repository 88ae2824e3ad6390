//! What a receiver gives back: counts that only grow, written into the sender's inbox.

use std::sync::atomic::Ordering;

use super::atomic::Atomic;
use super::layout::{CREDIT_WORDS, Layout};
use crate::back_end::Piece;
use crate::capabilities::WriteOrder;
use crate::error::Result;
use crate::fabric::Fabric;
use crate::memory::SharedMemory;
use crate::segment::RemoteSegment;
use crate::units::Interrupt;

/// How much of each kind was given back since the beginning; they wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// Parts of the ring of messages.
    pub(super) ring: u32,
    /// Parts of the ring of control packets.
    pub(super) control: u32,
    /// Slots of eager messages.
    pub(super) eager: u32,
    /// Staging buffers.
    pub(super) staging: u32,
}

impl Counts {
    pub(super) fn words(self) -> [u64; 2] {
        [
            u64::from(self.control) << 32 | u64::from(self.ring),
            u64::from(self.staging) << 32 | u64::from(self.eager),
        ]
    }

    /// From two words.
    pub(super) fn of([rings, buffers]: [u64; 2]) -> Self {
        Self {
            ring: rings as u32,
            control: (rings >> 32) as u32,
            eager: buffers as u32,
            staging: (buffers >> 32) as u32,
        }
    }

    /// The newest of what the peer wrote into `inbox`, given what was `seen` before.
    pub(super) fn newest(inbox: &SharedMemory, seen: Self) -> Self {
        // All are within the inbox and aligned.
        Self::newest_of(|offset| inbox.word64(offset).ok(), seen)
    }

    /// The same of the words that an inbox has at the offsets of its credits.
    pub(super) fn newest_of<'a, W: Atomic + 'a>(word: impl Fn(u64) -> Option<&'a W>, mut seen: Self) -> Self {
        let newer = |seen: &mut u32, told: u64| {
            let told = told as u32;
            // Counts wrap: what is less than half the range ahead is newer.
            if told.wrapping_sub(*seen) as i32 > 0 {
                *seen = told;
            }
        };
        for index in 0..CREDIT_WORDS {
            let offset = Layout::credits(index);
            // Acquire: what is given back was read before it was given back.
            let load = |offset| word(offset).map_or(0, |word| word.load(Ordering::Acquire));
            let (rings, buffers) = (load(offset), load(offset + 8));
            newer(&mut seen.ring, rings);
            newer(&mut seen.control, rings >> 32);
            newer(&mut seen.eager, buffers);
            newer(&mut seen.staging, buffers >> 32);
        }
        seen
    }

    /// Gives back by plain stores to the words that a peer's inbox has at the offsets of its credits.
    pub(super) fn store<'a, W: Atomic + 'a>(self, word: impl Fn(u64) -> Result<&'a W>) -> Result<()> {
        for (index, count) in self.words().into_iter().enumerate() {
            // Release: the payload was read before it is given back.
            word(Layout::credits(0) + 8 * index as u64)?.store(count, Ordering::Release);
        }
        Ok(())
    }
}

/// Writes counts into a peer's inbox.
///
/// A count that arrives late must not stay over a newer one. Where writes keep their order, it cannot; where they may
/// get lost, each is checked before the next; where they are only unordered, they go to several words in turn, of which
/// the reader takes the newest, and a store barrier comes before a word is used again.
#[derive(Debug, Default)]
pub(super) struct Returns {
    writes: u64,
}

impl Returns {
    /// An interrupt goes along where a ring's packets can take one.
    pub(super) fn write(
        &mut self,
        fabric: &Fabric,
        segment: &RemoteSegment,
        reliable: bool,
        counts: Counts,
        interrupt: Option<Interrupt>,
    ) -> Result<()> {
        if reliable && let Some(memory) = segment.mapping() {
            return counts.store(|offset| memory.word64(offset));
        }
        let words = counts.words();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&words[0].to_le_bytes());
        bytes[8..].copy_from_slice(&words[1].to_le_bytes());
        let peer = segment.owner();
        if !reliable {
            return fabric.write_checked(peer, || segment.write(Layout::credits(0), &bytes));
        }
        let index = match fabric.capabilities().ordering {
            WriteOrder::Issued => 0,
            WriteOrder::Any => self.writes % CREDIT_WORDS,
        };
        if index == 0 && self.writes > 0 && fabric.capabilities().ordering == WriteOrder::Any {
            fabric.store_barrier(peer)?;
        }
        self.writes += 1;
        let pieces = [Piece { offset: Layout::credits(index), bytes: &bytes }];
        match interrupt {
            Some(interrupt) => segment.write_and_trigger(&pieces, interrupt),
            None => segment.write_scattered(&pieces),
        }
    }
}
