//! What goes over control connections: frames, and the decoder of whatever comes.
//!
//! A frame is its length (4 bytes, little-endian, without these four), a byte that tells its kind, and the kind's
//! fields. The decoder takes any bytes: it returns a problem where they are no frame, and allocates nothing larger
//! than what has arrived.

use std::net::{IpAddr, SocketAddr};

use crate::units::Rank;

mod reader;
mod writer;

use reader::Reader;

/// Version of what is spoken on control connections. Processes of different versions do not start together.
pub const VERSION: u32 = 2;

/// The longest frame, in bytes, between processes that have not yet proved to belong to one job, and the longest of
/// all kinds but [`Frame::Table`].
pub const LARGEST: usize = 16 << 10;

/// The longest node name, in bytes.
pub const LARGEST_NODE: usize = 255;

/// The longest address of a back end, in bytes.
pub const LARGEST_ADDRESS: usize = 8 << 10;

/// The longest text of a reason, in bytes; longer ones are cut.
pub const LARGEST_TEXT: usize = 1 << 10;

/// The longest name of a fabric, in bytes.
pub const LARGEST_FABRIC: usize = 64;

/// The longest table of a job of `size`, in bytes.
#[must_use]
pub fn largest_table(size: u32) -> usize {
    LARGEST + size as usize * (LARGEST_NODE + LARGEST_ADDRESS + 32)
}

/// What both sides say first.
const MAGIC: [u8; 8] = *b"svmiojob";

/// 32 bytes that were never used before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nonce(pub [u8; 32]);

/// What only one who knows the job's secret can compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof(pub [u8; 32]);

/// One thing said on a control connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// The side that was called: prove that you know the secret.
    Challenge {
        /// To be proved with.
        nonce: Nonce,
    },
    /// The side that called, first: who it says it is. Nothing is granted for it; it is for people, should that side
    /// come no further.
    Knock {
        /// The caller.
        rank: Rank,
        /// Its process id.
        process: u32,
    },
    /// The side that called: who it is, and the proof.
    Hello {
        /// Who, and why.
        hello: Hello,
        /// For the other side's proof.
        nonce: Nonce,
        /// Over both nonces and `hello`.
        proof: Proof,
    },
    /// The proof is right, and here is ours.
    Welcome {
        /// Over both nonces.
        proof: Proof,
    },
    /// The proof is wrong, or the version.
    Refusal {
        /// What is wrong.
        problem: String,
    },
    /// Everybody's addresses, in the order of ranks: the job has started.
    Table(Vec<Entry>),
    /// The job does not start.
    Failed {
        /// Why.
        problem: String,
    },
    /// The sender lives.
    Heartbeat,
    /// A process is lost.
    Lost {
        /// Which.
        rank: Rank,
        /// How that was noticed.
        reason: String,
        /// Whether it had finished before.
        had_finished: bool,
    },
    /// A process needs the others no more.
    Finished {
        /// Which.
        rank: Rank,
    },
    /// The whole job ends.
    Ending {
        /// Who ended it.
        reason: String,
        /// By which signal.
        signal: Option<u8>,
    },
    /// The sender leads, and the receiver is one of those that it watches.
    Lead,
    /// The sender leaves before all have finished.
    Leave {
        /// Why.
        reason: String,
    },
    /// All have finished or are lost.
    Farewell,
    /// The receiver was declared lost.
    Expelled {
        /// How that was noticed.
        reason: String,
    },
    /// The sender takes the receiver, whom it followed, for lost.
    Abandoned {
        /// How that was noticed.
        reason: String,
    },
}

/// Who calls, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The caller.
    pub rank: Rank,
    /// How many processes it believes the job to have.
    pub size: u32,
    /// Why it calls.
    pub purpose: Purpose,
}

/// Why a process calls another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// It wants to be one of the job.
    Register(Registration),
    /// The process that led is lost: it wants to follow the one that it calls.
    Follow,
    /// It leads now, and wonders whether the one that it calls lives.
    Probe,
}

/// What a process tells of itself at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Its process id, for people.
    pub process: u32,
    /// Which fabric it was told to use.
    pub fabric: String,
    /// Where it is reached.
    pub entry: Entry,
    /// Why it cannot take part after all.
    pub problem: Option<String>,
}

/// Where a process is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its node.
    pub node: String,
    /// Where it listens for control connections.
    pub control: SocketAddr,
    /// Its back end's address.
    pub address: Vec<u8>,
}

