//! Locks that ranks of other nodes hold on this node's segments.
//!
//! They stand in the same table as those of the node's own ranks. Each rank that holds one or waits for one has a
//! place among the processes that have the file open, taken for it by the agent: when the rank is lost the agent
//! leaves that place, and the table takes it for dead like any process of this node.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use svmio_transport::Rank;

use crate::attachment::{Attachment, PROCESSES};
use crate::cluster::wire::{LockNumber, Reply};
use crate::error::{Error, Result};
use crate::locks::{LockToken, Mode, Owner, ThreadId};
use crate::object;
use crate::presence::{Presence, ProcessSlot};
use crate::units::FileId;

use super::Agent;

/// What is lent of one file.
#[derive(Default)]
pub(super) struct Lent(Mutex<Ranks>);

#[derive(Default)]
struct Ranks {
    present: HashMap<Rank, Arc<Presence>>,
    locks: HashMap<LockNumber, (Rank, LockToken)>,
}

impl Lent {
    /// Gives back all that a lost rank had.
    pub(super) fn forget_rank(&self, attachment: &Attachment, rank: Rank) {
        let (presence, tokens) = {
            let mut ranks = self.ranks();
            let numbers: Vec<_> =
                ranks.locks.iter().filter(|(_, (owner, _))| *owner == rank).map(|(n, _)| *n).collect();
            let tokens: Vec<_> = numbers.iter().filter_map(|number| ranks.locks.remove(number)).collect();
            (ranks.present.remove(&rank), tokens)
        };
        for (_, token) in tokens {
            release(attachment, token);
        }
        drop(presence);
    }

    fn slot(&self, attachment: &Attachment, rank: Rank) -> io::Result<ProcessSlot> {
        let mut ranks = self.ranks();
        if let Some(presence) = ranks.present.get(&rank) {
            return Ok(presence.slot());
        }
        // An open of its own: the locks that tell who is there belong to what `open` returns.
        let state = File::options().read(true).write(true).open(attachment.path().join(object::STATE))?;
        let presence = Presence::enter(state, PROCESSES)?;
        let slot = presence.slot();
        if let Some(state) = attachment.state() {
            state.locks().and_then(|locks| locks.reap(slot)).map_err(io::Error::other)?;
        }
        ranks.present.insert(rank, Arc::new(presence));
        Ok(slot)
    }

    fn ranks(&self) -> MutexGuard<'_, Ranks> {
        // A panic elsewhere leaves the maps whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Agent {
    pub(super) fn lend(
        &self,
        rank: Rank,
        file: FileId,
        range: Range<u64>,
        thread: u32,
        exclusive: bool,
    ) -> Result<Reply> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let served = self.files.get(&self.context, file)?;
        let attachment = &served.attachment;
        let failed = |e| Error::io(format!("locking {}", attachment.name()), &attachment.path(), e);
        let slot = served.lent.slot(attachment, rank).map_err(failed)?;
        let (state, presence) = attachment.writable()?;
        let owner = Owner { slot, thread: ThreadId(thread) };
        let mode = if exclusive { Mode::Exclusive } else { Mode::Shared };
        let token = state
            .locks()
            .and_then(|locks| locks.acquire(owner, range, mode, &|slot| presence.alive(slot)))
            .map_err(|source| Error::Lock { name: attachment.name().into(), source })?;
        // Relaxed: only uniqueness counts.
        let lock = LockNumber(NEXT.fetch_add(1, Ordering::Relaxed));
        served.lent.ranks().locks.insert(lock, (rank, token));
        if self.context.fabric.membership().check(rank).is_err() {
            // Lost while it waited.
            served.lent.forget_rank(attachment, rank);
        }
        Ok(Reply::Locked { lock })
    }

    pub(super) fn take_back(&self, file: FileId, lock: LockNumber) -> Result<Reply> {
        let served = self.files.get(&self.context, file)?;
        let lent = served.lent.ranks().locks.remove(&lock);
        if let Some((_, token)) = lent {
            release(&served.attachment, token);
        }
        Ok(Reply::Done)
    }
}

fn release(attachment: &Attachment, token: LockToken) {
    if let Some(state) = attachment.state()
        && let Err(e) = state.locks().and_then(|locks| locks.release(token))
    {
        tracing::error!("unlocking {}: {e}", attachment.name());
    }
}
