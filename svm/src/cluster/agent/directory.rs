//! Who has which pages of a file that is mapped strictly, and who waits for them.
//!
//! The home of a segment keeps the directory of its pages, as the fixed distributed managers of Li, Hudak, *Memory
//! Coherence in Shared Virtual Memory Systems*, 1989, do: of each page, which mappings have a copy, and whether the
//! only one that has may store into it. A wish that is in the way of others' copies has these asked for; it is granted
//! when all have been given up. Wishes for a page are served one at a time, in the order in which they came, so that
//! nobody waits for ever; wishes for different pages have nothing to do with each other.
//!
//! ```text
//!   wish ──► queue ──► served: orders to those in the way ──► all have obeyed, or are lost ──► granted, or refused
//! ```
//!
//! Nothing here waits or sends: what is to be done is returned.

mod concerns;
mod page;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use svmio_transport::Rank;

use crate::cluster::wire::{Order, PagePlace, Wish};

use concerns::Concerns;
use page::{Page, Serving};

/// The most orders that are told at a time: what is answered, pages of bytes, goes into one message.
const MOST_ORDERS: usize = 64;

/// A strict mapping of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Party {
    pub(super) rank: Rank,
    pub(super) mapping: u32,
}

/// A wish, by whom, and the request that is to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) party: Party,
    pub(super) number: u64,
    pub(super) wish: Wish,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// The wish is fulfilled; it needs the page's bytes unless it has them.
    Grant { asked: Asked, has_bytes: bool },
    /// What that process stored into the page is lost.
    Refuse { asked: Asked, lost: Rank },
    /// Orders, in answer to that request.
    Tell { party: Party, number: u64, orders: Vec<Order> },
    /// The file has been closed by all: nobody gives the wish what it waits for.
    End { asked: Asked },
    /// That request of a mapping that has ended is answered.
    Dismiss { party: Party, number: u64 },
}

/// The pages of a file.
#[derive(Debug, Default)]
pub(super) struct Directory {
    /// In order: pages come and go for ever, for which a hash map makes itself ever more room, up to four times what
    /// they need.
    pages: BTreeMap<PagePlace, Page>,
    concerns: Concerns,
    parties: HashMap<Party, Attendance>,
    /// Mappings that have ended while they did not ask for orders. They do so once more. Those that had been told some
    /// bring before what they had been asked for: until then it is waited for.
    ended: BTreeSet<Party>,
}

/// What a mapping is told.
#[derive(Debug, Default)]
struct Attendance {
    /// The request by which it asks for orders.
    number: Option<u64>,
    /// It has asked for orders before.
    has_asked: bool,
    /// How often it has brought home what it was ordered.
    returns: u64,
    orders: VecDeque<Order>,
}

impl Directory {
    /// A mapping wants a page.
    pub(super) fn ask(&mut self, asked: Asked) -> Vec<Act> {
        let mut acts = Vec::new();
        let place = asked.wish.page;
        self.pages.entry(place).or_default().queue.push_back(asked);
        self.concerns.add(asked.party, place);
        self.advance(place, &mut acts);
        acts
    }

    /// A mapping would like a copy for loads of a page that it does not have, and nobody waits for it there: says
    /// whether it gets one. Nobody's copy is asked for, nobody who waits is passed over, and a loss is told to who
    /// touches the page.
    pub(super) fn ask_ahead(&mut self, party: Party, place: PagePlace, ticket: u64) -> bool {
        let is_free = |page: &Page| {
            let is_lost = page.lost.as_ref().is_some_and(|loss| !loss.told.contains(&party));
            !page.is_exclusive && page.serving.is_none() && page.queue.is_empty() && !is_lost
        };
        let is_granted = self.pages.get(&place).is_none_or(is_free);
        if is_granted {
            self.pages.entry(place).or_default().copies.insert(party, ticket);
            self.concerns.add(party, place);
        }
        is_granted
    }

    /// A mapping has done what it was ordered to do with a page; what was stored there is home.
    pub(super) fn obeyed(&mut self, party: Party, place: PagePlace, keeps: bool) -> Vec<Act> {
        let mut acts = Vec::new();
        let Some(page) = self.pages.get_mut(&place) else { return acts };
        page.give_up(party, keeps);
        self.no_longer_await(place, party, &mut acts);
        acts
    }

