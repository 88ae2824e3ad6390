//! What processes ask of agents, and what these answer.
//!
//! A request is its number (64 bits, little-endian) and a [`Request`]; an answer is the number of the request and a
//! [`Reply`]. Both are in postcard's encoding. Bytes that are read or written follow behind.

mod request;
mod strict_page;

use serde::{Deserialize, Serialize};

use crate::blocks::Blocks;
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::node::NodeName;
use crate::store::traces::Removal;
use crate::units::{SegmentIndex, SegmentSize};

pub(super) use request::KINDS;
pub(crate) use request::Request;
pub(crate) use strict_page::{Gone, Order, PagePlace, Surrendered, Wish};

/// The longest message: a piece of data of [`LONGEST_DATA`] bytes, or the description of a file of a million segments
/// on ever other nodes. Buffers of that length are memory only as far as they were used.
pub(super) const LONGEST: usize = LONGEST_DATA + LONGEST_HEADER;
/// The most bytes of data in a message. A megabyte takes a network of a gigabit 8 ms, beside which a round trip is
/// nothing, and it bounds what an agent keeps in memory per message.
pub(super) const LONGEST_DATA: usize = 1 << 20;
const LONGEST_HEADER: usize = 96 << 20;

/// The space in which agents export segments for others to write into.
pub(super) const WINDOWS_SPACE: u32 = 0x7376_6d77;

/// The space in which agents export the versions of segments for others to read.
pub(super) const VERSIONS_SPACE: u32 = 0x7376_6d76;

/// Where bytes lie within a file: blocks at equal distances in one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) segment: SegmentIndex,
    /// From the segment's beginning, bytes.
    pub(crate) within: u64,
    /// Bytes of a block.
    pub(crate) length: u32,
    /// From one block to the next, bytes; of no meaning where there is only one.
    pub(crate) stride: u32,
    /// How many blocks there are.
    pub(crate) count: u32,
}

impl Part {
    /// A single block.
    pub(crate) fn one(segment: SegmentIndex, within: u64, length: u32) -> Part {
        Part { segment, within, length, stride: 0, count: 1 }
    }

    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.length) * u64::from(self.count)
    }

    /// The blocks, counted from the segment's beginning; `None` where they do not lie within its `size` bytes.
    pub(crate) fn blocks(&self, size: u64) -> Option<Blocks> {
        let (length, stride, count) = (self.length.into(), self.stride.into(), self.count.into());
        let blocks = Blocks { start: self.within, length, stride, count };
        // Products of two numbers of 32 bits, and less than twice as much: no overflow but in `start`.
        let all = u64::from(self.stride) * u64::from(self.count.checked_sub(1)?) + length;
        (length > 0 && self.within.checked_add(all)? <= size).then_some(blocks)
    }
}

/// A segment and its home, as a position in the file's list of nodes.
pub(crate) type SegmentHome = (SegmentIndex, u32);

/// A file as bytes: its manifest, packed, how often it was made shorter, and whether ranges of it are locked at the
/// master, too, whatever homes their segments have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileTruth {
    pub(crate) manifest: Vec<u8>,
    pub(crate) truncations: u64,
    pub(crate) also_locked_at_master: bool,
}

/// What a node has of a file that the cluster had open before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kept {
    /// All as it was: it serves the file again.
    AsItWas,
    /// It has nothing of that name.
    Nothing,
    /// Something else, or it does not know.
    Changed,
}

/// By what a process reads a segment without its home's agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shown {
    /// The segment's file, as a path of its home.
    pub(crate) path: Vec<u8>,
    /// How the asker knows that what it finds there is that file: under which run of a kernel it is on which device,
    /// and its number there.
    pub(crate) identity: FileIdentity,
    /// In which of the versions' space its version is, and where in it, bytes.
    pub(crate) version: (u32, u64),
}

/// A file among all of one run of a kernel: that one, the device, the number on the device.
pub(crate) type FileIdentity = ([u8; 16], u64, u64);

/// Which lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct LockNumber(pub(crate) u64);

