//! The writing side.

use std::sync::Arc;

use super::super::wire::{CLOSING, Closing, Kind};
use super::mapped::Mapped;
use super::parts::{Parts, Slots};
use crate::back_end::{Piece, Sequence, SequenceMark};
use crate::error::Result;
use crate::fabric::Fabric;
use crate::segment::RemoteSegment;
use crate::units::Interrupt;

/// What goes along with a packet, in one write.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Along<'a> {
    /// What is there before the packet is, in the same segment.
    pub(in super::super) before: Option<Piece<'a>>,
    /// What is triggered after it.
    pub(in super::super) interrupt: Option<Interrupt>,
}

/// Where a ring's parts go.
pub(in super::super) trait Outgoing {
    /// Whether what is put can take something along.
    fn takes_along(&self) -> bool;

    /// Puts parts into slots, each with its payload and closing word; the closing word becomes visible last. Something
    /// goes along where [it can](Self::takes_along); elsewhere there must be nothing.
    fn put<'a>(
        &mut self,
        fabric: &Fabric,
        parts: impl Iterator<Item = (u32, &'a [u8], u64)>,
        along: Along<'_>,
    ) -> Result<()>;

    /// Puts parts of before once more, byte for byte.
    fn repeat(&self, fabric: &Fabric, slots: &mut dyn Iterator<Item = u32>) -> Result<()>;
}

/// A ring of a peer.
#[derive(Debug)]
pub(in super::super) enum Target<S = Mapped> {
    /// In this process's address space, on a fabric that keeps all its promises: plain stores.
    Mapped(Parts<S>),
    /// By remote writes, and kept until they are known to have arrived.
    Remote {
        /// The peer's segment.
        segment: Arc<RemoteSegment>,
        /// Where the ring begins.
        base: u64,
        /// Bytes of a part.
        part: usize,
        /// What was written last into each slot.
        copy: Box<[u8]>,
        /// How many bytes of it, to the end of the slot.
        used: Box<[u32]>,
    },
}

impl Target {
    /// The ring of `parts` parts of `part` bytes at `base` of a peer's segment.
    ///
    /// # Errors
    /// Where it is not within the mapping.
    pub(in super::super) fn new(
        segment: &Arc<RemoteSegment>,
        promises: Promises,
        base: u64,
        part: u32,
        parts: u32,
    ) -> Result<Self> {
        match segment.mapping() {
            Some(memory) if promises.are_kept() => {
                Ok(Self::Mapped(Parts::new(Mapped::new(memory, base, part, parts)?)))
            }
            _ => Ok(Self::Remote {
                segment: Arc::clone(segment),
                base,
                part: part as usize,
                copy: vec![0; part as usize * parts as usize].into(),
                used: vec![0; parts as usize].into(),
            }),
        }
    }
}

impl<S: Slots> Outgoing for Target<S> {
    fn takes_along(&self) -> bool {
        matches!(self, Self::Remote { .. })
    }

    #[inline]
    fn put<'a>(
        &mut self,
        fabric: &Fabric,
        parts: impl Iterator<Item = (u32, &'a [u8], u64)>,
        along: Along<'_>,
    ) -> Result<()> {
        match self {
            Self::Mapped(ring) => {
                debug_assert!(along.before.is_none() && along.interrupt.is_none());
                let mut stored = 0;
                for (slot, payload, closing) in parts {
                    ring.write(slot, payload, closing);
                    stored += payload.len() as u64;
                }
                fabric.counters().stored_bytes.add(stored);
                Ok(())
            }
            Self::Remote { segment, base, part, copy, used } => {
                let mut first = None;
                let mut count = 0;
                for (slot, payload, closing) in parts {
                    let end = (slot as usize + 1) * *part;
                    copy[end - CLOSING - payload.len()..end - CLOSING].copy_from_slice(payload);
                    copy[end - CLOSING..end].copy_from_slice(&closing.to_le_bytes());
                    used[slot as usize] = (payload.len() + CLOSING) as u32;
                    first.get_or_insert(slot);
                    count += 1;
                }
                // They follow one another, around the end of the ring.
                let slots = used.len() as u32;
                let written = (0..count).map(|index| (first.unwrap_or(0) + index) % slots);
                write(segment, *base, *part, copy, used, written, along)
            }
        }
    }

