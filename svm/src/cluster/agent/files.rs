//! The files that an agent serves.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::attachment::{self, Attachment, How};
use crate::cluster::{Context, NodeIndex};
use crate::error::Result;
use crate::units::{FileId, SegmentIndex};

use super::directory::Directory;
use super::lending::{Late, Lent, forget_kept};
use super::published::{Row, Table};
use super::version::Version;
use super::windows::Windows;

/// All files that are served.
#[derive(Default)]
pub(super) struct Files(Mutex<Known>);

#[derive(Default)]
struct Known {
    served: HashMap<FileId, Arc<Served>>,
    ledgers: HashMap<FileId, Arc<Ledger>>,
}

/// A file that is served.
pub(super) struct Served {
    // Dropped before the attachment: what was lent has places among those that have the file open.
    pub(super) lent: Lent,
    pub(super) windows: Windows,
    pub(super) attachment: Arc<Attachment>,
    /// Who has which pages of strict mappings.
    pub(super) directory: Mutex<Directory>,
    ledger: Arc<Ledger>,
}

/// What an agent knows of a file even while nobody has it open, for the next who open it.
#[derive(Default)]
struct Ledger {
    versions: Mutex<HashMap<SegmentIndex, Version>>,
    /// What it was served by last.
    last: Mutex<Weak<Attachment>>,
    /// Where others read them, once somebody does.
    published: Mutex<Option<Table>>,
    /// At the master.
    audience: Mutex<Audience>,
    /// At the master: how many times the file is open, each by any number of processes.
    opens: AtomicU64,
    /// At the master: how many times it was opened while nobody had it open.
    rounds: AtomicU64,
    /// At the master: whether the only open so far has made the file.
    is_new: AtomicBool,
    /// What it takes no more out of other nodes' caches, in which it may be longer than anybody has the file open.
    late: Arc<Late>,
}

/// Who hears of a file's manifests. Together, so that who comes while a manifest is being told is not taken for one who
/// has been told.
#[derive(Debug, Default)]
struct Audience {
    /// The nodes that have opened the file, or hold parts of it.
    nodes: BTreeSet<NodeIndex>,
    /// The epoch of the manifest that is known to be on all their devices; 0 where none is.
    durable_epoch: u64,
}

impl Files {
    /// The file `file`, which a process of this node has open, or which was installed here.
    pub(super) fn get(&self, context: &Context, file: FileId) -> Result<Arc<Served>> {
        let mut known = self.known_files();
        if let Some(served) = known.served.get(&file) {
            return Ok(Arc::clone(served));
        }
        let how = How::through(context.id());
        let attachment = attachment::attach(&context.store, file, &format!("file {file}"), how);
        Ok(known.serve(attachment.map_err(|error| error.into_error(file))?))
    }

    /// The file, if it is served already.
    pub(super) fn known(&self, file: FileId) -> Option<Arc<Served>> {
        self.known_files().served.get(&file).cloned()
    }

    /// Serves a file that was just attached.
    pub(super) fn insert(&self, attachment: Arc<Attachment>) -> Arc<Served> {
        self.known_files().serve(attachment)
    }

    /// What this node takes no more of a file, served or not.
    pub(super) fn late(&self, file: FileId) -> Arc<Late> {
        Arc::clone(&self.known_files().ledgers.entry(file).or_default().late)
    }

    /// Lets go of a file that nobody has open any more; for good where it was removed.
    pub(super) fn forget(&self, file: FileId, is_removed: bool) {
        let mut known = self.known_files();
        let served = known.served.remove(&file);
        if is_removed {
            known.ledgers.remove(&file);
        }
        drop(known);
        let Some(served) = served else { return };
        // Who may still be writing there has not told of it, and is asked no more.
        served.windows.written_to(|index| served.add_unknown(index));
        served.ledger.unpublish();
        forget_kept(&served.attachment);
        // Who is just answering something about the file is the last one then, and nothing is kept.
        let Some(Served { lent, windows, attachment, .. }) = Arc::into_inner(served) else { return };
        drop((lent, windows));
        // Detaching may have to wait for others of this node.
        if is_removed {
            drop(attachment);
        } else {
            attachment::keep(attachment);
        }
    }

    /// A process is lost: what it changed of files that are not served, and told nobody of, is counted when they are.
    pub(super) fn doubt_unserved(&self) {
        let known = self.known_files();
        let unserved = known.ledgers.iter().filter(|(file, _)| !known.served.contains_key(file));
        unserved.for_each(|(_, ledger)| *ledger.last() = Weak::new());
    }

    pub(super) fn clear(&self) {
        *self.known_files() = Known::default();
    }

