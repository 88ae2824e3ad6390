//! One open file in one process, however many handles it has there: shared state, presence, segments.

mod attaching;
mod committing;
mod giving_homes;
mod keeping;
mod segments;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::changes::Changes;
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::mapping_cache;
use crate::node::NodeName;
use crate::object;
use crate::placement::Policies;
use crate::presence::Presence;
use crate::state::State;
use crate::units::{FileId, SegmentIndex, SegmentSize};

pub(crate) use attaching::{AttachError, How, PROCESSES, attach};
pub(crate) use giving_homes::Given;
#[cfg(test)]
pub(crate) use keeping::overlook;
pub(crate) use keeping::{forget, keep, reopen, reopen_in_cluster};
pub(crate) use segments::Filling;

/// Where a segment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// Nowhere, as far as this node knows.
    Hole,
    /// In this node's store.
    Here,
    /// On another node: a position in [`Attachment::nodes`].
    There(u32),
}

/// An open file.
pub(crate) struct Attachment {
    store: Arc<Path>,
    id: FileId,
    name: String,
    directory: OwnedFd,
    segment_size: SegmentSize,
    nodes: Vec<NodeName>,
    /// This node's position among `nodes`.
    own: Option<u32>,
    temporary: bool,
    /// What this process knows of where segments go, and why they have their size.
    policies: Mutex<Policies>,
    view: View,
    /// How often the state had been revived when this process came to know it.
    revivals: u64,
    /// Its name led to it at that time, or has led to it since: so it does still, unless the state tells otherwise.
    is_named: AtomicBool,
    changes: Changes,
    /// The storage device did not take the file's name when it was last brought there.
    name_was_refused: AtomicBool,
}

/// What this process sees of the file's shared state.
enum View {
    /// All of it, and takes part.
    Full { state: State, presence: Presence },
    /// It may only look on: the store is not writable for it.
    Looking { state: State, refusal: io::ErrorKind },
    /// Nobody has the file open and this process cannot be the first: the manifest is all there is.
    Frozen { manifest: Box<Manifest>, refusal: io::ErrorKind },
}

impl Attachment {
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Notes that this process has given the file its name, which it had not when it was attached.
    pub(crate) fn note_named(&self) {
        // Relaxed: nobody relies on it but for being faster.
        self.is_named.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn segment_size(&self) -> SegmentSize {
        // What the manifest said when it was read, unless another size was chosen since.
        self.state().and_then(State::segment_size).unwrap_or(self.segment_size)
    }

    pub(crate) fn nodes(&self) -> &[NodeName] {
        &self.nodes
    }

    /// Where segments go, and why they have their size, as far as this process knows. In a cluster it counts what the
    /// master's agent knows: the manifests are its.
    pub(crate) fn policies(&self) -> MutexGuard<'_, Policies> {
        // Changed by single assignments.
        self.policies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file's directory, wherever it lies now.
    pub(crate) fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// This node's position among [`Attachment::nodes`].
    pub(crate) fn own(&self) -> Option<u32> {
        self.own
    }

    /// Where a segment is.
    pub(crate) fn home(&self, index: SegmentIndex) -> Home {
        let home = match &self.view {
            View::Full { state, .. } | View::Looking { state, .. } => state.home(index),
            View::Frozen { manifest, .. } => {
                manifest.homes().find(|(i, _)| *i == index).map(|(_, home)| home)
            }
        };
        match home {
            None => Home::Hole,
            Some(home) if Some(home) == self.own => Home::Here,
            Some(home) => Home::There(home),
        }
    }

    /// Where the file's segments lie now.
    pub(crate) fn path(&self) -> PathBuf {
        match self.state() {
            Some(state) if state.is_deleted() => object::deleted_path(&self.store, self.id),
            _ => object::path(&self.store, self.id),
        }
    }

    /// The shared state; `None` where only the manifest is known.
    pub(crate) fn state(&self) -> Option<&State> {
        match &self.view {
            View::Full { state, .. } | View::Looking { state, .. } => Some(state),
            View::Frozen { .. } => None,
        }
    }

    /// The shared state and this process's part in it, for changes.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] or [`Error::Access`] where the store is not writable for this process.
    #[inline]
    pub(crate) fn writable(&self) -> Result<(&State, &Presence)> {
        match &self.view {
            View::Full { state, presence } => Ok((state, presence)),
            View::Looking { refusal, .. } | View::Frozen { refusal, .. } => {
                let (subject, path) = (format!("changing {}", self.name), self.path());
                Err(match refusal {
                    io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnly { subject, path },
                    _ => Error::Access { subject, path },
                })
            }
        }
    }

    /// Whether another process has the file open, or may have.
    pub(crate) fn has_others(&self) -> io::Result<bool> {
        match &self.view {
            View::Full { presence, .. } => presence.others_alive(),
            View::Looking { .. } => Ok(true),
            View::Frozen { .. } => Ok(false),
        }
    }

    /// The logical size, bytes.
    pub(crate) fn size(&self) -> u64 {
        match &self.view {
            View::Full { state, .. } | View::Looking { state, .. } => state.size(),
            View::Frozen { manifest, .. } => manifest.size,
        }
    }

    /// The segments from `first` on that exist, in ascending order.
    pub(crate) fn segments_from(&self, first: SegmentIndex) -> Box<dyn Iterator<Item = SegmentIndex> + '_> {
        match &self.view {
            View::Full { state, .. } | View::Looking { state, .. } => Box::new(state.segments_from(first)),
            View::Frozen { manifest, .. } => {
                Box::new(manifest.homes().map(|(index, _)| index).filter(move |index| *index >= first))
            }
        }
    }

