//! The files that an agent serves.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use svmio_transport::Rank;

use crate::attachment::{self, Attachment, How};
use crate::cluster::{Context, NodeIndex};
use crate::error::Result;
use crate::units::{FileId, SegmentIndex};

use super::lending::Lent;

/// All files that are served.
#[derive(Default)]
pub(super) struct Files(Mutex<HashMap<FileId, Arc<Served>>>);

/// A file that is served.
pub(super) struct Served {
    pub(super) attachment: Arc<Attachment>,
    versions: Mutex<HashMap<SegmentIndex, Version>>,
    /// At the master: the nodes that have opened the file.
    nodes: Mutex<BTreeSet<NodeIndex>>,
    /// At the master: the epoch of the manifest that is known to be on all nodes' devices.
    durable_epoch: AtomicU64,
    pub(super) lent: Lent,
}

/// How often a segment was changed, and how often by whom: a node's own changes are no news to it.
#[derive(Debug, Default)]
struct Version {
    all: u64,
    by: HashMap<NodeIndex, u64>,
}

impl Files {
    /// The file `file`, which a process of this node has open, or which was installed here.
    pub(super) fn get(&self, context: &Context, file: FileId) -> Result<Arc<Served>> {
        let mut files = self.files();
        if let Some(served) = files.get(&file) {
            return Ok(Arc::clone(served));
        }
        let how = How { fresh: true, cluster: context.id() };
        let attachment = attachment::attach(&context.store, file, &format!("file {file}"), how);
        let served = Arc::new(Served::new(attachment.map_err(|error| error.into_error(file))?));
        files.insert(file, Arc::clone(&served));
        Ok(served)
    }

    /// The file, if it is served already.
    pub(super) fn known(&self, file: FileId) -> Option<Arc<Served>> {
        self.files().get(&file).cloned()
    }

    /// Serves a file that was just attached.
    pub(super) fn insert(&self, attachment: Arc<Attachment>) -> Arc<Served> {
        let mut files = self.files();
        let id = attachment.id();
        Arc::clone(files.entry(id).or_insert_with(|| Arc::new(Served::new(attachment))))
    }

    pub(super) fn remove(&self, file: FileId) {
        self.files().remove(&file);
    }

    pub(super) fn clear(&self) {
        self.files().clear();
    }

    /// Gives back what a lost process had.
    pub(super) fn forget_rank(&self, rank: Rank) {
        let all: Vec<_> = self.files().values().cloned().collect();
        all.iter().for_each(|served| served.lent.forget_rank(&served.attachment, rank));
    }

    fn files(&self) -> MutexGuard<'_, HashMap<FileId, Arc<Served>>> {
        // A panic elsewhere leaves the map whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Served {
    fn new(attachment: Arc<Attachment>) -> Served {
        Served {
            attachment,
            versions: Mutex::default(),
            nodes: Mutex::default(),
            durable_epoch: AtomicU64::new(0),
            lent: Lent::default(),
        }
    }

    /// A segment's version as `node` sees it: changes by others than itself. `own` is this node.
    pub(super) fn version(&self, index: SegmentIndex, node: NodeIndex, own: NodeIndex) -> u64 {
        let is_changed_here = self.attachment.state().is_some_and(|state| state.take_changed(index));
        let mut versions = self.versions();
        let version = versions.entry(index).or_default();
        if is_changed_here {
            version.add(own);
        }
        version.all - version.by.get(&node).copied().unwrap_or_default()
    }

    /// Notes that `node` has changed a segment.
    pub(super) fn add_change(&self, index: SegmentIndex, node: NodeIndex) {
        self.versions().entry(index).or_default().add(node);
    }

    /// At the master: notes that `nodes` open the file; returns all that have.
    pub(super) fn add_nodes(&self, nodes: &[NodeIndex]) -> Vec<NodeIndex> {
        let mut known = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.len();
        known.extend(nodes);
        if known.len() > before {
            // The new ones have the manifest, but perhaps not on their devices.
            self.durable_epoch.store(0, Ordering::Relaxed);
        }
        known.iter().copied().collect()
    }

    /// At the master: the epoch of the manifest that is on all devices; 0 where none is known to be.
    pub(super) fn durable_epoch(&self) -> &AtomicU64 {
        &self.durable_epoch
    }

    /// The node of the cluster that is in a position of the file's list.
    pub(super) fn node_at(&self, context: &Context, position: u32) -> Option<NodeIndex> {
        context.roster.index(self.attachment.nodes().get(position as usize)?)
    }

    fn versions(&self) -> MutexGuard<'_, HashMap<SegmentIndex, Version>> {
        // A panic elsewhere leaves the map whole.
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Version {
    fn add(&mut self, node: NodeIndex) {
        self.all += 1;
        *self.by.entry(node).or_default() += 1;
    }
}
