//! What is written into a peer's memory: closing words, packets, the inbox's header. Nothing here panics, whatever
//! the bytes are.
//!
//! A *part* is as long as a transaction of the fabric; its payload lies right before the closing word, so that both
//! leave as one write however short the payload is:
//!
//! ```text
//!   │ unused │ payload │ kind, more follows, payload length: u32 │ packet id: u32 │
//! ```

mod closing;
mod ways;

pub use closing::{CLOSING, Closing};
pub use ways::{Way, Ways};

use crate::back_end::MemoryKey;

/// The longest packet that is not a message itself.
pub const CONTROL_PAYLOAD: usize = 40;

/// Beside the ways of a request: its sender has left it.
const LEFT: u32 = 1 << 31;

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A short message: the payload is the message.
    Short = 1,
    /// A message lies in slots for eager ones.
    Eager,
    /// A message wants to come by rendezvous.
    Request,
    /// The receiver wants it now.
    Ready,
    /// A part of it lies in a staging buffer.
    Part,
    /// The sender has done all that it had to do.
    Done,
    /// The receiver has all that it wants.
    Taken,
    /// The sender wants to keep it, if it is not too late.
    Withdraw,
    /// The sender has closed its messenger.
    Closed,
    /// The sender has given up its messages with the receiver.
    GivenUp,
}

impl Kind {
    fn decode(code: u32) -> Result<Self, Malformed> {
        const KINDS: [Kind; 10] = [
            Kind::Short,
            Kind::Eager,
            Kind::Request,
            Kind::Ready,
            Kind::Part,
            Kind::Done,
            Kind::Taken,
            Kind::Withdraw,
            Kind::Closed,
            Kind::GivenUp,
        ];
        KINDS.into_iter().find(|kind| *kind as u32 == code).ok_or(Malformed::Kind { code })
    }

    /// Whether it stands in the order of messages.
    #[must_use]
    pub fn begins_message(self) -> bool {
        matches!(self, Self::Short | Self::Eager | Self::Request)
    }
}

/// What is wrong with what came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// There is no such kind of packet.
    #[error("a packet of kind {code}")]
    Kind {
        /// What stands there.
        code: u32,
    },
    /// Bits that are zero are not.
    #[error("a closing word with unknown bits {bits:#x}")]
    Bits {
        /// Which.
        bits: u32,
    },
    /// More payload than a part holds.
    #[error("a part with {length} bytes of payload, where {most} fit")]
    PartLength {
        /// What it claims.
        length: usize,
        /// What is possible.
        most: usize,
    },
    /// More parts than a packet has.
    #[error("a packet of more than {most} parts")]
    Parts {
        /// How many there may be.
        most: u32,
    },
    /// Parts of different kinds in one packet.
    #[error("a packet that changes from {first:?} to {then:?}")]
    Mixed {
        /// What it began as.
        first: Kind,
        /// What follows.
        then: Kind,
    },
    /// A payload of the wrong length.
    #[error("{kind:?} with {length} bytes of payload")]
    Payload {
        /// Of which packet.
        kind: Kind,
        /// What came.
        length: usize,
    },
    /// A field that has no meaning.
    #[error("{kind:?} with the {field} {value}")]
    Field {
        /// Of which packet.
        kind: Kind,
        /// Which.
        field: &'static str,
        /// What stands there.
        value: u64,
    },
    /// A packet where none of its kind can come.
    #[error("{kind:?} out of place")]
    OutOfPlace {
        /// Which.
        kind: Kind,
    },
    /// An inbox's header that makes no sense.
    #[error("an inbox whose {field} is {value}")]
    Header {
        /// Which field.
        field: &'static str,
        /// What stands there.
        value: u64,
    },
}

/// How a receiver ended a rendezvous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Ended {
    /// It has the message, or as much as it wanted of it.
    Received = 0,
    /// None of the ways that the sender offered is open.
    NoWay = 1,
    /// The sender withdrew the message before a receive met it.
    Withdrawn = 2,
}

/// A packet other than a short message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet {
    /// A message of `length` bytes lies where slot `slot` of the eager ones begins.
    Eager {
        /// Its bytes.
        length: u32,
        /// Which.
        slot: u32,
    },
    /// A message of `length` bytes wants to come.
    Request {
        /// The sender's number for it.
        transfer: u32,
        /// Its bytes.
        length: u64,
        /// How it could come.
        offers: Ways,
        /// Whether the sender's program neither waits nor asks for its end, so that the sender's service thread has to
        /// hear of all that concerns it.
        is_left: bool,
        /// Where it lies, if shared copying is offered.
        key: MemoryKey,
    },
    /// The receiver wants it.
    Ready {
        /// The sender's number for it.
        transfer: u32,
        /// How it is to come.
        way: Way,
        /// Which pair of words tells who copies what, if shared.
        slot: u8,
        /// Bytes that are claimed at a time, if shared.
        chunk: u64,
        /// Where it goes, unless it is staged at the receiver.
        key: MemoryKey,
    },
    /// Bytes lie in staging buffer `buffer`.
    Part {
        /// The sender's number for the message.
        transfer: u32,
        /// Which buffer.
        buffer: u32,
        /// Where in the message they belong.
        offset: u64,
        /// How many there are.
        length: u64,
    },
    /// The sender has done all that it had to do, and touches nothing of the receiver any more.
    Done {
        /// The sender's number for the message.
        transfer: u32,
    },
    /// The receiver has all that it wants.
    Taken {
        /// The sender's number for the message.
        transfer: u32,
        /// What came of it.
        ended: Ended,
    },
    /// The sender wants to keep the message, unless a receive has met it.
    Withdraw {
        /// The sender's number for the message.
        transfer: u32,
    },
    /// The sender has closed its messenger: nothing follows, and nothing is wanted any more.
    Closed,
    /// The sender has given up its messages with the receiver, because of what went wrong with them: what was under way
    /// does not end, nothing follows, and nothing is wanted any more.
    GivenUp,
}

