//! One open file in one process, however many handles it has there: shared state, presence, segments.

mod committing;
mod giving_homes;
mod keeping;
mod segments;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags};

use crate::changes::Changes;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{self, Manifest};
use crate::mapping_cache;
use crate::node::{BootId, NodeName};
use crate::object;
use crate::placement::Policies;
use crate::presence::{Gate, Presence};
use crate::recovery;
use crate::state::State;
use crate::store::Store;
use crate::units::{FileId, SegmentIndex, SegmentSize};

#[cfg(test)]
pub(crate) use keeping::overlook;
pub(crate) use keeping::{forget, keep, reopen, reopen_in_cluster};
pub(crate) use segments::Filling;

/// The most processes of one node that can have one file open.
pub(crate) const PROCESSES: u16 = 4096;

/// Why a file could not be attached.
pub(crate) enum AttachError {
    /// It was removed between looking up its name and coming here.
    Gone,
    /// It was to go with its last user, and its last user died before it could see to that.
    Abandoned,
    /// Anything else.
    Failed(Error),
}

impl AttachError {
    /// The error for those to whom it makes no difference how a file went.
    pub(crate) fn into_error(self, file: FileId) -> Error {
        match self {
            AttachError::Failed(error) => error,
            AttachError::Gone | AttachError::Abandoned => Error::OnNode {
                node: NodeName::current(),
                kind: ErrorKind::NoSuchFile,
                message: format!("the file {file} is not there any more"),
            },
        }
    }
}

impl From<Error> for AttachError {
    fn from(error: Error) -> AttachError {
        AttachError::Failed(error)
    }
}

/// How a file is to be attached.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct How {
    /// The caller has just made it, or knows that others have it open.
    pub(crate) fresh: bool,
    /// Through which cluster; 0 for this node alone.
    pub(crate) cluster: u64,
    /// Even if it has lost its name, as long as others have it open.
    pub(crate) removed: bool,
}

impl How {
    /// A file that others of a cluster have open.
    pub(crate) fn through(cluster: u64) -> How {
        How { fresh: true, cluster, ..How::default() }
    }
}

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
    changes: Changes,
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

/// Attaches the file `id`, or gives the attachment that this process has already.
///
/// `name` is for messages.
pub(crate) fn attach(
    store: &Store,
    id: FileId,
    name: &str,
    how: How,
) -> std::result::Result<Arc<Attachment>, AttachError> {
    let mut registry = keeping::registry();
    if let Some(attachment) = registry.known(store.shared_path(), id, how.cluster) {
        attachment.check_cluster(how.cluster)?;
        return Ok(attachment);
    }
    let attachment = Arc::new(Attachment::new(store, id, name, how)?);
    registry.enter(&attachment);
    Ok(attachment)
}

