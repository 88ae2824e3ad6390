//! Pages of strict mappings: what the [directory](super::directory) decides, told to those whom it concerns.
//!
//! The agent's thread serves these requests one after the other and waits for none: an answer that cannot be given yet
//! is given when another request, or a loss, makes it possible.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{MutexGuard, PoisonError};

use svmio_transport::Rank;

use crate::cluster::NodeIndex;
use crate::cluster::wire::{Gone, PagePlace, Part, Reply, Request, Surrendered};
use crate::error::{Error, ErrorKind, Result};
use crate::units::FileId;

use super::Agent;
use super::directory::{Act, Asked, Directory, Party};
use super::files::Served;

/// Changes through strict mappings are news to all nodes' caches, also to that of the node that made them.
const NOBODY: NodeIndex = NodeIndex(u32::MAX);

/// Whether a request is about strict mappings.
pub(super) fn concerns(request: &Request) -> bool {
    matches!(
        request,
        Request::Acquire { .. }
            | Request::AcquireAhead { .. }
            | Request::Attend { .. }
            | Request::Return { .. }
            | Request::Surrender { .. }
            | Request::Withdraw { .. }
    )
}

impl Agent {
    /// Does what such a request asks, and answers it and others as far as it is time.
    pub(super) fn cohere(&self, from: Rank, number: u64, request: &Request, data: &[u8]) {
        if self.context.fabric.membership().check(from).is_err() {
            // What it has was taken from it.
            return;
        }
        let served = catch_unwind(AssertUnwindSafe(|| self.serve_coherence(from, number, request, data)));
        let failed = match served {
            Ok(Ok(())) => return,
            Ok(Err(error)) => Reply::of_error(&error),
            Err(_) => {
                let message = format!("its agent failed; its rank {} says why", self.context.roster.rank());
                Reply::Failed { kind: ErrorKind::Other, message }
            }
        };
        self.send(from, number, &failed, &[]);
    }

    /// Takes from a lost process what it has.
    pub(super) fn forget_coherence(&self, rank: Rank) {
        for served in self.files.all() {
            let acts = directory_of(&served).lose(rank);
            self.act(&served, acts);
        }
    }

    /// A file is closed by all: mappings that are left of it have nobody to agree with.
    pub(super) fn end_coherence(&self, file: FileId) {
        if let Some(served) = self.files.known(file) {
            let acts = directory_of(&served).end();
            self.act(&served, acts);
        }
    }

    fn serve_coherence(&self, from: Rank, number: u64, request: &Request, data: &[u8]) -> Result<()> {
        #[cfg(test)]
        self.refuses(request)?;
        match request {
            Request::Acquire { file, mapping, length, wish, gone } => {
                let served = self.files.get(&self.context, *file)?;
                self.check_pages(*length, std::slice::from_ref(&wish.page))?;
                let party = Party { rank: from, mapping: *mapping };
                note_gone(&served, party, gone);
                let acts = directory_of(&served).ask(Asked { party, number, wish: *wish });
                self.act(&served, acts);
            }
            Request::AcquireAhead { file, mapping, length, pages, ticket, gone } => {
                let (served, party) =
                    (self.files.get(&self.context, *file)?, Party { rank: from, mapping: *mapping });
                self.check_pages(*length, pages)?;
                note_gone(&served, party, gone);
                let mut bytes = Vec::new();
                let granted = pages.iter().map(|place| {
                    directory_of(&served).ask_ahead(party, *place, *ticket) && {
                        let page = Part::one(place.segment, place.within, *length);
                        let (end, read) = (bytes.len(), self.append(&served, &page, &mut bytes));
                        if read.is_err() {
                            // Who touches the page hears of it.
                            bytes.truncate(end);
                            directory_of(&served).take_back(party, *place);
                        }
                        read.is_ok()
                    }
                });
                let reply = Reply::GrantedAhead(granted.collect());
                self.send(from, number, &reply, &bytes);
            }
            Request::Attend { file, mapping, returns } => {
                let (served, party) =
                    (self.files.get(&self.context, *file)?, Party { rank: from, mapping: *mapping });
                if directory_of(&served).lacks_returns(party, *returns) {
                    return Err(self.told("what it ordered before has not come yet".into()));
                }
                let acts = directory_of(&served).attend(party, number);
                self.act(&served, acts);
            }
            Request::Return { file, mapping, number: count, pages } => {
                let (served, party) =
                    (self.files.get(&self.context, *file)?, Party { rank: from, mapping: *mapping });
                let mut loss = None;
                if directory_of(&served).is_new_return(party, *count) {
                    loss = self.take_home(&served, party, pages, data).err();
                    for Surrendered { page, keeps, .. } in pages {
                        let acts = directory_of(&served).obeyed(party, *page, *keeps);
                        self.act(&served, acts);
                    }
                    // Not before: where this panics, it comes again.
                    directory_of(&served).note_return(party, *count);
                }
                let loss = loss.map(|error| (error.kind(), error.to_string()));
                self.send(from, number, &Reply::Returned { loss }, &[]);
            }
            Request::Surrender { file, mapping, pages } => {
                let (served, party) =
                    (self.files.get(&self.context, *file)?, Party { rank: from, mapping: *mapping });
                let parts: Vec<Part> = pages.iter().flat_map(|page| page.changes.clone()).collect();
                self.store(&served, &parts, data, |index| served.add_change(index, NOBODY))?;
                for Surrendered { page, .. } in pages.iter().filter(|page| !page.keeps) {
                    directory_of(&served).surrendered(party, *page);
                }
                self.send(from, number, &Reply::Done, &[]);
            }
            Request::Withdraw { file, mapping } => {
                if let Some(served) = self.files.known(*file) {
                    let acts = directory_of(&served).withdraw(Party { rank: from, mapping: *mapping });
                    self.act(&served, acts);
                }
                self.send(from, number, &Reply::Done, &[]);
            }
            _ => return Err(self.cut_short()),
        }
        Ok(())
    }

