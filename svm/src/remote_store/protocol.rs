//! What is asked of a store on another host, and what is answered.
//!
//! Whoever serves begins with a [greeting](super::greeting), which names the version. Everything else is messages (see
//! [`frame`]): a value, and the bytes that were read or are to be written, if any. Each question has one answer;
//! [`Message::Write`] has none, and [`Step::Written`] asks what became of them all.

mod at_most;
mod frame;

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::finding::Survived;
use crate::name::{DirectoryName, FileName};
use crate::node::NodeName;
use crate::placement::Policies;
use crate::state::MAX_SEGMENTS;
use crate::store::Entry;
use crate::store::aside::{Over, Recorded, Stays};
use crate::store::traces::{Removal, Trace};
use crate::stored_file::{Piece, Whereabouts};
use crate::units::{FileId, FileOffset, SegmentIndex, SegmentSize};

pub(super) use at_most::AtMost;
pub(super) use frame::{LONGEST_DATA, receive, send, take};

/// The most segments that one question names; who has more to name asks several times.
pub(super) const MOST_SEGMENTS: usize = 1 << 16;

/// The most nodes that share a file.
pub(super) const MOST_NODES: usize = 1 << 16;

/// The most entries of a directory.
const MOST_ENTRIES: usize = 1 << 22;

/// The longest path that the kernel takes, bytes.
const LONGEST_PATH: usize = 4096;

/// A path, or a name within a store.
pub(super) type PathBytes = AtMost<LONGEST_PATH, u8>;

/// A manifest as it lies in a store.
pub(super) type ManifestBytes = AtMost<{ frame::LONGEST_VALUE }, u8>;

/// How [`Error::NotAFile`] says that something is a directory.
const IS_DIRECTORY: &str = "it is a directory";

/// Who serves.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) node: NodeName,
    pub(super) path: PathBytes,
}

/// Which file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PartOf {
    id: FileId,
    name: PathBytes,
    segment_size: SegmentSize,
}

/// What goes to a store.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    Ask(Question),
    /// Puts the bytes behind this at `offset` of a file that is being made. It has no answer.
    Write {
        file: FileId,
        offset: u64,
    },
}

/// What has an answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question {
    List {
        name: PathBytes,
    },
    Lookup {
        name: PathBytes,
    },
    /// A file is removed, with this trace where not all of its nodes are reached.
    Remove {
        name: PathBytes,
        trace: Option<Removal>,
    },
    Look {
        file: FileId,
        name: PathBytes,
    },
    Read {
        of: PartOf,
        piece: Piece,
    },
    NextData {
        of: PartOf,
        piece: Piece,
    },
    Stored {
        of: PartOf,
        segments: AtMost<MOST_SEGMENTS, SegmentIndex>,
    },
    Check {
        of: PartOf,
        segments: AtMost<MOST_SEGMENTS, SegmentIndex>,
    },
    IsZero {
        of: PartOf,
        piece: Piece,
    },
    LookOver {
        name: PathBytes,
    },
    Repair {
        own: Option<ManifestBytes>,
        newest: ManifestBytes,
    },
    EnterName {
        name: PathBytes,
        file: FileId,
    },
    Reclaim,
    /// What is set aside there.
    Asides,
    /// What is set aside for the file `new` is restored or released.
    SettleAside {
        new: FileId,
        stays: Stays,
    },
    /// Which files were removed there without all of their nodes.
    Traces,
    /// What is left of a file is removed, which was removed on other nodes; with a trace as above.
    RemoveLeftover {
        name: PathBytes,
        file: FileId,
        trace: Option<Removal>,
    },
    /// About the file that is being made under this identity.
    Make(FileId, Step),
}

/// What is done to a part of a new file, in this order. The part goes when the questions end before it is confirmed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Step {
    /// It is made, without a name yet, as that of a file that `nodes` share.
    Create {
        name: PathBytes,
        segment_size: SegmentSize,
        policies: Policies,
        nodes: AtMost<MOST_NODES, NodeName>,
    },
    /// No part is made: an older file is to lose its name.
    Absent { name: PathBytes },
    /// Whether all that was [written](Message::Write) has arrived.
    Written,
    /// Where segments lie: positions among its nodes.
    Enter { homes: AtMost<MOST_SEGMENTS, (SegmentIndex, u32)> },
    /// It gets this size, bytes, and is brought to the storage device.
    Settle { size: u64 },
    /// It gets its name. If it is put over something, a file that has the name is set aside.
    Name { over: Option<PutOver> },
    /// It stays, unless it is taken back. What is set aside is left as it is when the questions end.
    Confirm,
    /// What is set aside goes: it is confirmed everywhere.
    Release,
    /// It is removed, whatever it has got so far; what is set aside has its name again.
    TakeBack { name: PathBytes },
}

