//! Release consistency: locks and barriers that bring home what was stored, and see what others have brought home.

use std::error::Error as StdError;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::locks::Mode;
use crate::range_lock::RangeLock;
use crate::units::FileOffset;

use super::Mapping;
use super::page::PageState;
use super::service::Service;
use super::write_back::After;

/// A range of a mapping that is locked until this is released or dropped. Who gets it next sees what was stored there.
#[must_use = "the range is unlocked when this is dropped"]
pub struct MappingLock<'m> {
    mapping: &'m Mapping,
    pages: Range<u64>,
    range: Range<FileOffset>,
    mode: Mode,
    lock: Option<RangeLock>,
}

/// Where all who have mapped a file meet: returns in none of them before all have come.
pub trait Meeting {
    /// Meets the others.
    ///
    /// # Errors
    /// Where one of them cannot come any more.
    fn meet(&mut self) -> std::result::Result<(), Box<dyn StdError + Send + Sync>>;
}

/// Any function that is a barrier: for a group of the crate `svmio-collectives` it is `|| group.barrier()`.
impl<F, E> Meeting for F
where
    F: FnMut() -> std::result::Result<(), E>,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    fn meet(&mut self) -> std::result::Result<(), Box<dyn StdError + Send + Sync>> {
        self().map_err(Into::into)
    }
}

impl Mapping {
    /// Waits until `range` of the file can be had in `mode`, and holds it, as [`File::lock`](crate::File::lock) does.
    /// What others stored there under their locks is seen then.
    ///
    /// # Errors
    /// As [`File::lock`](crate::File::lock); [`Error::OnNode`], [`Error::Fabric`], [`Error::BadRange`].
    pub fn lock(&self, range: Range<FileOffset>, mode: Mode) -> Result<MappingLock<'_>> {
        let (pages, service) = (self.pages(&range)?, self.service());
        let lock = service.file.lock(range.clone(), mode)?;
        service.refresh(&pages)?;
        Ok(MappingLock { mapping: self, pages, range, mode, lock: Some(lock) })
    }

    /// Meets all others who have mapped the file, all of whom call this: from then on each sees what all had stored by
    /// the mappings with which they meet. Whoever has more mappings of the file flushes those before, and refreshes
    /// them after.
    ///
    /// # Errors
    /// [`Error::Meeting`]; as [`Mapping::flush`] and [`Mapping::refresh`]. Who gets an error before the meeting does
    /// not come to it: the others hear of that only as far as `meeting` tells.
    pub fn barrier(&self, meeting: &mut impl Meeting) -> Result<()> {
        self.flush()?;
        let name = || self.service().file.name().into();
        meeting.meet().map_err(|source| Error::Meeting { name: name(), source })?;
        self.refresh()
    }
}

impl MappingLock<'_> {
    /// Unlocks the range, after what was stored there has got home.
    ///
    /// # Errors
    /// [`Error::OnNode`], [`Error::Fabric`], …: the range is unlocked, but what was stored did not get home and is
    /// lost: it must not come home over what the next holder stores. That goes for a lock that had been taken away,
    /// too. As [`RangeLock::release`].
    pub fn release(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let Some(lock) = self.lock.take() else { return Ok(()) };
        if self.mode == Mode::Shared {
            return lock.release();
        }
        let service = self.mapping.service();
        // What was stored under a lock that was taken away must not go home over what its next holder stores.
        let home = lock.still_held().and_then(|()| service.write_back(&self.pages, After::Keep));
        if home.is_err() {
            service.give_up(&self.pages, &self.range);
        }
        service.mark_direct(&self.pages);
        home.and(lock.release())
    }
}

impl Drop for MappingLock<'_> {
    fn drop(&mut self) {
        if let Err(e) = self.end() {
            tracing::error!("unlocking a range of {}: {e}", self.mapping.service().file.name());
        }
    }
}

impl Service {
    /// What was stored into `range`, of which `pages` have parts, is not to come home any more.
    fn give_up(&self, pages: &Range<u64>, range: &Range<FileOffset>) {
        let size = self.memory.page() as u64;
        let mut changed = self.table().changed(pages);
        while !changed.is_empty() {
            let mut table = self.table();
            changed.retain(|page| match table.state(*page) {
                Some(PageState::Dirty { twin }) => {
                    let (start, bytes) = (page * size, self.memory.copy_of(*page));
                    let within = |at: u64| at.saturating_sub(start).min(size) as usize;
                    for run in twin.changes(&bytes) {
                        let given = within(range.start.0).max(run.start)..within(range.end.0).min(run.end);
                        if !given.is_empty() {
                            self.memory.overwrite(*page, given.clone(), &twin[given]);
                        }
                    }
                    twin.settle(&(within(range.start.0)..within(range.end.0)));
                    // Whoever comes next may have changed it.
                    table.set_version(*page, None);
                    false
                }
                Some(PageState::WritingBack { .. }) => true,
                _ => false,
            });
            if !changed.is_empty() {
                drop(self.wait(table));
            }
        }
    }
}
