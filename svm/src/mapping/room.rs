//! Keeping to the limit: pages that have had no fault for longest go.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::MutexGuard;

use crate::error::Result;

use super::page::PageState;
use super::service::{Counters, Service};
use super::table::{Table, runs};
use super::write_back::After;

/// How many pages are looked at together.
const BATCH: usize = 64;

impl Service {
    /// Makes room for `pages` more: by dropping pages of which home has all bytes, and by bringing home the others.
    /// Says whether there is room; there is none where what is in the way cannot be brought home. On return the pages
    /// that the caller knows of may be in other states.
    pub(super) fn make_room<'t>(
        &'t self,
        mut table: MutexGuard<'t, Table>,
        pages: usize,
    ) -> (MutexGuard<'t, Table>, bool) {
        while table.used() + pages > self.limit {
            let changed = self.drop_oldest(&mut table, pages);
            if table.used() + pages <= self.limit {
                break;
            }
            if changed.is_empty() {
                // Others have all of it under way, and end that without this one.
                table = self.wait(table);
                continue;
            }
            drop(table);
            let brought = self.bring_home(changed, After::Evict);
            table = self.table();
            if let Err(error) = brought {
                let name = self.file.name();
                tracing::warn!(
                    "pages of {name} cannot be brought home and take more memory than the limit: {error}"
                );
                return (table, false);
            }
        }
        (table, true)
    }

    /// The same for pages that nobody waits for: nothing is brought home.
    pub(super) fn make_room_at_once(&self, table: &mut Table, pages: usize) -> bool {
        while table.used() + pages > self.limit {
            let before = table.used();
            self.drop_oldest(table, pages);
            if table.used() == before {
                return false;
            }
        }
        true
    }

    /// Drops some of the oldest pages of which home has all bytes; returns those among the oldest that have to be
    /// brought home before.
    fn drop_oldest(&self, table: &mut Table, pages: usize) -> BTreeSet<u64> {
        let too_many = (table.used() + pages).saturating_sub(self.limit);
        let (mut clean, mut changed) = (Vec::new(), BTreeSet::new());
        for (page, state) in table.oldest() {
            match state {
                PageState::Clean | PageState::Ready(_) => clean.push(page),
                PageState::Dirty { .. } => {
                    changed.insert(page);
                }
                _ => continue,
            }
            if clean.len() >= too_many || clean.len() + changed.len() >= BATCH.max(pages) {
                break;
            }
        }
        Counters::add(&self.counters.evicted, clean.len() as u64);
        clean.sort_unstable();
        self.drop_pages(table, clean);
        changed
    }

    /// Drops pages of which home has all bytes; they ascend. Who is about to store into one finds it missing.
    pub(super) fn drop_pages(&self, table: &mut Table, pages: Vec<u64>) {
        let mut in_place = Vec::new();
        for page in pages {
            if matches!(table.remove(page).map(|page| page.state), Some(PageState::Clean)) {
                in_place.push(page);
            }
        }
        for run in runs(in_place) {
            if let Err(e) = self.memory.discard(&run) {
                // It fails for addresses that are not there, which these are.
                tracing::error!("pages {run:?} of {} stay in memory: {e}", self.file.name());
            }
        }
    }

    /// Takes pages away that the program does not need soon.
    pub(super) fn leave(&self, pages: &Range<u64>) -> Result<()> {
        self.write_back(pages, After::Drop)?;
        let mut table = self.table();
        let is_home = |page: &u64| matches!(table.state(*page), Some(PageState::Clean | PageState::Ready(_)));
        let present = table.present(pages).into_iter().filter(is_home).collect();
        self.drop_pages(&mut table, present);
        Ok(())
    }
}