    /// All that are served.
    pub(super) fn all(&self) -> Vec<Arc<Served>> {
        self.known_files().served.values().cloned().collect()
    }

    fn known_files(&self) -> MutexGuard<'_, Known> {
        // A panic elsewhere leaves the maps whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn serve(&mut self, attachment: Arc<Attachment>) -> Arc<Served> {
        let ledger = Arc::clone(self.ledgers.entry(attachment.id()).or_default());
        let served = self.served.entry(attachment.id()).or_insert_with(|| {
            if !ledger.goes_on_with(&attachment) {
                // What was changed while nobody served the file is not known: all counts as changed.
                let mut versions = ledger.versions.lock().unwrap_or_else(PoisonError::into_inner);
                versions.values_mut().for_each(Version::add_unknown);
                // Nor is which manifests the nodes have: some may have been put there in haste since.
                ledger.audience().durable_epoch = 0;
            }
            let (lent, windows, directory) = (Lent::default(), Windows::default(), Mutex::default());
            Arc::new(Served { lent, windows, attachment, directory, ledger })
        });
        Arc::clone(served)
    }
}

impl Served {
    /// At the master, before the file is opened while nobody has it open: has the count of truncations, which starts
    /// anew with the shared state, be larger than any that another node may remember.
    pub(super) fn begin_round(&self) {
        if self.opens() == 0
            && let Some(state) = self.attachment.state()
        {
            // Relaxed: this changes under the mutex of names.
            let round = self.ledger.rounds.fetch_add(1, Ordering::Relaxed) + 1;
            state.set_truncations(round << 32);
        }
    }

    /// What this node takes no more of it.
    pub(super) fn late(&self) -> &Arc<Late> {
        &self.ledger.late
    }

    /// At the master: one more time that the file is open.
    pub(super) fn add_open(&self) {
        // Relaxed, also below: these change under the mutex of names.
        self.ledger.opens.fetch_add(1, Ordering::Relaxed);
    }

    /// At the master: one time less that the file is open; returns how many times it still is.
    pub(super) fn take_open(&self) -> u64 {
        let opens = self.ledger.opens.load(Ordering::Relaxed).saturating_sub(1);
        self.ledger.opens.store(opens, Ordering::Relaxed);
        opens
    }

    /// At the master: notes whether this open has made the file; to be called at each.
    pub(super) fn set_new(&self, is_new: bool) {
        self.ledger.is_new.store(is_new, Ordering::Relaxed);
    }

    /// At the master: whether the file was made by its only open.
    pub(super) fn is_new(&self) -> bool {
        self.ledger.is_new.load(Ordering::Relaxed)
    }

    /// At the master: how many times the file is open.
    pub(super) fn opens(&self) -> u64 {
        self.ledger.opens.load(Ordering::Relaxed)
    }

    /// A segment's version as `node` sees it: changes by others than itself. `own` is this node.
    pub(super) fn version(&self, index: SegmentIndex, node: NodeIndex, own: NodeIndex) -> u64 {
        self.look(index, own, |version| version.seen_by(node))
    }

    /// Has a segment's version be readable by others from now on; where it is, or `None` where there is no room for it.
    pub(super) fn publish(
        &self,
        index: SegmentIndex,
        context: &Context,
    ) -> svmio_transport::Result<Option<Row>> {
        let mut published = self.ledger.published.lock().unwrap_or_else(PoisonError::into_inner);
        let table = match &mut *published {
            Some(table) => table,
            none => none.insert(Table::export(&context.fabric, context.roster.names().len())?),
        };
        Ok(self.look(index, context.roster.own(), |version| {
            if version.row().is_none() {
                version.set_row(table.take_row());
            }
            version.row().cloned()
        }))
    }

    /// How often a segment was changed, by whomever. `own` is this node.
    pub(super) fn changes(&self, index: SegmentIndex, own: NodeIndex) -> u64 {
        self.look(index, own, |version| version.all())
    }

    /// Notes that `node` has changed a segment; returns how often it was changed, this change, which made it one more,
    /// included. `own` is this node.
    pub(super) fn count_change(&self, index: SegmentIndex, node: NodeIndex, own: NodeIndex) -> u64 {
        self.look(index, own, |version| {
            version.add(node);
            version.all()
        })
    }

    /// A segment's version, with what processes of this node, `own`, have changed.
    fn look<T>(&self, index: SegmentIndex, own: NodeIndex, look: impl FnOnce(&mut Version) -> T) -> T {
        let mut versions = self.versions();
        // With the mutex held: nobody else looks between the mark's being taken and its being counted.
        let is_changed_here = self.attachment.state().is_some_and(|state| state.take_changed(index));
        let version = versions.entry(index).or_default();
        if is_changed_here {
            version.add(own);
        }
        look(version)
    }