    fn repeat(&self, _: &Fabric, slots: &mut dyn Iterator<Item = u32>) -> Result<()> {
        match self {
            Self::Mapped(_) => Ok(()),
            Self::Remote { segment, base, part, copy, used } => {
                write(segment, *base, *part, copy, used, slots, Along::default())
            }
        }
    }
}

fn write(
    segment: &RemoteSegment,
    base: u64,
    part: usize,
    copy: &[u8],
    used: &[u32],
    mut slots: impl Iterator<Item = u32>,
    along: Along<'_>,
) -> Result<()> {
    let send = |pieces: &[Piece<'_>]| match along.interrupt {
        Some(interrupt) => segment.write_and_trigger(pieces, interrupt),
        None => segment.write_scattered(pieces),
    };
    let piece = |slot: u32| {
        let end = (slot as usize + 1) * part;
        let start = end - used[slot as usize] as usize;
        Piece { offset: base + start as u64, bytes: &copy[start..end] }
    };
    let Some(first) = slots.next().map(piece) else { return Ok(()) };
    match (along.before, slots.next()) {
        // The most frequent cases need no list.
        (None, None) => send(&[first]),
        (Some(before), None) => send(&[before, first]),
        (before, Some(second)) => {
            let parts = [first, piece(second)].into_iter().chain(slots.map(piece));
            send(&before.into_iter().chain(parts).collect::<Vec<_>>())
        }
    }
}

/// The writer's place in a ring.
#[derive(Debug)]
pub(in super::super) struct Writer<T = Target> {
    target: T,
    part: usize,
    mask: u32,
    /// Parts written since the beginning; it wraps, as ids do.
    sent: u32,
    /// Parts of which the reader said that it has consumed them.
    credited: u32,
    /// Parts that are known to have arrived, and of which no copy is on its way any more.
    checked: u32,
    /// From before the first part that is not checked.
    mark: SequenceMark,
    promises: Promises,
}

/// What the fabric promises of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Promises {
    /// Each arrives.
    pub(in super::super) reliable: bool,
    /// They arrive in the order in which they were issued, and once.
    pub(in super::super) ordered: bool,
}

impl Promises {
    fn are_kept(self) -> bool {
        self.reliable && self.ordered
    }
}

impl<S: Slots> Writer<Target<S>> {
    /// Writes a short message of no more parts than a packet has, if there is room and stores are enough.
    #[inline]
    pub(in super::super) fn write_short(&mut self, payload: &[u8]) -> bool {
        let Target::Mapped(ring) = &self.target else { return false };
        let room = self.part - CLOSING;
        if payload.len() > room {
            return self.write_short_of_parts(payload);
        }
        if self.outstanding() > self.mask {
            return false;
        }
        let id = self.sent.wrapping_add(1);
        let closing = Closing { kind: Kind::Short, more: false, length: payload.len() as u16, id };
        ring.write(self.sent, payload, closing.encode());
        self.sent = id;
        true
    }

    fn write_short_of_parts(&mut self, payload: &[u8]) -> bool {
        let Target::Mapped(ring) = &self.target else { return false };
        if !self.has_room(payload.len()) {
            return false;
        }
        let room = self.part - CLOSING;
        let mut rest = payload;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(room.min(rest.len()));
            let id = self.sent.wrapping_add(1);
            let more = !behind.is_empty();
            let closing = Closing { kind: Kind::Short, more, length: piece.len() as u16, id };
            ring.write(self.sent, piece, closing.encode());
            self.sent = id;
            rest = behind;
        }
        true
    }
}

impl<T: Outgoing> Writer<T> {
    /// Of a ring of `parts` parts of `part` bytes.
    pub(in super::super) fn new(target: T, part: u32, parts: u32, promises: Promises) -> Self {
        let mark = SequenceMark::default();
        Self {
            target,
            part: part as usize,
            mask: parts - 1,
            sent: 0,
            credited: 0,
            checked: 0,
            mark,
            promises,
        }
    }

    /// Where the first part has that number.
    pub(in super::super) fn from(self, first: u32) -> Self {
        Self { sent: first, credited: first, checked: first, ..self }
    }

