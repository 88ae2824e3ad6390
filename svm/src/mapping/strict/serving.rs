//! Serving faults of strict mappings: pages are wished for at their homes.

use std::collections::hash_map::Entry;
use std::io;
use std::sync::MutexGuard;
use std::time::Instant;

use crate::attachment;
use crate::cluster::{NodeIndex, Wish};
use crate::error::{Error, Result};
use crate::mapping::handlers;
use crate::mapping::memory::{PageFault, Protection};
use crate::units::SegmentIndex;

use super::Keeper;
use super::pages::{Home, Pages, State};

impl Keeper {
    /// Serves a fault: on return the thread goes on, or somebody else will see to that.
    pub(super) fn serve(&self, fault: PageFault) {
        Keeper::count(&self.counters.faults, 1);
        let (ticket, outcome) = self.try_serve(fault);
        if let Err(error) = outcome {
            self.lose(fault.page, ticket, error);
        }
        self.changed.notify_all();
        self.tell_gone();
    }

    /// Also tells by which ticket the page was asked for, if it was.
    fn try_serve(&self, fault: PageFault) -> (Option<u64>, Result<()>) {
        let page = fault.page;
        let home = match self.home_of(self.place(page).segment) {
            Ok(Home::Node(home)) => home,
            Ok(Home::Direct) => return (None, self.wake(page)),
            Err(error) => return (None, Err(error)),
        };
        if let Err(error) = self.listen_to(home) {
            return (None, Err(error));
        }
        let mut pages = self.pages_with_room();
        let wish = match self.begin_wish(&mut pages, fault) {
            Ok(Some(wish)) => wish,
            Ok(None) => return (None, Ok(())),
            Err(error) => return (None, Err(self.failed("serving a fault", error))),
        };
        let gone = pages.gone_from(home);
        drop(pages);
        let granted = match self.file.shared() {
            Some(shared) => {
                shared.acquire_page((home, self.number), self.memory.page(), (wish, gone), |bytes| {
                    self.granted(page, &wish, bytes)
                })
            }
            None => Ok(Ok(())),
        };
        let granted = granted.and_then(|put| put.map_err(|e| self.failed("putting a page in place", e)));
        (Some(wish.ticket), granted)
    }

    /// Takes the step that the page's state allows: `None` where nothing is to be wished for.
    fn begin_wish(&self, pages: &mut MutexGuard<'_, Pages>, fault: PageFault) -> io::Result<Option<Wish>> {
        let PageFault { page, was_there, is_store } = fault;
        let (is_exclusive, has_copy) = match pages.state(page) {
            None if !was_there => (is_store, false),
            Some(State::Shared) if was_there => (true, true),
            // The thread is woken when that has ended.
            Some(State::Asking { .. }) => {
                pages.want(page);
                self.foresee(pages, fault);
                return Ok(None);
            }
            Some(State::Leaving { .. }) => return Ok(None),
            Some(State::Ready(_)) if !was_there => {
                if let Some(State::Ready(bytes)) = pages.state(page) {
                    self.memory.install(page, bytes, Protection::Protected)?;
                    pages.set(page, State::Shared, Some(Instant::now()));
                }
                self.foresee(pages, fault);
                return Ok(None);
            }
            // It was put in place, or taken away, since the thread came to it: let it look again.
            _ => {
                self.memory.wake(&(page..page + 1))?;
                return Ok(None);
            }
        };
        let ticket = pages.ticket();
        pages.set(page, State::Asking { ticket, is_exclusive, has_copy, is_wanted: true }, None);
        self.foresee(pages, fault);
        Ok(Some(Wish { page: self.place(page), is_exclusive, has_copy, ticket }))
    }

    /// The home has granted a wish.
    fn granted(&self, page: u64, wish: &Wish, bytes: Option<&[u8]>) -> io::Result<()> {
        let mut pages = self.pages();
        let this = page..page + 1;
        let Some(State::Asking { ticket, has_copy, .. }) = pages.state(page) else {
            return Err(io::Error::other("a page was granted that was not asked for"));
        };
        if *ticket != wish.ticket || bytes.is_none() && !*has_copy {
            return Err(io::Error::other("a page was granted that was not asked for"));
        }
        if let Some(bytes) = bytes {
            Keeper::count(&self.counters.fetched, 1);
            if *has_copy {
                self.memory.discard(&this)?;
                let Wish { ticket, is_exclusive, .. } = *wish;
                pages.change(page, State::Asking { ticket, is_exclusive, has_copy: false, is_wanted: true });
            }
            let protection = if wish.is_exclusive { Protection::Open } else { Protection::Protected };
            // In this order: nobody stores before there is a twin.
            let twin = wish.is_exclusive.then(|| self.twins.of(bytes));
            self.memory.install(page, bytes, protection)?;
            let state = match twin {
                Some(twin) => State::Exclusive { twin: twin.into(), is_flushing: false },
                None => State::Shared,
            };
            pages.set(page, state, Some(Instant::now()));
        } else {
            let twin = self.twins.of(&self.memory.copy_of(page));
            self.memory.open(&this)?;
            let state = State::Exclusive { twin: twin.into(), is_flushing: false };
            pages.set(page, state, Some(Instant::now()));
        }
        Ok(())
    }

