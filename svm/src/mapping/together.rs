//! Faults that come at about the same time: their pages are asked for together, of each home by one message, and no
//! thread waits for one answer alone. One takes what comes and puts the pages in place, while others take the next
//! faults.
//!
//! Neither whoever asks nor whoever takes what comes may wait for the program, which may itself wait for a page that
//! has come: pages that do not come are left to others, which fetch them one by one or tell that they are lost.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cluster::{Come, Mailbox};
use crate::error::Error;
use crate::units::SegmentIndex;

use super::ahead::PIECE;
use super::fault::Next;
use super::memory::{Memory, PageFault};
use super::page::Ticket;
use super::service::{Counters, Service};
use super::table::{Place, runs};
use super::watch::Watch;

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
    /// By the marks of the questions: the position of the home in the file's list, and the pages.
    under_way: Mutex<HashMap<u64, (u32, Vec<Asked>)>>,
}

impl Together {
    fn under_way(&self) -> MutexGuard<'_, HashMap<u64, (u32, Vec<Asked>)>> {
        // A panic elsewhere leaves the map whole.
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// Serves those of `faults`, of which the last `new` are here for the first time, for which nobody has to be waited
    /// for, and has the pages of others asked for. Says whether any were; then those that need more are left, otherwise
    /// they stay.
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
        // Before messages are sent, which may take time.
        watch.leave(faults.drain(..));
        let most = (PIECE / self.memory.page()).max(1);
        for (home, asked) in there {
            asked.chunks(most).for_each(|asked| self.ask_for(home, asked, watch));
        }
        true
    }

    /// Asks a home for pages.
    fn ask_for(&self, home: u32, asked: &[Asked], watch: &Watch) {
        let Some(first) = asked.first() else { return };
        let (mark, page) = (first.ticket.0, self.memory.page() as u64);
        let run = |asked: &Asked| {
            let start = self.within(asked.fault.page);
            (asked.index, start..start + page)
        };
        let runs: Vec<(SegmentIndex, Range<u64>)> = asked.iter().map(run).collect();
        // Before the answer may come.
        self.together.under_way().insert(mark, (home, asked.to_vec()));
        let mail = (&self.together.mailbox, mark);
        if let Err(error) = self.shared().and_then(|shared| shared.mail_for_runs(mail, home, &runs)) {
            self.together.under_way().remove(&mark);
            self.have_fetched_alone(asked, &error, watch);
        }
    }

    /// Takes what was asked for, until all has come, unless another thread does.
    pub(super) fn take_what_comes(&self, watch: &Watch) {
        let Ok(shared) = self.shared() else { return };
        let Some(mut attending) = shared.attend_mail(&self.together.mailbox) else { return };
        while let Some(come) = attending.next() {
            self.take_come(come, watch);
        }
    }

    /// Whether something is asked for that has not come.
    pub(super) fn is_asking(&self) -> bool {
        !self.together.under_way().is_empty()
    }

    fn take_come(&self, (mark, come): Come, watch: &Watch) {
        let Some((home, asked)) = self.together.under_way().remove(&mark) else { return };
        let page = self.memory.page();
        // Who is woken may fault again at once. Where several are, they do when all are in place, and their next pages
        // can be asked for together, too.
        let is_alone = asked.len() == 1;
        let install = if is_alone { Memory::install } else { Memory::install_quietly };
        let put = |bytes: &[u8]| {
            let mut table = self.table();
            let put = |(asked, bytes): (&Asked, &[u8])| {
                let page = (asked.fault.page, asked.ticket);
                self.arrive(&mut table, page, bytes, asked.fault.is_store, install)
            };
            asked.iter().zip(bytes.chunks_exact(page)).map(put).collect::<Vec<_>>()
        };
        let put = self.shared().and_then(|shared| shared.open_mail(home, come, asked.len() * page, put));
        self.notify();
        let outcomes = match put {
            Ok(outcomes) => outcomes,
            // It may be about one of them.
            Err(error) => return self.have_fetched_alone(&asked, &error, watch),
        };
        let mut put = BTreeSet::new();
        let mut failed = Vec::new();
        for (asked, outcome) in asked.iter().zip(outcomes) {
            match outcome {
                Ok(()) => _ = put.insert(asked.fault.page),
                Err(error) => failed.push((*asked, error)),
            }
        }
        if !is_alone {
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