/// A range of which a home refuses what a node has in its cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LateRange {
    /// Among all of the file that the home has refused.
    pub(crate) number: u64,
    pub(crate) range: std::ops::Range<u64>,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Reply {
    Failed {
        kind: ErrorKind,
        message: String,
    },
    Done,
    Joined {
        cluster: u64,
    },
    Welcome {
        process: u32,
        descriptor: i32,
        cluster: u64,
    },
    Opened {
        truth: FileTruth,
    },
    Found(Option<Finding>),
    /// There is something of that name, of which other nodes have to tell what it is; what keeps this one from it.
    FoundUnwritten(String),
    /// What was known of the file, where it was removed.
    Removed(Option<Removal>),
    Reopened(Kept),
    Homes {
        homes: Vec<SegmentHome>,
        also_locked_at_master: bool,
    },
    Size(u64),
    News {
        size: u64,
        truncations: u64,
        homes: Option<Vec<SegmentHome>>,
        also_locked_at_master: bool,
    },
    Data,
    Fetched {
        versions: Vec<u64>,
    },
    Versions(Vec<u64>),
    Shown(Option<Shown>),
    /// Each of the segments, and how often it was changed, this change, which made it one more, included.
    Merged(Vec<(SegmentIndex, u64)>),
    /// Locked, whether the asker's node is to keep it, and whether the home refuses some of what that has there in its
    /// cache.
    Locked {
        lock: LockNumber,
        is_kept: bool,
        has_late: bool,
    },
    /// Nothing was written: the home refuses some of it.
    TooLate,
    Late(Vec<LateRange>),
    /// How many times it was of use.
    GivenBack {
        uses: u64,
    },
    /// Under which number of the windows' space the segment is exported, if it is; otherwise, whether it will be when
    /// more of it has storage.
    Reserved {
        window: Option<u32>,
        may_come: bool,
    },
    /// The page may be used as wished; its bytes follow, unless the asker has them.
    Granted {
        has_bytes: bool,
    },
    Orders(Vec<Order>),
    /// What was stored into pages that were ordered home is there; why some of it could not be stored, and is lost.
    Returned {
        loss: Option<(ErrorKind, String)>,
    },
    /// Which of the pages are granted, whose bytes follow.
    GrantedAhead(Vec<bool>),
    /// No segment has got a home: segments are of that size, and not of the asker's, or another one is being settled.
    OtherSize(Option<SegmentSize>),
}

/// A request or an answer with its number, as bytes.
pub(super) fn encode<T: Serialize>(number: u64, what: &T, data: &[u8]) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes = postcard::to_extend(what, bytes).expect("writing to memory does not fail");
    bytes.extend_from_slice(data);
    bytes
}

/// The number, what it is, and the data behind it; `None` where the bytes make no sense.
pub(super) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<(u64, T, &'a [u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    let (what, data) = postcard::take_from_bytes(rest).ok()?;
    Some((u64::from_le_bytes(*number), what, data))
}

impl Reply {
    pub(super) fn of_error(error: &Error) -> Reply {
        Reply::Failed { kind: error.kind(), message: error.to_string() }
    }

    /// The reply, or the error that it tells of `node`.
    pub(super) fn into_result(self, node: &NodeName) -> Result<Reply> {
        match self {
            Reply::Failed { kind, message } => Err(Error::OnNode { node: node.clone(), kind, message }),
            reply => Ok(reply),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::FileId;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<Request>(&bytes);
            let _ = decode::<Reply>(&bytes);
        }

        #[test]
        fn what_is_encoded_is_decoded(
            number in any::<u64>(),
            parts in prop::collection::vec((any::<u32>(), any::<u64>(), any::<[u32; 3]>()), 0..20),
            data in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let part = |(segment, within, numbers): (u32, u64, [u32; 3])| {
                let [length, stride, count] = numbers;
                let part = Part { segment: SegmentIndex(segment), within, length, stride, count };
                // Whatever comes, the blocks lie within the segment.
                assert!(part.blocks(1 << 30).is_none_or(|blocks| blocks.end() <= 1 << 30));
                part
            };
            let file = FileId::from_bytes([7; 16]);
            let request = Request::Write { file, parts: parts.into_iter().map(part).collect(), cached: true };
            let bytes = encode(number, &request, &data);
            prop_assert_eq!(decode::<Request>(&bytes), Some((number, request, &data[..])));
            for cut in 0..bytes.len() - data.len() {
                prop_assert_eq!(decode::<Request>(&bytes[..cut]), None);
            }
        }
    }
}
