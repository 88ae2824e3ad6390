//! What can go wrong with a file, each with the names that a person needs and the way out.

mod kind;
mod making;
mod unsynced;

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use crate::locks::LockError;
use crate::node::NodeName;
use crate::units::{FileOffset, SegmentIndex, SegmentSize};

pub use kind::ErrorKind;
pub use unsynced::Unsynced;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a store or of a file in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name is not one that a file can have.
    #[error("'{name}' cannot name a file: {reason}")]
    BadName {
        /// The name as it was given.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A name, or a part of it, is longer than the store's file system allows.
    #[error("name too long for the store {}: each part may have 255 bytes, all together 4,095: {name}", store.display())]
    NameTooLong {
        /// The file.
        name: String,
        /// The store's directory.
        store: PathBuf,
    },
    /// No file has this name.
    #[error(
        "no file {name} in {} (svmio ls shows what is there; other nodes are asked by SVMIO_SERVERS in jobs, by --hosts or --store in svmio)",
        the_stores(stores)
    )]
    NoSuchFile {
        /// The file.
        name: String,
        /// The directory of the store, or of each of several.
        stores: Vec<PathBuf>,
    },
    /// Exclusive creation found the name taken.
    #[error("the file {name} exists already in the store {}", store.display())]
    Exists {
        /// The file.
        name: String,
        /// The store's directory.
        store: PathBuf,
    },
    /// A part of the path is a file, or the whole path is a directory.
    #[error("{name} in the store {}: {reason}", store.display())]
    NotAFile {
        /// The file.
        name: String,
        /// The store's directory.
        store: PathBuf,
        /// Which of the two it is.
        reason: &'static str,
    },
    /// The operating system refuses access.
    #[error("{subject}: permission denied (check the owner and mode of {}, or choose another store with SVMIO_STORE)", path.display())]
    Access {
        /// What was attempted.
        subject: String,
        /// The path that was refused.
        path: PathBuf,
    },
    /// A change was asked of something that can only be read.
    #[error("{subject}: {} can only be read (mount it for writing, or choose another store with SVMIO_STORE)", path.display())]
    ReadOnly {
        /// What was attempted.
        subject: String,
        /// The path that cannot be changed.
        path: PathBuf,
    },
    /// The file was opened for reading only, or for writing only.
    #[error("the file {name} was not opened for {what}")]
    NotOpenedFor {
        /// The file.
        name: String,
        /// "reading" or "writing".
        what: &'static str,
    },
    /// The store's file system is full.
    #[error("{subject}: no space left in {} (remove files with svmio rm, or choose a larger store with SVMIO_STORE)", path.display())]
    NoSpace {
        /// What was attempted.
        subject: String,
        /// Where the space ran out.
        path: PathBuf,
    },
    /// The user's quota on the store's file system is used up.
    #[error("{subject}: disk quota exceeded in {} (remove files with svmio rm, or choose another store with SVMIO_STORE)", path.display())]
    Quota {
        /// What was attempted.
        subject: String,
        /// Where the quota ended.
        path: PathBuf,
    },
    /// This process, or all together, have as many files open as they may.
    #[error("{subject}: {}: too many open files ({way_out})", path.display())]
    TooManyFiles {
        /// What was attempted.
        subject: String,
        /// The path that could not be opened.
        path: PathBuf,
        /// How there can be more, or fewer do.
        way_out: &'static str,
    },
    /// The file would need more segments than its table can hold.
    #[error(
        "offset {offset} of {name} lies beyond what segments of {segment_size} bytes can hold ({limit} bytes); create the file with a larger svm_segment_size"
    )]
    TooLarge {
        /// The file.
        name: String,
        /// Where the access ends, bytes.
        offset: FileOffset,
        /// The file's segment size.
        segment_size: SegmentSize,
        /// The largest size of this file, bytes.
        limit: u64,
    },
    /// The manifest cannot be trusted.
    #[error("the manifest {} of {name} is damaged: {reason} (svmio verify shows what is left; restore the file from a copy)", path.display())]
    CorruptManifest {
        /// The file.
        name: String,
        /// The manifest.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// A name or a manifest has no content: it was made, and its node went down before it was on the storage device.
    #[error("{}, by which {name} is found, is empty: its node went down before it was on the storage device (where other nodes have the file, a job of all that opens it writes it again, and so does svmio verify with the stores of all; otherwise remove it: svmio rm {name})", path.display())]
    Unwritten {
        /// The file.
        name: String,
        /// What is empty.
        path: PathBuf,
    },
    /// The manifest or the store was written by a newer release.
    #[error("{subject}: {} has format version {found}, this release of svmio reads up to {supported}: use the newer release", path.display())]
    NewerFormat {
        /// What was attempted.
        subject: String,
        /// The file that carries the version.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this release knows.
        supported: u32,
    },
    /// A manifest says something that only a newer release writes.
    #[error("{subject}: {} has the {field} {word:?}, which this release of svmio does not know: it was written by a later version: use the newer release", path.display())]
    NewerWord {
        /// What was attempted.
        subject: String,
        /// The manifest.
        path: PathBuf,
        /// Of what it is said.
        field: &'static str,
        /// What is said.
        word: String,
    },
    /// Processes have the file open whose memory this one does not share.
    #[error("{name} is open on another node, or its shared state {} was damaged while it is open; a store belongs to one node: set SVMIO_STORE to a directory of this node's own", path.display())]
    InUseElsewhere {
        /// The file.
        name: String,
        /// Its directory in the store.
        path: PathBuf,
    },
    /// A segment that the manifest lists is not there.
    #[error("segment {segment} of {name} is missing: {} (the file's bytes from {offset} on are lost unless that segment is put back)", path.display())]
    MissingSegment {
        /// The file.
        name: String,
        /// The segment.
        segment: SegmentIndex,
        /// Where its bytes begin in the file.
        offset: FileOffset,
        /// Where it should be.
        path: PathBuf,
    },
    /// A segment has the wrong length.
    #[error("segment {segment} of {name} has {found} bytes instead of {expected}: {} was changed by something other than svmio", path.display())]
    DamagedSegment {
        /// The file.
        name: String,
        /// The segment.
        segment: SegmentIndex,
        /// Its length, bytes.
        found: u64,
        /// The length that it should have, bytes.
        expected: u64,
        /// Where it is.
        path: PathBuf,
    },
    /// The directory is not a store, or not one that may be trusted.
    #[error("{} is no svmio store: {reason}", path.display())]
    NotAStore {
        /// The directory.
        path: PathBuf,
        /// Why it is none.
        reason: String,
    },
    /// Parts of a file lie on nodes that take no part in this job.
    #[error(
        "{name}: {parts} not served by any process of this job; run on these nodes, too, name their hosts by SVMIO_SERVERS to read the file, or copy it (svmio cp --hosts)"
    )]
    NodesMissing {
        /// The file.
        name: String,
        /// Which segments lie on which nodes, for people: "segments 3 to 7 lie on node b, which is".
        parts: String,
    },
    /// A file, or a part of it, is not in this job and was not had from hosts beside it either.
    #[error("{here}; {there}")]
    NotStaged {
        /// What kind of error it is.
        kind: ErrorKind,
        /// What the job lacks.
        here: String,
        /// What became of asking hosts for it, with their names.
        there: String,
    },
    /// No node that could be asked has a file of that name, and others are lost.
    #[error(
        "{name}: no node that is left has it, and node {nodes} cannot be asked any more: run again with it, or without it \
         from the beginning"
    )]
    NodesUnasked {
        /// The file.
        name: String,
        /// Which nodes are lost, for people.
        nodes: String,
    },
    /// Parts of a file lie on nodes whose stores were not given.
    #[error(
        "{name}: {parts} not among the nodes whose stores were given: give the stores of all (--store DIR, once for each, or --hosts)"
    )]
    StoresMissing {
        /// The file.
        name: String,
        /// Which segments lie on which nodes, for people: "segments 3 to 7 lie on node b, which is".
        parts: String,
    },
    /// Two stores are of one node.
    #[error(
        "{} and {} are both stores of node {node}, and a node has one: give one of them", one.display(), other.display()
    )]
    TwoStores {
        /// The node.
        node: NodeName,
        /// One store.
        one: PathBuf,
        /// The other one.
        other: PathBuf,
    },
    /// Something went wrong on another host, or on the way there.
    #[error("on host {host}: {message}")]
    OnHost {
        /// The host.
        host: String,
        /// What kind of error it is.
        kind: ErrorKind,
        /// The error there.
        message: String,
    },
    /// What answers for a store on another host does so no more.
    #[error(
        "on host {host}: {reason} (see that the host is up, and that svmio starts there: svmio ls --hosts {host})"
    )]
    HostLost {
        /// The host.
        host: String,
        /// How that was noticed, and what was said there last.
        reason: String,
    },
    /// A new file could not be given its name everywhere, and could not be taken back everywhere either.
    #[error(
        "{source}; what had got the name {name} may have kept it in {places}: {}",
        if *replacing {
            "svmio verify with the stores of all brings the older file back".to_owned()
        } else {
            format!("remove it there (svmio rm -f {name})")
        }
    )]
    LeftBehind {
        /// The file.
        name: String,
        /// The stores, with `,` between them.
        places: String,
        /// It was to take the place of an older one.
        replacing: bool,
        /// Why it could not be named.
        source: Box<Error>,
    },
    /// A file is set aside while another one is taking its place, or since that was killed.
    #[error(
        "{name} is just being replaced in {}, or was when svmio cp was killed: then svmio verify, with the stores of all that it copied to, brings the older file back or removes it", store.display()
    )]
    BeingReplaced {
        /// The file.
        name: String,
        /// The store.
        store: PathBuf,
    },
    /// A node was named whose store was not given.
    #[error(
        "none of the given stores is that of node {node}, they are those of {given}: give it, too (--store DIR, or its host with --hosts)"
    )]
    NodeNotGiven {
        /// The node.
        node: NodeName,
        /// The nodes whose stores were given, with `,` between them.
        given: String,
    },
    /// Two nodes have different files of one name.
    #[error(
        "{name} is one file on node {one} and another one on node {other}: remove one of them there (svmio rm {name})"
    )]
    TwoFiles {
        /// The name.
        name: String,
        /// A node.
        one: NodeName,
        /// A node that has another file of that name.
        other: NodeName,
    },
    /// A file of several nodes was to be changed on this one alone.
    #[error(
        "{subject}: {name} is a file of several nodes, of which this one would change its own part only: copy it \
         (svmio cp), and remove it (svmio rm), with the stores of all"
    )]
    SharedByNodes {
        /// What was attempted.
        subject: String,
        /// The file.
        name: String,
    },
    /// The file is open in a job whose processes this one does not work with.
    #[error(
        "{name} is open in another job of this node (or in this job, over a communicator that does not reach the same nodes): close it there first, or open it first over a communicator that has all ranks"
    )]
    OpenInAnotherJob {
        /// The file.
        name: String,
    },
    /// Another node could not do what was asked of it.
    #[error("on node {node}: {message}")]
    OnNode {
        /// The node.
        node: NodeName,
        /// What kind of error it is.
        kind: ErrorKind,
        /// The error there.
        message: String,
    },
    /// What this node wrote under a lock did not reach its home before the lock went on, and was given up: it would
    /// have come home over what the next holder wrote.
    #[error(
        "{name}: bytes that this node wrote under a lock did not reach their home before others got the lock, and are lost ({}): write them again",
        kind.reason()
    )]
    WritesLost {
        /// The file.
        name: String,
        /// What kind of error kept them from their home.
        kind: ErrorKind,
    },
    /// The storage device did not take what was written.
    #[error(transparent)]
    Unsynced(#[from] Unsynced),
    /// Two nodes have filled one file independently of each other.
    #[error(
        "segment {segment} of {name} lies on node {one} and another one on node {other}: each was written by a job in which the other node took no part; keep one: copy the file from the store of one node alone (svmio cp), then remove it from that store alone (svmio rm)"
    )]
    TwoHomes {
        /// The file.
        name: String,
        /// The first segment that lies on both.
        segment: SegmentIndex,
        /// A node that holds it.
        one: NodeName,
        /// Another one that holds it.
        other: NodeName,
    },
    /// A process asks for too much at a time.
    #[error(
        "rank {rank} waits for {most} locks already, which is as many as node {node} lets one process wait for: have fewer threads access locked files at a time"
    )]
    TooManyWaiting {
        /// The process.
        rank: u32,
        /// The most that it may wait for.
        most: usize,
        /// The node whose agent says so.
        node: NodeName,
    },
    /// A process of the job cannot be reached, or what it says makes no sense.
    #[error("{subject}: {source}")]
    Fabric {
        /// What was attempted.
        subject: String,
        /// What the fabric says; a lost process is named by rank and node.
        source: svmio_transport::Error,
    },
    /// What went wrong for one of the processes that have a file open together, told to all of them.
    #[error("{message}")]
    OfMember {
        /// What kind of error it is.
        kind: ErrorKind,
        /// The error there, with the number of the process.
        message: String,
    },
    /// Processes that have a file open together cannot tell each other anything.
    #[error("the processes that have a file open cannot come to an agreement: {problem}")]
    Disunited {
        /// What keeps them from it; a lost process is named by rank and node.
        problem: String,
    },
    /// The same of one file, as one of them tells it.
    #[error("rank {member}: {name}: the processes that have it open cannot come to an agreement: {problem}")]
    DisunitedOver {
        /// The number of the process that tells it.
        member: usize,
        /// The file.
        name: String,
        /// What keeps them from it; a lost process is named by rank and node.
        problem: String,
    },
    /// Nodes and stores of processes that have a file open together do not fit together.
    #[error("ranks {first} and {second} {problem}")]
    Misfit {
        /// The number of a process.
        first: usize,
        /// That of another one, whose node or store does not fit.
        second: usize,
        /// How, and the way out.
        problem: &'static str,
    },
    /// What the user has set makes no sense.
    #[error("svmio's settings cannot be used: {problem}")]
    Settings {
        /// Which one, and what would be right.
        problem: String,
    },
    /// This process may not serve page faults.
    #[error(
        "mapping {name} on node {node}: page faults cannot be served by this process ({source}). It takes Linux 5.7 or later and one of: read and write permission for /dev/userfaultfd, the sysctl vm.unprivileged_userfaultfd set to 1, or the capability SYS_PTRACE; without, read_at and write_at reach the same bytes"
    )]
    FaultsRefused {
        /// The file.
        name: String,
        /// This node.
        node: NodeName,
        /// What the operating system says.
        source: io::Error,
    },
    /// A range of a file that cannot be mapped, or that is not mapped.
    #[error("bytes {} to {} of {name}: {reason}", range.start, range.end)]
    BadRange {
        /// The file.
        name: String,
        /// What was asked for.
        range: Range<FileOffset>,
        /// What is wrong with it.
        reason: String,
    },
    /// Those who have mapped a file together could not meet.
    #[error("meeting the others who have mapped {name}: {source}")]
    Meeting {
        /// The file.
        name: String,
        /// What the barrier says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A lock could not be had.
    #[error("locking {name}: {source}")]
    Lock {
        /// The file.
        name: String,
        /// What went wrong.
        source: LockError,
    },
    /// Any other error of the operating system.
    #[error("{subject}: {}: {source}", path.display())]
    Io {
        /// What was attempted.
        subject: String,
        /// The path concerned.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

fn the_stores(stores: &[PathBuf]) -> String {
    let paths: Vec<_> = stores.iter().map(|store| store.display().to_string()).collect();
    let noun = if paths.len() == 1 { "store" } else { "stores" };
    format!("the {noun} {}", paths.join(", "))
}