/// What a file is put over: the file that has its name, if any, the nodes that have parts of the new one, and those that
/// have none and lose the name.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PutOver {
    older: Option<FileId>,
    nodes: AtMost<MOST_NODES, NodeName>,
    cleared: AtMost<MOST_NODES, NodeName>,
}

/// What is set aside: for which file, under which name, and whether somebody is about it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SetAside {
    name: PathBytes,
    new: FileId,
    over: PutOver,
    in_use: bool,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Answer {
    Done,
    /// Names as bytes, of files with their identities, if they have any; of directories without.
    Entries(AtMost<MOST_ENTRIES, (PathBytes, Option<Option<FileId>>)>),
    Id(FileId),
    /// The manifest there, and what the shared state tells.
    Known(Option<(ManifestBytes, Option<Remembered>)>),
    /// The bytes follow.
    Bytes,
    Range(Option<Range<u64>>),
    Counts(AtMost<MOST_SEGMENTS, u64>),
    IsSo(bool),
    Paths(AtMost<MOST_ENTRIES, PathBytes>),
    /// A manifest stays for the sake of this segment.
    Against(PathBytes),
    /// What is set aside, and records of it that cannot be read.
    Asides(AtMost<MOST_ENTRIES, SetAside>, AtMost<MOST_ENTRIES, PathBytes>),
    Traces(AtMost<MOST_ENTRIES, Trace>),
}

/// What a shared state tells: the size, and the segments that lie on the node that tells it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Remembered {
    size: u64,
    own: AtMost<{ MAX_SEGMENTS as usize }, SegmentIndex>,
}

/// An error: as itself where somebody acts on it, otherwise as what it says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    NoSuchFile { name: String, stores: AtMost<MOST_ENTRIES, PathBytes> },
    Exists { name: String, store: PathBytes },
    NotAFile { name: String, store: PathBytes, is_directory: bool },
    OpenInAnotherJob { name: String },
    CorruptManifest { name: String, path: PathBytes, reason: String },
    Unwritten { name: String, path: PathBytes },
    Other { kind: ErrorKind, message: String },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::NoSuchFile { name, stores } => {
                let stores = AtMost(stores.iter().map(|store| bytes_of(store)).collect());
                Failure::NoSuchFile { name, stores }
            }
            Error::Exists { name, store } => Failure::Exists { name, store: bytes_of(&store) },
            Error::NotAFile { name, store, reason } => {
                let is_directory = reason == IS_DIRECTORY;
                Failure::NotAFile { name, store: bytes_of(&store), is_directory }
            }
            Error::OpenInAnotherJob { name } => Failure::OpenInAnotherJob { name },
            Error::CorruptManifest { name, path, reason } => {
                Failure::CorruptManifest { name, path: bytes_of(&path), reason }
            }
            Error::Unwritten { name, path } => Failure::Unwritten { name, path: bytes_of(&path) },
            error => Failure::Other { kind: error.kind(), message: error.to_string() },
        }
    }
}

impl Failure {
    /// For a question that no svmio of this version asks.
    pub(super) fn senseless(what: &str) -> Failure {
        let message = format!("the question is about {what}: use the same svmio on all hosts");
        Failure::Other { kind: ErrorKind::Other, message }
    }

    /// The error, which tells of `host`.
    pub(super) fn into_error(self, host: &str) -> Error {
        let on_host = |path: PathBytes| path_on(host, &path_of(path));
        match self {
            Failure::NoSuchFile { name, stores } => {
                Error::NoSuchFile { name, stores: stores.0.into_iter().map(on_host).collect() }
            }
            Failure::Exists { name, store } => Error::Exists { name, store: on_host(store) },
            Failure::NotAFile { name, store, is_directory } => {
                let reason = if is_directory { IS_DIRECTORY } else { "it, or a part of its path, is a file" };
                Error::NotAFile { name, store: on_host(store), reason }
            }
            Failure::OpenInAnotherJob { name } => Error::OpenInAnotherJob { name },
            Failure::CorruptManifest { name, path, reason } => {
                Error::CorruptManifest { name, path: on_host(path), reason }
            }
            Failure::Unwritten { name, path } => Error::Unwritten { name, path: on_host(path) },
            Failure::Other { kind, message } => Error::OnHost { host: host.into(), kind, message },
        }
    }
}

