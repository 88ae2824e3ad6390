//! The bytes of pages, from wherever their segment is.

use std::ops::Range;

use crate::attachment::Filling;
use crate::cluster::{Fetching, Patience, Runs, SharedFile};
use crate::error::{Error, Result};
use crate::state::State;
use crate::units::SegmentIndex;

use super::service::Service;
use super::table::Place;

/// Bytes that are on their way.
pub(super) enum Coming {
    Here(Vec<u8>),
    There(Runs, Option<Fetching>),
}

impl Service {
    /// Asks for pages of a segment, a single one or few, as far as a message goes.
    pub(super) fn begin_fetch(
        &self,
        index: SegmentIndex,
        place: Place,
        pages: &[Range<u64>],
    ) -> Result<Coming> {
        let page = self.memory.page() as u64;
        let within = |run: &Range<u64>| {
            let start = self.within(run.start);
            start..start + (run.end - run.start) * page
        };
        match place {
            Place::There(home) => {
                let runs: Vec<_> = pages.iter().map(within).collect();
                self.shared()?.begin_runs(home, index, &runs).map(|runs| Coming::There(runs, None))
            }
            _ => {
                let count: u64 = pages.iter().map(|run| run.end - run.start).sum();
                let mut bytes = vec![0; (count * page) as usize];
                let mut rest = &mut bytes[..];
                for run in pages.iter().map(within) {
                    let (these, others) = rest.split_at_mut((run.end - run.start) as usize);
                    self.read_here(index, run.start, these)?;
                    rest = others;
                }
                Ok(Coming::Here(bytes))
            }
        }
    }

    /// The same for a page that a thread waits for, which is read by this process where that is faster.
    pub(super) fn begin_wanted(&self, index: SegmentIndex, place: Place, page: u64) -> Result<Coming> {
        let Place::There(home) = place else {
            return self.begin_fetch(index, place, std::slice::from_ref(&(page..page + 1)));
        };
        let start = self.within(page);
        let (shared, runs) = (self.shared()?, [(index, start..start + self.memory.page() as u64)]);
        let mut fetching = shared.begin_mapped(home, &runs, || {})?;
        if let Some(bytes) = shared.read_mapped(&mut fetching, &runs, Patience::Waits) {
            return Ok(Coming::Here(bytes));
        }
        let runs = shared.ask_for_runs(&fetching, &runs)?;
        Ok(Coming::There(runs, Some(fetching)))
    }

    /// Waits for them, and hands them to `take`, one run after the other.
    pub(super) fn finish_fetch<T>(&self, coming: Coming, take: impl FnOnce(&[u8]) -> T) -> Result<T> {
        match coming {
            Coming::Here(bytes) => Ok(take(&bytes)),
            Coming::There(runs, fetching) => {
                let shared = self.shared()?;
                shared.finish_runs(runs, |bytes| {
                    if let Some(fetching) = &fetching {
                        shared.end_pages(fetching);
                    }
                    take(bytes)
                })
            }
        }
    }

    /// Reads from a segment of this node; one that is not there is a hole.
    fn read_here(&self, index: SegmentIndex, within: u64, to: &mut [u8]) -> Result<()> {
        let attachment = self.file.attachment();
        let Some(stored) = attachment.segment(index)? else {
            to.fill(0);
            return Ok(());
        };
        // SAFETY: the slice is valid for as many bytes and in no mapping; these lie within the segment.
        let read = unsafe { stored.read(within, to.as_mut_ptr(), to.len(), self.punches()) };
        read.map_err(|e| self.failed(format!("reading segment {index}"), e))?;
        attachment.check_looked_at(&stored)
    }

    /// Writes to a segment of this node.
    pub(super) fn write_here(&self, index: SegmentIndex, within: u64, bytes: &[u8]) -> Result<()> {
        let attachment = self.file.attachment();
        let stored = attachment.segment_or_new(index, Filling::Sparse)?;
        // SAFETY: the slice is in no mapping; its bytes lie within the segment, which is mapped for writing, for the
        // mapping is.
        let written = unsafe { stored.write(within, bytes.as_ptr(), bytes.len(), self.punches()) };
        attachment.mark_dirty(&stored);
        written.map_err(|(_, e)| self.failed(format!("writing segment {index}"), e))
    }

    pub(super) fn shared(&self) -> Result<&SharedFile> {
        self.file.shared().map(|shared| &**shared).ok_or_else(|| {
            // Opened for this node alone.
            let parts = "segments lie on other nodes, which are".into();
            Error::NodesMissing { name: self.file.name().into(), parts }
        })
    }

    fn punches(&self) -> u64 {
        self.file.attachment().state().map_or(0, State::punches)
    }
}
