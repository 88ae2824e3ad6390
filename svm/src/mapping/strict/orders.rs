//! What homes want back: copies are given up, or stored into no more, when others wish for the page.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cluster::{AskedReturn, NodeIndex, Order, Returned, SharedFile};
use crate::error::{Error, ErrorKind, Result};

use super::Keeper;
use super::pages::State;

/// How long a page stays that was put in place for a thread that had waited for it: as long as it takes to run that
/// thread on a machine that is busy, and not much longer than it takes to ask for the page again.
const WINDOW: Duration = Duration::from_micros(100);

/// How often a home that does not do what it is asked is asked in a row while the mapping ends.
const LAST_TRIES: u32 = 50;

impl Keeper {
    /// Does what a home orders, until the mapping has ended there or the home is lost.
    pub(super) fn obey_orders(&self, home: NodeIndex) {
        let Some(shared) = self.file.shared() else { return };
        if let Err(error) = self.follow(shared, home) {
            // Nobody else gets pages from there any more; what is here stays.
            tracing::debug!("nothing is ordered of {} any more: {error}", self.file.name());
            self.pages().returning.lose(home, error);
            self.changed.notify_all();
        }
    }

    fn follow(&self, shared: &SharedFile, home: NodeIndex) -> Result<()> {
        let (mut obeyed, mut returns, mut tries) = (Returned::default(), 0, LAST_TRIES);
        loop {
            let brought = std::mem::take(&mut obeyed);
            let returning = (!brought.is_empty()).then(|| {
                returns += 1;
                shared.begin_return((home, self.number), returns, &brought)
            });
            // What others wait for has gone first; more orders may come while its arrival is waited for.
            let attending = shared.begin_attend((home, self.number), returns);
            if let Some(returning) = returning {
                self.bring_back(shared, home, (returns, &brought), returning)?;
            }
            match attending.and_then(|asked| shared.finish_attend(home, asked)) {
                Ok(Some(orders)) => {
                    tries = LAST_TRIES;
                    orders.iter().for_each(|order| self.obey(home, order, &mut obeyed));
                }
                Ok(None) => return Ok(()),
                Err(error) => self.pause(shared, home, error, &mut tries)?,
            }
        }
    }

    /// Waits until the home has what it ordered; where it was not told of it, it is told again.
    pub(super) fn bring_back(
        &self,
        shared: &SharedFile,
        home: NodeIndex,
        (number, brought): (u64, &Returned),
        mut returning: Result<AskedReturn>,
    ) -> Result<()> {
        // Nothing more is ordered meanwhile.
        let count = self.pages().returning.begun(home);
        let mut tries = LAST_TRIES;
        loop {
            match returning.and_then(|asked| shared.finish_return(home, asked)) {
                Ok(loss) => {
                    self.pages().returning.end(home, count, loss);
                    self.changed.notify_all();
                    return Ok(());
                }
                Err(error) => self.pause(shared, home, error, &mut tries)?,
            }
            returning = shared.begin_return((home, self.number), number, brought);
        }
    }

    /// Waits a while before a home is asked again that has not done what it was asked; returns the error where that
    /// would be in vain.
    fn pause(&self, shared: &SharedFile, home: NodeIndex, error: Error, tries: &mut u32) -> Result<()> {
        // Acquire: with the Release of whoever ends the mapping.
        let is_stopping = || self.is_stopping.load(Ordering::Acquire);
        *tries -= u32::from(is_stopping());
        if *tries == 0 || error.kind() == ErrorKind::NoSuchFile || shared.check_home(home).is_err() {
            return Err(error);
        }
        tracing::debug!("what is ordered of {} is asked for again: {error}", self.file.name());
        let mut pages = self.pages();
        pages.returning.fail(home, error);
        self.changed.notify_all();
        let (until, was_stopping) = (Instant::now() + super::LOOK_AGAIN, is_stopping());
        while let Some(left) = until.checked_duration_since(Instant::now())
            && is_stopping() == was_stopping
        {
            pages = self.wait(pages, left);
        }
        Ok(())
    }

    pub(super) fn obey(&self, home: NodeIndex, order: &Order, obeyed: &mut Returned) {
        let Some(page) = self.page_at(order.page) else {
            obeyed.put(order.page, false, &[], &[]);
            return;
        };
        let this = page..page + 1;
        let mut pages = self.pages();
        loop {
            let age = pages.since(page).map_or(WINDOW, |since| since.elapsed());
            match pages.state(page) {
                // The grant is on its way.
                Some(State::Asking { ticket, .. }) if *ticket == order.ticket => {
                    pages = self.wait(pages, super::LOOK_AGAIN);
                }
                Some(State::Shared | State::Exclusive { .. }) if age < WINDOW => {
                    pages = self.wait(pages, WINDOW - age);
                }
                Some(State::Exclusive { is_flushing: true, .. } | State::Leaving { .. }) => {
                    pages = self.wait(pages, super::LOOK_AGAIN);
                }
                _ => break,
            }
        }
        Keeper::count(&self.counters.given_up, 1);
        let mut done = Ok(());
        match pages.state(page) {
            Some(&State::Asking { ticket, is_exclusive, has_copy: true, is_wanted }) if !order.keeps => {
                let state = State::Asking { ticket, is_exclusive, has_copy: false, is_wanted };
                done = self.memory.discard(&this);
                pages.change(page, state);
                obeyed.put(order.page, false, &[], &[]);
            }
            Some(State::Asking { has_copy: true, .. } | State::Ready(_) | State::Shared) if order.keeps => {
                obeyed.put(order.page, true, &[], &[]);
            }
            Some(State::Ready(_)) => {
                pages.remove(page);
                obeyed.put(order.page, false, &[], &[]);
            }
            Some(State::Shared) => {
                done = self.memory.discard(&this);
                pages.remove(page);
                obeyed.put(order.page, false, &[], &[]);
            }
            Some(State::Exclusive { .. }) => {
                // Before it is copied: no store comes after.
                done = self.memory.protect(&this);
                let bytes = self.memory.copy_of(page);
                if let Some(State::Exclusive { twin, .. }) = pages.change(page, State::Shared) {
                    let runs = twin.changes(&bytes);
                    let changed = runs.iter().map(|run| run.len() as u64).sum();
                    Keeper::count(&self.counters.brought_home, changed);
                    if !runs.is_empty() {
                        pages.returning.begin(home);
                    }
                    obeyed.put(order.page, order.keeps, &runs, &bytes);
                }
                if !order.keeps {
                    done = done.and_then(|()| self.memory.discard(&this));
                    pages.remove(page);
                }
            }
            _ => obeyed.put(order.page, false, &[], &[]),
        }
        drop(pages);
        self.changed.notify_all();
        if let Err(e) = done {
            // It fails for addresses that are not there, which these are.
            tracing::error!("a page of {} may be stored into that is another's: {e}", self.file.name());
        }
    }

    /// Ends the part that this mapping has at each home.
    pub(super) fn withdraw(&self) {
        // Nobody else takes the answers.
        self.await_told();
        let listeners = std::mem::take(&mut *self.listeners());
        for (home, listener) in listeners {
            if let Some(shared) = self.file.shared()
                && let Err(error) = shared.withdraw((home, self.number))
            {
                tracing::debug!("a home of {} is not told that a mapping ends: {error}", self.file.name());
            }
            // Its panic has been told.
            let _ = listener.join();
        }
    }

    pub(super) fn listeners(&self) -> MutexGuard<'_, BTreeMap<NodeIndex, JoinHandle<()>>> {
        // A panic elsewhere leaves the map whole.
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
