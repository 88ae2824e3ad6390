//! What is asked.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::accounting::Cost;
use crate::cluster::NodeIndex;
use crate::node::NodeName;
use crate::open_options::OpenOptions;
use crate::placement::SizeReason;
use crate::store::traces::Removal;
use crate::units::{FileId, SegmentIndex, SegmentSize};

use super::{FileTruth, Gone, LockNumber, PagePlace, Part, SegmentHome, Surrendered, Wish};

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
    /// Of the master: homes for segments that have none yet, and were counted by that size.
    Place { file: FileId, homes: Vec<SegmentHome>, segment_size: SegmentSize },
    /// Of the master: segments of so many bytes, if the file has none yet and is open only once.
    Choose { file: FileId, segment_size: SegmentSize, reason: SizeReason },
    /// Of the master: the file is at least that long.
    Grow { file: FileId, size: u64 },
    /// Of the master: what is new, to somebody who knows of so many segments.
    Refresh { file: FileId, segments: u64 },
    /// Bytes, which come with the answer.
    Read { file: FileId, parts: Vec<Part> },
    /// Bytes, which follow; whether they were in the cache of the asker's node.
    Write { file: FileId, parts: Vec<Part>, cached: bool },
    /// Pages of the asker's cache are to be filled: each page's part, and where in the asker's cache it goes.
    Fetch { file: FileId, pages: Vec<(Part, u64)> },
    /// Pages, for an asker into whose cache nobody can write: they come with the answer, one behind the other.
    Pages { file: FileId, pages: Vec<Part> },
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
    Adopt { truth: FileTruth, durable: bool },
    /// Of the master: the file's size is set.
    Resize { file: FileId, size: u64 },
    /// What lies beyond the size is given back.
    Punch { file: FileId, size: u64 },
    /// What the agent wrote for others is brought to the device.
    Sync { file: FileId },
    /// Of the master: a file is removed, on all nodes.
    Remove { name: Vec<u8> },
    /// A file's name is removed on a node; the file, too, unless it is still open. Where not all of its nodes are
    /// reached, this trace stays.
    Discard { name: Vec<u8>, file: FileId, is_open: bool, trace: Option<Removal> },
    /// Of a node that should have a file and has not: whether it was removed there, while others were out of reach.
    Missing { file: FileId },
    /// Of the master: all who opened a file together have closed it; or they give it up, since one of them could not
    /// attach it: then it goes, if their opening it has made it.
    Closed { file: FileId, is_given_up: bool },
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
    /// Of the node of a lost process: what that wrote under a lock on the range is to come home, before the lock goes
    /// on.
    BringHome { file: FileId, range: Range<u64> },
    /// Of a home: what that node has of the range in its cache would come home too late.
    Refuse { file: FileId, node: NodeIndex, range: Range<u64> },
    /// Of which ranges this home refuses what the asker's node has in its cache.
    Late { file: FileId },
    /// The asker's node has given up what it had of these: nothing of it comes any more.
    GaveUp { file: FileId, late: Vec<u64> },
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
    /// It asks for orders, after so many returns. Answered when there are some.
    Attend { file: FileId, mapping: u32, returns: u64 },
    /// It has done what it was ordered to, by its `number`th return, from 1 on. Answered at once, when what it stored
    /// is at home.
    Return { file: FileId, mapping: u32, number: u64, pages: Vec<Surrendered> },
    /// It brings pages home that nobody has asked for. Of what it keeps, it keeps the right to store, too; the others
    /// are copies for loads until they go.
    Surrender { file: FileId, mapping: u32, pages: Vec<Surrendered> },
    /// It has no page any more, and wants none.
    Withdraw { file: FileId, mapping: u32 },
    /// What files have cost the asker, for the sum over all ranks.
    Note { cost: Cost },
}

/// The kinds of requests, in the order of [`Request::kind`].
pub(in crate::cluster) const KINDS: [&str; 44] = [
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
    "missing",
    "bringhome",
    "return",
    "refuse",
    "late",
    "gaveup",
    "pages",
];

impl Request {
    /// Which of [`KINDS`] it is.
    pub(in crate::cluster) fn kind(&self) -> usize {
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
            Request::Missing { .. } => 37,
            Request::BringHome { .. } => 38,
            Request::Return { .. } => 39,
            Request::Refuse { .. } => 40,
            Request::Late { .. } => 41,
            Request::GaveUp { .. } => 42,
            Request::Pages { .. } => 43,
        }
    }
}
