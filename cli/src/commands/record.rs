//! What there is to tell of a file.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Serialize;
use svmio_svm::{Error, FileName, Placement, SizeReason, StoreSet, StoredSegment};

/// What `--json` tells of a path. The fields are stable: new ones may come, none goes or changes.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum Record {
    /// A file.
    File(FileRecord),
    /// A directory.
    Directory {
        /// Its path.
        #[serde(flatten)]
        path: RecordedPath,
    },
    /// A file that cannot be opened.
    Damaged {
        /// Its path.
        #[serde(flatten)]
        path: RecordedPath,
        /// What is wrong with it.
        error: String,
    },
}

/// The path of a file or directory from the store's root. JSON is text, which names need not be.
#[derive(Debug, Serialize)]
pub(crate) struct RecordedPath {
    path: String,
    /// Where the text does not tell them: its bytes, two hexadecimal digits each.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
}

impl RecordedPath {
    /// Of what is called `name`, which begins at the root.
    pub(crate) fn of(name: &Path) -> RecordedPath {
        let path = Path::new("/").join(name);
        let hexadecimal = || path.as_os_str().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let path_bytes = path.to_str().is_none().then(hexadecimal);
        RecordedPath { path: path.display().to_string(), path_bytes }
    }
}

impl fmt::Display for RecordedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

/// A file.
#[derive(Debug, Serialize)]
pub(crate) struct FileRecord {
    /// Its path.
    #[serde(flatten)]
    pub(crate) path: RecordedPath,
    /// Its identity, 32 hexadecimal digits.
    pub(crate) id: String,
    /// The logical size, bytes.
    pub(crate) size: u64,
    /// How many bytes have storage, as far as that can be seen; the others are holes.
    pub(crate) stored: u64,
    /// The size of each segment, bytes.
    pub(crate) segment_size: u64,
    /// Why it is that: [`SizeReason`]'s names; `None` where it is not known.
    pub(crate) segment_size_reason: Option<SizeReason>,
    /// Where new segments go; `None` where it is not known.
    pub(crate) placement: Option<Placement>,
    /// How many segments exist; the others are holes.
    pub(crate) segments: u64,
    /// The nodes that hold them.
    pub(crate) homes: Vec<Home>,
}

/// A node's part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Home {
    /// The node.
    pub(crate) node: String,
    /// How many segments it holds.
    pub(crate) segments: u64,
    /// How many bytes have storage there, as far as that can be seen.
    pub(crate) stored: u64,
    /// Whether its store was not given.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) missing: bool,
}

/// What is said in place of what is stored on a node whose store was not given.
pub(crate) const NOT_GIVEN: &str = "store not given";

/// What is said of a policy that a file of an older release does not tell.
const NOT_KNOWN: &str = "not known, an older svmio made the file";

/// What `--json` says of its fields.
pub(crate) const FIELDS: &str = "  type          \"file\", \"directory\" or \"damaged\"
  path          from the store's root
  path_bytes    only where the path is not UTF-8, of which path shows what it can: its bytes, hexadecimal
  error         damaged: what is wrong with it
  id            file: its identity
  size          file: logical size, bytes
  stored        file: bytes that have storage; the others are holes
  segment_size  file: bytes
  segment_size_reason
                file: \"default\", \"asked\", \"nearness\" (chosen by the first write, to be near its writers) or
                \"spreading\" (chosen to give each node several); null where an older svmio made the file
  placement     file: where new segments go: \"first_touch\", \"round_robin\", \"block\" or \"node=NAME\"; null as above
  segments      file: how many segments exist; the others are holes
  homes         file: for each node its name (node), segments, stored; with \"missing\": true where that
                node's store was not given, and what is stored there is not known";

impl FileRecord {
    /// What there is to tell of the file `name`, and its segments.
    ///
    /// # Errors
    /// As [`StoreSet::open`] and [`StoredFile::segments`](svmio_svm::StoredFile::segments).
    pub(crate) fn read(
        stores: &StoreSet,
        name: &FileName,
    ) -> Result<(FileRecord, Vec<StoredSegment>), Error> {
        let file = stores.open(name)?;
        let segments = file.segments()?;
        let record = FileRecord {
            path: RecordedPath::of(name.as_path()),
            id: file.id().to_string(),
            size: file.size(),
            stored: segments.iter().filter_map(|segment| segment.stored).sum(),
            segment_size: file.segment_size().bytes(),
            segment_size_reason: file.segment_size_reason(),
            placement: file.placement().cloned(),
            segments: segments.len() as u64,
            homes: homes(&segments),
        };
        Ok((record, segments))
    }

    /// Where new segments go, in words.
    pub(crate) fn placement_in_words(&self) -> String {
        self.placement.as_ref().map_or_else(|| NOT_KNOWN.to_owned(), ToString::to_string)
    }

    /// Why segments have their size, in words.
    pub(crate) fn reason_in_words(&self) -> String {
        self.segment_size_reason.map_or_else(|| NOT_KNOWN.to_owned(), |reason| reason.to_string())
    }

    /// Whether parts of it lie on nodes whose stores were not given.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.homes.iter().any(|home| home.missing)
    }

    /// How many segments there may be: some exist beyond the end, too, where preallocating or writing failed.
    pub(crate) fn possible_segments(&self) -> u64 {
        self.places().max(self.segments)
    }

    /// How many segments a file of this size without holes has.
    pub(crate) fn places(&self) -> u64 {
        self.size.div_ceil(self.segment_size)
    }
}

/// The homes of `segments`, in the order in which they appear.
pub(crate) fn homes(segments: &[StoredSegment]) -> Vec<Home> {
    let mut homes: Vec<Home> = Vec::new();
    for segment in segments {
        let node = segment.home.as_str();
        let at = homes.iter().position(|home| home.node == node).unwrap_or_else(|| {
            homes.push(Home {
                node: node.to_owned(),
                segments: 0,
                stored: 0,
                missing: segment.stored.is_none(),
            });
            homes.len() - 1
        });
        homes[at].segments += 1;
        homes[at].stored += segment.stored.unwrap_or(0);
    }
    homes
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_path_that_is_no_text_is_told_by_its_bytes_besides() {
        let json = |bytes: &[u8]| {
            serde_json::to_value(RecordedPath::of(Path::new(OsStr::from_bytes(bytes)))).unwrap()
        };
        assert_eq!(json("d/é".as_bytes()), serde_json::json!({ "path": "/d/é" }));
        let told = serde_json::json!({ "path": "/bad\u{fffd}", "path_bytes": "2f626164ff" });
        assert_eq!(json(b"bad\xff"), told);
    }

    #[test]
    fn no_more_segments_exist_than_are_possible() {
        let file = |size, segments| FileRecord {
            path: RecordedPath::of(Path::new("a")),
            id: "0".into(),
            size,
            stored: 0,
            segment_size: 100,
            segment_size_reason: None,
            placement: None,
            segments,
            homes: Vec::new(),
        };
        // Preallocating, or writing, has failed.
        assert_eq!([file(0, 2), file(300, 4)].map(|file| file.possible_segments()), [2, 4]);
        assert_eq!([file(0, 0), file(201, 1)].map(|file| file.possible_segments()), [0, 3]);
    }
}
