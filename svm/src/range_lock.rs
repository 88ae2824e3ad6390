//! Locks on ranges of a file, on whatever nodes its segments lie.
//!
//! Each node has a table for the segments whose home it is. A range is locked in the tables of all nodes that hold
//! parts of it, in the order of the nodes, so that no two requests wait for each other. For what has no home yet it is
//! locked at the master node, which is the first. Once somebody holds all locks, he looks again, and takes them anew if
//! there are more homes.
//!
//! Who locks a range for writing gives homes to the segments without one that he is going to write, before he takes the
//! locks of these homes: others who know the home already lock nowhere else. What is not written stays without a home,
//! and is locked at the master by him, too. Where a segment gets a home while some of it is locked at the master, all
//! ranges of the file are locked there, too, from then on, by all who know of the home: see the attachment's module
//! `giving_homes`.
//!
//! What another node grants may be kept by this one after its release, so that the next lock costs no message.
//!
//! What was written under an exclusive lock and does not get home before the lock goes on is given up, with an error:
//! of the release, or, of a kept lock, of the next flush of each handle of the node. So is what a holder wrote that is
//! lost, where its node's leader does not bring it home before its lock goes on.

use std::ops::Range;
use std::sync::Arc;

use crate::attachment::Attachment;
use crate::cluster::{HomeLock, NodeIndex, SharedFile, Source, UnderLock};
use crate::error::{Error, Result};
use crate::locks::{LockError, LockToken, Mode, Owner, ThreadId};

/// A range of a file that is locked until this is released or dropped. Whoever locks it next finds what was written to
/// it. Whoever only [refreshes](crate::File::refresh) finds that after a [flush](crate::File::flush): where this node
/// keeps the lock, as it does if it has it again and again, it keeps what was written under it, too.
#[must_use = "the range is unlocked when this is dropped"]
pub struct RangeLock {
    shared: Option<Arc<SharedFile>>,
    range: Range<u64>,
    held: Vec<Held>,
    /// All of it is locked against everybody else: something may have been written under it.
    is_exclusive: bool,
    _under_lock: Option<UnderLock>,
}

/// A lock in one node's table.
enum Held {
    Here { attachment: Arc<Attachment>, token: LockToken },
    There(HomeLock),
}

impl RangeLock {
    /// Locks `range`; `claim` gives homes to those of its segments without one that are written under an exclusive
    /// lock.
    pub(crate) fn acquire(
        attachment: &Arc<Attachment>,
        shared: Option<&Arc<SharedFile>>,
        range: Range<u64>,
        mode: Mode,
        claim: &dyn Fn(&SharedFile) -> Result<()>,
    ) -> Result<RangeLock> {
        let Some(shared) = shared.filter(|shared| shared.has_other_nodes()) else {
            if mode == Mode::Shared && attachment.state().is_none() {
                // Nobody has the file open who could write.
                return Ok(RangeLock::here(range, Vec::new(), false));
            }
            let held = vec![lock_here(attachment, None, &range, mode)?];
            return Ok(RangeLock::here(range, held, mode == Mode::Exclusive));
        };
        let mut source = Source::KeptOrHomes;
        loop {
            let mut lock = RangeLock::here(range.clone(), Vec::new(), false);
            lock.shared = Some(Arc::clone(shared));
            lock._under_lock = Some(UnderLock::of(shared));
            if mode == Mode::Exclusive && shared.may_have_holes(&range) {
                claim(shared)?;
            }
            let nodes = shared.nodes_of(&range)?;
            for node in &nodes {
                match Held::acquire(attachment, shared, *node, &range, mode, source)? {
                    Some(held) => lock.held.push(held),
                    None => break,
                }
            }
            if lock.held.len() < nodes.len() {
                drop(lock);
                shared.may_do_without_kept(&range)?;
                source = Source::Homes;
                continue;
            }
            if !shared.knows_all_of(&range) {
                shared.refresh_range(&range)?;
            } else if !lock.held.iter().all(Held::brings_no_news) {
                shared.refresh_cached(&range)?;
            } else {
                shared.bury_writers()?;
            }
            if shared.nodes_of(&range)? == nodes {
                lock.settle(mode)?;
                lock.is_exclusive = mode == Mode::Exclusive;
                return Ok(lock);
            }
        }
    }

    /// Unlocks the range, after what was written to it is where those look for it who lock it next.
    ///
    /// # Errors
    /// [`Error::OnNode`], [`Error::Fabric`]: the range is unlocked. What was written and did not get home is lost, but
    /// for what this node keeps the lock of: it must not come home over what the next holder writes. Or it did get
    /// home, but a home, or the master node about the file's size, could not be told: others may not find it. Where the
    /// lock had been taken away, [`Error::Lock`], or [`Error::OnNode`] from another home, or [`Error::Fabric`] that
    /// names this node's leader, with whose loss it went.
    pub fn release(mut self) -> Result<()> {
        self.end(true)
    }

    /// That none of it is known to have been taken away, so that what was written under it may still go home.
    pub(crate) fn still_held(&self) -> Result<()> {
        self.held.iter().try_for_each(Held::check)
    }

