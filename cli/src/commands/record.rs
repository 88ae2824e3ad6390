//! What there is to tell of a file.

use serde::Serialize;
use svmio_svm::{Error, File, FileName, OpenOptions, SegmentInfo, Store};

/// What `--json` tells of a path. The fields are stable: new ones may come, none goes or changes.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum Record {
    /// A file.
    File(FileRecord),
    /// A directory.
    Directory {
        /// Its path.
        path: String,
    },
    /// A file that cannot be opened.
    Damaged {
        /// Its path.
        path: String,
        /// What is wrong with it.
        error: String,
    },
}

/// A file.
#[derive(Debug, Serialize)]
pub(crate) struct FileRecord {
    /// Its path.
    pub(crate) path: String,
    /// Its identity, 32 hexadecimal digits.
    pub(crate) id: String,
    /// The logical size, bytes.
    pub(crate) size: u64,
    /// How many bytes have storage; the others are holes.
    pub(crate) stored: u64,
    /// The size of each segment, bytes.
    pub(crate) segment_size: u64,
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
    /// How many bytes have storage there.
    pub(crate) stored: u64,
}

/// What `--json` says of its fields.
pub(crate) const FIELDS: &str = "  type          \"file\", \"directory\" or \"damaged\"
  path          from the store's root
  error         damaged: what is wrong with it
  id            file: its identity
  size          file: logical size, bytes
  stored        file: bytes that have storage; the others are holes
  segment_size  file: bytes
  segments      file: how many segments exist; the others are holes
  homes         file: for each node its name (node), segments, stored";

impl FileRecord {
    /// What there is to tell of the file `name`, and its segments.
    ///
    /// # Errors
    /// As [`Store::open_file`] and [`File::segments`].
    pub(crate) fn read(store: &Store, name: &FileName) -> Result<(FileRecord, Vec<SegmentInfo>), Error> {
        let file: File = store.open_file(name, &OpenOptions::reading())?;
        let segments = file.segments()?;
        let record = FileRecord {
            path: name.to_string(),
            id: file.id().to_string(),
            size: file.size(),
            stored: segments.iter().map(|segment| segment.stored).sum(),
            segment_size: file.segment_size().bytes(),
            segments: segments.len() as u64,
            homes: homes(&segments),
        };
        Ok((record, segments))
    }

    /// How many segments a file of this size without holes has.
    pub(crate) fn places(&self) -> u64 {
        self.size.div_ceil(self.segment_size)
    }
}

/// The homes of `segments`, in the order in which they appear.
pub(crate) fn homes(segments: &[SegmentInfo]) -> Vec<Home> {
    let mut homes: Vec<Home> = Vec::new();
    for segment in segments {
        let node = segment.home.as_str();
        let at = homes.iter().position(|home| home.node == node).unwrap_or_else(|| {
            homes.push(Home { node: node.to_owned(), segments: 0, stored: 0 });
            homes.len() - 1
        });
        homes[at].segments += 1;
        homes[at].stored += segment.stored;
    }
    homes
}
