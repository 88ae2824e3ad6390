//! Where what lies in an inbox, and how large it all is.
//!
//! ```text
//!   header │ credits │ claims │ leases │ ends │ ring of messages │ ring of control packets │ eager slots
//! ```
//!
//! The header is the owner's, for the peer to read; the rest is written by the peer, the claims by both, and one bit of
//! the leases by the owner. Staging buffers are a segment of their own, made when first needed.

use super::eager::{Slots, slot_for};
use super::ends;
use super::settings::MessageSettings;
use super::wire::{CLOSING, CONTROL_PAYLOAD, Malformed, Ways};
use crate::capabilities::Capabilities;
use crate::error::Result;

/// Bytes of the header.
pub const HEADER: usize = 64;

/// The word of the header that tells what the owner needs an interrupt for; see [`needs`](super::needs).
pub(super) const NEEDS_AT: u64 = 56;

/// How many credit words of 64 bytes there are; see [`words_in_turn`](super::credits::words_in_turn).
pub(super) const CREDIT_WORDS: u64 = 4;

/// How many shared transfers of a pair and direction can be under way with the sender taking part.
pub(super) const SLOTS: u8 = 16;

const CREDITS_AT: u64 = HEADER as u64;
const CLAIMS_AT: u64 = CREDITS_AT + CREDIT_WORDS * LINE;
/// Where the two counts of [`lease`](super::lease) stand.
pub(super) const LEASES_AT: u64 = CLAIMS_AT + SLOTS as u64 * LINE;
const ENDS_AT: u64 = LEASES_AT + LINE;
const RINGS_AT: u64 = ENDS_AT + LINE;
const LINE: u64 = 64;

/// "svmio" and a version; the last byte of the header to be written.
const MAGIC: u64 = u64::from_le_bytes(*b"svmiomb\x05");

/// Parts for control packets: two per rendezvous on its way, and more wait at their sender.
const CONTROL_PACKETS: u32 = 32;

/// Sizes and numbers that the owner of an inbox decides and its peer learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a part.
    pub part: u32,
    /// Parts of the longest packet.
    pub packet_parts: u32,
    /// Parts of the ring of messages; a power of two.
    pub ring_parts: u32,
    /// Parts of the ring of control packets; a power of two.
    pub control_parts: u32,
    /// Bytes of the longest eager message.
    pub eager_buffer: u32,
    /// How many of them there is room for.
    pub eager_buffers: u32,
    /// Bytes of a slot of such messages.
    pub eager_slot: u32,
    /// Bytes of a staging buffer.
    pub staging_buffer: u32,
    /// How many there are.
    pub staging_buffers: u32,
    /// Whether the owner has a thread that an interrupt wakes.
    pub asynchronous: bool,
    /// How the owner can receive a rendezvous message.
    pub receives: Ways,
    /// Which of the owner's messengers on the port it belongs to, wrapping: the peer's of the same number writes there.
    pub messenger: u32,
}

impl Sizes {
    /// What `settings` ask for, on a fabric with these `capabilities`.
    pub(super) fn wanted(settings: &MessageSettings, capabilities: &Capabilities) -> Self {
        let transaction = capabilities.transaction_size;
        let eager_buffer = settings.eager_buffer.max(1);
        let eager_slot = slot_for(eager_buffer, capabilities);
        let packet = settings.short_packet.max(16);
        // A part longer than the packet would only waste memory.
        let part = (transaction.min(1 << 15) as u32).min(packet.next_power_of_two());
        let packet_parts = packet.div_ceil(part).max(packet_parts(CONTROL_PAYLOAD, part));
        let at_least = (2 * packet_parts).next_power_of_two();
        let control = packet_parts_of_control(part) * CONTROL_PACKETS;
        Self {
            part,
            packet_parts,
            ring_parts: settings.ring.div_ceil(part).min(1 << 24).next_power_of_two().max(at_least),
            control_parts: control.next_power_of_two(),
            eager_buffer,
            eager_buffers: settings.eager_buffers.clamp(1, Slots::most(eager_slot, eager_buffer)),
            eager_slot,
            staging_buffer: settings.staging_buffer.max(64),
            staging_buffers: settings.staging_buffers.clamp(1, 1 << 16),
            asynchronous: settings.asynchronous,
            receives: Ways::default(),
            messenger: 0,
        }
    }