    /// On this node only.
    fn here(range: Range<u64>, held: Vec<Held>, is_exclusive: bool) -> RangeLock {
        RangeLock { shared: None, range, held, is_exclusive, _under_lock: None }
    }

    /// Lets this node keep what it was granted for that.
    fn settle(&mut self, mode: Mode) -> Result<()> {
        let mut outcome = Ok(());
        for held in std::mem::take(&mut self.held) {
            match held {
                Held::There(lock) => match lock.settle(&self.range, mode) {
                    Ok(lock) => self.held.push(Held::There(lock)),
                    // It has been given back.
                    Err(error) => outcome = outcome.and(Err(error)),
                },
                here => self.held.push(here),
            }
        }
        outcome
    }

    /// Unlocks; `is_told` says that somebody hears of the outcome.
    fn end(&mut self, is_told: bool) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let mut outcome = self.shared.as_ref().map_or(Ok(()), |shared| self.show(shared, is_told));
        // In the reverse order.
        while let Some(held) = self.held.pop() {
            outcome = outcome.and(held.release());
        }
        outcome
    }

    /// What was written under it is where who locks it next looks for it: at home, or in the cache as far as the node
    /// keeps the lock. What does not get there before the lock goes on is given up, and nothing else: what others of
    /// the node wrote while it was kept is among what stays.
    fn show(&self, shared: &SharedFile, is_told: bool) -> Result<()> {
        let still_held = self.still_held();
        let is_kept = |home| still_held.is_ok() && self.held.iter().any(|held| held.is_kept_of(home));
        let home = match &still_held {
            Ok(()) if !self.held.iter().all(Held::is_kept) => shared.bring_range_home(&self.range),
            _ => Ok(()),
        };
        if let (Err(error), true) = (still_held.as_ref().and(home.as_ref()), self.is_exclusive) {
            let given_up = shared.give_up_but(&self.range, is_kept, error, is_told);
            if let Err(error) = given_up {
                tracing::error!("what did not reach its home may come there too late: {error}");
            }
        }
        // Also where some of it could not be brought home.
        let told = shared.tell_of(&self.range);
        still_held.and(home).and(told)
    }
}

impl Drop for RangeLock {
    fn drop(&mut self) {
        if let Err(e) = self.end(false) {
            tracing::error!("unlocking: {e}");
        }
    }
}

impl Held {
    /// Takes the lock of one node; `None` as for [`HomeLock::acquire`].
    fn acquire(
        attachment: &Arc<Attachment>,
        shared: &Arc<SharedFile>,
        node: NodeIndex,
        range: &Range<u64>,
        mode: Mode,
        source: Source,
    ) -> Result<Option<Held>> {
        if node == shared.own_node() {
            lock_here(attachment, Some(shared), range, mode).map(Some)
        } else {
            Ok(HomeLock::acquire(shared, node, range, mode, source)?.map(Held::There))
        }
    }

    /// Whether other nodes can have changed nothing in the range since this node last looked.
    fn brings_no_news(&self) -> bool {
        match self {
            Held::Here { .. } => true,
            Held::There(lock) => lock.is_old(),
        }
    }

    fn is_kept(&self) -> bool {
        matches!(self, Held::There(lock) if lock.is_kept())
    }

    /// Whether it is the lock of that home, and is kept.
    fn is_kept_of(&self, home: NodeIndex) -> bool {
        matches!(self, Held::There(lock) if lock.is_kept() && lock.home() == home)
    }

    /// That it is known to be held still.
    fn check(&self) -> Result<()> {
        match self {
            Held::Here { .. } => Ok(()),
            Held::There(lock) => lock.check(),
        }
    }

    fn release(self) -> Result<()> {
        match self {
            Held::Here { attachment, token } => {
                let released = attachment.writable()?.0.locks().and_then(|locks| locks.release(token));
                released.map_err(|source| failed(&attachment, source))
            }
            Held::There(lock) => lock.release(),
        }
    }
}

fn lock_here(
    attachment: &Arc<Attachment>,
    shared: Option<&Arc<SharedFile>>,
    range: &Range<u64>,
    mode: Mode,
) -> Result<Held> {
    let (state, presence) = attachment.writable()?;
    let owner = Owner { slot: presence.slot(), thread: ThreadId::current() };
    let alive = |slot| state.is_alive(presence, slot, attachment.own());
    let failed = |source| failed(attachment, source);
    let locks = state.locks().map_err(failed)?;
    let held = |token| Held::Here { attachment: Arc::clone(attachment), token };
    let Some(shared) = shared else {
        return locks.acquire(owner, range.clone(), mode, &alive).map(held).map_err(failed);
    };
    if let Some(token) = locks.try_acquire(owner, range.clone(), mode, &alive).map_err(failed)? {
        return Ok(held(token));
    }
    // What is in the way may be a lock that another node keeps unused.
    let number = shared.begin_wait(range, mode)?;
    let acquired = locks.acquire(owner, range.clone(), mode, &alive).map(held).map_err(failed);
    let ended = shared.end_wait(number);
    match (acquired, ended) {
        (Ok(held), Err(error)) => {
            held.release()?;
            Err(error)
        }
        (acquired, _) => acquired,
    }
}

fn failed(attachment: &Attachment, source: LockError) -> Error {
    Error::Lock { name: attachment.name().into(), source }
}