    /// From where a segment's pages come: it gets a home if it has none.
    pub(super) fn home_of(&self, index: SegmentIndex) -> Result<Home> {
        if let Some(home) = self.pages().homes.get(&index) {
            return Ok(*home);
        }
        let file = &self.file;
        if file.attachment().home(index) == attachment::Home::Hole {
            let end = self.memory.pages().end * self.memory.page() as u64;
            file.claim(index, end)?;
        }
        let home = match (self.shared(), file.attachment().home(index)) {
            (Some(shared), attachment::Home::There(home)) => Home::Node(shared.home_at(Some(home))?),
            (Some(shared), _) => Home::Node(shared.home_at(None)?),
            (None, attachment::Home::There(_)) => {
                let parts = "segments lie on other nodes, which are".into();
                return Err(Error::NodesMissing { name: file.name().into(), parts });
            }
            (None, _) => {
                self.map_in_place(index)?;
                Home::Direct
            }
        };
        self.pages().homes.insert(index, home);
        Ok(home)
    }

    /// Maps a segment that only processes of this node have.
    fn map_in_place(&self, index: SegmentIndex) -> Result<()> {
        let stored = self.file.attachment().segment_or_new(index, attachment::Filling::Sparse)?;
        let failed = |e| self.failed(&format!("mapping segment {index}"), e);
        let pages = self.pages_of(index);
        let (start, size) = (self.place(pages.start).within, self.memory.page() as u64);
        let range = start..start + (pages.end - pages.start) * size;
        // No load or store may need storage that there is none of. What is around the pages may lack it on a full disk.
        stored.allocate_to_map(range.clone()).or_else(|_| stored.allocate(range)).map_err(failed)?;
        let mut known = self.pages();
        if let Entry::Vacant(unknown) = known.homes.entry(index) {
            // Before it is known for one that is in place: who touches it then is only woken.
            self.memory.map(&pages, stored.file(), start).map_err(failed)?;
            unknown.insert(Home::Direct);
            // What could not be had before is there, and is not to be cured.
            pages.for_each(|page| _ = known.remove(page));
        }
        Ok(())
    }

    /// Notes for the next sync that segments that are mapped in place may have been stored into.
    pub(super) fn mark_direct(&self) {
        let direct: Vec<_> = {
            let pages = self.pages();
            let direct = pages.homes.iter().filter(|(_, home)| **home == Home::Direct);
            direct.map(|(index, _)| *index).collect()
        };
        direct.into_iter().for_each(|index| self.file.attachment().mark_dirty_in_place(index));
    }

    /// Sees to it that somebody does what a home orders.
    pub(super) fn listen_to(&self, home: NodeIndex) -> Result<()> {
        let mut listeners = self.listeners();
        if listeners.contains_key(&home) {
            return Ok(());
        }
        let Some(own) = self.own.upgrade() else { return Ok(()) };
        let listener = handlers::spawn("svmio-orders", move || own.obey_orders(home));
        listeners.insert(home, listener.map_err(|e| self.failed("starting to serve orders", e))?);
        Ok(())
    }

    fn wake(&self, page: u64) -> Result<()> {
        self.memory.wake(&(page..page + 1)).map_err(|e| self.failed("waking a thread", e))
    }

    /// A page cannot be had: whoever touches it is not to wait.
    fn lose(&self, page: u64, ticket: Option<u64>, error: Error) {
        self.losses.tell(self.bytes_of(page), error);
        let mut pages = self.pages();
        let this = page..page + 1;
        let is_in_place = pages.homes.get(&self.place(page).segment) == Some(&Home::Direct);
        let poisoned = match (pages.state(page), ticket) {
            (Some(State::Asking { ticket: asked, has_copy, .. }), Some(ticket)) if *asked == ticket => {
                let gone = if *has_copy { self.memory.discard(&this) } else { Ok(()) };
                pages.set(page, State::Lost, None);
                gone.and_then(|()| self.memory.poison(page))
            }
            (None, _) if !is_in_place => {
                pages.set(page, State::Lost, None);
                self.memory.poison(page)
            }
            // Somebody else has had it in the meantime.
            _ => self.memory.wake(&this),
        };
        if let Err(e) = poisoned {
            tracing::error!("a thread that waits for a page of {} hangs: {e}", self.file.name());
        }
    }
}
