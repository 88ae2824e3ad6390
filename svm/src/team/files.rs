//! What members do together so that they see the same of a file: sync, resize, other changes, and the end of it all.
//!
//! Where all members are on one node they share everything already. Where there are several nodes, each step waits for
//! all members' step before it: what a node keeps back is flushed, then made durable, then described at the master, and
//! only then do nodes look at what the others did.

#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::file::File;

use super::Team;

impl Team {
    /// Makes everything that was written durable, and seen by all.
    ///
    /// # Errors
    /// What went wrong for a member, on all, as for all functions here: those of [`File::flush`], [`File::sync_data`],
    /// [`File::commit`] and [`File::refresh`]; [`Error::Disunited`].
    pub fn sync(&self, file: &File) -> Result<()> {
        if !file.is_shared_by_nodes() {
            self.by_all(file, if self.local.is_first() { file.sync_left() } else { file.sync_data() })?;
            return self.by_one(file, || file.commit(true));
        }
        self.flush(file)?;
        let synced = file.sync_data();
        self.by_all(
            file,
            if self.local.is_first() { synced.and_then(|()| file.sync_node()) } else { synced },
        )?;
        self.by_one(file, || file.commit_synced())?;
        self.refresh(file)
    }

    /// Sets the size, in bytes.
    ///
    /// # Errors
    /// Those of [`File::set_size`], and as [`Team::sync`].
    pub fn set_size(&self, file: &File, size: u64) -> Result<()> {
        self.change(file, || file.set_size(size))
    }

    /// The first member changes the file for all, and all see it.
    ///
    /// # Errors
    /// That of the change, and as [`Team::sync`].
    pub fn change(&self, file: &File, change: impl FnOnce() -> Result<()>) -> Result<()> {
        self.before_change(file)?;
        self.by_one(file, change)?;
        self.after_change(file)
    }

    /// Before the first member changes the file for all: where nodes keep something back, they give it away.
    ///
    /// # Errors
    /// As [`Team::sync`].
    pub fn before_change(&self, file: &File) -> Result<()> {
        if file.is_shared_by_nodes() { self.flush(file) } else { Ok(()) }
    }

    /// After the first member has changed the file for all, and all know: where there are several nodes, all see it.
    ///
    /// # Errors
    /// As [`Team::sync`].
    pub fn after_change(&self, file: &File) -> Result<()> {
        if file.is_shared_by_nodes() { self.refresh(file) } else { Ok(()) }
    }

    /// Before all close the file: its manifest is committed, unless the file `goes` with this close. Nobody uses it any
    /// more.
    ///
    /// # Errors
    /// As [`Team::sync`]. The file is to be closed all the same.
    pub fn close(&self, file: &File, goes: bool) -> Result<()> {
        // Before all agree that nobody uses it: a home that hears of it later would open it again, until the job ends.
        file.end_ahead();
        let flushed = if file.is_shared_by_nodes() && !goes {
            self.flush(file)
        } else {
            // Everyone has written what he wanted to when this returns, and whoever changed what is to be committed has
            // said so.
            match self.over(file, self.maxima([i64::from(!file.is_committed())])) {
                Ok([0]) => return Ok(()),
                outcome => outcome.map(|_| ()),
            }
        };
        let commits = !goes && flushed.is_ok();
        let outcome = self.by_one(file, || if commits { file.commit(true) } else { Ok(()) });
        // Nobody uses it any more, though some may still hold it.
        if self.member() == 0
            && let Err(error) = file.closed_by_all()
        {
            tracing::warn!("{}: other nodes hold it open until the job ends: {error}", file.name());
        }
        flushed.and(outcome)
    }

    /// What [`close`](Self::close) does, by one member where the others cannot be told anything any more: what it wrote
    /// is brought home and committed, as far as nodes are there, unless the file `goes`.
    ///
    /// # Errors
    /// Those of [`File::flush`] and [`File::commit`]. The file is to be closed all the same.
    pub fn close_severed(&self, file: &File, goes: bool) -> Result<()> {
        file.end_ahead();
        if goes {
            return Ok(());
        }
        // Also where some of it did not get home.
        let flushed = file.flush();
        let committed = file.commit(true);
        self.told_where(file, flushed.and(committed))
    }

    fn flush(&self, file: &File) -> Result<()> {
        self.by_all(file, file.flush())
    }

    fn refresh(&self, file: &File) -> Result<()> {
        self.by_all(file, if self.local.is_first() { file.refresh() } else { Ok(()) })
    }

    fn by_all(&self, file: &File, mine: Result<()>) -> Result<()> {
        self.over(file, self.agree(self.told_where(file, mine)))
    }

    /// The first member does it for all.
    fn by_one(&self, file: &File, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let mine = if self.member() == 0 { work() } else { Ok(()) };
        self.over(file, self.outcome_of(0, self.told_where(file, mine)))
    }

    /// What the members come to over a file, which an error names.
    fn over<T>(&self, file: &File, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|error| error.over(file.name(), self.member()))
    }

    fn told_where(&self, file: &File, mine: Result<()>) -> Result<()> {
        mine.map_err(|error| match file.is_shared_by_nodes() {
            true => self.located_on_node(error),
            false => self.located(error),
        })
    }
}
