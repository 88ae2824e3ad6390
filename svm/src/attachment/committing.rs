//! What this process changed of a file: telling other nodes, bringing it to the device, and the manifest.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use crate::changes::Mark;
use crate::error::{Error, Result, Unsynced};
use crate::manifest::{self, Manifest};
use crate::name::FileName;
use crate::object;
use crate::placement::{Policies, SizeReason};
use crate::segment::Segment;
use crate::state::State;
use crate::store::entry;
use crate::units::{SegmentIndex, SegmentSize};

use super::{Attachment, Filling, Home, View};

impl Attachment {
    /// Remembers that this process changed a segment: after it has stored the bytes.
    pub(crate) fn mark_dirty(&self, segment: &Segment) {
        self.changes.enter(segment.index(), segment.mark(), || self.is_shared());
    }

    /// Remembers that this process may have changed a segment that it has mapped in place, where nobody sees it store:
    /// by the number alone, for there may be more of them than are kept open.
    pub(crate) fn mark_dirty_in_place(&self, index: SegmentIndex) {
        self.changes.enter(index, &Mark::default(), || self.is_shared());
    }

    fn is_shared(&self) -> bool {
        self.state().is_some_and(|state| state.cluster() != 0)
    }

    /// Remembers that this process changed a segment at another's word: after it has stored the bytes. Whose change
    /// that was is for the caller to count.
    pub(crate) fn mark_dirty_for_another(&self, index: SegmentIndex) {
        self.changes.enter_for_another(index);
    }

    /// Marks what this process changed since the last time, for other nodes to see when they ask.
    pub(crate) fn tell_changes(&self) {
        if let Some(state) = self.state() {
            self.changes.tell(|index| state.set_changed(index));
        }
    }

    /// Brings what this process changed to the storage device.
    pub(crate) fn sync_segments(&self) -> Result<()> {
        self.changes.sync(|index| {
            self.mapping(index)?.sync().map_err(|source| {
                let (name, path, problem) = (self.name.clone(), self.path(), source.to_string());
                let kind = Error::io("syncing", &path, source).kind();
                Error::Unsynced(Unsynced { name, segment: index, path, kind, problem })
            })
        })
    }

    /// The same, and what processes of this node left that had the file open before and did not sync it.
    pub(crate) fn sync_left_segments(&self) -> Result<()> {
        let left: Vec<_> = match self.state() {
            Some(state) => {
                state.left_unsynced().filter(|(index, _)| self.home(*index) == Home::Here).collect()
            }
            None => Vec::new(),
        };
        left.iter().for_each(|(index, _)| self.changes.enter_for_another(*index));
        self.sync_segments()?;
        if let View::Full { state, .. } = &self.view {
            left.into_iter().for_each(|(index, count)| state.note_synced(index, count));
        }
        Ok(())
    }

    /// Before this process leaves the file: tells those who have it open, or will, what they are to sync.
    pub(super) fn leave_unsynced(&self, state: &State) {
        self.changes.hand_over(|index| state.leave_unsynced(index));
    }

    /// Replaces the manifest if it does not tell the size and the segments that there are, and returns the new one.
    pub(crate) fn commit(&self, durable: bool) -> Result<Option<Manifest>> {
        let View::Full { state, presence } = &self.view else {
            return Ok(None);
        };
        if if durable { state.is_durable() } else { !state.needs_commit() } {
            return Ok(None);
        }
        let path = object::path(&self.store, self.id);
        let _gate = presence.gate().map_err(|e| Error::io(format!("committing {}", self.name), &path, e))?;
        if state.is_deleted() {
            return Ok(None);
        }
        if !state.needs_commit() {
            // Whoever committed last may not have waited for the storage device.
            let epoch = state.epoch();
            self.settle_name(state, &self.name)?;
            // The system tells once of what it could not write back: a second try would be told of success.
            Manifest::sync(&path, &self.name).inspect_err(|_| state.distrust_manifest())?;
            state.set_durable(epoch);
            return Ok(None);
        }
        let manifest = self.manifest(state, state.epoch() + 1);
        self.replace_manifest(state, &manifest, durable)?;
        Ok(Some(manifest))
    }

