//! Locks on ranges of a file, on whatever nodes its segments lie.
//!
//! Each node has a table for the segments whose home it is. A range is locked in the tables of all nodes that hold
//! parts of it, in the order of the nodes, so that no two requests wait for each other. What has no home yet needs no
//! lock: a reader looks again once it holds the others, and a writer that finds homes where there were none takes its
//! locks anew.

use std::ops::Range;
use std::sync::Arc;

use crate::attachment::Attachment;
use crate::cluster::{LockHeld, SharedFile};
use crate::error::{Error, Result};
use crate::locks::{LockToken, Mode, Owner, ThreadId};

/// A range of a file that is locked until this is dropped. What was written under it is then where others look for
/// it.
pub struct RangeLock {
    shared: Option<Arc<SharedFile>>,
    held: Vec<Held>,
}

/// A lock in one node's table.
enum Held {
    Here { attachment: Arc<Attachment>, token: Option<LockToken> },
    There { _lock: LockHeld },
}

impl RangeLock {
    pub(crate) fn acquire(
        attachment: &Arc<Attachment>,
        shared: Option<&Arc<SharedFile>>,
        range: Range<u64>,
        mode: Mode,
    ) -> Result<RangeLock> {
        let Some(shared) = shared.filter(|shared| shared.has_other_nodes()) else {
            if mode == Mode::Shared && attachment.state().is_none() {
                // Nobody has the file open who could write.
                return Ok(RangeLock { shared: None, held: Vec::new() });
            }
            return Ok(RangeLock { shared: None, held: vec![lock_here(attachment, range, mode)?] });
        };
        if mode == Mode::Exclusive {
            shared.claim_all(&range)?;
        }
        loop {
            let nodes = shared.nodes_of(&range)?;
            let mut held = Vec::with_capacity(nodes.len());
            for node in &nodes {
                held.push(if *node == shared.own_node() {
                    lock_here(attachment, range.clone(), mode)?
                } else {
                    Held::There { _lock: shared.lock_at(*node, range.clone(), mode)? }
                });
            }
            let lock = RangeLock { shared: Some(Arc::clone(shared)), held };
            shared.refresh_range(&range)?;
            if shared.nodes_of(&range)? == nodes {
                return Ok(lock);
            }
        }
    }
}

impl Drop for RangeLock {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared
            && let Err(e) = shared.flush()
        {
            tracing::error!("what was written under a lock did not reach its home: {e}");
        }
        // In the reverse order.
        while let Some(held) = self.held.pop() {
            drop(held);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Held::Here { attachment, token } = self
            && let (Some(token), Some(state)) = (token.take(), attachment.state())
            && let Err(e) = state.locks().and_then(|locks| locks.release(token))
        {
            tracing::error!("unlocking {}: {e}", attachment.name());
        }
    }
}

fn lock_here(attachment: &Arc<Attachment>, range: Range<u64>, mode: Mode) -> Result<Held> {
    let (state, presence) = attachment.writable()?;
    let owner = Owner { slot: presence.slot(), thread: ThreadId::current() };
    let token = state
        .locks()
        .and_then(|locks| locks.acquire(owner, range, mode, &|slot| presence.alive(slot)))
        .map_err(|source| Error::Lock { name: attachment.name().into(), source })?;
    Ok(Held::Here { attachment: Arc::clone(attachment), token: Some(token) })
}
