//! What a receiver gives back: counts that only grow, written into the sender's inbox.

use std::sync::atomic::Ordering;

use super::atomic::Atomic;
use super::layout::{CREDIT_WORDS, Layout};
use crate::back_end::Piece;
use crate::capabilities::{Capabilities, WriteOrder};
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

/// Where all counts begin. In tests that is shortly before they wrap, so that all that is tested is tested there.
pub(super) const FIRST: u32 = if cfg!(all(test, not(loom))) { u32::MAX - 300 } else { 0 };

impl Counts {
    /// Nothing was given back.
    pub(super) const FIRST: Self = Self { ring: FIRST, control: FIRST, eager: FIRST, staging: FIRST };

    /// Enters into an inbox that nobody else knows yet that nothing was given back.
    pub(super) fn begin(inbox: &SharedMemory) -> Result<()> {
        for (place, count) in Self::FIRST.words().into_iter().enumerate() {
            for index in 0..CREDIT_WORDS {
                // Relaxed: it is shown to others later.
                let word = inbox.word64(Layout::credits(index) + 8 * place as u64)?;
                word.store(count, Ordering::Relaxed);
            }
        }
        Ok(())
    }

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

    /// The newest of what the peer wrote into `words` words of `inbox`, given what was `seen` before.
    pub(super) fn newest(inbox: &SharedMemory, words: u64, seen: Self) -> Self {
        // All are within the inbox and aligned.
        Self::newest_of(|offset| inbox.word64(offset).ok(), words, seen)
    }

    /// The same of the words that an inbox has at the offsets of its credits. A word that is never written must not be
    /// among them: it would seem to be ahead of a count that is more than half around.
    pub(super) fn newest_of<'a, W: Atomic + 'a>(
        word: impl Fn(u64) -> Option<&'a W>,
        words: u64,
        mut seen: Self,
    ) -> Self {
        let newer = |seen: &mut u32, told: u64| {
            let told = told as u32;
            // Counts wrap: what is less than half the range ahead is newer.
            if told.wrapping_sub(*seen) as i32 > 0 {
                *seen = told;
            }
        };
        for index in 0..words {
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

/// How many credit words of an inbox are written on a fabric, in turn.
///
/// A count that arrives late must not stay over a newer one. Where writes keep their order, it cannot; where they may
/// get lost, each is checked before the next; where they are only unordered, they go to several words in turn, of which
/// the reader takes the newest, and a store barrier comes before a word is used again.
pub(super) fn words_in_turn(capabilities: &Capabilities) -> u64 {
    let is_unordered = capabilities.ordering == WriteOrder::Any;
    if capabilities.is_reliable && is_unordered && !capabilities.direct_mapping { CREDIT_WORDS } else { 1 }
}

/// Writes counts into a peer's inbox: into [so many words](words_in_turn).
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
        let index = self.writes % words_in_turn(fabric.capabilities());
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

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mapping::{self, Pages};

    fn inbox() -> SharedMemory {
        mapping::anonymous("a test", 4096, Pages::Touched).unwrap()
    }

    fn counts(of_each: u32) -> Counts {
        Counts { ring: of_each, control: of_each, eager: of_each, staging: of_each }
    }

    #[test]
    fn counts_go_on_where_they_are_half_around_and_where_they_wrap() {
        let inbox = inbox();
        for around in [1 << 31, 0_u32] {
            let mut seen = counts(around.wrapping_sub(5));
            for step in 0..10 {
                let told = counts(around.wrapping_sub(4).wrapping_add(step));
                told.store(|offset| inbox.word64(offset)).unwrap();
                seen = Counts::newest(&inbox, 1, seen);
                assert_eq!(seen, told, "around {around}");
                assert_eq!(Counts::newest(&inbox, 1, seen), told, "around {around}: it goes back");
            }
        }
    }

    proptest! {
        #[test]
        fn of_words_written_in_turn_the_newest_counts(start: u32, steps in proptest::collection::vec(0u32..1000, 1..40)) {
            let inbox = inbox();
            let store = |index: u64, counts: Counts| {
                for (at, word) in counts.words().into_iter().enumerate() {
                    let place = inbox.word64(Layout::credits(index) + 8 * at as u64).unwrap();
                    place.store(word, Ordering::Relaxed);
                }
            };
            // As it is once each has been written.
            (0..CREDIT_WORDS).for_each(|index| store(index, counts(start)));
            let (mut told, mut seen) = (counts(start), counts(start));
            for (writes, step) in steps.into_iter().enumerate() {
                told.ring = told.ring.wrapping_add(step);
                told.staging = told.staging.wrapping_add(step / 7);
                store(writes as u64 % CREDIT_WORDS, told);
                seen = Counts::newest(&inbox, CREDIT_WORDS, seen);
                prop_assert_eq!(seen, told);
            }
        }
    }
}
