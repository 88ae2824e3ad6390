//! Faults that come at about the same time: their pages are asked for together, of each home by one message, and no thread
//! waits for one answer alone. One takes what comes and puts the pages in place, while others take the next faults.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cluster::{Come, Mailbox};
use crate::error::Result;
use crate::units::SegmentIndex;

use super::ahead::PIECE;
use super::fault::Next;
use super::memory::{Memory, PageFault};
use super::page::Ticket;
use super::service::{Counters, Service};
use super::table::Place;

/// A fault whose page is asked for.
#[derive(Debug, Clone, Copy)]
struct Asked {
    fault: PageFault,
    index: SegmentIndex,
    place: Place,
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
    /// Serves those of `faults` for which nobody has to be waited for, and has the pages of others asked for; those stay
    /// that need more. Says whether any were asked for.
    pub(super) fn serve_together(&self, faults: &mut Vec<PageFault>) -> bool {
        let (mut here, mut there) = (Vec::new(), BTreeMap::<u32, Vec<Asked>>::new());
        let before = faults.len();
        let mut table = self.table();
        faults.retain(|fault| {
            let index = self.segment_of(fault.page);
            match self.step(&mut table, index, *fault, false) {
                Ok(Next::Served) => false,
                Ok(Next::Fetch(place, ticket)) => {
                    let asked = Asked { fault: *fault, index, place, ticket };
                    match place {
                        Place::There(home) => there.entry(home).or_default().push(asked),
                        _ => here.push(asked),
                    }
                    false
                }
                // Whoever serves it alone takes the step again.
                Ok(Next::Settle | Next::Claim | Next::MakeRoom(_)) | Err(_) => true,
            }
        });
        drop(table);
        Counters::add(&self.counters.faults, (before - faults.len()) as u64);
        let is_asked = !there.is_empty();
        let most = (PIECE / self.memory.page()).max(1);
        for (home, asked) in there {
            asked.chunks(most).for_each(|asked| self.ask_for(home, asked));
        }
        here.iter().for_each(|asked| self.fetch_alone(asked));
        is_asked
    }

    /// Asks a home for pages.
    fn ask_for(&self, home: u32, asked: &[Asked]) {
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
            tracing::debug!("pages of {} are asked for one by one: {error}", self.file.name());
            self.together.under_way().remove(&mark);
            asked.iter().for_each(|asked| self.fetch_alone(asked));
        }
    }

    /// Takes what was asked for, until all has come, unless another thread does.
    pub(super) fn take_what_comes(&self) {
        let Ok(shared) = self.shared() else { return };
        let Some(mut attending) = shared.attend_mail(&self.together.mailbox) else { return };
        while let Some(come) = attending.next() {
            self.take_come(come);
        }
    }

    /// Whether something is asked for that has not come.
    pub(super) fn is_asking(&self) -> bool {
        !self.together.under_way().is_empty()
    }

    fn take_come(&self, (mark, come): Come) {
        let Some((home, asked)) = self.together.under_way().remove(&mark) else { return };
        let page = self.memory.page();
        // Who is woken may fault again at once. Where several are, they do when all are in place, and their next pages can be
        // asked for together, too.
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
        match put {
            Ok(put) => {
                for (asked, put) in asked.iter().zip(put) {
                    let this = asked.fault.page..asked.fault.page + 1;
                    let put = put.and_then(|()| if is_alone { Ok(()) } else { self.memory.wake(&this) });
                    let what = || format!("putting a page of segment {} in place", asked.index);
                    self.lose_if_failed(asked.fault, put.map_err(|e| self.failed(what(), e)));
                }
            }
            // It may be about one of them.
            Err(error) => {
                tracing::debug!("pages of {} are asked for one by one: {error}", self.file.name());
                asked.iter().for_each(|asked| self.fetch_alone(asked));
            }
        }
    }

    fn fetch_alone(&self, asked: &Asked) {
        let Asked { fault, index, place, ticket } = *asked;
        self.lose_if_failed(fault, self.fetch_wanted(index, place, ticket, fault));
    }

    fn lose_if_failed(&self, fault: PageFault, outcome: Result<()>) {
        if let Err(error) = outcome {
            self.lose(fault, &error);
        }
    }
}