    /// Settles how large segments are, of which there is none yet, for that reason; returns the manifest that tells it,
    /// which is in place here.
    pub(crate) fn settle_segment_size(&self, size: SegmentSize, reason: SizeReason) -> Result<Manifest> {
        let (state, presence) = self.writable()?;
        let path = object::path(&self.store, self.id);
        let _gate = presence.gate().map_err(|e| Error::io(format!("writing {}", self.name), &path, e))?;
        let before = (self.segment_size(), self.policies().size_reason.replace(reason));
        state.set_segment_size(size);
        if state.is_deleted() {
            return Ok(self.manifest(state, state.epoch()));
        }
        let manifest = self.manifest(state, state.epoch() + 1);
        let replaced = self.replace_manifest(state, &manifest, false);
        if replaced.is_err() {
            state.set_segment_size(before.0);
            self.policies().size_reason = before.1;
        }
        replaced.map(|()| manifest)
    }

    /// Puts a manifest in place that the master node has made; its homes as for [`Attachment::note_homes`].
    pub(crate) fn adopt(
        &self,
        manifest: &Manifest,
        durable: bool,
        also_locked_at_master: bool,
    ) -> Result<()> {
        let (state, presence) = self.writable()?;
        let path = object::path(&self.store, self.id);
        let _gate = presence.gate().map_err(|e| Error::io(format!("committing {}", self.name), &path, e))?;
        if manifest.epoch >= state.epoch() {
            state.set_segment_size(manifest.segment_size);
        }
        if state.is_deleted() {
            return Ok(());
        }
        // Two commits were sent one after the other, and this one comes late: the newer one tells all that it does.
        if manifest.epoch < state.epoch() {
            if durable {
                // Written again, not only synced: the device may have refused it before, which the system tells once.
                self.replace_manifest(state, &Manifest::read(&path, &self.name)?, true)?;
            }
            return Ok(());
        }
        let homes: Vec<_> = manifest.homes().collect();
        self.note_homes(&homes, Filling::Sparse, also_locked_at_master)?;
        *self.policies() = manifest.policies();
        self.replace_manifest(state, manifest, durable)
    }

    /// What there is to tell of the file now.
    pub(crate) fn manifest(&self, state: &State, epoch: u64) -> Manifest {
        let Policies { placement, size_reason: segment_size_reason } = self.policies().clone();
        Manifest {
            id: self.id,
            name: self.name.clone(),
            size: state.size(),
            segment_size: self.segment_size(),
            epoch,
            nodes: self.nodes.clone(),
            segments: manifest::runs(state.homes()),
            temporary: self.temporary,
            placement,
            segment_size_reason,
        }
    }

    /// Brings the file's name to the storage device, once while the state counts: on nodes other than the master's, a
    /// file is given its name without waiting for that.
    fn settle_name(&self, state: &State, name: &str) -> Result<()> {
        if self.temporary || state.has_been_durable() {
            return Ok(());
        }
        // Some who serve a file for others know it by no name of its own; what the master tells has it.
        let Ok(name) = FileName::new(name) else { return Ok(()) };
        // Relaxed: the caller has the gate.
        let anew = self.name_was_refused.load(Ordering::Relaxed);
        let settled = entry::settle(&self.store, &name, self.id, anew);
        self.name_was_refused.store(settled.is_err(), Ordering::Relaxed);
        settled
    }

    fn replace_manifest(&self, state: &State, manifest: &Manifest, durable: bool) -> Result<()> {
        let path = object::path(&self.store, self.id);
        if durable {
            self.settle_name(state, &manifest.name)?;
            // The segments' directory entries must not come after the manifest that names them.
            rustix::fs::fsync(self.directory.as_fd())
                .map_err(|e| Error::io(format!("syncing {}", self.name), &path, e))?;
        }
        manifest.commit(&path, durable)?;
        // A segment that was added meanwhile is not counted, and makes the next commit necessary.
        let segments = manifest.segments.iter().map(|run| u64::from(run.count)).sum();
        state.set_committed(manifest.size, segments, manifest.epoch);
        if durable {
            state.set_durable(manifest.epoch);
        }
        Ok(())
    }
}
