//! The durable description of a file, replaced atomically.
//!
//! A manifest is one line of text, `svmio-manifest VERSION crc32=CHECKSUM bytes=LENGTH`, and behind it that
//! many bytes of JSON. The line lets a reader tell a newer format from damage before it looks at the rest.
//! `docs/formats.md` describes each field.

mod parts;
mod words;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::node::NodeName;
use crate::placement::{Placement, Policies, SizeReason};
use crate::spare;
use crate::state::MAX_SEGMENTS;
use crate::store::reserve;
use crate::units::{FileId, SegmentIndex, SegmentSize};

/// The newest manifest format that this release reads, and the one that it writes.
pub const MANIFEST_VERSION: u32 = 1;

/// The file name of a manifest within its object's directory.
pub(crate) const FILE_NAME: &str = "manifest";
/// How the names of unfinished manifests begin; a killed process may leave one behind.
pub(crate) const TEMPORARY_PREFIX: &str = ".manifest-";

/// A file's durable description.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The file's identity.
    pub id: FileId,
    /// The name under which it was created, or opened by whoever committed it last.
    pub name: String,
    /// The logical size, bytes.
    pub size: u64,
    /// The size of each segment.
    pub segment_size: SegmentSize,
    /// How many commits there have been.
    pub epoch: u64,
    /// The nodes that `segments` refers to.
    pub nodes: Vec<NodeName>,
    /// The segment table: which segments exist and where, in ascending order; the others are holes.
    pub segments: Vec<SegmentRun>,
    /// The file goes when the last process that has it open ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub temporary: bool,
    /// Where new segments go; `None` in a manifest of a release that did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Why segments have their size; `None` as above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment_size_reason: Option<SizeReason>,
}

/// Adjacent segments with one home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentRun {
    /// The first segment.
    pub first: SegmentIndex,
    /// How many there are.
    pub count: u32,
    /// Their home: a position in [`Manifest::nodes`].
    pub home: u32,
}

impl SegmentRun {
    /// Its segments.
    pub(crate) fn indices(self) -> impl Iterator<Item = SegmentIndex> {
        (self.first.0..self.first.0.saturating_add(self.count)).map(SegmentIndex)
    }
}

