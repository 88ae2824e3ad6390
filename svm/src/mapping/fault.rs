//! Serving faults.

use std::io;
use std::ops::Range;
use std::sync::{Arc, MutexGuard};

use crate::error::{Error, Result};
use crate::units::SegmentIndex;

use super::memory::{Memory, PageFault, Protection};
use super::page::{PageState, Ticket};
use super::service::{Counters, Service};
use super::table::{Place, Table};

/// What has become of a fault.
pub(super) enum Next {
    Served,
    /// The segment has to be looked for.
    Settle,
    /// The segment has to get a home.
    Claim,
    /// So many pages' memory has to be had.
    MakeRoom(usize),
    /// The page has to be fetched.
    Fetch(Place, Ticket),
}

/// What puts a page in place.
pub(super) type Install = fn(&Memory, u64, &[u8], Protection) -> io::Result<()>;

impl Service {
    /// Serves a fault: on return the thread goes on, or somebody else will see to that.
    pub(super) fn serve(&self, fault: PageFault) {
        if let Err(error) = self.try_serve(fault) {
            self.lose(fault, error);
        }
    }

    fn try_serve(&self, fault: PageFault) -> Result<()> {
        let index = self.segment_of(fault.page);
        // Rather too much memory than a thread that waits for what does not come.
        let mut may_exceed = false;
        loop {
            let mut table = self.table();
            let next = self.step(&mut table, index, fault, may_exceed);
            match next.map_err(|e| self.failed(format!("serving a fault in segment {index}"), e))? {
                Next::Served => return Ok(()),
                Next::Settle => {
                    drop(table);
                    self.settle(index)?;
                }
                Next::Claim => {
                    drop(table);
                    self.claim(index)?;
                }
                Next::MakeRoom(pages) => may_exceed = !self.make_room(table, pages).1,
                Next::Fetch(place, ticket) => {
                    drop(table);
                    return self.fetch_wanted(index, place, ticket, fault);
                }
            }
        }
    }

    /// Takes the step that the page's state allows.
    pub(super) fn step(
        &self,
        table: &mut MutexGuard<'_, Table>,
        index: SegmentIndex,
        fault: PageFault,
        may_exceed: bool,
    ) -> io::Result<Next> {
        let PageFault { page, was_there, is_store } = fault;
        let this = page..page + 1;
        let Some(segment) = table.segments.get(&index) else { return Ok(Next::Settle) };
        let (place, known) = (segment.place, segment.known);
        let has_room = |table: &Table, pages: usize| may_exceed || table.used() + pages <= self.limit;
        match table.state(page) {
            // A fault of before.
            _ if place == Place::Direct => self.memory.wake(&this)?,
            Some(PageState::Clean) if was_there => {
                if place == Place::Hole {
                    return Ok(Next::Claim);
                }
                if !has_room(table, 1) {
                    return Ok(Next::MakeRoom(1));
                }
                let pages = self.stored_together(table, page);
                // In this order: nobody stores before there are twins.
                for page in pages.clone() {
                    let twin = self.twin_of(page);
                    let version = table.page(page).and_then(|page| page.version);
                    table.set(page, PageState::Dirty { twin }, version);
                }
                self.memory.open(&pages)?;
            }
            Some(PageState::Fetching { .. }) => {
                if let Some(flags) = table.flags(page) {
                    *flags.is_wanted = true;
                }
                self.foresee(table, page);
            }
            Some(PageState::WritingBack { .. }) if was_there => {
                if let Some(flags) = table.flags(page) {
                    *flags.is_wanted = true;
                }
            }
            Some(PageState::Ready(_)) if !was_there => {
                if is_store && !has_room(table, 1) {
                    return Ok(Next::MakeRoom(1));
                }
                let version = table.page(page).and_then(|page| page.version);
                if let Some(PageState::Ready(bytes)) = table.remove(page).map(|page| page.state) {
                    self.put(table, page, &bytes, is_store, version)?;
                }
                self.foresee(table, page);
            }
            // Open already, unless it was write-protected in vain (`set_out`).
            Some(PageState::Dirty { .. }) if was_there => self.memory.open(&this)?,
            // It was taken away, or put in place, since the thread came to it: let it look again.
            Some(_) => self.memory.wake(&this)?,
            None if was_there => self.memory.wake(&this)?,
            None => {
                if place == Place::Hole && is_store {
                    return Ok(Next::Claim);
                }
                let weight = 1 + usize::from(is_store);
                if !has_room(table, weight) {
                    return Ok(Next::MakeRoom(weight));
                }
                if matches!(place, Place::Hole | Place::Homeless) {
                    let zeros = vec![0; self.memory.page()];
                    self.put(table, page, &zeros, is_store, None)?;
                    return Ok(Next::Served);
                }
                let ticket = table.ticket();
                let fetching = PageState::Fetching { ticket, is_void: false, is_wanted: true, is_store };
                table.set(page, fetching, known);
                self.foresee(table, page);
                return Ok(Next::Fetch(place, ticket));
            }
        }
        Ok(Next::Served)
    }

