//! A process comes to have a file open: alone, or beside others that have it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags};

use crate::changes::Changes;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{self, Manifest};
use crate::name::FileName;
use crate::node::{BootId, NodeName};
use crate::object;
use crate::presence::{Gate, Presence};
use crate::recovery;
use crate::state::State;
use crate::store::{Store, entry};
use crate::units::FileId;

use super::{Attachment, View, keeping};

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
    /// The caller has just made it, holds it, or knows that others have it open.
    pub(crate) fresh: bool,
    /// Through which cluster; 0 for this node alone.
    pub(crate) cluster: u64,
    /// Even if it has lost its name, as long as others have it open, or somebody holds it.
    pub(crate) removed: bool,
}

impl How {
    /// A file that others of a cluster have open.
    pub(crate) fn through(cluster: u64) -> How {
        How { fresh: true, cluster, ..How::default() }
    }

    /// Whether it is attached by a name, by which it may be opened [again](keeping::reopen).
    fn may_be_named(self) -> bool {
        !self.fresh && self.cluster == 0
    }
}

/// Attaches the file `id`, or gives the attachment that this process has already.
///
/// `name` is for messages; and where it leads to the file, it may be opened by it [again](keeping::reopen).
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
    pub(super) fn new(
        store: &Store,
        id: FileId,
        name: &str,
        how: How,
    ) -> std::result::Result<Attachment, AttachError> {
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
        let (manifest, view, revivals, is_named) = match open_state(OFlags::RDWR | creation) {
            // The directory is being removed.
            Err(rustix::io::Errno::NOENT) => return Err(AttachError::Gone),
            Ok(file) => {
                let gate = Gate::lock(&file).map_err(failed)?;
                if object::is_unlinked(&file).map_err(failed)? {
                    return Err(AttachError::Gone);
                }
                let boot = BootId::current()?;
                let alive = gate.anybody_present().map_err(failed)?;
                let is_held = gate.is_held().map_err(failed)?;
                let state = State::map(file.try_clone().map_err(failed)?).map_err(failed)?;
                let is_marked = || state.is_valid(boot, id) && state.is_deleted();
                // What is held can lose its name while this process waits for the gate, and its state need not be
                // valid.
                let is_deleted = !has_name || is_marked() || is_held && !path.exists();
                if is_deleted && !(how.removed && (alive || is_held)) {
                    return Err(AttachError::Gone);
                }
                let place = if is_deleted { &deleted } else { &path };
                let manifest = own_manifest(place, id, name)?;
                if !alive {
                    if manifest.temporary && !how.fresh {
                        return Err(AttachError::Abandoned);
                    }
                    let recovery = recovery::Recovery { directory: &directory, path: place, name, boot };
                    recovery.run(&manifest, node, &state, how.cluster == 0)?;
                    if is_deleted {
                        // A state that is made anew does not know.
                        state.set_deleted();
                    }
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
                // In the gate, as whoever takes a name from a file has it: it may have got another one while this
                // process waited.
                let revivals = state.revivals();
                let is_named = how.may_be_named() && leads_to(store, name, id);
                drop(gate);
                (manifest, View::Full { state, presence }, revivals, is_named)
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
                (manifest, view, 0, false)
            }
            Err(e) => return Err(failed(e.into()).into()),
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
            is_named: AtomicBool::new(is_named),
            changes: Changes::default(),
            name_was_refused: AtomicBool::new(false),
        };
        attachment.check_cluster(how.cluster)?;
        Ok(attachment)
    }

    /// That the file is open through `cluster` and not otherwise.
    pub(super) fn check_cluster(&self, cluster: u64) -> Result<()> {
        match self.state() {
            Some(state) if state.cluster() != cluster => {
                Err(Error::OpenInAnotherJob { name: self.name.clone() })
            }
            None if cluster != 0 => self.writable().map(|_| ()),
            _ => Ok(()),
        }
    }
}

/// Whether `name` leads to the file `id` of the store at `store`.
fn leads_to(store: &Path, name: &str, id: FileId) -> bool {
    FileName::new(name).and_then(|name| entry::read(store, &name)).is_ok_and(|found| found == id)
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