    /// How many parts a payload takes.
    #[inline]
    pub(in super::super) fn parts(&self, payload: usize) -> u32 {
        let room = self.part - CLOSING;
        if payload <= room { 1 } else { payload.div_ceil(room) as u32 }
    }

    /// Takes note of how many parts the reader has consumed.
    #[inline]
    pub(in super::super) fn credit(&mut self, consumed: u32) {
        self.credited = consumed;
    }

    /// How many parts there are that the reader has not said to have consumed.
    pub(in super::super) fn outstanding(&self) -> u32 {
        self.sent.wrapping_sub(self.credited)
    }

    /// Whether a packet with so much payload can be written now.
    #[inline]
    pub(in super::super) fn has_room(&self, payload: usize) -> bool {
        self.parts(payload) <= (self.mask + 1).saturating_sub(self.outstanding())
    }

    /// Whether anything written may not have arrived.
    #[inline]
    pub(in super::super) fn is_unchecked(&self) -> bool {
        !self.promises.reliable && self.sent != self.checked
    }

    /// Whether a packet can take something along: by remote writes that arrive, and in order. Where they may not, more
    /// has to be done before it.
    #[inline]
    pub(in super::super) fn takes_along(&self) -> bool {
        self.promises.are_kept() && self.target.takes_along()
    }

    /// Writes a packet, for which there is room. Something goes along where [it can](Self::takes_along); elsewhere
    /// there must be nothing.
    ///
    /// # Errors
    /// The fabric's.
    #[inline]
    pub(in super::super) fn write(
        &mut self,
        fabric: &Fabric,
        peer: crate::Rank,
        kind: Kind,
        payload: &[u8],
        along: Along<'_>,
    ) -> Result<()> {
        let parts = self.parts(payload.len());
        debug_assert!(self.has_room(payload.len()));
        if !self.promises.are_kept() {
            // A slot is written to again only when nothing that was written to it is on its way any more.
            if self.sent.wrapping_sub(self.checked) + parts > self.mask + 1 {
                self.check(fabric, peer)?;
            }
            if self.sent == self.checked {
                self.mark = fabric.mark(peer);
            }
        }
        let room = self.part - CLOSING;
        let (first, mask) = (self.sent, self.mask);
        self.sent = first.wrapping_add(parts);
        let pieces = (0..parts).map(|index| {
            let start = index as usize * room;
            let piece = &payload[start..payload.len().min(start + room)];
            let number = first.wrapping_add(index);
            let (more, id) = (index + 1 < parts, number.wrapping_add(1));
            let closing = Closing { kind, more, length: piece.len() as u16, id };
            (number & mask, piece, closing.encode())
        });
        self.target.put(fabric, pieces, along)
    }

    /// Makes sure that all that was written has arrived; repeats it until it has.
    ///
    /// # Errors
    /// `Unreachable`, `PeerLost`.
    pub(in super::super) fn check(&mut self, fabric: &Fabric, peer: crate::Rank) -> Result<()> {
        if self.promises.are_kept() || self.sent == self.checked {
            return Ok(());
        }
        if fabric.check_sequence(peer, self.mark)? == Sequence::Broken {
            self.repeat(fabric, peer, self.checked, self.sent.wrapping_sub(self.checked))?;
        }
        self.checked = self.sent;
        Ok(())
    }

    /// Writes parts of before once more. Many are hardly ever all intact where much goes wrong, so what was broken
    /// again is repeated in halves.
    fn repeat(&self, fabric: &Fabric, peer: crate::Rank, first: u32, count: u32) -> Result<()> {
        let mask = self.mask;
        let write = || {
            let mut slots = (0..count).map(|index| first.wrapping_add(index) & mask);
            self.target.repeat(fabric, &mut slots)
        };
        fabric.counters().repeated_writes.add(1);
        if count <= 1 {
            return fabric.write_checked(peer, write);
        }
        let mark = fabric.mark(peer);
        write()?;
        if fabric.check_sequence(peer, mark)? == Sequence::Intact {
            return Ok(());
        }
        let half = count / 2;
        self.repeat(fabric, peer, first, half)?;
        self.repeat(fabric, peer, first.wrapping_add(half), count - half)
    }
}