    /// The next smaller ones; `None` when nothing can be halved any more.
    pub(super) fn halved(self) -> Option<Self> {
        let smallest_ring = (2 * self.packet_parts).next_power_of_two();
        let eager_buffer = (self.eager_buffer / 2).max(1024.min(self.eager_buffer));
        let halved = Self {
            ring_parts: (self.ring_parts / 2).max(smallest_ring),
            eager_buffers: (self.eager_buffers / 2).max(2.min(self.eager_buffers)),
            eager_buffer,
            eager_slot: self.eager_slot.min(eager_buffer.next_multiple_of(LINE as u32)),
            ..self
        };
        (halved != self).then_some(halved)
    }

    /// The same for the staging buffers.
    pub(super) fn staging_halved(self) -> Option<Self> {
        let halved = Self {
            staging_buffers: (self.staging_buffers / 2).max(2.min(self.staging_buffers)),
            staging_buffer: (self.staging_buffer / 2).max(4096.min(self.staging_buffer)),
            ..self
        };
        (halved != self).then_some(halved)
    }

    /// Bytes of the longest short message.
    pub(super) fn longest_short(&self) -> usize {
        self.packet_parts as usize * (self.part as usize - CLOSING)
    }

    /// The header, without the word that makes it valid.
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let words = [
            0,
            pair(self.part, self.packet_parts),
            pair(self.ring_parts, self.control_parts),
            pair(self.eager_buffer, self.eager_buffers),
            pair(self.staging_buffer, self.staging_buffers),
            pair(u32::from(self.asynchronous), self.eager_slot),
            u64::from(self.messenger) << 32 | self.receives.encode(),
            0,
        ];
        let mut bytes = [0; HEADER];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The word at the beginning that makes a header valid.
    #[must_use]
    pub fn magic() -> u64 {
        MAGIC
    }

    /// What a peer's header tells; `None` as long as it is not written yet. Never panics.
    ///
    /// # Errors
    /// What makes no sense.
    pub fn decode(header: &[u8; HEADER]) -> Result<Option<Self>, Malformed> {
        let mut words = [0; HEADER / 8];
        for (word, bytes) in words.iter_mut().zip(header.chunks_exact(8)) {
            *word = bytes.try_into().map_or(0, u64::from_le_bytes);
        }
        let halves = |word: u64| (word as u32, (word >> 32) as u32);
        let refuse = |field, value: u32| Err(Malformed::Header { field, value: u64::from(value) });
        match words[0] {
            0 => return Ok(None),
            MAGIC => {}
            value => return Err(Malformed::Header { field: "magic number", value }),
        }
        let (part, packet_parts) = halves(words[1]);
        let (ring_parts, control_parts) = halves(words[2]);
        let (eager_buffer, eager_buffers) = halves(words[3]);
        let (staging_buffer, staging_buffers) = halves(words[4]);
        if !part.is_power_of_two() || !(16..=1 << 15).contains(&part) {
            return refuse("length of a part", part);
        }
        if packet_parts < packet_parts_of_control(part) || packet_parts > 1 << 23 {
            return refuse("number of parts of a packet", packet_parts);
        }
        if !ring_parts.is_power_of_two() || ring_parts > 1 << 24 || ring_parts / 2 < packet_parts {
            return refuse("ring", ring_parts);
        }
        if !control_parts.is_power_of_two()
            || control_parts > 1 << 24
            || control_parts / 2 < packet_parts_of_control(part)
        {
            return refuse("ring of control packets", control_parts);
        }
        let (flags, eager_slot) = halves(words[5]);
        if !Slots::can_be(eager_slot, eager_buffer) {
            return refuse("slot of eager messages", eager_slot);
        }
        if eager_buffer == 0 || !(1..=Slots::most(eager_slot, eager_buffer)).contains(&eager_buffers) {
            return refuse("number of eager buffers", eager_buffers);
        }
        if staging_buffer == 0 || !(1..=1 << 16).contains(&staging_buffers) {
            return refuse("number of staging buffers", staging_buffers);
        }
        let asynchronous = match flags {
            0 => false,
            1 => true,
            _ => return refuse("flags", flags),
        };
        let (ways, messenger) = halves(words[6]);
        Ok(Some(Self {
            part,
            packet_parts,
            ring_parts,
            control_parts,
            eager_buffer,
            eager_buffers,
            eager_slot,
            staging_buffer,
            staging_buffers,
            asynchronous,
            receives: Ways::decode(u64::from(ways))
                .ok_or(Malformed::Header { field: "ways", value: u64::from(ways) })?,
            messenger,
        }))
    }
}

