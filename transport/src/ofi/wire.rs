//! What the processes of a job say to each other: messages of a header and a body, all numbers little-endian.
//!
//! ```text
//!   0      2         3      4        8          16       24        32
//!   magic  version   kind   sender   job's tag  number   applied   body …
//! ```
//!
//! *Numbered* messages change the receiver's memory or state without an answer of their own: they carry 1, 2, 3 … per
//! pair, so that a missing one is noticed. In the others, `number` is that of the last numbered one before. `applied`
//! is up to which number the sender has applied the messages of the receiver, with none missing: the receiver of that
//! needs no other answer.

mod kinds;
mod numbers;

use self::kinds::*;
pub(super) use self::numbers::Cursor;
use self::numbers::Writer;
pub use super::address::ProcessAddress;
use crate::units::{Interrupt, Rank, SegmentId};

/// Bytes of a header.
pub const HEADER: usize = 32;

/// Bytes before the pieces of a write: header and key.
pub const WRITE_HEADER: usize = HEADER + 8;

/// Bytes of an interrupt's number.
pub const INTERRUPT: usize = 4;

/// Bytes before the contents of a piece.
pub const PIECE_HEADER: usize = 12;

/// The most bytes that are read by a message: what every receiver takes.
pub const LONGEST_READ: usize = 256;

pub(super) const MAGIC: [u8; 2] = *b"sv";
pub(super) const VERSION: u8 = 7;

/// What every message begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Who sent it.
    pub sender: Rank,
    /// What only processes of the job know.
    pub tag: u64,
    /// The message's number, or that of the last numbered one.
    pub number: u64,
    /// Up to which number the sender has applied the receiver's messages.
    pub applied: u64,
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// A remote write; numbered.
    Write {
        /// What is triggered after it.
        interrupt: Option<Interrupt>,
        /// Which registered memory.
        key: u64,
        /// What goes where.
        pieces: Pieces<'a>,
    },
    /// Triggers an interrupt; numbered.
    Trigger(Interrupt),
    /// The receiver's waiters should look again; numbered.
    Ring,
    /// Asks up to where the receiver has applied the sender's messages.
    Barrier,
    /// The answer to that.
    Applied {
        /// The number that the question had, or a later one.
        number: u64,
        /// How many messages of the receiver of this were missed or refused so far.
        refused: u64,
    },
    /// Asks for a segment.
    Connect {
        /// Which question this is.
        ticket: u64,
        /// Which segment.
        id: SegmentId,
    },
    /// The segment is there.
    Connected {
        /// Of the question.
        ticket: u64,
        /// Its registration's key.
        key: u64,
        /// Where it begins, as its registration counts.
        base: u64,
        /// Bytes.
        length: u64,
    },
    /// Adds to a word.
    Add {
        /// Which question this is.
        ticket: u64,
        /// Which registered memory.
        key: u64,
        /// Where, as its registration counts.
        place: u64,
        /// How much.
        amount: u64,
    },
    /// Sets a word if it is what is expected.
    Swap {
        /// Which question this is.
        ticket: u64,
        /// Which registered memory.
        key: u64,
        /// Where, as its registration counts.
        place: u64,
        /// What it must be.
        expected: u64,
        /// What it becomes.
        new: u64,
    },
    /// What the word was, or what the respondent answers.
    Was {
        /// Of the question.
        ticket: u64,
        /// The word.
        value: u64,
    },
    /// Asks for bytes, at most [`LONGEST_READ`].
    Read {
        /// Which question this is.
        ticket: u64,
        /// Which registered memory.
        key: u64,
        /// Where, as its registration counts.
        place: u64,
        /// How many.
        length: u64,
    },
    /// The bytes.
    Bytes {
        /// Of the question.
        ticket: u64,
        /// What was there.
        bytes: &'a [u8],
    },
    /// There is no such segment, memory or word, or no respondent.
    Refused {
        /// Of the question.
        ticket: u64,
    },
    /// Asks to begin nothing more with registered memory, which is taken back.
    Stop {
        /// Of which memory of the sender.
        key: u64,
    },
    /// The answer to that, behind all that was begun.
    Stopped {
        /// Of which memory of the receiver.
        key: u64,
    },
    /// A message between both did not arrive: the sender takes the receiver for lost.
    Parted,
    /// Asks the respondent.
    Inquire {
        /// Which question this is.
        ticket: u64,
        /// What it says.
        question: [u64; 2],
    },
}

/// The pieces of a write; they were checked when the message was decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pieces<'a>(&'a [u8]);