impl PutOver {
    pub(super) fn new(over: &Over) -> PutOver {
        let Over { older, nodes, cleared } = over.clone();
        PutOver { older, nodes: AtMost(nodes), cleared: AtMost(cleared) }
    }

    pub(super) fn over(self) -> Over {
        Over { older: self.older, nodes: self.nodes.0, cleared: self.cleared.0 }
    }
}

impl SetAside {
    pub(super) fn new(recorded: &Recorded) -> SetAside {
        let Recorded { name, new, over, in_use } = recorded;
        let (name, over) = (bytes_of(name.as_path()), PutOver::new(over));
        SetAside { name, new: *new, over, in_use: *in_use }
    }

    pub(super) fn recorded(self) -> Result<Recorded> {
        let SetAside { name, new, over, in_use } = self;
        Ok(Recorded { name: file_name(&name)?, new, over: over.over(), in_use })
    }
}

impl PartOf {
    pub(super) fn new(of: &Whereabouts) -> PartOf {
        PartOf { id: of.id, name: bytes_of(of.name.as_path()), segment_size: of.segment_size }
    }

    pub(super) fn whereabouts(&self) -> Result<Whereabouts> {
        Ok(Whereabouts { id: self.id, name: file_name(&self.name)?, segment_size: self.segment_size })
    }
}

/// That `piece` lies within a segment of `size`.
///
/// # Errors
/// What is told to whoever asks for something else.
pub(super) fn check_piece(piece: &Piece, size: SegmentSize) -> std::result::Result<(), Failure> {
    let within = &piece.within;
    let is_one = within.start <= within.end && within.end <= size.bytes() && piece.segment.0 < MAX_SEGMENTS;
    if is_one { Ok(()) } else { Err(Failure::senseless("a piece that no segment has")) }
}

/// That `length` bytes can lie at `offset` of a file.
///
/// # Errors
/// As [`check_piece`].
pub(super) fn check_extent(offset: u64, length: usize) -> std::result::Result<(), Failure> {
    let end = FileOffset(offset).checked_add(length as u64);
    end.map(drop).ok_or_else(|| Failure::senseless("a position that no file has"))
}

pub(super) fn bytes_of(path: &Path) -> PathBytes {
    path.as_os_str().as_bytes().to_vec().into()
}

pub(super) fn path_of(bytes: PathBytes) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes.0))
}

/// A path of another host, for people.
pub(super) fn path_on(host: &str, path: &Path) -> PathBuf {
    let mut text = std::ffi::OsString::from(format!("{host}:"));
    text.push(path);
    PathBuf::from(text)
}

pub(super) fn file_name(bytes: &PathBytes) -> Result<FileName> {
    FileName::new(OsStr::from_bytes(&bytes.0))
}

pub(super) fn directory_name(bytes: &PathBytes) -> Result<DirectoryName> {
    DirectoryName::new(OsStr::from_bytes(&bytes.0))
}

pub(super) fn entry((name, id): (PathBytes, Option<Option<FileId>>)) -> Result<Entry> {
    Ok(match id {
        Some(id) => Entry::File(file_name(&name)?, id),
        None => Entry::Directory(directory_name(&name)?),
    })
}

pub(super) fn from_entry(entry: Entry) -> (PathBytes, Option<Option<FileId>>) {
    match entry {
        Entry::File(name, id) => (bytes_of(name.as_path()), Some(id)),
        Entry::Directory(name) => (bytes_of(name.as_path()), None),
    }
}

impl Remembered {
    pub(super) fn new((size, own): Survived) -> Remembered {
        Remembered { size, own: own.into_iter().map(|(index, _)| index).collect() }
    }

    /// The same, told by `node`.
    pub(super) fn by(self, node: &NodeName) -> Survived {
        (self.size, self.own.0.into_iter().map(|index| (index, node.clone())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_file_has_is_refused() {
        let piece = |segment, within| Piece { segment: SegmentIndex(segment), within };
        let size = SegmentSize::MIN;
        assert!(check_piece(&piece(5, 0..size.bytes()), size).is_ok());
        let backwards = Range { start: 2, end: 1 };
        for bad in [piece(MAX_SEGMENTS, 0..1), piece(0, 0..size.bytes() + 1), piece(0, backwards)] {
            assert!(check_piece(&bad, size).is_err(), "{bad:?}");
        }
        assert!(check_extent(FileOffset::MAX.0 - 5, 5).is_ok());
        assert!(check_extent(FileOffset::MAX.0 - 5, 6).is_err());
        assert!(check_extent(u64::MAX, 6).is_err());
    }
}