    /// The pages to open where `page` is stored into, which is clean, and for which there is room. Who has stored into
    /// the pages before it will probably go on, and a twin in vain costs less than a fault: so as many more are opened
    /// as there are changed ones before it. Likewise the other way round.
    fn stored_together(&self, table: &Table, page: u64) -> Range<u64> {
        const MOST: usize = 32;
        if self.advices.for_faults(page).is_none() {
            return page..page + 1;
        }
        let is_changed = |page: &u64| matches!(table.state(*page), Some(PageState::Dirty { .. }));
        let is_clean = |page: &u64| matches!(table.state(*page), Some(PageState::Clean));
        let all = self.pages_of(self.segment_of(page));
        let room = self.limit.saturating_sub(table.used() + 1);
        let before = (0..page).rev().take(MOST).take_while(is_changed).count();
        let behind = (page + 1..all.end).take(MOST).take_while(is_changed).count();
        let more = before.max(behind).min(room);
        if before >= behind {
            page..page + 1 + (page + 1..all.end).take(more).take_while(is_clean).count() as u64
        } else {
            page - (all.start..page).rev().take(more).take_while(is_clean).count() as u64..page + 1
        }
    }

    /// Fetches a page that a thread waits for.
    pub(super) fn fetch_wanted(
        &self,
        index: SegmentIndex,
        place: Place,
        ticket: Ticket,
        fault: PageFault,
    ) -> Result<()> {
        let page = fault.page;
        let arrived = self.begin_wanted(index, place, page).and_then(|coming| {
            self.finish_fetch(coming, |bytes| {
                let mut table = self.table();
                self.arrive(&mut table, (page, ticket), bytes, fault.is_store, Memory::install)
            })
        });
        self.notify();
        match arrived {
            Ok(outcome) => {
                outcome.map_err(|e| self.failed(format!("putting a page of segment {index} in place"), e))
            }
            Err(error) => {
                self.table().give_up(page, ticket);
                Err(error)
            }
        }
    }

    /// Takes the bytes of a page that was fetched, which `install` puts in place.
    pub(super) fn arrive(
        &self,
        table: &mut Table,
        (page, ticket): (u64, Ticket),
        bytes: &[u8],
        is_store: bool,
        install: Install,
    ) -> io::Result<()> {
        match table.page(page).map(|record| (&record.state, record.version)) {
            Some((PageState::Fetching { ticket: other, is_void: false, .. }, version))
                if *other == ticket =>
            {
                table.remove(page);
                Counters::add(&self.counters.fetched, 1);
                self.put_by(table, (page, version), bytes, is_store, install)
            }
            Some((PageState::Fetching { ticket: other, .. }, _)) if *other == ticket => {
                table.remove(page);
                self.memory.wake(&(page..page + 1))
            }
            // Somebody else has seen to it.
            _ => self.memory.wake(&(page..page + 1)),
        }
    }

    /// Puts a page in place, which is missing.
    pub(super) fn put(
        &self,
        table: &mut Table,
        page: u64,
        bytes: &[u8],
        is_store: bool,
        version: Option<u64>,
    ) -> io::Result<()> {
        self.put_by(table, (page, version), bytes, is_store, Memory::install)
    }

    fn put_by(
        &self,
        table: &mut Table,
        (page, version): (u64, Option<u64>),
        bytes: &[u8],
        is_store: bool,
        install: Install,
    ) -> io::Result<()> {
        if is_store {
            install(&self.memory, page, bytes, Protection::Open)?;
            table.set(page, PageState::Dirty { twin: Arc::new(self.twins.of(bytes)) }, version);
        } else {
            install(&self.memory, page, bytes, Protection::Protected)?;
            table.set(page, PageState::Clean, version);
        }
        Ok(())
    }

    /// Has fetched what probably comes next.
    fn foresee(&self, table: &mut Table, page: u64) {
        let Some(advice) = self.advices.for_faults(page) else { return };
        if let Some(window) = table.streams.touched(page, advice.is_sequential()) {
            self.ahead.want(window);
        }
    }

    /// A page cannot be had: whoever touches it is not to wait.
    pub(super) fn lose(&self, PageFault { page, was_there, .. }: PageFault, error: Error) {
        self.losses.tell(self.bytes_of(&(page..page + 1)), error);
        let mut table = self.table();
        let place = table.segments.get(&self.segment_of(page)).map(|segment| segment.place);
        let poisoned = match table.state(page) {
            // Its segment was mapped in place in the meantime: a thread that looks again finds it.
            _ if place == Some(Place::Direct) => self.memory.wake(&(page..page + 1)),
            None => {
                table.set(page, PageState::Lost, None);
                self.memory.poison(page)
            }
            Some(PageState::Clean) if was_there => {
                table.set(page, PageState::Lost, None);
                self.memory.discard(&(page..page + 1)).and_then(|()| self.memory.poison(page))
            }
            // Somebody else has had it in the meantime.
            Some(_) => self.memory.wake(&(page..page + 1)),
        };
        if let Err(e) = poisoned {
            tracing::error!("a thread that waits for a page of {} hangs: {e}", self.file.name());
        }
    }
}