/// Parts of a packet with so much payload.
pub(super) fn packet_parts(payload: usize, part: u32) -> u32 {
    payload.div_ceil((part as usize).saturating_sub(CLOSING).max(1)).max(1) as u32
}

/// Parts of the longest control packet.
fn packet_parts_of_control(part: u32) -> u32 {
    packet_parts(CONTROL_PAYLOAD, part)
}

/// Where things lie in an inbox of given sizes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// The first part of the ring of messages.
    pub(super) ring: u64,
    /// The first part of the ring of control packets.
    pub(super) control: u64,
    /// The first slot.
    eager: u64,
    /// How eager messages take them.
    pub(super) slots: Slots,
    /// Bytes of the whole.
    pub(super) length: u64,
}

impl Layout {
    pub(super) fn of(sizes: &Sizes) -> Self {
        let part = u64::from(sizes.part);
        let ring = RINGS_AT.next_multiple_of(part);
        let control = ring + u64::from(sizes.ring_parts) * part;
        let eager = (control + u64::from(sizes.control_parts) * part).next_multiple_of(LINE);
        let slots = Slots::of(sizes.eager_slot, sizes.eager_buffers, sizes.eager_buffer);
        let length = (eager + slots.bytes()).next_multiple_of(LINE);
        Self { ring, control, eager, slots, length }
    }

    /// The first byte of a [slot](super::eager) of eager messages.
    pub(super) fn eager(&self, slot: u32) -> u64 {
        self.eager + self.slots.start_of(slot)
    }

    /// A credit word: 16 bytes.
    pub(super) fn credits(index: u64) -> u64 {
        CREDITS_AT + index * LINE
    }

    /// The word from which chunks of a shared transfer are claimed; the count of finished ones is behind it.
    pub(super) fn claims(slot: u8) -> u64 {
        CLAIMS_AT + u64::from(slot % SLOTS) * LINE
    }

    /// The word that tells the [end](super::ends) of a transfer to its sender, whose inbox it is.
    pub(super) fn end(transfer: u32) -> u64 {
        ENDS_AT + u64::from(transfer % ends::WORDS) * 8
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whatever_a_header_tells_has_a_layout() {
        let fabrics = crate::shm::within_process(1);
        let sizes = Sizes::wanted(&MessageSettings::default(), fabrics[0].capabilities());
        let slots = prop_oneof![0_u32..4, any::<u32>()];
        let buffer = prop_oneof![1_u32..100_000, u32::MAX / 2..=u32::MAX, any::<u32>()];
        let buffers = prop_oneof![1_u32..9, any::<u32>()];
        proptest!(|(slot in slots, buffer in buffer, buffers in buffers)| {
            let told = Sizes { eager_buffer: buffer, eager_buffers: buffers, eager_slot: slot, ..sizes };
            let mut header = told.encode();
            header[..8].copy_from_slice(&MAGIC.to_le_bytes());
            if let Ok(sizes) = Sizes::decode(&header) {
                prop_assert_eq!(sizes, Some(told));
                let layout = Layout::of(&told);
                let next = layout.slots.behind(0, 1);
                prop_assert!(layout.eager(next) + u64::from(buffer) <= layout.length);
            }
        });
    }
}
