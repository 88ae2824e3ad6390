//! Faults that come at about the same time: their pages are fetched together. Where this process reads the home's
//! memory by itself, as on one machine, they are put in place at once; otherwise each home is asked by one message, and
//! no thread waits for one answer alone. One takes what comes and puts the pages in place, while others take the next
//! faults.
//!
//! Neither whoever asks nor whoever takes what comes may wait for the program, which may itself wait for a page that
//! has come: pages that do not come are left to others, which fetch them one by one or tell that they are lost.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cluster::{Come, Fetching, Mailbox, Patience};
use crate::error::{Error, Result};
use crate::units::SegmentIndex;

use super::ahead::PIECE;
use super::fault::Next;
use super::memory::{Memory, PageFault};
use super::page::Ticket;
use super::service::{Counters, Service};
use super::table::{Place, runs};
use super::watch::{Promise, Watch};

/// Bytes that a thread which serves faults takes for what it has under way, at its most; its allocator keeps that.
pub(super) const UNDER_WAY: u64 = 512 << 10;

/// A fault whose page is asked for.
#[derive(Debug, Clone, Copy)]
struct Asked {
    fault: PageFault,
    index: SegmentIndex,
    ticket: Ticket,
}

/// What is asked for, and not waited for.
#[derive(Default)]
pub(super) struct Together {
    mailbox: Arc<Mailbox>,
    /// By the marks of the questions.
    under_way: Mutex<HashMap<u64, UnderWay>>,
}

/// Pages that were asked for together.
struct UnderWay {
    fetching: Fetching,
    asked: Vec<Asked>,
}

impl Together {
    fn under_way(&self) -> MutexGuard<'_, HashMap<u64, UnderWay>> {
        // A panic elsewhere leaves the map whole.
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// Serves those of `faults`, of which the last `new` are here for the first time, for which nobody has to be waited
    /// for, and has the pages of others asked for; says whether any were. What stays in `faults` needs more, and is the
    /// caller's.
    pub(super) fn serve_together(&self, faults: &mut Vec<PageFault>, new: usize, watch: &Watch) -> bool {
        // Before any thread goes on. Whoever serves one of them later does not count it again.
        Counters::add(&self.counters.faults, new as u64);
        let mut there = BTreeMap::<u32, Vec<Asked>>::new();
        let mut table = self.table();
        let mut old = faults.len() - new;
        faults.retain(|fault| {
            let index = self.segment_of(fault.page);
            let is_old = old > 0;
            old = old.saturating_sub(1);
            // It stays for whoever serves it alone, as below; once is enough to foresee what comes after it.
            let is_here = table.segments.get(&index).is_some_and(|segment| segment.place == Place::Here);
            if is_old && is_here && table.state(fault.page).is_none() {
                return true;
            }
            match self.step(&mut table, index, *fault, false) {
                Ok(Next::Served) => false,
                Ok(Next::Fetch(Place::There(home), ticket)) => {
                    there.entry(home).or_default().push(Asked { fault: *fault, index, ticket });
                    false
                }
                // Whoever serves it alone takes the step again: reading it here takes this thread's time.
                Ok(Next::Fetch(..)) => {
                    table.remove(fault.page);
                    true
                }
                Ok(Next::Settle | Next::Claim | Next::MakeRoom(_)) | Err(_) => true,
            }
        });
        drop(table);
        if there.is_empty() {
            return false;
        }
        // Before pages are read and messages sent, which may take time.
        watch.leave(faults.drain(..));
        let most = (PIECE / self.memory.page()).max(1);
        let pieces = || there.iter().flat_map(|(home, asked)| asked.chunks(most).map(|asked| (*home, asked)));
        let is_alone = pieces().nth(1).is_none();
        let mut is_asked = false;
        for (home, asked) in pieces() {
            is_asked |= self.fetch(home, asked, is_alone, watch).unwrap_or_else(|error| {
                self.have_fetched_alone(asked, &error, watch);
                false
            });
        }
        is_asked
    }