impl<'a> Iterator for Pieces<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let mut cursor = Cursor(self.0);
        let offset = cursor.word64()?;
        let length = cursor.word32()?;
        let bytes = cursor.bytes(length as usize)?;
        self.0 = cursor.0;
        Some((offset, bytes))
    }
}

impl Message<'_> {
    /// Whether it carries a number of its own.
    #[must_use]
    pub fn is_numbered(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Trigger(_) | Self::Ring)
    }

    /// Bytes of header and body.
    #[must_use]
    pub fn length(&self) -> usize {
        HEADER
            + match self {
                Self::Write { interrupt, pieces, .. } => {
                    interrupt.map_or(0, |_| INTERRUPT) + 8 + pieces.0.len()
                }
                Self::Ring | Self::Barrier | Self::Parted => 0,
                Self::Trigger(_) => INTERRUPT,
                Self::Refused { .. } | Self::Stop { .. } | Self::Stopped { .. } => 8,
                Self::Applied { .. } | Self::Was { .. } | Self::Connect { .. } => 16,
                Self::Inquire { .. } => 24,
                Self::Connected { .. } | Self::Add { .. } | Self::Read { .. } => 32,
                Self::Bytes { bytes, .. } => 8 + bytes.len(),
                Self::Swap { .. } => 40,
            }
    }

    /// Writes header and body into `into`, which has [`length`](Self::length) bytes.
    pub fn encode(&self, header: &Header, into: &mut [u8]) {
        let mut out = Writer { into, at: 0 };
        out.header(header, self.kind());
        match *self {
            Self::Write { interrupt, key, pieces } => {
                out.interrupt(interrupt);
                out.words(&[key]);
                out.bytes(pieces.0);
            }
            Self::Trigger(interrupt) => out.interrupt(Some(interrupt)),
            Self::Ring | Self::Barrier | Self::Parted => {}
            Self::Applied { number, refused } => out.words(&[number, refused]),
            Self::Connect { ticket, id } => {
                out.words(&[ticket]);
                out.bytes(&id.space.to_le_bytes());
                out.bytes(&id.number.to_le_bytes());
            }
            Self::Connected { ticket, key, base, length } => out.words(&[ticket, key, base, length]),
            Self::Add { ticket, key, place, amount } => out.words(&[ticket, key, place, amount]),
            Self::Swap { ticket, key, place, expected, new } => {
                out.words(&[ticket, key, place, expected, new]);
            }
            Self::Was { ticket, value } => out.words(&[ticket, value]),
            Self::Read { ticket, key, place, length } => out.words(&[ticket, key, place, length]),
            Self::Bytes { ticket, bytes } => {
                out.words(&[ticket]);
                out.bytes(bytes);
            }
            Self::Refused { ticket } => out.words(&[ticket]),
            Self::Inquire { ticket, question: [first, second] } => out.words(&[ticket, first, second]),
            Self::Stop { key } | Self::Stopped { key } => out.words(&[key]),
        }
    }
}

/// From how many bytes on a write of one piece that triggers nothing is silent: the receiver's waiters are not woken by
/// it. A stream of such writes would wake them each time for nothing, and whoever sends it tells of its end: by another
/// message, or by ringing. Where there are several pieces, the last may be what the others are waited for by.
const SILENT: usize = 16 << 10;

/// Whether a message of `length` bytes that [triggers](Message::Write) `interrupt` is silent, if it is a write of so
/// many `pieces`.
#[must_use]
pub fn is_silent_write(length: usize, pieces: usize, interrupt: Option<Interrupt>) -> bool {
    length >= SILENT && pieces == 1 && interrupt.is_none()
}

/// Whether what came is a silent write.
#[must_use]
pub fn is_silent(bytes: &[u8]) -> bool {
    is_silent_write(bytes.len(), 1, None) && bytes.get(3) == Some(&WRITE) && has_one_piece(bytes)
}

/// Whether the first piece of what is a write reaches to its end.
fn has_one_piece(bytes: &[u8]) -> bool {
    let begin = bytes.get(WRITE_HEADER + 8..).and_then(|rest| Cursor(rest).word32());
    begin.is_some_and(|length| WRITE_HEADER + PIECE_HEADER + length as usize == bytes.len())
}

