//! Pages of strict mappings that go home unasked: to make room, for the file's other faces, and at the end.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, MutexGuard};

use crate::cluster::{NodeIndex, Returned};
use crate::error::Result;
use crate::mapping::twins::Twin;
use crate::units::FileOffset;

use super::Keeper;
use super::pages::{Home, Pages, State};

/// Pages that are brought home together.
const BATCH: usize = 64;

/// What is sent to each home.
type Leaving = BTreeMap<NodeIndex, (Returned, Vec<Sent>)>;

/// A page on its way home.
struct Sent {
    page: u64,
    /// With what it is compared next, if it arrives.
    twin: Arc<Twin>,
    runs: Vec<Range<usize>>,
}

/// Whether a page stays when what was stored there is home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Stays,
    Goes,
}

impl Keeper {
    /// Brings home what was stored until now; the pages stay as they are.
    pub(super) fn bring_home(&self) -> Result<()> {
        let is_stored = |state: &State| matches!(state, State::Exclusive { .. } | State::Leaving { .. });
        let todo: Vec<_> = {
            let pages = self.pages();
            pages.oldest().filter(|(_, state)| is_stored(state)).map(|(page, _)| page).collect()
        };
        self.send_all(&todo, After::Stays)?;
        self.await_returned()
    }

    /// Waits until all is at home that went there by order until now.
    fn await_returned(&self) -> Result<()> {
        let mut pages = self.pages();
        for (home, count) in pages.returning.under_way() {
            while !pages.returning.has_ended(home, count)? {
                pages = self.wait(pages, super::LOOK_AGAIN);
            }
        }
        pages.returning.loss()
    }

    /// Gives all pages up whose bytes were asked for until now.
    pub(super) fn leave_all(&self) -> Result<()> {
        let mut pages = self.pages();
        let now = pages.ticket();
        let mut old: Vec<_> = pages.oldest().map(|(page, _)| page).collect();
        loop {
            let mut stored = Vec::new();
            old.retain(|page| {
                if !pages.is_older(*page, now) {
                    return false;
                }
                match pages.state(*page) {
                    Some(state) if state.is_copy() => self.drop_copy(&mut pages, *page),
                    Some(State::Exclusive { .. } | State::Leaving { .. }) => stored.push(*page),
                    _ => {}
                }
                pages.is_older(*page, now)
            });
            if old.is_empty() {
                break;
            }
            pages = if stored.is_empty() {
                // The others are being asked for.
                self.wait(pages, super::LOOK_AGAIN)
            } else {
                drop(pages);
                self.send_all(&stored, After::Goes)?;
                self.pages()
            };
        }
        drop(pages);
        self.await_returned()
    }

    /// Has pages that were lost tried again.
    pub(super) fn cure(&self) -> Result<()> {
        let mut pages = self.pages();
        let lost: Vec<_> =
            pages.oldest().filter(|(_, state)| matches!(state, State::Lost)).map(|(page, _)| page).collect();
        for page in lost {
            self.memory.cure(page).map_err(|e| self.failed("having a page tried again", e))?;
            pages.remove(page);
        }
        Ok(())
    }