impl Attachment {
    fn new(store: &Store, id: FileId, name: &str, how: How) -> std::result::Result<Attachment, AttachError> {
        let (node, store) = (store.node(), store.shared_path());
        let (path, deleted) = (object::path(store, id), object::deleted_path(store, id));
        let failed = |e: io::Error| Error::io(format!("opening {name}"), &path, e);
        let open = |path: &Path| rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let (directory, has_name) = match open(&path) {
            // In this order: a file goes there from here.
            Err(rustix::io::Errno::NOENT) if how.removed => (open(&deleted), false),
            found => (found, true),
        };
        let directory = match directory {
            Err(rustix::io::Errno::NOENT) => return Err(AttachError::Gone),
            other => other.map_err(|e| failed(e.into()))?,
        };
        // Where it has a name, whoever comes first makes the state.
        let creation = if has_name { OFlags::CREATE } else { OFlags::empty() };
        let open_state = |flags: OFlags| {
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::openat(&directory, object::STATE, flags | OFlags::CLOEXEC, mode).map(File::from)
        };
        let (manifest, view) = match open_state(OFlags::RDWR | creation) {
            // The directory is being removed.
            Err(rustix::io::Errno::NOENT) => return Err(AttachError::Gone),
            Ok(file) => {
                let gate = Gate::lock(&file).map_err(failed)?;
                if object::is_unlinked(&file).map_err(failed)? {
                    return Err(AttachError::Gone);
                }
                let boot = BootId::current()?;
                let alive = gate.anybody_present().map_err(failed)?;
                let state = State::map(file.try_clone().map_err(failed)?).map_err(failed)?;
                let is_deleted = !has_name || state.is_valid(boot, id) && state.is_deleted();
                if is_deleted && !(how.removed && alive) {
                    return Err(AttachError::Gone);
                }
                let manifest = own_manifest(if is_deleted { &deleted } else { &path }, id, name)?;
                if !alive {
                    if manifest.temporary && !how.fresh {
                        return Err(AttachError::Abandoned);
                    }
                    let recovery = recovery::Recovery { directory: &directory, path: &path, name, boot };
                    recovery.run(&manifest, node, &state, how.cluster == 0)?;
                    state.set_cluster(how.cluster);
                    // Those that the manifest tells.
                    state.add_unasked_homes();
                    state.set_segment_size(manifest.segment_size);
                } else if !state.is_valid(boot, id) {
                    // Their locks reach us, their memory does not.
                    return Err(Error::InUseElsewhere { name: name.into(), path }.into());
                }
                let presence =
                    Presence::enter(file.try_clone().map_err(failed)?, PROCESSES).map_err(failed)?;
                // Whatever a dead predecessor in this place left.
                let reaped = state.reap(presence.slot(), manifest.position_of(node));
                reaped.map_err(|source| Error::Lock { name: name.into(), source })?;
                state.add_user();
                drop(gate);
                (manifest, View::Full { state, presence })
            }
            Err(
                refused @ (rustix::io::Errno::ACCESS | rustix::io::Errno::ROFS | rustix::io::Errno::PERM),
            ) => {
                let refusal = io::Error::from(refused).kind();
                let manifest = own_manifest(if has_name { &path } else { &deleted }, id, name)?;
                let boot = BootId::current()?;
                let state = match open_state(OFlags::RDONLY) {
                    Ok(file) => {
                        State::map_for_reading(file).map_err(failed)?.filter(|s| s.is_valid(boot, id))
                    }
                    Err(_) => None,
                };
                let view = match state {
                    Some(state) => View::Looking { state, refusal },
                    None => View::Frozen { manifest: Box::new(manifest.clone()), refusal },
                };
                (manifest, view)
            }
            Err(e) => return Err(failed(e.into()).into()),
        };
        let revivals = match &view {
            View::Full { state, .. } => state.revivals(),
            View::Looking { .. } | View::Frozen { .. } => 0,
        };
        let attachment = Attachment {
            store: Arc::clone(store),
            id,
            name: name.into(),
            directory,
            segment_size: manifest.segment_size,
            own: manifest.position_of(node),
            policies: Mutex::new(manifest.policies()),
            nodes: manifest.nodes,
            temporary: manifest.temporary,
            view,
            revivals,
            changes: Changes::default(),
        };
        attachment.check_cluster(how.cluster)?;
        Ok(attachment)
    }

    /// That the file is open through `cluster` and not otherwise.
    fn check_cluster(&self, cluster: u64) -> Result<()> {
        match self.state() {
            Some(state) if state.cluster() != cluster => {
                Err(Error::OpenInAnotherJob { name: self.name.clone() })
            }
            None if cluster != 0 => self.writable().map(|_| ()),
            _ => Ok(()),
        }
    }

    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

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

/// The manifest of the file `id`, checked before anything is done by it: recovery by that of another file would
/// take storage away from this one.
fn own_manifest(path: &Path, id: FileId, name: &str) -> Result<Manifest> {
    let manifest = Manifest::read(path, name)?;
    if manifest.id != id {
        let (name, reason) = (name.into(), format!("it is that of file {}", manifest.id));
        return Err(Error::CorruptManifest { name, path: path.join(manifest::FILE_NAME), reason });
    }
    Ok(manifest)
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let View::Full { state, presence } = &self.view else {
            return;
        };
        if !presence.has_left() {
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
            match presence.others_alive()? {
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