    /// Stores what was ordered home. What cannot be stored is lost: nobody has it any more, and who wants it is told,
    /// as is who brings it.
    fn take_home(&self, served: &Served, party: Party, pages: &[Surrendered], mut data: &[u8]) -> Result<()> {
        let mut outcome = Ok(());
        for page in pages {
            let bytes: u64 = page.changes.iter().map(Part::bytes).sum();
            let (its, rest) = data.split_at(data.len().min(bytes as usize));
            data = rest;
            let stored = self.store(served, &page.changes, its, |index| served.add_change(index, NOBODY));
            if let Err(error) = stored {
                let (name, at) = (served.attachment.name(), page.page.within);
                tracing::error!(
                    "a page of {name}, byte {at} of segment {}, is lost: {error}",
                    page.page.segment
                );
                directory_of(served).spoil(party.rank, page.page);
                outcome = outcome.and(Err(error));
            }
        }
        outcome
    }

    /// Does what the directory has decided.
    fn act(&self, served: &Served, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Grant { asked, has_bytes } => {
                    let mut bytes = Vec::new();
                    let ready = self.make_ready(served, &asked, has_bytes, &mut bytes);
                    let reply = match ready {
                        Ok(()) => Reply::Granted { has_bytes },
                        Err(error) => {
                            directory_of(served).take_back(asked.party, asked.wish.page);
                            Reply::of_error(&error)
                        }
                    };
                    self.send(asked.party.rank, asked.number, &reply, &bytes);
                }
                Act::Refuse { asked, lost } => {
                    let reply = Reply::of_error(&self.lost_with(lost));
                    self.send(asked.party.rank, asked.number, &reply, &[]);
                }
                Act::Tell { party, number, orders } => {
                    self.send(party.rank, number, &Reply::Orders(orders), &[]);
                }
                Act::End { asked } => {
                    let reply = Reply::of_error(&self.closed_by_all(served));
                    self.send(asked.party.rank, asked.number, &reply, &[]);
                }
                Act::Dismiss { party, number } => {
                    self.send(party.rank, number, &Reply::Done, &[]);
                }
            }
        }
    }

    /// Gives a page that is to be stored into storage, so that what is stored there can come home; reads one that is
    /// to be told.
    fn make_ready(&self, served: &Served, asked: &Asked, has_bytes: bool, bytes: &mut Vec<u8>) -> Result<()> {
        let (place, page) = (asked.wish.page, rustix::param::page_size());
        if asked.wish.is_exclusive {
            let segment = self.own_segment(served, place.segment)?;
            segment.allocate(place.within..place.within + page as u64).map_err(|e| {
                let subject =
                    format!("storing into segment {} of {}", place.segment, served.attachment.name());
                Error::io(subject, &served.attachment.path(), e)
            })?;
            served.attachment.mark_dirty_for_another(segment.index());
        }
        if has_bytes {
            self.append(served, &Part::one(place.segment, place.within, page as u32), bytes)?;
        }
        Ok(())
    }

    fn lost_with(&self, lost: Rank) -> Error {
        let node = self.context.roster.name(self.context.roster.node_of(lost));
        let message = format!("what rank {} of node {node} had stored here last is lost", lost.0);
        Error::OnNode { node: self.context.store.node().clone(), kind: ErrorKind::Other, message }
    }

    fn closed_by_all(&self, served: &Served) -> Error {
        let name = served.attachment.name();
        let message =
            format!("all have closed {name}, and pages of it are still asked for: unmap it before closing");
        Error::OnNode { node: self.context.store.node().clone(), kind: ErrorKind::Other, message }
    }

    /// That pages are of as many bytes for the asker as they are here, and begin where pages do.
    fn check_pages<'p>(&self, theirs: u32, places: impl IntoIterator<Item = &'p PagePlace>) -> Result<()> {
        let ours = rustix::param::page_size();
        if theirs as usize == ours && places.into_iter().all(|place| place.within.is_multiple_of(ours as u64))
        {
            return Ok(());
        }
        let message = format!("its pages are of {ours} bytes, and those asked for of {theirs}");
        Err(Error::OnNode { node: self.context.store.node().clone(), kind: ErrorKind::Other, message })
    }
}

fn note_gone(served: &Served, party: Party, gone: &[Gone]) {
    let mut directory = directory_of(served);
    gone.iter().for_each(|(place, ticket)| directory.gone(party, *place, *ticket));
}

fn directory_of(served: &Served) -> MutexGuard<'_, Directory> {
    // A panic elsewhere leaves the directory whole.
    served.directory.lock().unwrap_or_else(PoisonError::into_inner)
}