    /// The segments that exist, with their homes, in ascending order.
    pub(crate) fn homes(&self) -> Box<dyn Iterator<Item = (SegmentIndex, u32)> + '_> {
        match &self.view {
            View::Full { state, .. } | View::Looking { state, .. } => Box::new(state.homes()),
            View::Frozen { manifest, .. } => Box::new(manifest.homes()),
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let View::Full { state, presence } = &self.view else {
            return;
        };
        if !presence.has_left() {
            self.leave_unsynced(state);
            state.remove_user();
            if let Err(e) = presence.leave() {
                tracing::warn!("closing {}: {e}", self.name);
            }
        }
        // Only after having left: who removes a file marks it first, looks then who is there, and leaves the rest to him.
        if !state.is_deleted() {
            return;
        }
        let destroy_if_last = || {
            let _gate = presence.gate()?;
            match presence.others_alive()? || presence.is_held()? {
                true => Ok(()),
                false => object::destroy(&self.store, &object::deleted_path(&self.store, self.id)),
            }
        };
        match destroy_if_last() {
            Ok(()) => mapping_cache::forget(&self.store, self.id),
            // Nothing is lost: `svmio verify` reclaims what is left of a deleted file.
            Err(e) => {
                tracing::warn!("closing {}: what is left of it stays until svmio verify: {e}", self.name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileName, FileOffset, OpenOptions, Store};

    #[test]
    fn a_removed_file_is_attached_by_other_processes_as_long_as_one_has_it_open() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let name = FileName::new("f").unwrap();
        let file = store.open_file(&name, &OpenOptions::read_write().create(true)).unwrap();
        file.write_at(FileOffset(0), b"here still").unwrap();
        // What another process does: this one's list of open files is not asked.
        let as_another = |removed| {
            let how = How { removed, ..How::default() };
            Attachment::new(&store, file.id(), "f", how).map(|attachment| attachment.size())
        };
        let is_gone = |outcome| matches!(outcome, Err(AttachError::Gone));
        assert!(matches!(as_another(true), Ok(10)));
        store.remove(&name).unwrap();
        assert!(is_gone(as_another(false)));
        assert!(matches!(as_another(true), Ok(10)));
        let mut bytes = [0; 10];
        assert_eq!(
            file.read_at(FileOffset(0), &mut bytes).unwrap(),
            10,
            "who came and went has taken nothing"
        );
        let id = file.id();
        drop(file);
        let how = How { removed: true, ..How::default() };
        assert!(is_gone(Attachment::new(&store, id, "f", how).map(|attachment| attachment.size())));
        assert_eq!(std::fs::read_dir(store.path().join(object::DELETED)).unwrap().count(), 0);
    }

    #[test]
    fn who_removes_a_file_while_its_last_user_leaves_or_that_one_takes_all_of_it_away() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::open(directory.path()).unwrap();
        let name = FileName::new("f").unwrap();
        for turn in 0..2000 {
            let file = store.open_file(&name, &OpenOptions::read_write().create(true)).unwrap();
            let id = file.id();
            // As another process has it open.
            let other = Attachment::new(&store, id, "f", How::default()).ok().unwrap();
            drop(file);
            let meeting = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    meeting.wait();
                    drop(other);
                });
                meeting.wait();
                store.remove(&name).unwrap();
            });
            assert!(!object::deleted_path(store.path(), id).exists(), "turn {turn}");
        }
    }

    #[test]
    fn a_segment_is_synced_again_after_a_sync_and_after_reopening() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let (name, options) = (FileName::new("f").unwrap(), OpenOptions::read_write().create(true));
        for turn in 0..3 {
            // The mapping outlives each of these, the attachment does not.
            let file = store.open_file(&name, &options).unwrap();
            let attached = attach(&store, file.id(), "f", How::default()).ok().unwrap();
            for _ in 0..2 {
                file.write_at(FileOffset(0), &[turn; 10]).unwrap();
                assert_eq!(attached.changes.unsynced(), 1, "turn {turn}");
                file.sync_data().unwrap();
                assert_eq!(attached.changes.unsynced(), 0);
            }
            file.write_at(FileOffset(0), b"not synced").unwrap();
        }
    }
}
