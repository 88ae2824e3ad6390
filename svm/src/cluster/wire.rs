//! What processes ask of agents, and what these answer.
//!
//! A request is its number (64 bits, little-endian) and a [`Request`]; an answer is the number of the request and a
//! [`Reply`]. Both are in postcard's encoding. Bytes that are read or written follow behind.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::accounting::Cost;
use crate::blocks::Blocks;
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::node::NodeName;
use crate::open_options::OpenOptions;
use crate::placement::SizeReason;
use crate::units::{FileId, SegmentIndex, SegmentSize};

use super::NodeIndex;

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

/// A page that processes have mapped strictly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct PagePlace {
    pub(crate) segment: SegmentIndex,
    /// From the segment's beginning, bytes.
    pub(crate) within: u64,
}

/// What a mapping wants of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wish {
    pub(crate) page: PagePlace,
    /// To store into it.
    pub(crate) is_exclusive: bool,
    /// It has a copy for loads.
    pub(crate) has_copy: bool,
    /// Tells what is granted from what the mapping was granted before of the page.
    pub(crate) ticket: u64,
}

/// A copy for loads that a mapping has no more, and by which wish it had got it.
pub(crate) type Gone = (PagePlace, u64);

/// What a mapping has to do with its copy of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) page: PagePlace,
    /// By which wish it got the copy.
    pub(crate) ticket: u64,
    /// It may keep it for loads.
    pub(crate) keeps: bool,
}

/// A page that a mapping brings home. The bytes that were stored there follow behind, in the order of the parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Surrendered {
    pub(crate) page: PagePlace,
    /// It keeps its copy.
    pub(crate) keeps: bool,
    pub(crate) changes: Vec<Part>,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Of rank 0: the cluster's number. Of the own node's leader: where the cache is; the store has to be the same.
    Join { node: NodeName, store: ([u8; 16], u64, u64) },
    /// Of the master: opens or makes a file, for ranks of `nodes`.
    Open { name: Vec<u8>, options: OpenOptions, nodes: Vec<NodeIndex> },
    /// What a node knows of a name.
    Find { name: Vec<u8> },
    /// Of a node that may have kept a file which the cluster had open: it serves it again, if that is as it was when
    /// all nodes committed the manifest of `epoch`.
    Reopen { name: Vec<u8>, file: FileId, epoch: u64 },
    /// Makes a file known on a node.
    Install { truth: FileTruth },
    /// Of the master: homes for segments that have none yet.
    Place { file: FileId, homes: Vec<SegmentHome> },
    /// Of the master: segments of so many bytes, if the file has none yet and is open only once.
    Choose { file: FileId, segment_size: SegmentSize, reason: SizeReason },
    /// Of the master: the file is at least that long.
    Grow { file: FileId, size: u64 },
    /// Of the master: what is new, to somebody who knows of so many segments.
    Refresh { file: FileId, segments: u64 },
    /// Bytes, which come with the answer.
    Read { file: FileId, parts: Vec<Part> },
    /// Bytes, which follow.
    Write { file: FileId, parts: Vec<Part> },
    /// Pages of the asker's cache are to be filled: each page's part, and where in the asker's cache it goes.
    Fetch { file: FileId, pages: Vec<(Part, u64)> },
    /// The versions of segments, as far as the asker's node did not change them itself.
    Versions { file: FileId, segments: Vec<SegmentIndex> },
    /// By what the asker can read a segment by itself.
    Show { file: FileId, segment: SegmentIndex },
    /// Bytes, which follow, of pages that the asker has mapped.
    Merge { file: FileId, parts: Vec<Part> },
    /// How often segments were changed, by whomever.
    Changes { file: FileId, segments: Vec<SegmentIndex> },
    /// Gives a part storage, so that it can be written directly; or for its own sake.
    Reserve { file: FileId, part: (SegmentIndex, Range<u64>), export: bool },
    /// Segments that the asker wrote to directly.
    Wrote { file: FileId, segments: Vec<SegmentIndex> },
    /// Of the master: the manifest is written, on all nodes; before that, if so asked, what agents wrote for others is
    /// brought to the devices.
    Commit { file: FileId, durable: bool, data: bool },
    /// The manifest is put in place.
    Adopt { manifest: Vec<u8>, durable: bool, also_locked_at_master: bool },
    /// Of the master: the file's size is set.
    Resize { file: FileId, size: u64 },
    /// What lies beyond the size is given back.
    Punch { file: FileId, size: u64 },
    /// What the agent wrote for others is brought to the device.
    Sync { file: FileId },
    /// Of the master: a file is removed, on all nodes.
    Remove { name: Vec<u8> },
    /// A file's name is removed on a node; the file, too, unless it is still open.
    Discard { name: Vec<u8>, file: FileId, is_open: bool },
    /// Of the master: all who opened a file together have closed it.
    Closed { file: FileId },
    /// Nobody has a file open any more.
    Forget { file: FileId },
    /// A range of the file is locked as far as this node is the home of its segments; the asker's node has a place to
    /// keep it, if it may.
    Lock { file: FileId, range: Range<u64>, thread: u32, exclusive: bool, place: Option<u32> },
    /// A lock is given back, or a process of this node waits no more.
    Unlock { file: FileId, lock: LockNumber },
    /// Of a node that keeps a lock in that place: it is to give it back.
    GiveBack { file: FileId, lock: LockNumber, place: u32 },
    /// Of a process's own node: other nodes are to give back what is in the way of a lock that it is about to wait for.
    AskBack { file: FileId, range: Range<u64>, exclusive: bool },
    /// One of the asker's strict mappings wants a page of `length` bytes. Answered when it can have it. Copies for
    /// loads that went to make room are told along with it.
    Acquire { file: FileId, mapping: u32, length: u32, wish: Wish, gone: Vec<Gone> },
    /// It would like copies for loads of pages of `length` bytes, as far as nobody may store into them, or waits for
    /// them. Answered at once.
    AcquireAhead {
        file: FileId,
        mapping: u32,
        length: u32,
        pages: Vec<PagePlace>,
        ticket: u64,
        gone: Vec<Gone>,
    },
    /// It has done what it was ordered to. Answered when there are new orders.
    Attend { file: FileId, mapping: u32, obeyed: Vec<Surrendered> },
    /// It brings pages home that nobody has asked for. Of what it keeps, it keeps the right to store, too; the others
    /// are copies for loads until they go.
    Surrender { file: FileId, mapping: u32, pages: Vec<Surrendered> },
    /// It has no page any more, and wants none.
    Withdraw { file: FileId, mapping: u32 },
    /// What files have cost the asker, for the sum over all ranks.
    Note { cost: Cost },
}