    /// Notes that `node` has changed a segment.
    pub(super) fn add_change(&self, index: SegmentIndex, node: NodeIndex) {
        self.versions().entry(index).or_default().add(node);
    }

    /// Notes that a segment may have been changed, nobody knows by whom.
    pub(super) fn add_unknown(&self, index: SegmentIndex) {
        self.versions().entry(index).or_default().add_unknown();
    }

    /// The same of all segments that another node has heard a version of.
    pub(super) fn add_unknown_to_all(&self) {
        self.versions().values_mut().for_each(Version::add_unknown);
    }

    /// At the master: notes that `nodes` open the file; returns all that have to do with it.
    pub(super) fn add_nodes(&self, nodes: &[NodeIndex]) -> Vec<NodeIndex> {
        let mut audience = self.ledger.audience();
        let before = audience.nodes.len();
        audience.nodes.extend(nodes);
        if audience.nodes.len() > before {
            // The new ones have the manifest, but perhaps not on their devices.
            audience.durable_epoch = 0;
        }
        audience.nodes.iter().copied().collect()
    }

    /// The same of nodes that hold parts of the file: they were told of its manifests since they do.
    pub(super) fn add_holders(&self, nodes: &[NodeIndex]) -> Vec<NodeIndex> {
        let mut audience = self.ledger.audience();
        audience.nodes.extend(nodes);
        audience.nodes.iter().copied().collect()
    }

    /// At the master: whether the manifest of this epoch is known to be on all devices.
    pub(super) fn is_durable(&self, epoch: u64) -> bool {
        epoch > 0 && self.ledger.audience().durable_epoch == epoch
    }

    /// At the master: notes that the manifest of this epoch is on the devices of all that `have_it`, unless others have
    /// to do with the file by now.
    pub(super) fn set_durable(&self, epoch: u64, have_it: impl Fn(&NodeIndex) -> bool) {
        let mut audience = self.ledger.audience();
        if audience.nodes.iter().all(have_it) {
            audience.durable_epoch = epoch;
        }
    }

    /// The node of the cluster that is in a position of the file's list.
    pub(super) fn node_at(&self, context: &Context, position: u32) -> Option<NodeIndex> {
        context.roster.index(self.attachment.nodes().get(position as usize)?)
    }

    fn versions(&self) -> MutexGuard<'_, HashMap<SegmentIndex, Version>> {
        // A panic elsewhere leaves the map whole.
        self.ledger.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    fn audience(&self) -> MutexGuard<'_, Audience> {
        // A panic elsewhere leaves it whole.
        self.audience.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `attachment` serve the file from now on. Whether it is the one that did so last: then it was kept, and
    /// nobody has had the file open meanwhile who does not mark what he changes.
    fn goes_on_with(&self, attachment: &Arc<Attachment>) -> bool {
        let last = std::mem::replace(&mut *self.last(), Arc::downgrade(attachment));
        // As long as the weak one is there, no other attachment has its address.
        std::ptr::eq(last.as_ptr(), Arc::as_ptr(attachment))
    }

    fn last(&self) -> MutexGuard<'_, Weak<Attachment>> {
        // Changed by single assignments.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the export of versions, which nobody reads any more: whoever still did would find them as they are now, and
    /// take what he reads for older than it is.
    fn unpublish(&self) {
        let table = self.published.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.values_mut().for_each(|version| version.set_row(None));
        drop(versions);
        drop(table);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::name::FileName;
    use crate::node::NodeName;
    use crate::open_options::OpenOptions;
    use crate::store::Store;

    #[test]
    fn a_manifest_is_on_all_devices_only_where_nobody_has_come_since_it_was_told() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::open_for(directory.path(), &NodeName::new("a")).unwrap();
        let options = OpenOptions::read_write().create(true);
        let file = store.open_file(&FileName::new("/f").unwrap(), &options).unwrap();
        let served = Files::default().insert(Arc::clone(file.attachment()));
        let [one, newcomer, holder] = [1, 2, 3].map(NodeIndex);
        let asked = served.add_nodes(&[one]);
        served.add_nodes(&[newcomer]);
        served.set_durable(7, |node| asked.contains(node));
        assert!(!served.is_durable(7), "the newcomer may have it, but not on its device");
        let asked = served.add_nodes(&[]);
        served.set_durable(7, |node| asked.contains(node));
        assert!(served.is_durable(7) && !served.is_durable(6));
        // Who holds a part was told of all manifests since it does.
        served.add_holders(&[holder]);
        assert!(served.is_durable(7));
        served.add_nodes(&[one, NodeIndex(4)]);
        assert!(!served.is_durable(7) && !served.is_durable(0));
    }
}
