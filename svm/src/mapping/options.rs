//! How a mapping is to be.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::file::File;
use crate::units::FileOffset;

use super::losses::{Losses, LostPage, OnLoss};
use super::{Mapping, Prepared, StrictMapping};

/// How a mapping is to be.
#[derive(Clone)]
pub struct MappingOptions {
    limit: u64,
    pub(super) handlers: usize,
    pub(super) ahead: u64,
    on_loss: Option<OnLoss>,
    loss_limit: Duration,
}

impl MappingOptions {
    /// A quarter of a gibibyte of pages, eight threads, windows of 4 MiB, 5 s for telling of a loss.
    pub fn new() -> MappingOptions {
        let loss_limit = Duration::from_secs(5);
        MappingOptions { limit: 256 << 20, handlers: 8, ahead: 4 << 20, on_loss: None, loss_limit }
    }

    /// The most memory for pages that were fetched and their twins, what is known of them, and what threads that serve
    /// faults have under way, bytes; at least a mebibyte. It is exceeded only by what cannot be brought home.
    pub fn limit(mut self, bytes: u64) -> MappingOptions {
        self.limit = bytes;
        self
    }

    /// How many threads serve faults of this mapping: each has its own, one more that fetches ahead, and one that tells
    /// of losses. Of a [`StrictMapping`], each waits for one page at a time; of a [`Mapping`], what threads have come to
    /// wait for is asked for together, and only what has to be brought home before keeps one of these. A [`Mapping`]
    /// takes five file descriptors, however many threads it has, a [`StrictMapping`] three and one for each of them.
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

    /// Whom to tell, before the thread that touched it gets its signal, that a page cannot be had. It is called by
    /// a thread of the mapping's own, and must not touch the mapping. The thread that touched the page waits for it,
    /// for no longer than the [limit](MappingOptions::loss_limit), and so does one that serves faults; the end of the
    /// mapping waits until all are told of, however long that takes. A panic there is told in the log, and is no more.
    pub fn on_loss(mut self, tell: impl Fn(&LostPage<'_>) + Send + Sync + 'static) -> MappingOptions {
        self.on_loss = Some(Arc::new(tell));
        self
    }

    /// How long a thread that has touched what cannot be had waits at most until that is told, in the log, too. It may
    /// hold what [`on_loss`](MappingOptions::on_loss) waits for, or whoever writes the log, as a mutex or the lock of a
    /// stream: then it gets its signal after that time. Those that touch lost pages later get theirs at once, and are
    /// told of when that call has returned.
    pub fn loss_limit(mut self, limit: Duration) -> MappingOptions {
        self.loss_limit = limit;
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

    /// Who tells of the losses of a file's mapping.
    pub(super) fn losses_of(&self, file_name: &str) -> Losses {
        Losses::new(file_name, self.on_loss.clone(), self.loss_limit)
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