    /// A mapping has brought home what it stored into a page. It can be loaded from there until the mapping has heard
    /// that this has arrived: so it counts as a copy for loads, and goes as these do, without a word.
    pub(super) fn surrendered(&mut self, party: Party, place: PagePlace) {
        if let Some(page) = self.pages.get_mut(&place) {
            page.give_up(party, true);
        }
    }

    /// A copy for loads, which a mapping got by that wish, has gone to make room. It may have been ordered to be given
    /// up by then: that is answered all the same.
    pub(super) fn gone(&mut self, party: Party, place: PagePlace, ticket: u64) {
        if let Some(page) = self.pages.get_mut(&place)
            && page.copies.ticket(party) == Some(ticket)
            // What was stored there is on its way home: if it does not arrive, that is a loss.
            && !page.is_exclusive
        {
            page.give_up(party, false);
        }
        self.tidy(place, party);
    }

    /// Whether a mapping has brought home what it was ordered more often than is known here. What it asks after that
    /// has to wait.
    pub(super) fn lacks_returns(&self, party: Party, count: u64) -> bool {
        self.parties.get(&party).is_some_and(|attendance| attendance.returns < count)
    }

    /// Whether what a mapping brings home for the `count`th time is not there yet: it may come again.
    pub(super) fn is_new_return(&self, party: Party, count: u64) -> bool {
        self.parties.get(&party).is_none_or(|attendance| attendance.returns < count)
    }

    /// What a mapping brought home for the `count`th time is there, and dealt with.
    pub(super) fn note_return(&mut self, party: Party, count: u64) {
        let returns = &mut self.parties.entry(party).or_default().returns;
        *returns = count.max(*returns);
    }

    /// A mapping asks for orders.
    pub(super) fn attend(&mut self, party: Party, number: u64) -> Vec<Act> {
        if self.ended.remove(&party) {
            return self.dismiss(party, number);
        }
        let attendance = self.parties.entry(party).or_default();
        (attendance.number, attendance.has_asked) = (Some(number), true);
        attendance.tell(party).into_iter().collect()
    }

    /// A mapping has ended, which asks for orders or will do so once more; it had brought home what it stored.
    pub(super) fn withdraw(&mut self, party: Party) -> Vec<Act> {
        match self.parties.get_mut(&party).and_then(|attendance| attendance.number.take()) {
            Some(number) => self.dismiss(party, number),
            None => {
                self.ended.insert(party);
                // It has been told no orders, and may never come to ask for some.
                let knows_none = self.parties.get(&party).is_none_or(|attendance| !attendance.has_asked);
                if !knows_none {
                    return Vec::new();
                }
                self.parties.remove(&party);
                self.forget(party, false)
            }
        }
    }

    /// A process is lost, with what its mappings stored.
    pub(super) fn lose(&mut self, rank: Rank) -> Vec<Act> {
        let attending = self.parties.keys().copied().filter(|party| party.rank == rank);
        let of_it: BTreeSet<_> = self.concerns.parties_of(rank).chain(attending).collect();
        // Before a copy of one of its mappings goes: another of them may be waiting for that.
        for place in of_it.iter().flat_map(|party| self.concerns.of(*party)) {
            let Some(page) = self.pages.get_mut(&place) else { continue };
            page.queue.retain(|asked| asked.party.rank != rank);
            if let Some(serving) = &mut page.serving {
                serving.asked = serving.asked.filter(|asked| asked.party.rank != rank);
            }
        }
        let mut acts = Vec::new();
        for party in of_it {
            acts.extend(self.forget(party, true));
            self.parties.remove(&party);
        }
        self.ended.retain(|party| party.rank != rank);
        acts
    }

    /// All mappings are to end; who waits for a page does so in vain.
    pub(super) fn end(&mut self) -> Vec<Act> {
        let Directory { pages, parties, .. } = std::mem::take(self);
        let waiting =
            |page: Page| page.serving.and_then(|serving| serving.asked).into_iter().chain(page.queue);
        let ended = pages.into_values().flat_map(waiting).map(|asked| Act::End { asked });
        let dismissed = parties
            .into_iter()
            .filter_map(|(party, attendance)| attendance.number.map(|number| Act::Dismiss { party, number }));
        ended.chain(dismissed).collect()
    }

