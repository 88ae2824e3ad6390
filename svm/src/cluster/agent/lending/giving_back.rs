//! This node gives back what it keeps of another node's locks.

use std::ops::Range;
use std::sync::Arc;

use svmio_transport::Rank;

use crate::attachment::Attachment;
use crate::cluster::wire::{LockNumber, Reply};
use crate::cluster::{NodeIndex, SharedFile};
use crate::error::{Error, ErrorKind, Result};
use crate::kept_locks::{Grant, PlaceNumber};
use crate::locks::{Mode, Owner, ThreadId};
use crate::units::FileId;

use super::Agent;

impl Agent {
    /// Gives a kept lock back, by which the home may take it for free: waits until nobody of this node uses it, and
    /// brings home what was written under it.
    pub(in super::super) fn give_up(
        &self,
        home: Rank,
        file: FileId,
        lock: LockNumber,
        place: u32,
    ) -> Result<Reply> {
        let served = match self.files.get(&self.context, file) {
            // It was removed, and closed by all of this node.
            Err(error) if error.kind() == ErrorKind::NoSuchFile => return Ok(Reply::GivenBack { uses: 0 }),
            served => served?,
        };
        let attachment = &served.attachment;
        let failed = |source| Error::Lock { name: attachment.name().into(), source };
        let (state, presence) = attachment.writable()?;
        let kept = state.kept_locks().map_err(failed)?;
        let owner = Owner { slot: presence.slot(), thread: ThreadId::current() };
        let (place, alive) = (PlaceNumber(place), |slot| presence.alive(slot));
        let grant = Grant { home: self.context.roster.node_of(home).0, lock: lock.0 };
        if kept.is_passed_on(place, grant) {
            // Who has the place may be waiting for the one who asks this.
            return Ok(Reply::GivenBack { uses: 0 });
        }
        let token = kept.enter_whole(owner, place, &alive).map_err(failed)?;
        let mut uses = 0;
        // If it is something else, he who asked has died before he had it.
        if kept.grant_in(place) == Some(grant) {
            let cluster = self.cluster();
            if let Some(cluster) = cluster {
                let shared = SharedFile::new(cluster, Arc::clone(attachment));
                let (range, mode) = (kept.range_in(place), kept.mode_in(place));
                if let Err(error) = bring_home(&shared, self.context.roster.node_of(home), &range, mode) {
                    tracing::error!("what did not reach its home may come there too late: {error}");
                }
            }
            uses = kept.clear(place);
        }
        kept.release(token).map_err(failed)?;
        Ok(Reply::GivenBack { uses })
    }
}

/// Brings home what was written under a lock that goes back to node `granting`. What cannot be brought there is given up:
/// the lock goes on in any case, and the next holder's bytes are the newer ones.
///
/// # Errors
/// It cannot be given up, either.
pub(super) fn bring_home(
    shared: &SharedFile,
    granting: NodeIndex,
    range: &Range<u64>,
    mode: Mode,
) -> Result<()> {
    let home = shared.bring_range_home(range);
    if let Err(error) = shared.tell_of(range) {
        tracing::error!("others may not find what was written under a lock: {error}");
    }
    let Err(error) = home else { return Ok(()) };
    tracing::error!("what was written under a lock did not reach its home: {error}");
    if mode == Mode::Exclusive { shared.give_up_granted(granting, range, &error) } else { Ok(()) }
}

/// Forgets what a node keeps of a file that nobody has open any more.
pub(in super::super) fn forget_kept(attachment: &Attachment) {
    let Ok((state, presence)) = attachment.writable() else { return };
    let owner = Owner { slot: presence.slot(), thread: ThreadId::current() };
    let cleared = state.kept_locks().and_then(|kept| kept.clear_all(owner, &|slot| presence.alive(slot)));
    if let Err(e) = cleared {
        tracing::error!("forgetting what is kept of {}: {e}", attachment.name());
    }
}
