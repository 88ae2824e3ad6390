//! Who of this process copies which shared message.

use std::sync::Arc;

use super::ends;
use super::link::{Link, State};
use super::sharing::{Copied, Sharing};
use super::wire::{Ended, Packet};
use crate::error::Result;

/// This end of a shared message.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) sharing: Arc<Sharing>,
    pub(super) phase: Phase,
    /// Whether the other end said that all is finished.
    pub(super) is_over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Chunks may be left, and nobody of this process copies.
    Open,
    /// Somebody of this process copies.
    Copying,
    /// All chunks are claimed.
    Exhausted,
}

impl Share {
    pub(super) fn new(sharing: Sharing) -> Option<Self> {
        Some(Self { sharing: Arc::new(sharing), phase: Phase::Open, is_over: false })
    }
}

pub(super) fn is_copying(share: Option<&Share>) -> bool {
    share.is_some_and(|share| share.phase == Phase::Copying)
}

impl State {
    /// Whether a shared message waits for somebody of this process to copy.
    pub(super) fn has_open(&self) -> bool {
        self.error.is_none() && self.shares().any(|share| share.phase == Phase::Open)
    }

    fn shares(&self) -> impl Iterator<Item = &Share> {
        let sending = self.sending.iter().filter_map(|sending| sending.share.as_ref());
        sending.chain(self.receiving.iter().filter_map(|receiving| receiving.share.as_ref()))
    }

    /// A shared message to copy; it is the caller's until [`give_share_back`](Self::give_share_back).
    pub(super) fn take_share(&mut self, link: &Link) -> Option<Arc<Sharing>> {
        if self.error.is_some() {
            return None;
        }
        let sending = self.sending.iter_mut().filter_map(|sending| sending.share.as_mut());
        let mut shares =
            sending.chain(self.receiving.iter_mut().filter_map(|receiving| receiving.share.as_mut()));
        let share = shares.find(|share| share.phase == Phase::Open)?;
        share.phase = Phase::Copying;
        let sharing = Arc::clone(&share.sharing);
        self.publish(link);
        Some(sharing)
    }

    /// Tells the peer that all of its message is here, where its inbox is mapped: before the packet says so.
    fn tell_end(&mut self, link: &Link, transfer: u32) {
        if let Ok(outbox) = self.outbox(link)
            && let Some(inbox) = outbox.segment.mapping()
        {
            ends::tell(inbox, transfer);
        }
    }

    /// What came of copying a shared message.
    pub(super) fn give_share_back(&mut self, link: &Link, sharing: &Arc<Sharing>, copied: Result<Copied>) {
        let is_it =
            |share: &Option<Share>| share.as_ref().is_some_and(|share| Arc::ptr_eq(&share.sharing, sharing));
        let outgoing = self.sending.iter().position(|sending| is_it(&sending.share));
        let incoming = self.receiving.iter().position(|receiving| is_it(&receiving.share));
        let share = match (outgoing, incoming) {
            (Some(index), _) => self.sending[index].share.as_mut(),
            (None, Some(index)) => self.receiving[index].share.as_mut(),
            (None, None) => None,
        };
        let mut is_over = false;
        if let Some(share) = share {
            share.phase = if matches!(copied, Ok(Copied::Stopped)) { Phase::Open } else { Phase::Exhausted };
            is_over = share.is_over || matches!(copied, Ok(Copied::Finished));
        }
        match copied {
            Err(error) if self.error.is_none() => self.fail(link, error),
            Ok(copied) if is_over && self.error.is_none() => {
                if let Some(index) = outgoing {
                    self.sent(link, index);
                } else if let Some(index) = incoming {
                    let (transfer, is_left) = (self.receiving[index].id, self.receiving[index].is_left);
                    self.received(index);
                    if copied == Copied::Finished {
                        self.tell_end(link, transfer);
                        self.answer(Packet::Taken { transfer, ended: Ended::Received }, is_left);
                    } else {
                        self.slots.retain(|(_, used_by)| *used_by != transfer);
                    }
                }
            }
            _ => {}
        }
        self.process(link);
    }
}

/// Copies a shared message until all is claimed or `stop` says so.
pub(super) fn copy(link: &Link, sharing: &Sharing, stop: impl FnMut() -> bool) -> Result<Copied> {
    // SAFETY: the share is being copied, so the operation does not end before it is given back, and its memory is
    // valid until it ends.
    unsafe { sharing.copy(&link.context, stop) }
}
