//! Dirty bytes that did not get home while they were locked. They are given up: if they came home later, it would be
//! over what the next holder of the lock wrote.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::cache::{Discarded, PageKey, PageSet};
use crate::cluster::roster::Roster;
use crate::cluster::wire::{Reply, Request};
use crate::cluster::{NodeIndex, SharedFile};
use crate::error::{Error, Result};
use crate::locks::{Owner, ThreadId};

use super::overlap;

impl SharedFile {
    /// Gives up what is dirty in `range` of what an exclusive lock covers that node `granting` has granted, after
    /// `error` has kept it from its home. Each handle of this node is told by its next flush.
    pub(in crate::cluster) fn give_up_granted(
        &self,
        granting: NodeIndex,
        range: &Range<u64>,
        error: &Error,
    ) -> Result<()> {
        // What has another home is locked there, by whoever writes it now; by the master's lock alone where it got that
        // home under it, which this node has been told of then.
        let is_any = granting == Roster::MASTER && self.are_also_locked_at_master();
        let is_others = |home| home != granting && !is_any;
        self.give_up_but(range, is_others, error, false)
    }

    /// Gives up what is dirty in `range`, which is locked exclusively, after `error` has kept it from its home, but for
    /// what has its home on a node that `is_kept` tells: its lock does not go on. Each handle of this node is told by its
    /// next flush; `is_told` says that this one knows already.
    pub(crate) fn give_up_but(
        &self,
        range: &Range<u64>,
        is_kept: impl Fn(NodeIndex) -> bool,
        error: &Error,
        is_told: bool,
    ) -> Result<()> {
        let is_given_up = |key: &PageKey| !self.home_of(self.attachment(), key).is_ok_and(&is_kept);
        if self.discard_dirty(range, is_given_up)? {
            self.add_loss(error, is_told)?;
        }
        Ok(())
    }

    /// Gives up what node `home` refuses of what this node has: a lost process of this node wrote it under a lock that
    /// has gone on since. Each handle of this node is told by its next flush.
    pub(in crate::cluster) fn give_up_late(&self, home: NodeIndex) -> Result<()> {
        let failed = |source| Error::Lock { name: self.attachment().name().into(), source };
        let (state, presence) = self.attachment().writable()?;
        let kept = state.kept_locks().map_err(failed)?;
        let owner = Owner { slot: presence.slot(), thread: ThreadId::current() };
        // One at a time: who gets a lock there waits for whoever is at it before he writes, and that one, who has asked
        // before, must not take what is written then for what is refused.
        let alone = kept.enter_to_forget(owner, &|slot| presence.alive(slot)).map_err(failed)?;
        let given_up = self.give_up_refused(home);
        kept.release(alone).map_err(failed)?;
        given_up
    }

    fn give_up_refused(&self, home: NodeIndex) -> Result<()> {
        let (cluster, file) = (self.cluster(), self.file());
        let late = match cluster.ask(home, &Request::Late { file })? {
            Reply::Late(late) => late,
            _ => return Err(cluster.context().out_of_place(home)),
        };
        // What has another home may be locked there by others of this node, who write it.
        let is_of_home = |key: &PageKey| self.home_of(self.attachment(), key).is_ok_and(|of| of == home);
        for refused in &late {
            if self.discard_dirty(&refused.range, is_of_home)? {
                self.add_loss(&cluster.context().refused(home), false)?;
            }
        }
        let late = late.iter().map(|refused| refused.number).collect();
        cluster.ask(home, &Request::GaveUp { file, late }).map(|_| ())
    }

    /// Discards what is dirty in `range`, as far as it is of such pages; says whether anything was.
    fn discard_dirty(&self, range: &Range<u64>, is_meant: impl Fn(&PageKey) -> bool) -> Result<bool> {
        let (cache, mut is_lost) = (self.cache(), false);
        for page in cache.dirty_among(self.file(), &PageSet::touched(range, cache.page()))? {
            let (key, (within, _)) = (self.key(page), overlap(page, range, cache));
            if !is_meant(&key) {
                continue;
            }
            loop {
                match cache.discard(&key, &within)? {
                    Discarded::Busy(version) => cache.wait_for_change(version)?,
                    Discarded::Dirty => {
                        is_lost = true;
                        break;
                    }
                    Discarded::Nothing => break,
                }
            }
        }
        Ok(is_lost)
    }

    /// Dirty bytes of this node were given up.
    fn add_loss(&self, error: &Error, is_told: bool) -> Result<()> {
        let (state, _) = self.attachment().writable()?;
        let number = state.add_loss(error.kind());
        if is_told {
            // Relaxed: only this number counts. Where it is not the next one, there is one more to tell of.
            let order = Ordering::Relaxed;
            let _ = self.told_losses().compare_exchange(number - 1, number, order, order);
        }
        Ok(())
    }

    /// Tells, once, that bytes of this node were given up since this handle was opened.
    pub(in crate::cluster) fn report_losses(&self) -> Result<()> {
        let (losses, kind) = self.attachment().state().map_or((0, crate::ErrorKind::Other), |s| s.losses());
        if self.told_losses().swap(losses, Ordering::Relaxed) < losses {
            return Err(Error::WritesLost { name: self.attachment().name().into(), kind });
        }
        Ok(())
    }
}