impl Manifest {
    /// The segments that exist, each with its home, in ascending order.
    pub fn homes(&self) -> impl Iterator<Item = (SegmentIndex, u32)> + '_ {
        self.segments.iter().flat_map(|run| run.indices().map(|index| (index, run.home)))
    }

    /// The same from segment `first` on.
    pub(crate) fn homes_from(&self, first: SegmentIndex) -> impl Iterator<Item = (SegmentIndex, u32)> + '_ {
        let before = self.segments.partition_point(|run| run.first.0.saturating_add(run.count) <= first.0);
        self.segments[before..].iter().flat_map(move |run| {
            (run.first.0.max(first.0)..run.first.0.saturating_add(run.count))
                .map(|i| (SegmentIndex(i), run.home))
        })
    }

    /// The home of a segment; `None` where it is a hole.
    pub(crate) fn home_of(&self, index: SegmentIndex) -> Option<u32> {
        let after = self.segments.partition_point(|run| run.first <= index);
        let run = self.segments.get(after.checked_sub(1)?)?;
        (index.0 - run.first.0 < run.count).then_some(run.home)
    }

    /// Whether it says that a segment lies on `node`.
    pub(crate) fn promises(&self, index: SegmentIndex, node: &NodeName) -> bool {
        self.home_of(index).is_some_and(|home| self.nodes.get(home as usize) == Some(node))
    }

    /// The position of `node` among the nodes.
    pub fn position_of(&self, node: &NodeName) -> Option<u32> {
        self.nodes.iter().position(|known| known == node).map(|position| position as u32)
    }

    /// Reads the manifest in `directory`.
    ///
    /// # Errors
    /// [`Error::CorruptManifest`], [`Error::NewerFormat`], [`Error::NewerWord`], or what the operating system says.
    pub(crate) fn read(directory: &Path, name: &str) -> Result<Manifest> {
        let path = directory.join(FILE_NAME);
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound if directory.exists() => corrupt(name, &path, "it is missing".into()),
            _ => Error::io(format!("opening {name}"), &path, source),
        };
        let mut last = Vec::new();
        loop {
            let mut file = File::open(&path).map_err(failed)?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(failed)?;
            // What was the manifest when it was opened may be the reserve by now, or another file's, and be written to.
            let is_it = fs::metadata(&path)
                .and_then(|current| Ok(is_same(&current, &file.metadata()?)))
                .unwrap_or(true);
            let decoded = Self::decode(&bytes, &path, name);
            if is_it && (decoded.is_ok() || bytes == last) {
                return decoded;
            }
            last = bytes;
        }
    }

    /// Puts this manifest in place of the one in `directory`. With `durable` it has reached the storage device on
    /// return; without, a power cut leaves one of the two there, if there was one.
    ///
    /// # Errors
    /// What the operating system says; the old manifest is then still in place.
    pub(crate) fn commit(&self, directory: &Path, durable: bool) -> Result<()> {
        let path = directory.join(FILE_NAME);
        let failed = |e: io::Error| Error::io(format!("committing the manifest of {}", self.name), &path, e);
        // Put over another one before its bytes are on the device, it may be empty after a power cut, and that one
        // gone.
        let (bytes, is_synced) = (self.encode(), durable || !self.temporary && path.exists());
        match put(directory, &path, &bytes, is_synced) {
            Err(e) if spare::is_full(&e) && path.exists() => {
                let put = reserve::put(directory, FILE_NAME, &bytes, is_synced);
                put.map_err(|other| failed(if other.kind() == io::ErrorKind::NotFound { e } else { other }))?;
            }
            put => put.map_err(failed)?,
        }
        if durable {
            File::open(directory).and_then(|d| d.sync_all()).map_err(failed)?;
        }
        Ok(())
    }

    /// Brings the manifest in `directory` to the storage device.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn sync(directory: &Path, name: &str) -> Result<()> {
        let path = directory.join(FILE_NAME);
        let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all());
        sync(&path)
            .and_then(|()| sync(directory))
            .map_err(|e| Error::io(format!("committing the manifest of {name}"), &path, e))
    }

    /// The manifest as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body =
            serde_json::to_vec_pretty(self).expect("a manifest has no map with keys other than text");
        body.push(b'\n');
        let checksum = crc32fast::hash(&body);
        let mut text =
            format!("svmio-manifest {MANIFEST_VERSION} crc32={checksum:08x} bytes={}\n", body.len())
                .into_bytes();
        text.append(&mut body);
        text
    }

    /// The manifest of the file `name` from bytes that came from `path`.
    ///
    /// # Errors
    /// [`Error::CorruptManifest`], [`Error::NewerFormat`], [`Error::NewerWord`].
    pub(crate) fn decode(bytes: &[u8], path: &Path, name: &str) -> Result<Manifest> {
        let damaged = |reason: &str| corrupt(name, path, reason.into());
        let line_end =
            bytes.iter().position(|b| *b == b'\n').ok_or_else(|| damaged("it has no first line"))?;
        let line =
            std::str::from_utf8(&bytes[..line_end]).map_err(|_| damaged("its first line is no text"))?;
        let mut words = line.split(' ');
        if words.next() != Some("svmio-manifest") {
            return Err(damaged("its first line is not a manifest's"));
        }
        let version: u32 =
            words.next().and_then(|w| w.parse().ok()).ok_or_else(|| damaged("its version is no number"))?;
        if version > MANIFEST_VERSION {
            return Err(Error::NewerFormat {
                subject: format!("opening {name}"),
                path: path.into(),
                found: version,
                supported: MANIFEST_VERSION,
            });
        }
        let checksum = words
            .next()
            .and_then(|w| w.strip_prefix("crc32="))
            .and_then(|w| u32::from_str_radix(w, 16).ok())
            .ok_or_else(|| damaged("its checksum is missing"))?;
        let length: usize = words
            .next()
            .and_then(|w| w.strip_prefix("bytes="))
            .and_then(|w| w.parse().ok())
            .ok_or_else(|| damaged("its length is missing"))?;
        let body = &bytes[line_end + 1..];
        if body.len() != length {
            return Err(corrupt(name, path, format!("it has {} bytes of {length}", body.len())));
        }
        if crc32fast::hash(body) != checksum {
            return Err(damaged("its checksum does not fit its content"));
        }
        let manifest: Manifest = serde_json::from_slice(body).map_err(|e| match words::unknown(body) {
            Some((field, word)) => {
                Error::NewerWord { subject: format!("opening {name}"), path: path.into(), field, word }
            }
            None => corrupt(name, path, e.to_string()),
        })?;
        manifest.check().map_err(damaged)?;
        Ok(manifest)
    }

    /// The manifest in few bytes, for messages between processes of one job.
    pub(crate) fn pack(&self) -> Vec<u8> {
        let Manifest { id, name, size, segment_size, epoch, nodes, segments, temporary, .. } = self;
        let policies = (&self.placement, &self.segment_size_reason);
        let fields = (id, name, size, segment_size, epoch, nodes, segments, temporary, policies);
        postcard::to_stdvec(&fields).expect("writing to memory does not fail")
    }

    /// The manifest from the bytes of [`Manifest::pack`]; `None` where they are something else.
    pub(crate) fn unpack(bytes: &[u8]) -> Option<Manifest> {
        let (id, name, size, segment_size, epoch, nodes, segments, temporary, policies) =
            postcard::from_bytes(bytes).ok()?;
        let (placement, segment_size_reason) = policies;
        let manifest = Manifest {
            id,
            name,
            size,
            segment_size,
            epoch,
            nodes,
            segments,
            temporary,
            placement,
            segment_size_reason,
        };
        manifest.check().is_ok().then_some(manifest)
    }

    pub(crate) fn policies(&self) -> Policies {
        Policies { placement: self.placement.clone(), size_reason: self.segment_size_reason }
    }

    fn check(&self) -> std::result::Result<(), &'static str> {
        let mut free_from = 0u32;
        for run in &self.segments {
            if run.first.0 < free_from || run.count == 0 {
                return Err("its segments are out of order");
            }
            let end = run.first.0.checked_add(run.count).filter(|end| *end <= MAX_SEGMENTS);
            free_from = end.ok_or("its segments are too many")?;
            if run.home as usize >= self.nodes.len() {
                return Err("a segment's home is not among its nodes");
            }
        }
        (self.size <= i64::MAX as u64).then_some(()).ok_or("its size is out of range")
    }
}

/// Collects single segments, in ascending order, into runs.
pub(crate) fn runs(homes: impl Iterator<Item = (SegmentIndex, u32)>) -> Vec<SegmentRun> {
    let mut runs: Vec<SegmentRun> = Vec::new();
    for (index, home) in homes {
        match runs.last_mut() {
            Some(run) if run.home == home && run.first.0 + run.count == index.0 => run.count += 1,
            _ => runs.push(SegmentRun { first: index, count: 1, home }),
        }
    }
    runs
}

fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Puts a file with these bytes at `path` in `directory`.
fn put(directory: &Path, path: &Path, bytes: &[u8], is_synced: bool) -> io::Result<()> {
    let file = tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempfile_in(directory)?;
    let whole = file.as_file();
    spare::with_room(whole, || whole.write_all_at(bytes, 0))?;
    if is_synced {
        whole.sync_all()?;
    }
    file.persist(path)?;
    Ok(())
}

fn corrupt(name: &str, path: &Path, reason: String) -> Error {
    Error::CorruptManifest { name: name.into(), path: PathBuf::from(path), reason }
}

#[cfg(test)]
mod tests;