/// Why bytes are no frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireProblem {
    /// The length is beyond what may come.
    #[error("a frame of {length} bytes, where {limit} are the most")]
    TooLong {
        /// What the frame says.
        length: usize,
        /// What is allowed.
        limit: usize,
    },
    /// No such kind.
    #[error("no frame has the kind {0}")]
    UnknownKind(u8),
    /// It ends before its fields do, or after.
    #[error("a frame whose length does not match its fields")]
    Length,
    /// Not what a process of svmio says first.
    #[error("not a control connection of svmio")]
    Magic,
    /// Another version of svmio.
    #[error(
        "it speaks version {0} of the control protocol, this process version {VERSION}: use the same svmio"
    )]
    Version(u32),
    /// A field that is none of the values it can have.
    #[error("a field {0} of a value that it cannot have")]
    Field(&'static str),
}

/// The first frame of `bytes` and how many bytes it took; `None` where it has not arrived whole.
///
/// # Errors
/// A [`WireProblem`]; nothing that follows can be understood then.
pub fn decode(bytes: &[u8], limit: usize) -> Result<Option<(Frame, usize)>, WireProblem> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > limit {
        return Err(WireProblem::TooLong { length, limit });
    }
    let Some(body) = rest.get(..length) else { return Ok(None) };
    let mut reader = Reader::new(body);
    let frame = read_frame(&mut reader)?;
    reader.end()?;
    Ok(Some((frame, 4 + length)))
}

fn read_frame(reader: &mut Reader<'_>) -> Result<Frame, WireProblem> {
    Ok(match reader.byte()? {
        0 => {
            read_opening(reader)?;
            Frame::Challenge { nonce: Nonce(reader.array()?) }
        }
        1 => {
            read_opening(reader)?;
            let nonce = Nonce(reader.array()?);
            let proof = Proof(reader.array()?);
            Frame::Hello { hello: read_hello(reader)?, nonce, proof }
        }
        2 => Frame::Welcome { proof: Proof(reader.array()?) },
        3 => Frame::Refusal { problem: reader.text(LARGEST_TEXT)? },
        4 => {
            let count = reader.word()? as usize;
            // Nothing is reserved by the count: it is only believed as far as entries follow.
            let mut entries = Vec::new();
            for _ in 0..count {
                entries.push(read_entry(reader)?);
            }
            Frame::Table(entries)
        }
        5 => Frame::Failed { problem: reader.text(LARGEST_TEXT)? },
        6 => Frame::Heartbeat,
        7 => Frame::Lost {
            rank: Rank(reader.word()?),
            had_finished: reader.flag()?,
            reason: reader.text(LARGEST_TEXT)?,
        },
        8 => Frame::Finished { rank: Rank(reader.word()?) },
        9 => {
            let signal = reader.byte()?;
            Frame::Ending { signal: (signal != 0).then_some(signal), reason: reader.text(LARGEST_TEXT)? }
        }
        10 => Frame::Lead,
        11 => Frame::Leave { reason: reader.text(LARGEST_TEXT)? },
        12 => Frame::Farewell,
        13 => Frame::Expelled { reason: reader.text(LARGEST_TEXT)? },
        14 => Frame::Abandoned { reason: reader.text(LARGEST_TEXT)? },
        15 => {
            read_opening(reader)?;
            Frame::Knock { rank: Rank(reader.word()?), process: reader.word()? }
        }
        kind => return Err(WireProblem::UnknownKind(kind)),
    })
}

fn read_opening(reader: &mut Reader<'_>) -> Result<(), WireProblem> {
    if reader.array::<8>()? != MAGIC {
        return Err(WireProblem::Magic);
    }
    match reader.word()? {
        VERSION => Ok(()),
        other => Err(WireProblem::Version(other)),
    }
}

fn read_hello(reader: &mut Reader<'_>) -> Result<Hello, WireProblem> {
    let rank = Rank(reader.word()?);
    let size = reader.word()?;
    let purpose = match reader.byte()? {
        0 => Purpose::Register(Registration {
            process: reader.word()?,
            fabric: reader.text(LARGEST_FABRIC)?,
            entry: read_entry(reader)?,
            problem: if reader.flag()? { Some(reader.text(LARGEST_TEXT)?) } else { None },
        }),
        1 => Purpose::Follow,
        2 => Purpose::Probe,
        _ => return Err(WireProblem::Field("purpose")),
    };
    Ok(Hello { rank, size, purpose })
}

fn read_entry(reader: &mut Reader<'_>) -> Result<Entry, WireProblem> {
    let node = reader.text(LARGEST_NODE)?;
    let ip = match reader.byte()? {
        4 => IpAddr::from(reader.array::<4>()?),
        6 => IpAddr::from(reader.array::<16>()?),
        _ => return Err(WireProblem::Field("address family")),
    };
    let control = SocketAddr::new(ip, reader.half()?);
    Ok(Entry { node, control, address: reader.bytes(LARGEST_ADDRESS)?.to_vec() })
}

#[cfg(test)]
mod tests;
