//! The reading side.

use super::super::credits::FIRST;
use super::super::wire::{CLOSING, Closing, Kind, Malformed};
use super::mapped::Mapped;
use super::parts::{Parts, Slots};
use super::watch::Watch;
use crate::error::Result as FabricResult;
use crate::memory::SharedMemory;

/// A ring's memory, as the reader sees it. Parts are counted from 0, and the count wraps.
pub(in super::super) trait Incoming {
    /// The closing word of a part. Whoever finds a new one may read the payload that was written before it.
    fn closing(&self, number: u32) -> u64;

    /// Copies the payload of a part, of which `length` bytes are used, into `into`, which is no longer.
    fn copy_out(&self, number: u32, length: usize, into: &mut [u8]);
}

impl<S: Slots> Incoming for Parts<S> {
    #[inline]
    fn closing(&self, number: u32) -> u64 {
        Self::closing(self, number)
    }

    #[inline]
    fn copy_out(&self, number: u32, length: usize, into: &mut [u8]) {
        Self::copy_out(self, number, length, into);
    }
}

/// A complete packet at the head of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Found {
    pub(in super::super) kind: Kind,
    pub(in super::super) parts: u32,
    /// Bytes of payload.
    pub(in super::super) length: usize,
}

/// What is at the head of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Peek {
    /// No complete packet; the part of that number is the first that is missing.
    Nothing { missing: u32 },
    /// A packet.
    Packet(Found),
}

/// The reader's place in a ring.
#[derive(Debug)]
pub(in super::super) struct Reader<M = Parts<Mapped>> {
    memory: M,
    part: usize,
    longest: u32,
    /// Parts consumed since the beginning; it wraps, as ids do.
    consumed: u32,
}

impl Reader {
    /// Of the ring of `parts` parts of `part` bytes at `base`, with packets of up to `longest` parts, of which the first
    /// is number [`FIRST`]; and what tells without it that a part has come.
    ///
    /// # Errors
    /// Where the ring is not within the memory.
    pub(in super::super) fn new(
        memory: &SharedMemory,
        base: u64,
        part: u32,
        parts: u32,
        longest: u32,
    ) -> FabricResult<(Self, Watch)> {
        let memory = Parts::new(Mapped::new(memory, base, part, parts)?);
        let watch = Watch::of(memory.clone());
        watch.set(FIRST);
        Ok((Self { consumed: FIRST, ..Self::over(memory, part as usize, longest) }, watch))
    }
}

impl<M: Incoming> Reader<M> {
    pub(super) fn over(memory: M, part: usize, longest: u32) -> Self {
        Self { memory, part, longest, consumed: 0 }
    }

    /// Parts consumed since the beginning, wrapping.
    #[inline]
    pub(in super::super) fn consumed(&self) -> u32 {
        self.consumed
    }

    /// Takes a short message that fits `into`, if one is at the head and complete.
    #[inline]
    pub(in super::super) fn take_short(&mut self, into: &mut [u8]) -> Option<usize> {
        let word = self.memory.closing(self.consumed);
        let Some(length) = Closing::one_part(word) else { return self.take_short_of_parts(into) };
        if Closing::id(word) != self.consumed.wrapping_add(1) || length > self.part - CLOSING {
            return None;
        }
        self.memory.copy_out(self.consumed, length, into.get_mut(..length)?);
        self.consumed = self.consumed.wrapping_add(1);
        Some(length)
    }

    /// The same for more than one part: copies each as it comes, and waits a moment for the next one. What is
    /// malformed, too long or slow is left at the head, for [`peek`](Self::peek) to tell.
    fn take_short_of_parts(&mut self, into: &mut [u8]) -> Option<usize> {
        let mut number = self.consumed;
        let mut length = 0;
        for _ in 0..self.longest {
            let word = self.closing_soon(number)?;
            let closing =
                Closing::decode(word, self.part).ok().filter(|closing| closing.kind == Kind::Short)?;
            let piece = usize::from(closing.length);
            self.memory.copy_out(number, piece, into.get_mut(length..length + piece)?);
            length += piece;
            number = number.wrapping_add(1);
            if !closing.more {
                self.consumed = number;
                return Some(length);
            }
        }
        None
    }

    /// The closing word of a part that a sender is just writing.
    #[inline]
    fn closing_soon(&self, number: u32) -> Option<u64> {
        /// Some hundred nanoseconds: who has begun a packet ends it, unless it loses its core. For loom, which tries
        /// all that can happen between two polls, it is as good as one.
        const POLLS: u32 = if cfg!(loom) { 1 } else { 32 };
        for _ in 0..POLLS {
            let word = self.memory.closing(number);
            if Closing::id(word) == number.wrapping_add(1) {
                return Some(word);
            }
            std::hint::spin_loop();
        }
        None
    }

    /// What is at the head.
    ///
    /// # Errors
    /// What no peer of this version writes.
    #[inline]
    pub(in super::super) fn peek(&self) -> Result<Peek, Malformed> {
        let first = self.memory.closing(self.consumed);
        if Closing::id(first) != self.consumed.wrapping_add(1) {
            return Ok(Peek::Nothing { missing: self.consumed });
        }
        let first = Closing::decode(first, self.part)?;
        let mut found = Found { kind: first.kind, parts: 1, length: usize::from(first.length) };
        let mut more = first.more;
        while more {
            if found.parts == self.longest {
                return Err(Malformed::Parts { most: self.longest });
            }
            let number = self.consumed.wrapping_add(found.parts);
            let word = self.memory.closing(number);
            if Closing::id(word) != number.wrapping_add(1) {
                return Ok(Peek::Nothing { missing: number });
            }
            let next = Closing::decode(word, self.part)?;
            if next.kind != found.kind {
                return Err(Malformed::Mixed { first: found.kind, then: next.kind });
            }
            found.parts += 1;
            found.length += usize::from(next.length);
            more = next.more;
        }
        Ok(Peek::Packet(found))
    }

    /// Copies the payload of a packet that was found at the head; what does not fit is left out.
    #[inline]
    pub(in super::super) fn copy(&self, found: Found, into: &mut [u8]) {
        let mut rest = into;
        for part in 0..found.parts {
            let number = self.consumed.wrapping_add(part);
            // The peer may have changed it since: only the bounds matter here.
            let length = usize::from((self.memory.closing(number) >> 16) as u16).min(self.part - CLOSING);
            let (here, behind) = rest.split_at_mut(length.min(rest.len()));
            self.memory.copy_out(number, length, here);
            rest = behind;
        }
    }

    /// Gives the parts of a packet back.
    #[inline]
    pub(in super::super) fn consume(&mut self, found: Found) {
        self.consumed = self.consumed.wrapping_add(found.parts);
    }

    /// As if so many parts had been consumed.
    #[cfg(test)]
    #[cfg(not(loom))]
    pub(super) fn skip_to(&mut self, consumed: u32) {
        self.consumed = consumed;
    }
}