/// The kinds of requests, in the order of [`Request::kind`].
pub(super) const KINDS: [&str; 37] = [
    "join",
    "open",
    "find",
    "install",
    "place",
    "choose",
    "grow",
    "refresh",
    "read",
    "write",
    "fetch",
    "versions",
    "reserve",
    "wrote",
    "commit",
    "adopt",
    "resize",
    "punch",
    "sync",
    "remove",
    "discard",
    "closed",
    "forget",
    "lock",
    "unlock",
    "giveback",
    "askback",
    "merge",
    "changes",
    "acquire",
    "attend",
    "surrender",
    "withdraw",
    "acquireahead",
    "reopen",
    "note",
    "show",
];

impl Request {
    /// Which of [`KINDS`] it is.
    pub(super) fn kind(&self) -> usize {
        match self {
            Request::Join { .. } => 0,
            Request::Open { .. } => 1,
            Request::Find { .. } => 2,
            Request::Install { .. } => 3,
            Request::Place { .. } => 4,
            Request::Choose { .. } => 5,
            Request::Grow { .. } => 6,
            Request::Refresh { .. } => 7,
            Request::Read { .. } => 8,
            Request::Write { .. } => 9,
            Request::Fetch { .. } => 10,
            Request::Versions { .. } => 11,
            Request::Reserve { .. } => 12,
            Request::Wrote { .. } => 13,
            Request::Commit { .. } => 14,
            Request::Adopt { .. } => 15,
            Request::Resize { .. } => 16,
            Request::Punch { .. } => 17,
            Request::Sync { .. } => 18,
            Request::Remove { .. } => 19,
            Request::Discard { .. } => 20,
            Request::Closed { .. } => 21,
            Request::Forget { .. } => 22,
            Request::Lock { .. } => 23,
            Request::Unlock { .. } => 24,
            Request::GiveBack { .. } => 25,
            Request::AskBack { .. } => 26,
            Request::Merge { .. } => 27,
            Request::Changes { .. } => 28,
            Request::Acquire { .. } => 29,
            Request::Attend { .. } => 30,
            Request::Surrender { .. } => 31,
            Request::Withdraw { .. } => 32,
            Request::AcquireAhead { .. } => 33,
            Request::Reopen { .. } => 34,
            Request::Note { .. } => 35,
            Request::Show { .. } => 36,
        }
    }
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
    /// Locked, and whether the asker's node is to keep it.
    Locked {
        lock: LockNumber,
        is_kept: bool,
    },
    /// How many times it was of use.
    GivenBack {
        uses: u64,
    },
    /// Under which number of the windows' space the segment is exported, if it is.
    Reserved {
        window: Option<u32>,
    },
    /// The page may be used as wished; its bytes follow, unless the asker has them.
    Granted {
        has_bytes: bool,
    },
    Orders(Vec<Order>),
    /// Which of the pages are granted, whose bytes follow.
    GrantedAhead(Vec<bool>),
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
            let request = Request::Write { file, parts: parts.into_iter().map(part).collect() };
            let bytes = encode(number, &request, &data);
            prop_assert_eq!(decode::<Request>(&bytes), Some((number, request, &data[..])));
            for cut in 0..bytes.len() - data.len() {
                prop_assert_eq!(decode::<Request>(&bytes[..cut]), None);
            }
        }
    }
}