    /// Reads pages from their home's memory, or asks the home for them; says whether it was asked. Unless this
    /// `is_alone`, how long it takes has to do with what is fetched besides.
    fn fetch(&self, home: u32, asked: &[Asked], is_alone: bool, watch: &Watch) -> Result<bool> {
        let Some(first) = asked.first() else { return Ok(false) };
        let (mark, page) = (first.ticket.0, self.memory.page() as u64);
        let run = |asked: &Asked| {
            let start = self.within(asked.fault.page);
            (asked.index, start..start + page)
        };
        let runs: Vec<(SegmentIndex, Range<u64>)> = asked.iter().map(run).collect();
        let shared = self.shared()?;
        let mut held_up = None;
        let mut fetching = shared.begin_mapped(home, &runs, || held_up = Some(watch.held_up()))?;
        drop(held_up);
        if !is_alone {
            fetching.hold_up();
        }
        if let Some(bytes) = shared.read_mapped(&mut fetching, &runs, Patience::DoesNotWait) {
            let outcomes = self.put_in_place(asked, &bytes);
            self.go_on(asked, outcomes, watch);
            return Ok(false);
        }
        // Before the answer may come.
        self.together.under_way().insert(mark, UnderWay { fetching, asked: asked.to_vec() });
        // The home may have no room for a message, or meet this process for the first time.
        let _held_up = watch.held_up();
        shared.mail_for_runs((&self.together.mailbox, mark), home, &runs).inspect_err(|_| {
            self.together.under_way().remove(&mark);
        })?;
        Ok(true)
    }

    /// Takes what was asked for, until all has come, unless another thread does. Whose page has come often faults again
    /// at once, while this thread is not back yet: so it promises to be before.
    pub(super) fn take_what_comes<'w>(&self, watch: &'w Watch) -> Option<Promise<'w>> {
        let shared = self.shared().ok()?;
        let mut attending = shared.attend_mail(&self.together.mailbox)?;
        let mut promise = None;
        while let Some(come) = attending.next(|| promise = None) {
            promise.get_or_insert_with(|| watch.promise());
            if let Some(fetching) = self.take_come(come, watch).filter(Fetching::has_wanted) {
                promise = None;
                // This home has just answered, and nobody waits for what it is asked now.
                shared.open_wanted(&fetching);
            }
        }
        promise
    }

    /// Whether something is asked for that has not come.
    pub(super) fn is_asking(&self) -> bool {
        !self.together.under_way().is_empty()
    }

    /// Takes an answer; returns what it was that has come.
    fn take_come(&self, (mark, come): Come, watch: &Watch) -> Option<Fetching> {
        let UnderWay { fetching, asked } = self.together.under_way().remove(&mark)?;
        let (bytes, put) =
            (asked.len() * self.memory.page(), |bytes: &[u8]| self.put_in_place(&asked, bytes));
        match self.shared().and_then(|shared| shared.open_mail(&fetching, come, bytes, put)) {
            Ok(outcomes) => {
                self.go_on(&asked, outcomes, watch);
                Some(fetching)
            }
            // It may be about one of them.
            Err(error) => {
                self.have_fetched_alone(&asked, &error, watch);
                None
            }
        }
    }

    /// Puts pages in place, one after the other in `bytes`.
    fn put_in_place(&self, asked: &[Asked], bytes: &[u8]) -> Vec<io::Result<()>> {
        // Who is woken may fault again at once. Where several are, they do when all are in place, and their next pages
        // can be asked for together, too.
        let install = if asked.len() == 1 { Memory::install } else { Memory::install_quietly };
        let mut table = self.table();
        let put = |(asked, bytes): (&Asked, &[u8])| {
            let page = (asked.fault.page, asked.ticket);
            self.arrive(&mut table, page, bytes, asked.fault.is_store, install)
        };
        asked.iter().zip(bytes.chunks_exact(self.memory.page())).map(put).collect()
    }

    /// Lets those go on whose pages were put in place.
    fn go_on(&self, asked: &[Asked], outcomes: Vec<io::Result<()>>, watch: &Watch) {
        self.notify();
        let mut put = BTreeSet::new();
        let mut failed = Vec::new();
        for (asked, outcome) in asked.iter().zip(outcomes) {
            match outcome {
                Ok(()) => _ = put.insert(asked.fault.page),
                Err(error) => failed.push((*asked, error)),
            }
        }
        if asked.len() > 1 {
            for run in runs(put) {
                if let Err(error) = self.memory.wake(&run) {
                    let name = self.file.name();
                    tracing::error!("threads that wait for pages {run:?} of {name} may hang: {error}");
                }
            }
        }
        for (asked, error) in failed {
            let what = format!("putting a page of segment {} in place", asked.index);
            self.have_fetched_alone(&[asked], &self.failed(what, error), watch);
        }
    }

    /// Leaves pages that were asked for, and do not come, to be fetched one by one, each of which may fail on its own.
    fn have_fetched_alone(&self, asked: &[Asked], error: &Error, watch: &Watch) {
        tracing::debug!("pages of {} are asked for one by one: {error}", self.file.name());
        let mut table = self.table();
        asked.iter().for_each(|asked| table.give_up(asked.fault.page, asked.ticket));
        drop(table);
        self.notify();
        watch.leave_alone(asked.iter().map(|asked| asked.fault));
    }
}