/// Writes a whole write message: header, interrupt if any, key, pieces. `into` has exactly the length that
/// [`WRITE_HEADER`], [`INTERRUPT`] if there is one, [`PIECE_HEADER`] and the pieces make.
pub fn encode_write<'a>(
    header: &Header,
    interrupt: Option<Interrupt>,
    key: u64,
    pieces: impl IntoIterator<Item = (u64, &'a [u8])>,
    into: &mut [u8],
) {
    let mut out = Writer { into, at: 0 };
    out.header(header, kind_of_write(interrupt));
    out.interrupt(interrupt);
    out.words(&[key]);
    for (offset, bytes) in pieces {
        out.words(&[offset]);
        out.bytes(&(bytes.len() as u32).to_le_bytes());
        out.bytes(bytes);
    }
}

/// What came is no message of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It ends too early, or goes on after its end.
    #[error("its length is wrong")]
    Length,
    /// It begins otherwise, or is of another version.
    #[error("it is no message of svmio's version {VERSION}")]
    Foreign,
    /// Its kind is none of those known.
    #[error("its kind is not known")]
    Kind,
}

/// Reads a message.
///
/// # Errors
/// Where it is none.
pub fn decode(bytes: &[u8]) -> Result<(Header, Message<'_>), Malformed> {
    let mut cursor = Cursor(bytes);
    let (header, kind) = header(&mut cursor)?;
    let message = body(kind, &mut cursor)?;
    if !cursor.0.is_empty() {
        return Err(Malformed::Length);
    }
    Ok((header, message))
}

/// The header of a message of which perhaps only the beginning is there.
#[must_use]
pub fn decode_header(bytes: &[u8]) -> Option<Header> {
    header(&mut Cursor(bytes)).ok().map(|(header, _)| header)
}

fn header(cursor: &mut Cursor<'_>) -> Result<(Header, u8), Malformed> {
    let [magic @ .., version, kind] = cursor.array::<4>().ok_or(Malformed::Length)?;
    if magic != MAGIC || version != VERSION {
        return Err(Malformed::Foreign);
    }
    let sender = Rank(cursor.word32().ok_or(Malformed::Length)?);
    let [tag, number, applied] = cursor.words().ok_or(Malformed::Length)?;
    Ok((Header { sender, tag, number, applied }, kind))
}

fn body<'a>(kind: u8, cursor: &mut Cursor<'a>) -> Result<Message<'a>, Malformed> {
    let message = match kind {
        WRITE | WRITE_AND_TRIGGER => {
            let interrupt = match kind {
                WRITE => None,
                _ => Some(Interrupt(cursor.word32().ok_or(Malformed::Length)?)),
            };
            let key = cursor.word64();
            let pieces = Pieces(std::mem::take(&mut cursor.0));
            let mut rest = pieces;
            while rest.next().is_some() {}
            if !rest.0.is_empty() {
                return Err(Malformed::Length);
            }
            key.map(|key| Message::Write { interrupt, key, pieces })
        }
        TRIGGER => cursor.word32().map(|number| Message::Trigger(Interrupt(number))),
        RING => Some(Message::Ring),
        BARRIER => Some(Message::Barrier),
        APPLIED => cursor.words().map(|[number, refused]| Message::Applied { number, refused }),
        CONNECT => cursor.word64().and_then(|ticket| {
            let id = SegmentId::new(cursor.word32()?, cursor.word32()?);
            Some(Message::Connect { ticket, id })
        }),
        CONNECTED => {
            cursor.words().map(|[ticket, key, base, length]| Message::Connected { ticket, key, base, length })
        }
        ADD => cursor.words().map(|[ticket, key, place, amount]| Message::Add { ticket, key, place, amount }),
        SWAP => cursor.words().map(|[ticket, key, place, expected, new]| Message::Swap {
            ticket,
            key,
            place,
            expected,
            new,
        }),
        WAS => cursor.words().map(|[ticket, value]| Message::Was { ticket, value }),
        REFUSED => cursor.word64().map(|ticket| Message::Refused { ticket }),
        STOP => cursor.word64().map(|key| Message::Stop { key }),
        STOPPED => cursor.word64().map(|key| Message::Stopped { key }),
        PARTED => Some(Message::Parted),
        INQUIRE => cursor
            .words()
            .map(|[ticket, first, second]| Message::Inquire { ticket, question: [first, second] }),
        READ => {
            cursor.words().map(|[ticket, key, place, length]| Message::Read { ticket, key, place, length })
        }
        BYTES => {
            cursor.word64().map(|ticket| Message::Bytes { ticket, bytes: std::mem::take(&mut cursor.0) })
        }
        _ => return Err(Malformed::Kind),
    };
    message.ok_or(Malformed::Length)
}

#[cfg(test)]
mod tests;
