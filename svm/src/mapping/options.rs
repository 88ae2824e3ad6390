//! How a mapping is to be.

use std::ops::Range;
use std::sync::Arc;

#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::file::File;
use crate::units::FileOffset;

use super::service::{LostPage, OnLoss};
use super::{Mapping, Prepared, StrictMapping};

/// How a mapping is to be.
#[derive(Clone)]
pub struct MappingOptions {
    limit: u64,
    pub(super) handlers: usize,
    pub(super) ahead: u64,
    pub(super) on_loss: Option<OnLoss>,
}

impl MappingOptions {
    /// A quarter of a gibibyte of pages, eight threads, windows of 4 MiB.
    pub fn new() -> MappingOptions {
        MappingOptions { limit: 256 << 20, handlers: 8, ahead: 4 << 20, on_loss: None }
    }

    /// The most memory for pages that were fetched and their twins, what is known of them, and what threads that serve
    /// faults have under way, bytes; at least a mebibyte. It is exceeded only by what cannot be brought home.
    pub fn limit(mut self, bytes: u64) -> MappingOptions {
        self.limit = bytes;
        self
    }

    /// How many threads serve faults. Of a [`StrictMapping`], each waits for one page at a time; of a [`Mapping`], what
    /// threads have come to wait for is asked for together, and only what has to be brought home before keeps one of
    /// these.
    pub fn handlers(mut self, count: usize) -> MappingOptions {
        self.handlers = count.max(1);
        self
    }

    /// The most bytes that are fetched ahead of a row of faults at a time, and at most a quarter of the limit; 0 for
    /// none.
    pub fn ahead(mut self, bytes: u64) -> MappingOptions {
        self.ahead = bytes;
        self
    }

    /// Whom to tell, before the thread that touched it gets its signal, that a page cannot be had. It is called by a
    /// thread of the mapping's, which serves no fault meanwhile, and must not touch the mapping. A panic there is told
    /// in the log, and is no more.
    pub fn on_loss(mut self, tell: impl Fn(&LostPage<'_>) + Send + Sync + 'static) -> MappingOptions {
        self.on_loss = Some(Arc::new(tell));
        self
    }

    /// Maps `range` of a file: for loads and stores where the file was opened for writing, which makes the file that
    /// long; otherwise for loads.
    ///
    /// # Errors
    /// [`Error::BadRange`] where it is empty, or ends behind the end of a file that was opened for reading;
    /// [`Error::TooLarge`]; [`Error::NotOpenedFor`] reading; [`Error::FaultsRefused`]; what is wrong with a segment;
    /// the operating system's error where there are no addresses.
    pub fn map(&self, file: &Arc<File>, range: Range<FileOffset>) -> Result<Mapping> {
        let prepared = self.prepare(file, range)?;
        prepared.check_size(0)?;
        prepared.map()
    }

    /// Does what [`map`](Self::map) does as far as it is this process's own matter: where several processes map a file
    /// together, they look at its length, and change it, when each of them has come so far.
    ///
    /// # Errors
    /// As [`MappingOptions::map`], but for the file's length.
    pub fn prepare(&self, file: &Arc<File>, range: Range<FileOffset>) -> Result<Prepared> {
        Prepared::new(file, range, self)
    }

    /// Maps `range` of a file, which was opened for reading and writing, strictly: see [`StrictMapping`].
    ///
    /// # Errors
    /// As [`MappingOptions::map`]; [`Error::NotOpenedFor`] writing.
    pub fn map_strictly(&self, file: &Arc<File>, range: Range<FileOffset>) -> Result<StrictMapping> {
        StrictMapping::with(file, range, self)
    }

    /// How many pages that is, each of which takes so many bytes `beside` its own, and each thread `under_way`.
    pub(super) fn limit_in_pages(&self, page: u64, beside: u64, under_way: u64) -> usize {
        /// Enough for what threads wait for at the same time.
        const LEAST: u64 = 1 << 20;
        let (limit, handlers) = (self.limit.max(LEAST), self.handlers as u64);
        let pages = (limit - (handlers * under_way).min(limit / 4)) / (page + beside);
        usize::try_from(pages.max(handlers * 16)).unwrap_or(usize::MAX)
    }
}

impl Default for MappingOptions {
    fn default() -> MappingOptions {
        MappingOptions::new()
    }
}

impl std::fmt::Debug for MappingOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut options = formatter.debug_struct("MappingOptions");
        options.field("limit", &self.limit).field("handlers", &self.handlers).field("ahead", &self.ahead);
        options.finish_non_exhaustive()
    }
}
