//! Segments of other nodes that this process has open to read them by itself.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags};
use svmio_transport::{RemoteSegment, SegmentId};

use crate::cluster::version_word;
use crate::cluster::wire::{FileIdentity, Reply, Request, Shown, VERSIONS_SPACE};
use crate::cluster::{NodeIndex, SharedFile};
use crate::error::{Error, Result};
use crate::node::BootId;
use crate::segment::is_in_memory;
use crate::units::SegmentIndex;

use super::opened::{Candidates, Opened};

/// How many segments a process keeps open to read them by itself, of all files. Each takes a descriptor, of which
/// processes often may have no more than a thousand; what lies in others is asked for.
const MOST_OPEN: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");

/// The segments of one file that this process reads by itself, or may.
pub(in crate::cluster) struct Sources {
    pub(super) segments: Candidates<OpenSegment>,
    /// The homes' tables of versions, by node and number.
    tables: Mutex<HashMap<(NodeIndex, u32), Arc<RemoteSegment>>>,
}

/// A segment that this process reads by itself.
pub(in crate::cluster) struct OpenSegment {
    pub(super) file: File,
    /// Reading it waits for no device.
    pub(super) is_in_memory: bool,
    versions: Arc<RemoteSegment>,
    /// Where in them the segment's version is, bytes.
    at: u64,
}

impl Default for Sources {
    fn default() -> Sources {
        static OPENED: LazyLock<Arc<Opened<OpenSegment>>> =
            LazyLock::new(|| Arc::new(Opened::new(MOST_OPEN)));
        Sources { segments: Candidates::new(Arc::clone(&OPENED)), tables: Mutex::default() }
    }
}

impl Sources {
    fn tables(&self) -> MutexGuard<'_, HashMap<(NodeIndex, u32), Arc<RemoteSegment>>> {
        // A panic elsewhere leaves the map whole.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedFile {
    /// Opens a segment of `node` to read it from here, where that can be done.
    pub(in crate::cluster) fn open_segment(
        &self,
        node: NodeIndex,
        index: SegmentIndex,
    ) -> Option<Arc<OpenSegment>> {
        // Without the mutex: two threads may both do it.
        let opened = self.open_shown(node, index).unwrap_or_else(|error| {
            tracing::debug!("segment {index} cannot be read from here: {error}");
            None
        });
        self.sources().segments.put(index, opened.clone());
        opened
    }

    fn open_shown(&self, node: NodeIndex, index: SegmentIndex) -> Result<Option<Arc<OpenSegment>>> {
        let request = Request::Show { file: self.file(), segment: index };
        let shown = match self.cluster().ask(node, &request)? {
            Reply::Shown(shown) => shown,
            _ => return Err(self.cluster().context().out_of_place(node)),
        };
        let Some(Shown { path, identity, version: (number, at) }) = shown else { return Ok(None) };
        let Some(file) = file_at(OsStr::from_bytes(&path), identity) else { return Ok(None) };
        let known = self.sources().tables().get(&(node, number)).cloned();
        let versions = match known {
            Some(versions) => versions,
            None => {
                let context = self.cluster().context();
                let id = SegmentId::new(VERSIONS_SPACE, number);
                let connected =
                    context.fabric.connect(context.roster.leader(node), id).map_err(|source| {
                        Error::Fabric {
                            subject: format!("connecting to the versions of file {}", self.file()),
                            source,
                        }
                    })?;
                let versions = Arc::new(connected);
                self.sources().tables().insert((node, number), Arc::clone(&versions));
                versions
            }
        };
        let is_in_memory = is_in_memory(&file).unwrap_or(false);
        Ok(Some(Arc::new(OpenSegment { file, is_in_memory, versions, at })))
    }
}

impl OpenSegment {
    /// The version, as this node sees it: what it counts is found by who reads bytes afterwards.
    ///
    /// # Errors
    /// Where the home cannot be reached.
    pub(in crate::cluster) fn version(&self) -> svmio_transport::Result<u64> {
        match self.versions.mapping() {
            Some(memory) => version_word::take(memory, self.at),
            // A whole word on every fabric, which a read need not give.
            None => self.versions.fetch_add(self.at, 0),
        }
    }
}

/// The file at `path`, if it is that very file: on another host, or in another container, paths and numbers of files
/// may mean something else.
fn file_at(path: &OsStr, (boot, device, number): FileIdentity) -> Option<File> {
    if BootId::current().ok()?.0 != boot {
        return None;
    }
    // Whatever is there must not be waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let found = file.metadata().ok()?;
    (found.is_file() && (found.dev(), found.ino()) == (device, number)).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_file_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other, pipe] = ["one", "other", "pipe"].map(|name| directory.path().join(name));
        for path in [&one, &other] {
            std::fs::write(path, b"content").unwrap();
        }
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        let identity = |path| {
            let found = std::fs::metadata(path).unwrap();
            (BootId::current().unwrap().0, found.dev(), found.ino())
        };
        let (boot, device, number) = identity(&one);
        assert!(file_at(one.as_os_str(), identity(&one)).is_some());
        assert!(file_at(other.as_os_str(), identity(&one)).is_none());
        assert!(file_at(directory.path().join("none").as_os_str(), identity(&one)).is_none());
        // Nobody writes into it.
        assert!(file_at(pipe.as_os_str(), identity(&one)).is_none());
        assert!(file_at(pipe.as_os_str(), identity(&pipe)).is_none());
        assert!(file_at(one.as_os_str(), (boot.map(|byte| !byte), device, number)).is_none());
        assert!(file_at(one.as_os_str(), (boot, device ^ 1, number)).is_none());
    }
}
