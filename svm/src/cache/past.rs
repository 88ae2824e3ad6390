//! Writes past the cache: bytes that go home without being here.
//!
//! While they are under way, whoever fetches a page may get its old bytes or its new ones. Who writes them mends
//! that once they are home: he [drops](PageCache::expire) the pages, or [puts the bytes there](PageCache::overwrite).
//! He may be killed before. So each process keeps count, in the shared memory, of the writes that it has under way.
//! What the process of a count that is not zero has left undone when it is dead, is done by whoever next wants to see
//! what is new: which pages these were nobody knows, so all go that can be fetched again.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::layout::kill_point;
use super::{Owner, PageCache};
use crate::error::Result;
use crate::presence::ProcessSlot;

/// A write past the cache that is under way; to be dropped when the cache agrees with the home again.
#[must_use = "it is under way as long as this is there"]
pub(crate) struct WritePast<'c> {
    cache: &'c PageCache,
}

/// The bits that count, of a word that says how many writes a process has under way. The others say which process.
const COUNT: u64 = u16::MAX as u64;

impl PageCache {
    /// Notes that bytes are about to go home past the cache.
    pub(crate) fn begin_past(&self) -> WritePast<'_> {
        let header = self.memory.header();
        // Release, with the Acquire in `bury_writers`: who knows of bytes that were sent after this finds the counts.
        // In this order: a death in between has others look for nothing, and not overlook something.
        header.writing.fetch_add(1, Release);
        kill_point();
        header.writers[usize::from(self.own.slot.0)].fetch_add(1, Release);
        kill_point();
        WritePast { cache: self }
    }

    /// Drops the pages that may be too old because a process died while it wrote past the cache: all of them, but for
    /// dirty bytes and those that are being written back. Where nobody writes past the cache it costs a look.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) where a set cannot be locked, or there is no memory.
    pub(crate) fn bury_writers(&self) -> Result<()> {
        let header = self.memory.header();
        if header.writing.load(Acquire) == 0 {
            return Ok(());
        }
        // Slots are taken from the first one on. Relaxed: who began to write has entered before.
        let slots = header.entered.load(Relaxed).min(header.writers.len() as u64) as u16;
        (0..slots).try_for_each(|slot| self.bury_writer(ProcessSlot(slot)))
    }

    /// The same for the process that has a slot, or had it last.
    pub(super) fn bury_writer(&self, slot: ProcessSlot) -> Result<()> {
        let header = self.memory.header();
        let word = &header.writers[usize::from(slot.0)];
        let found = word.load(Acquire);
        let (count, owner) = (found & COUNT, Owner { slot, entered: found >> COUNT.count_ones() });
        let is_alive =
            || self.is_alive(owner).map_err(|e| self.error("looking for writers that have died", e));
        if count == 0 || is_alive()? {
            return Ok(());
        }
        tracing::info!("a process died while it wrote: pages of the cache are fetched again");
        self.expire_all()?;
        // After the pages are gone, so that a death here leaves it to the next one.
        if word.compare_exchange(found, found & !COUNT, AcqRel, Relaxed).is_ok() {
            kill_point();
            header.writing.fetch_sub(count, Release);
        }
        Ok(())
    }

    /// One that was forgotten.
    #[cfg(test)]
    pub(super) fn resume_past(&self) -> WritePast<'_> {
        WritePast { cache: self }
    }

    /// Takes over a slot, whose last process has nothing under way any more.
    pub(super) fn begin_counting(&self) {
        let word = &self.memory.header().writers[usize::from(self.own.slot.0)];
        word.store(self.own.entered << COUNT.count_ones(), Release);
    }
}

impl Drop for WritePast<'_> {
    fn drop(&mut self) {
        let header = self.cache.memory.header();
        // Release: after the pages were dropped. In this order: as in `begin_past`.
        header.writers[usize::from(self.cache.own.slot.0)].fetch_sub(1, Release);
        kill_point();
        header.writing.fetch_sub(1, Release);
    }
}
