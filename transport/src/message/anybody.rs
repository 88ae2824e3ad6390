//! Receiving from whoever has sent something.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::Messenger;
use super::incoming::Arrival;
use super::link::Link;
use crate::error::{Error, Result};
use crate::memory::UserMemory;
use crate::units::Rank;

impl Messenger {
    /// Receives the next message of anybody; returns whose it was, and its length. All have their turn.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive). Each process that is lost is reported once, when nothing else has come; the
    /// others can be received from after that. When all others are lost, or one that is [watched](Self::watch), every
    /// call reports it.
    pub fn receive_any(&self, into: &mut [u8]) -> Result<(Rank, usize)> {
        let memory = UserMemory::of_mut(into);
        let links = self.engine.links();
        // What cannot be taken is no reason to look again: whoever waits does other links' work meanwhile.
        let may_receive = |link: &Arc<Link>| {
            link.signs.messages.has_arrived()
                && !link.signs.has_posted.load(Ordering::Relaxed)
                && !link.signs.failed.load(Ordering::Relaxed)
                && self.engine.check(link.peer).is_ok()
        };
        let (from, arrival) = self.engine.wait(
            || links.iter().any(|link| may_receive(link) || link.has_news_of_failure()),
            || {
                let (count, last) = (links.len(), self.last_from.load(Ordering::Relaxed) as usize);
                for index in (0..count).map(|turn| (last + 1 + turn) % count) {
                    if let Some(link) = links.at(index).filter(|link| may_receive(link))
                        && let Some(arrival) = self.begin_receive_from_one(link, memory)?
                    {
                        self.last_from.store(index as u32, Ordering::Relaxed);
                        return Ok(Some((link.peer, arrival)));
                    }
                }
                self.report_losses().map(|()| None)
            },
        )?;
        self.finish_receive(arrival).map(|length| (from, length))
    }

    /// Whether messages of `from` can still come: for one who waits for them by [`receive_any`](Self::receive_any),
    /// which tells only one of many threads why nothing more comes from somebody.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    pub fn check(&self, from: Rank) -> Result<()> {
        self.engine.check(from)?;
        let Some(link) = self.engine.links().get(from) else { return Ok(()) };
        let signs = &link.signs;
        if signs.failed.load(Ordering::Relaxed) {
            link.take_turn().check_pair()
        } else if signs.closed.load(Ordering::Relaxed) && !signs.messages.has_arrived() {
            Err(self.engine.context.has_closed(from))
        } else {
            Ok(())
        }
    }

    /// Tells a receive from anybody of a failure that none was told of.
    fn report_losses(&self) -> Result<()> {
        if self.engine.context.disturbances.load(Ordering::Relaxed) > 0 {
            let membership = self.engine.context.fabric.membership();
            membership.check_job()?;
            // Nothing is received from anybody any more then.
            self.engine.context.check_watched()?;
            let lost = membership.lost();
            let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(rank) = lost.iter().find(|rank| !reported.contains(rank)) {
                reported.push(*rank);
                membership.check(*rank)?;
            } else if let Some(rank) = lost.first().filter(|_| membership.is_alone()) {
                membership.check(*rank)?;
            }
        }
        self.engine.links().iter().try_for_each(|link| link.report_failure())
    }

    /// As [`begin_receive`](Self::begin_receive), but does not queue behind others, and is not for one from whom
    /// nothing comes any more.
    fn begin_receive_from_one(&self, link: &Link, memory: UserMemory) -> Result<Option<Arrival>> {
        if link.signs.has_posted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match self.begin_receive(link, memory) {
            Err(Error::NoMessenger { .. }) => Ok(None),
            arrival => arrival,
        }
    }
}