impl Packet {
    /// What it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Eager { .. } => Kind::Eager,
            Self::Request { .. } => Kind::Request,
            Self::Ready { .. } => Kind::Ready,
            Self::Part { .. } => Kind::Part,
            Self::Done { .. } => Kind::Done,
            Self::Taken { .. } => Kind::Taken,
            Self::Withdraw { .. } => Kind::Withdraw,
            Self::Closed => Kind::Closed,
            Self::GivenUp => Kind::GivenUp,
        }
    }

    /// Its payload: words of eight bytes, and how many of the bytes count.
    #[must_use]
    pub fn encode(&self) -> ([u8; CONTROL_PAYLOAD], usize) {
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let (words, count) = match *self {
            Self::Eager { length, slot } => ([pair(length, slot), 0, 0, 0, 0], 1),
            Self::Request { transfer, length, offers, is_left, key: MemoryKey([a, b, c]) } => {
                let how = offers.encode() as u32 | if is_left { LEFT } else { 0 };
                ([pair(transfer, how), length, a, b, c], 5)
            }
            Self::Ready { transfer, way, slot, chunk, key: MemoryKey([a, b, c]) } => {
                ([pair(transfer, way as u32 | u32::from(slot) << 8), chunk, a, b, c], 5)
            }
            Self::Part { transfer, buffer, offset, length } => {
                ([pair(transfer, buffer), offset, length, 0, 0], 3)
            }
            Self::Done { transfer } | Self::Withdraw { transfer } => ([pair(transfer, 0), 0, 0, 0, 0], 1),
            Self::Closed | Self::GivenUp => ([0; 5], 1),
            Self::Taken { transfer, ended } => ([pair(transfer, ended as u32), 0, 0, 0, 0], 1),
        };
        let mut bytes = [0; CONTROL_PAYLOAD];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        (bytes, count * 8)
    }

    /// # Errors
    /// What is wrong with `payload` as a packet of `kind`.
    pub fn decode(kind: Kind, payload: &[u8]) -> Result<Self, Malformed> {
        let words = |count: usize| -> Result<[u64; 5], Malformed> {
            if payload.len() != count * 8 {
                return Err(Malformed::Payload { kind, length: payload.len() });
            }
            let mut words = [0; 5];
            for (word, bytes) in words.iter_mut().zip(payload.chunks_exact(8)) {
                *word = bytes.try_into().map_or(0, u64::from_le_bytes);
            }
            Ok(words)
        };
        let halves = |word: u64| (word as u32, (word >> 32) as u32);
        let field = |field, value: u32| Malformed::Field { kind, field, value: u64::from(value) };
        match kind {
            Kind::Short => Err(Malformed::OutOfPlace { kind }),
            Kind::Eager => {
                let (length, slot) = halves(words(1)?[0]);
                Ok(Self::Eager { length, slot })
            }
            Kind::Request => {
                let [first, length, a, b, c] = words(5)?;
                let (transfer, how) = halves(first);
                let (offers, is_left) = (how & !LEFT, how & LEFT != 0);
                let offers = Ways::decode(u64::from(offers)).ok_or(field("offers", offers))?;
                Ok(Self::Request { transfer, length, offers, is_left, key: MemoryKey([a, b, c]) })
            }
            Kind::Ready => {
                let [first, chunk, a, b, c] = words(5)?;
                let (transfer, how) = halves(first);
                let way = Way::BEST_FIRST.into_iter().find(|way| *way as u32 == how & 0xff);
                let way = way.ok_or(field("way", how & 0xff))?;
                let slot = u8::try_from(how >> 8).map_err(|_| field("slot", how >> 8))?;
                Ok(Self::Ready { transfer, way, slot, chunk, key: MemoryKey([a, b, c]) })
            }
            Kind::Part => {
                let [first, offset, length, ..] = words(3)?;
                let (transfer, buffer) = halves(first);
                Ok(Self::Part { transfer, buffer, offset, length })
            }
            Kind::Done | Kind::Withdraw => {
                let (transfer, rest) = halves(words(1)?[0]);
                if rest != 0 {
                    return Err(field("rest", rest));
                }
                Ok(if kind == Kind::Done { Self::Done { transfer } } else { Self::Withdraw { transfer } })
            }
            Kind::Closed | Kind::GivenUp => match words(1)?[0] {
                0 if kind == Kind::Closed => Ok(Self::Closed),
                0 => Ok(Self::GivenUp),
                value => Err(Malformed::Field { kind, field: "rest", value }),
            },
            Kind::Taken => {
                let (transfer, how) = halves(words(1)?[0]);
                let ended = match how {
                    0 => Ended::Received,
                    1 => Ended::NoWay,
                    2 => Ended::Withdrawn,
                    _ => return Err(field("end", how)),
                };
                Ok(Self::Taken { transfer, ended })
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
