//! Segments of other nodes that this process has open to read them by itself.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use rustix::fs::{Mode, OFlags};
use svmio_transport::{RemoteSegment, SegmentId};

use crate::cluster::version_word;
use crate::cluster::wire::{FileIdentity, Reply, Request, Shown, VERSIONS_SPACE};
use crate::cluster::{NodeIndex, SharedFile};
use crate::error::{Error, Result};
use crate::node::BootId;
use crate::units::SegmentIndex;

/// How many segments a process keeps open to read them by itself, of all files. Each takes a descriptor, of which
/// processes often may have no more than a thousand; what lies in others is asked for.
const MOST_OPEN: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");

/// So many times a segment is asked for before it is opened: opening takes a question and two system calls, which one
/// page is not worth.
const BEFORE: u32 = 1;

/// So many times it is asked for after it could not be opened.
const BEFORE_AGAIN: u32 = 1000;

/// The segments of one file that this process reads by itself, or may.
pub(in crate::cluster) struct Sources(Mutex<Known>);

struct Known {
    segments: LruCache<SegmentIndex, Source>,
    /// The homes' tables of versions, by node and number.
    tables: HashMap<(NodeIndex, u32), Arc<RemoteSegment>>,
}

enum Source {
    /// It is asked for so many times more.
    Asked(u32),
    Open(Arc<OpenSegment>),
}

/// What is known of a segment.
pub(super) enum Found {
    /// It can be read.
    Open(Arc<OpenSegment>),
    /// It should be opened.
    Closed,
    /// It is to be asked for.
    Nothing,
}

/// A segment that this process reads by itself.
pub(in crate::cluster) struct OpenSegment {
    pub(super) file: File,
    _permit: Permit,
    versions: Arc<RemoteSegment>,
    /// Where in them the segment's version is, bytes.
    at: u64,
}

/// Counts among the [`MOST_OPEN`] as long as it lives.
struct Permit;

/// How many there are.
static PERMITS: AtomicUsize = AtomicUsize::new(0);

impl Default for Sources {
    fn default() -> Sources {
        Sources(Mutex::new(Known { segments: LruCache::new(MOST_OPEN), tables: HashMap::new() }))
    }
}

impl Sources {
    /// What is known of a segment, which is wanted once more; `at_once` where it is worth it to open it the first time.
    pub(super) fn find(&self, index: SegmentIndex, at_once: bool) -> Found {
        match self.known().segments.get_mut(&index) {
            Some(Source::Open(segment)) => return Found::Open(Arc::clone(segment)),
            _ if at_once => return Found::Closed,
            Some(Source::Asked(0)) => return Found::Closed,
            Some(Source::Asked(left)) => {
                *left -= 1;
                return Found::Nothing;
            }
            None => {}
        }
        self.put(index, Source::Asked(BEFORE - 1));
        Found::Nothing
    }

    fn put(&self, index: SegmentIndex, source: Source) {
        let replaced = self.known().segments.push(index, source);
        // Closed only here, when the mutex is free.
        drop(replaced);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // A panic elsewhere leaves the maps whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.sources().put(index, opened.clone().map_or(Source::Asked(BEFORE_AGAIN), Source::Open));
        opened
    }

    fn open_shown(&self, node: NodeIndex, index: SegmentIndex) -> Result<Option<Arc<OpenSegment>>> {
        let Some(permit) = Permit::take() else { return Ok(None) };
        let request = Request::Show { file: self.file(), segment: index };
        let shown = match self.cluster().ask(node, &request)? {
            Reply::Shown(shown) => shown,
            _ => return Err(self.cluster().context().out_of_place(node)),
        };
        let Some(Shown { path, identity, version: (number, at) }) = shown else { return Ok(None) };
        let Some(file) = file_at(OsStr::from_bytes(&path), identity) else { return Ok(None) };
        let known = self.sources().known().tables.get(&(node, number)).cloned();
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
                self.sources().known().tables.insert((node, number), Arc::clone(&versions));
                versions
            }
        };
        Ok(Some(Arc::new(OpenSegment { file, _permit: permit, versions, at })))
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

impl Permit {
    fn take() -> Option<Permit> {
        // Relaxed, also below: only the number counts.
        let more = |permits: usize| (permits < MOST_OPEN.get()).then_some(permits + 1);
        PERMITS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        PERMITS.fetch_sub(1, Ordering::Relaxed);
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

    #[test]
    fn a_segment_is_asked_for_before_it_is_opened() {
        let (sources, index) = (Sources::default(), SegmentIndex(3));
        let is_closed = |found| matches!(found, Found::Closed);
        assert!(is_closed(sources.find(index, true)));
        for _ in 0..BEFORE {
            assert!(matches!(sources.find(index, false), Found::Nothing));
        }
        assert!(is_closed(sources.find(index, false)));
        sources.put(index, Source::Asked(2));
        assert!(is_closed(sources.find(index, true)));
        assert!((0..2).all(|_| !is_closed(sources.find(index, false))));
        assert!(is_closed(sources.find(index, false)));
    }
}
