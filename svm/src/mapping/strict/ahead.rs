//! Copies for loads of pages that nobody waits for yet: asked for by a thread of their own, several requests at a time.

use std::time::Instant;

use crate::attachment;
use crate::cluster::{AskedAhead, NodeIndex};
use crate::error::{Error, Result};
use crate::mapping::ahead::PIECE;
use crate::mapping::memory::{PageFault, Protection};
use crate::mapping::wanted::{Next, keep_under_way};
use crate::units::SegmentIndex;

use super::Keeper;
use super::pages::{Home, Pages, State};

/// A request that is under way.
struct Piece {
    pages: Vec<u64>,
    ticket: u64,
    marker: Option<u64>,
    asked: Result<AskedAhead>,
}

impl Keeper {
    /// Fetches ahead until the mapping ends.
    pub(super) fn fetch_ahead(&self) {
        keep_under_way(|waits| self.next_piece(waits), |piece| self.finish_piece(piece));
    }

    /// Has fetched what probably comes after a page that is loaded from. Who stores would have to ask once more.
    pub(super) fn foresee(&self, pages: &mut Pages, fault: PageFault) {
        if !fault.is_store
            && let Some(window) = pages.streams.touched(fault.page, false)
        {
            self.ahead.want(window);
        }
    }

    fn next_piece(&self, waits: bool) -> Option<Piece> {
        let most = (PIECE / self.memory.page()).max(1);
        let segment_of = |page| self.memory.pages().contains(&page).then(|| self.place(page).segment);
        loop {
            let next = self.ahead.next(waits, most, &self.is_stopping, segment_of)?;
            match self.begin_piece(next) {
                Ok(Some(piece)) => return Some(piece),
                Ok(None) => {}
                Err(error) => self.note_failure(&error),
            }
        }
    }

    /// `None` where nothing of it is to be fetched.
    fn begin_piece(&self, next: Next) -> Result<Option<Piece>> {
        let Next { segment, pages: mut numbers, marker, .. } = next;
        let Some(home) = self.known_home(segment)? else { return Ok(None) };
        // Copies that are granted may be ordered back at once.
        self.listen_to(home)?;
        let Some(shared) = self.file.shared() else { return Ok(None) };
        let mut pages = self.pages();
        numbers.retain(|page| pages.state(*page).is_none());
        if numbers.is_empty() || !self.make_room_at_once(&mut pages, numbers.len()) {
            return Ok(None);
        }
        let ticket = pages.ticket();
        for page in &numbers {
            let asking = State::Asking { ticket, is_exclusive: false, has_copy: false, is_wanted: false };
            pages.set(*page, asking, None);
        }
        let gone = pages.gone_from(home);
        drop(pages);
        let wanted = (numbers.iter().map(|page| self.place(*page)).collect(), ticket, gone);
        let asked = shared.begin_acquire_ahead((home, self.number), self.memory.page(), wanted);
        Ok(Some(Piece { pages: numbers, ticket, marker, asked }))
    }

    fn finish_piece(&self, piece: Piece) {
        let Piece { pages, ticket, marker, asked } = piece;
        let take =
            |granted: &[bool], bytes: &[u8]| self.arrive_ahead((&pages, ticket, marker), granted, bytes);
        let arrived = asked.and_then(|asked| match self.file.shared() {
            Some(shared) => shared.finish_acquire_ahead(asked, take),
            // It was there when they were asked for.
            None => Ok(()),
        });
        if let Err(error) = arrived {
            take(&vec![false; pages.len()], &[]);
            self.note_failure(&error);
        }
        self.changed.notify_all();
        self.tell_gone();
    }

    /// Takes the bytes of those pages that are granted; who waits for one of the others comes again.
    fn arrive_ahead(
        &self,
        (numbers, ticket, marker): (&[u64], u64, Option<u64>),
        granted: &[bool],
        bytes: &[u8],
    ) {
        let mut pages = self.pages();
        let mut bytes = bytes.chunks_exact(self.memory.page());
        for (page, is_granted) in numbers.iter().copied().zip(granted) {
            let its = if *is_granted { bytes.next() } else { None };
            let is_wanted = match pages.state(page) {
                Some(State::Asking { ticket: asked, is_wanted, .. }) if *asked == ticket => *is_wanted,
                _ => continue,
            };
            let Some(bytes) = its else {
                self.come_again(&mut pages, page);
                continue;
            };
            Keeper::count(&self.counters.ahead, 1);
            if marker == Some(page) && !is_wanted {
                pages.change(page, State::Ready(bytes.into()));
            } else if let Err(e) = self.memory.install(page, bytes, Protection::Protected) {
                tracing::error!("page {page} of {} cannot be put in place: {e}", self.file.name());
                self.come_again(&mut pages, page);
            } else {
                pages.set(page, State::Shared, is_wanted.then(Instant::now));
            }
        }
    }

    /// A page that was asked for is missing: who waits for it faults again.
    fn come_again(&self, pages: &mut Pages, page: u64) {
        pages.remove(page);
        if let Err(e) = self.memory.wake(&(page..page + 1)) {
            tracing::error!("a thread that waits for a page of {} hangs: {e}", self.file.name());
        }
    }

    /// From where a segment's pages come, if that is another process: none gets a home for what is only foreseen.
    fn known_home(&self, index: SegmentIndex) -> Result<Option<NodeIndex>> {
        let known = self.pages().homes.get(&index).copied();
        let home = match known {
            Some(home) => home,
            None if self.file.attachment().home(index) == attachment::Home::Hole => return Ok(None),
            None => self.home_of(index)?,
        };
        Ok(match home {
            Home::Node(home) => Some(home),
            Home::Direct => None,
        })
    }

    fn note_failure(&self, error: &Error) {
        tracing::debug!("nothing of {} is fetched ahead: {error}", self.file.name());
    }
}