    /// The records, when there is room for one more page with what it was, or none can be made.
    pub(super) fn pages_with_room(&self) -> MutexGuard<'_, Pages> {
        let mut pages = self.pages();
        while pages.used() + 2 > self.limit {
            let can_go = |state: &State| {
                state.is_copy() || matches!(state, State::Exclusive { is_flushing: false, .. })
            };
            let Some((page, state)) = pages.oldest().find(|(_, state)| can_go(state)) else { break };
            if state.is_copy() {
                self.drop_copy(&mut pages, page);
                Keeper::count(&self.counters.evicted, 1);
                continue;
            }
            let some = pages
                .oldest()
                .filter(|(_, state)| matches!(state, State::Exclusive { is_flushing: false, .. }));
            let some: Vec<_> = some.map(|(page, _)| page).take(BATCH).collect();
            drop(pages);
            let count = some.len() as u64;
            let sent = self.send_some(some, After::Goes);
            pages = self.pages();
            if let Err(error) = sent {
                let name = self.file.name();
                tracing::warn!(
                    "pages of {name} cannot be brought home and take more memory than the limit: {error}"
                );
                break;
            }
            Keeper::count(&self.counters.evicted, count);
        }
        pages
    }

    /// Makes room for `count` more pages that nobody waits for, by copies for loads alone; says whether there is room.
    pub(super) fn make_room_at_once(&self, pages: &mut Pages, count: usize) -> bool {
        while pages.used() + count > self.limit {
            let copy = pages.oldest().find(|(_, state)| state.is_copy()).map(|(page, _)| page);
            let Some(page) = copy else { return false };
            self.drop_copy(pages, page);
            Keeper::count(&self.counters.evicted, 1);
        }
        true
    }

    /// Which bytes of the file a page is.
    pub(super) fn bytes_of(&self, page: u64) -> Range<FileOffset> {
        let size = self.memory.page() as u64;
        FileOffset(page * size)..FileOffset((page + 1) * size)
    }

    fn drop_copy(&self, pages: &mut Pages, page: u64) {
        let place = self.place(page);
        pages.note_gone(page, place);
        if matches!(pages.remove(page), Some(State::Shared))
            && let Err(e) = self.memory.discard(&(page..page + 1))
        {
            // It fails for addresses that are not there, which these are.
            tracing::error!("a page of {} stays in memory: {e}", self.file.name());
        }
    }

    fn send_all(&self, todo: &[u64], after: After) -> Result<()> {
        let mut outcome = Ok(());
        for some in todo.chunks(BATCH) {
            outcome = outcome.and(self.send_some(some.to_vec(), after));
        }
        outcome
    }

    /// Brings some pages home, and returns when they are.
    fn send_some(&self, mut todo: Vec<u64>, after: After) -> Result<()> {
        let mut outcome = Ok(());
        while !todo.is_empty() {
            let mut pages = self.pages();
            let mut leaving = Leaving::new();
            let mut waits = Vec::new();
            for page in todo {
                match pages.state(page) {
                    // Somebody else is at it.
                    Some(State::Exclusive { is_flushing: true, .. } | State::Leaving { .. }) => {
                        waits.push(page)
                    }
                    Some(State::Exclusive { .. }) => {
                        if let Err(e) = self.set_out(&mut pages, page, after, &mut leaving) {
                            outcome = outcome.and(Err(self.failed("write-protecting a page", e)));
                        }
                    }
                    _ => {}
                }
            }
            if leaving.is_empty() && !waits.is_empty() {
                drop(self.wait(pages, super::LOOK_AGAIN));
            } else {
                drop(pages);
            }
            for (home, (returned, sent)) in leaving {
                let home = match self.file.shared() {
                    Some(shared) => shared.surrender((home, self.number), returned),
                    None => Ok(()),
                };
                self.come_home(sent, after, home.is_ok());
                outcome = outcome.and(home);
            }
            todo = waits;
        }
        outcome
    }

    /// Takes what was stored into a page, to be sent.
    fn set_out(
        &self,
        pages: &mut Pages,
        page: u64,
        after: After,
        leaving: &mut Leaving,
    ) -> std::io::Result<()> {
        let place = self.place(page);
        let Some(Home::Node(home)) = pages.homes.get(&place.segment).copied() else { return Ok(()) };
        if after == After::Goes {
            // Before it is copied: no store comes after.
            self.memory.protect(&(page..page + 1))?;
        }
        let Some(State::Exclusive { twin, .. }) = pages.change(page, State::Shared) else { return Ok(()) };
        let bytes = self.memory.copy_of(page);
        let runs = twin.changes(&bytes);
        Keeper::count(&self.counters.brought_home, runs.iter().map(|run| run.len() as u64).sum());
        let (returned, sent) = leaving.entry(home).or_default();
        returned.put(place, after == After::Stays, &runs, &bytes);
        let state = match after {
            After::Stays => {
                // What is stored from here on is not on its way.
                sent.push(Sent { page, twin: Arc::new(self.twins.of(&bytes)), runs });
                State::Exclusive { twin, is_flushing: true }
            }
            After::Goes => {
                sent.push(Sent { page, twin: Arc::clone(&twin), runs });
                State::Leaving { twin }
            }
        };
        pages.change(page, state);
        Ok(())
    }

    /// Gives pages that were sent their next state.
    fn come_home(&self, sent: Vec<Sent>, after: After, are_home: bool) {
        let mut pages = self.pages();
        for Sent { page, twin: next, runs } in sent {
            let this = page..page + 1;
            if let Some(State::Exclusive { twin, .. } | State::Leaving { twin }) = pages.state(page)
                && !are_home
            {
                twin.doubt(&runs);
            }
            let done = match (pages.state(page), after) {
                (Some(State::Exclusive { twin, .. }), After::Stays) => {
                    let twin = if are_home { next } else { Arc::clone(twin) };
                    pages.change(page, State::Exclusive { twin, is_flushing: false });
                    Ok(())
                }
                (Some(State::Leaving { .. }), After::Goes) if are_home => {
                    pages.note_gone(page, self.place(page));
                    pages.remove(page);
                    self.memory.discard(&this).and_then(|()| self.memory.wake(&this))
                }
                (Some(State::Leaving { twin }), After::Goes) => {
                    let twin = Arc::clone(twin);
                    pages.set(page, State::Exclusive { twin, is_flushing: false }, None);
                    self.memory.open(&this)
                }
                _ => Ok(()),
            };
            if let Err(e) = done {
                tracing::error!("threads that wait for pages of {} may hang: {e}", self.file.name());
            }
        }
        drop(pages);
        self.changed.notify_all();
    }
}
