//! What is asked of a store on another host, and what is answered.
//!
//! Whoever serves begins with a greeting, which names the version. Everything else is messages: their length (32 bits,
//! little-endian), a value in postcard's encoding, and the bytes that were read, if any. Each question has one answer.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::finding::Survived;
use crate::name::{DirectoryName, FileName};
use crate::node::NodeName;
use crate::store::Entry;
use crate::stored_file::{Piece, Whereabouts};
use crate::units::{FileId, SegmentIndex, SegmentSize};

/// What whoever serves says first: shells may say something of their own.
pub(super) const GREETING: &[u8; 15] = b"svmio-store 01\n";

/// The most bytes that one question reads.
pub(super) const LONGEST_READ: usize = 4 << 20;

/// The longest message: beside the bytes, a manifest of a file of a million segments on ever other nodes.
const LONGEST: usize = 128 << 20;

/// How [`Error::NotAFile`] says that something is a directory.
const IS_DIRECTORY: &str = "it is a directory";

/// Who serves.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) node: NodeName,
    pub(super) path: Vec<u8>,
}

/// Which file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PartOf {
    id: FileId,
    name: Vec<u8>,
    segment_size: SegmentSize,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question {
    List { name: Vec<u8> },
    Lookup { name: Vec<u8> },
    Remove { name: Vec<u8> },
    Look { file: FileId, name: Vec<u8> },
    Read { of: PartOf, piece: Piece },
    NextData { of: PartOf, piece: Piece },
    Stored { of: PartOf, segments: Vec<SegmentIndex> },
    Check { of: PartOf, segments: Vec<SegmentIndex> },
    IsZero { of: PartOf, piece: Piece },
    LookOver { name: Vec<u8> },
    Repair { own: Option<Vec<u8>>, newest: Vec<u8> },
    EnterName { name: Vec<u8>, file: FileId },
    Reclaim,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Answer {
    Done,
    /// Names as bytes, of files with their identities, if they have any; of directories without.
    Entries(Vec<(Vec<u8>, Option<Option<FileId>>)>),
    Id(FileId),
    /// The manifest there, and what the shared state tells.
    Known(Option<(Vec<u8>, Option<Survived>)>),
    /// The bytes follow.
    Bytes,
    Range(Option<Range<u64>>),
    Counts(Vec<u64>),
    IsSo(bool),
    Paths(Vec<Vec<u8>>),
}

/// An error: as itself where somebody acts on it, otherwise as what it says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    NoSuchFile { name: String, store: Vec<u8> },
    NotAFile { name: String, store: Vec<u8>, is_directory: bool },
    OpenInAnotherJob { name: String },
    CorruptManifest { name: String, path: Vec<u8>, reason: String },
    Other { kind: ErrorKind, message: String },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::NoSuchFile { name, store } => Failure::NoSuchFile { name, store: bytes_of(&store) },
            Error::NotAFile { name, store, reason } => {
                let is_directory = reason == IS_DIRECTORY;
                Failure::NotAFile { name, store: bytes_of(&store), is_directory }
            }
            Error::OpenInAnotherJob { name } => Failure::OpenInAnotherJob { name },
            Error::CorruptManifest { name, path, reason } => {
                Failure::CorruptManifest { name, path: bytes_of(&path), reason }
            }
            error => Failure::Other { kind: error.kind(), message: error.to_string() },
        }
    }
}

impl Failure {
    /// The error, which tells of `host`.
    pub(super) fn into_error(self, host: &str) -> Error {
        let on_host = |path| path_on(host, &path_of(path));
        match self {
            Failure::NoSuchFile { name, store } => Error::NoSuchFile { name, store: on_host(store) },
            Failure::NotAFile { name, store, is_directory } => {
                let reason = if is_directory { IS_DIRECTORY } else { "it, or a part of its path, is a file" };
                Error::NotAFile { name, store: on_host(store), reason }
            }
            Failure::OpenInAnotherJob { name } => Error::OpenInAnotherJob { name },
            Failure::CorruptManifest { name, path, reason } => {
                Error::CorruptManifest { name, path: on_host(path), reason }
            }
            Failure::Other { kind, message } => Error::OnHost { host: host.into(), kind, message },
        }
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

/// Sends a message.
pub(super) fn send(to: &mut impl Write, what: &impl Serialize, data: &[u8]) -> io::Result<()> {
    let mut bytes = postcard::to_extend(what, vec![0; 4]).map_err(io::Error::other)?;
    let length = bytes.len() - 4 + data.len();
    if length > LONGEST {
        return Err(io::Error::other(format!("a message of {length} bytes is longer than {LONGEST}")));
    }
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    to.write_all(&bytes)?;
    to.write_all(data)?;
    to.flush()
}

/// Receives a message, and the bytes behind it.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<(T, Vec<u8>)> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    let senseless = || io::Error::new(io::ErrorKind::InvalidData, "what came makes no sense");
    if length > LONGEST {
        return Err(senseless());
    }
    // As long as it really is: whoever sends nonsense gets no memory for it.
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    let (what, data) = postcard::take_from_bytes(&bytes).map_err(|_| senseless())?;
    let data = data.len();
    Ok((what, bytes.split_off(length - data)))
}

pub(super) fn bytes_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

pub(super) fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// A path of another host, for people.
pub(super) fn path_on(host: &str, path: &Path) -> PathBuf {
    let mut text = std::ffi::OsString::from(format!("{host}:"));
    text.push(path);
    PathBuf::from(text)
}

pub(super) fn file_name(bytes: &[u8]) -> Result<FileName> {
    FileName::new(OsStr::from_bytes(bytes))
}

pub(super) fn directory_name(bytes: &[u8]) -> Result<DirectoryName> {
    DirectoryName::new(OsStr::from_bytes(bytes))
}

pub(super) fn entry((name, id): (Vec<u8>, Option<Option<FileId>>)) -> Result<Entry> {
    Ok(match id {
        Some(id) => Entry::File(file_name(&name)?, id),
        None => Entry::Directory(directory_name(&name)?),
    })
}

pub(super) fn from_entry(entry: Entry) -> (Vec<u8>, Option<Option<FileId>>) {
    match entry {
        Entry::File(name, id) => (bytes_of(name.as_path()), Some(id)),
        Entry::Directory(name) => (bytes_of(name.as_path()), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = receive::<Question>(&mut &bytes[..]);
            let _ = receive::<std::result::Result<Answer, Failure>>(&mut &bytes[..]);
        }

        #[test]
        fn what_is_sent_is_received(
            data in prop::collection::vec(any::<u8>(), 0..200),
            range in prop::option::of((any::<u64>(), any::<u64>())),
        ) {
            let mut bytes = Vec::new();
            let answer = Answer::Range(range.map(|(start, end)| start..end));
            send(&mut bytes, &answer, &data).unwrap();
            for cut in 0..bytes.len() {
                prop_assert!(receive::<Answer>(&mut &bytes[..cut]).is_err());
            }
            prop_assert_eq!(receive::<Answer>(&mut &bytes[..]).unwrap(), (answer, data));
        }
    }
}