    /// What a process stored into a page did not come home, and is nowhere.
    pub(super) fn spoil(&mut self, rank: Rank, place: PagePlace) {
        self.pages.entry(place).or_default().spoil(rank);
    }

    /// A page that was granted could not be read: who was to get it has none. If it was ordered to give it up, it will
    /// say so.
    pub(super) fn take_back(&mut self, party: Party, place: PagePlace) {
        if let Some(page) = self.pages.get_mut(&place) {
            page.give_up(party, false);
        }
        self.tidy(place, party);
    }

    fn dismiss(&mut self, party: Party, number: u64) -> Vec<Act> {
        let mut acts = self.forget(party, false);
        self.parties.remove(&party);
        acts.push(Act::Dismiss { party, number });
        acts
    }

    fn forget(&mut self, party: Party, is_lost: bool) -> Vec<Act> {
        let mut acts = Vec::new();
        for place in self.concerns.of(party) {
            let Some(page) = self.pages.get_mut(&place) else { continue };
            if is_lost && page.is_exclusive && page.copies.has(party) {
                page.spoil(party.rank);
            }
            page.give_up(party, false);
            page.queue.retain(|asked| asked.party != party);
            if let Some(serving) = &mut page.serving {
                // The others have their orders, and are waited for all the same.
                serving.asked = serving.asked.filter(|asked| asked.party != party);
            }
            self.no_longer_await(place, party, &mut acts);
        }
        acts
    }

    fn no_longer_await(&mut self, place: PagePlace, party: Party, acts: &mut Vec<Act>) {
        if let Some(page) = self.pages.get_mut(&place)
            && let Some(serving) = &mut page.serving
            && serving.awaited.remove(&party)
            && serving.awaited.is_empty()
        {
            let asked = serving.asked;
            page.serving = None;
            if let Some(asked) = asked {
                acts.push(page.fulfil(asked));
                self.tidy(place, asked.party);
            }
            self.advance(place, acts);
        }
        self.tidy(place, party);
    }

    /// Serves the next wishes, as far as nobody is waited for.
    fn advance(&mut self, place: PagePlace, acts: &mut Vec<Act>) {
        let Some(page) = self.pages.get_mut(&place) else { return };
        while page.serving.is_none()
            && let Some(asked) = page.queue.pop_front()
        {
            let is_in_the_way = asked.wish.is_exclusive || page.is_exclusive;
            let others = page.copies.iter().filter(|(party, _)| is_in_the_way && *party != asked.party);
            let others: Vec<_> = others.collect();
            if others.is_empty() {
                acts.push(page.fulfil(asked));
                if !page.concerns(asked.party) {
                    self.concerns.remove(asked.party, place);
                }
                continue;
            }
            let awaited = others.iter().map(|(party, _)| *party).collect();
            page.serving = Some(Box::new(Serving { asked: Some(asked), awaited }));
            for (party, ticket) in others {
                let attendance = self.parties.entry(party).or_default();
                attendance.orders.push_back(Order { page: place, ticket, keeps: !asked.wish.is_exclusive });
                acts.extend(attendance.tell(party));
            }
        }
        if page.queue.is_empty() {
            // Its room is more than all the rest that is known of the page.
            page.queue = VecDeque::new();
        }
    }

    /// Forgets a page of which there is nothing to be known, or nothing that concerns that mapping.
    fn tidy(&mut self, place: PagePlace, party: Party) {
        if self.pages.get(&place).is_none_or(|page| !page.concerns(party)) {
            self.concerns.remove(party, place);
        }
        let is_nothing = |page: &Page| {
            page.copies.is_empty() && page.serving.is_none() && page.queue.is_empty() && page.lost.is_none()
        };
        if self.pages.get(&place).is_some_and(is_nothing) {
            self.pages.remove(&place);
        }
    }
}

impl Attendance {
    /// Answers with what there is to be done, if both are there.
    fn tell(&mut self, party: Party) -> Option<Act> {
        if self.orders.is_empty() {
            return None;
        }
        let number = self.number.take()?;
        let orders = self.orders.drain(..self.orders.len().min(MOST_ORDERS)).collect();
        Some(Act::Tell { party, number, orders })
    }
}

#[cfg(test)]
mod tests;
