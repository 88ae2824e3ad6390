//! Pages that a process has mapped strictly: asked for at their homes, brought there, and given up when these say so.
//!
//! All goes by messages, also to an agent of this very process: answers come when it is time.

use std::ops::Range;

use crate::error::{Error, Result};

use super::client::Question;
use super::wire::{Gone, Order, PagePlace, Part, Reply, Request, Surrendered, Wish};
use super::{NodeIndex, SharedFile};

/// Pages that are brought home together, with what was stored into them.
#[derive(Default)]
pub(crate) struct Returned {
    pages: Vec<Surrendered>,
    data: Vec<u8>,
}

/// Copies for loads that were asked for, and that nobody waits for yet.
pub(crate) struct AskedAhead {
    home: NodeIndex,
    question: Question,
    pages: usize,
    length: usize,
}

/// What a home was told that it had ordered.
pub(crate) struct AskedReturn(Question);

/// The question for orders.
pub(crate) struct AskedForOrders(Question);

/// Which of a process's strict mappings of a file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MappingNumber(pub(crate) u32);

impl Returned {
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Adds a page, of whose bytes these runs were stored into, and which is kept or not.
    pub(crate) fn put(&mut self, page: PagePlace, keeps: bool, runs: &[Range<usize>], bytes: &[u8]) {
        let change =
            |run: &Range<usize>| Part::one(page.segment, page.within + run.start as u64, run.len() as u32);
        self.pages.push(Surrendered { page, keeps, changes: runs.iter().map(change).collect() });
        runs.iter().for_each(|run| self.data.extend_from_slice(&bytes[run.clone()]));
    }
}

impl SharedFile {
    /// The node that is the home of segments at a position of the file's list, this one included.
    pub(crate) fn home_at(&self, home: Option<u32>) -> Result<NodeIndex> {
        home.map_or(Ok(self.own_node()), |home| self.node_at(home))
    }

    /// Waits until a page of `length` bytes can be had as wished, and tells what copies went; hands its bytes to
    /// `take`, or `None` where the mapping has them.
    pub(crate) fn acquire_page<T>(
        &self,
        (home, mapping): (NodeIndex, MappingNumber),
        length: usize,
        (wish, gone): (Wish, Vec<Gone>),
        take: impl FnOnce(Option<&[u8]>) -> T,
    ) -> Result<T> {
        let (file, mapping, cluster) = (self.file(), mapping.0, self.cluster());
        cluster.check_home(home)?;
        let request = Request::Acquire { file, mapping, length: length as u32, wish, gone };
        let (mut take, mut taken) = (Some(take), None);
        cluster.context().ask_with(home, &request, &[], &mut |reply, data| {
            let bytes = match reply {
                Reply::Granted { has_bytes: true } if data.len() == length => Some(data),
                Reply::Granted { has_bytes: false } => None,
                _ => return,
            };
            taken = take.take().map(|take| take(bytes));
        })?;
        taken.ok_or_else(|| self.out_of_place(home))
    }

    /// Asks for copies for loads of pages of `length` bytes, as far as nobody is in the way.
    pub(crate) fn begin_acquire_ahead(
        &self,
        (home, mapping): (NodeIndex, MappingNumber),
        length: usize,
        (pages, ticket, gone): (Vec<PagePlace>, u64, Vec<Gone>),
    ) -> Result<AskedAhead> {
        let (file, mapping, cluster, count) = (self.file(), mapping.0, self.cluster(), pages.len());
        cluster.check_home(home)?;
        let request = Request::AcquireAhead { file, mapping, length: length as u32, pages, ticket, gone };
        let question = cluster.context().begin(home, &request, &[])?;
        Ok(AskedAhead { home, question, pages: count, length })
    }

    /// Waits for the answer: hands to `take` which of the pages are granted, and the bytes of these.
    pub(crate) fn finish_acquire_ahead<T>(
        &self,
        asked: AskedAhead,
        take: impl FnOnce(&[bool], &[u8]) -> T,
    ) -> Result<T> {
        let AskedAhead { home, question, pages, length } = asked;
        let (mut take, mut taken) = (Some(take), None);
        self.cluster().context().wait(home, question, &mut |reply, data| {
            let Reply::GrantedAhead(granted) = reply else { return };
            let count = granted.iter().filter(|granted| **granted).count();
            if granted.len() == pages && data.len() == count * length {
                taken = take.take().map(|take| take(granted, data));
            }
        })?;
        taken.ok_or_else(|| self.out_of_place(home))
    }

    /// Whether waiting for the answer ends at once.
    pub(crate) fn is_answered(&self, asked: &AskedAhead) -> bool {
        self.cluster().context().is_answered(&asked.question)
    }

    /// Tells a home what copies went, of pages of `length` bytes.
    pub(crate) fn begin_tell_gone(
        &self,
        (home, mapping): (NodeIndex, MappingNumber),
        length: usize,
        gone: Vec<Gone>,
    ) -> Result<AskedAhead> {
        // With a wish for nothing.
        self.begin_acquire_ahead((home, mapping), length, (Vec::new(), 0, gone))
    }

    /// Tells a home what was done, as it had ordered, for the `number`th time.
    pub(crate) fn begin_return(
        &self,
        (home, mapping): (NodeIndex, MappingNumber),
        number: u64,
        obeyed: &Returned,
    ) -> Result<AskedReturn> {
        let (file, pages) = (self.file(), obeyed.pages.clone());
        let request = Request::Return { file, mapping: mapping.0, number, pages };
        self.cluster().context().begin(home, &request, &obeyed.data).map(AskedReturn)
    }

    /// Waits until it is there; returns why some of it is lost.
    pub(crate) fn finish_return(&self, home: NodeIndex, asked: AskedReturn) -> Result<Option<Error>> {
        match self.cluster().context().wait(home, asked.0, &mut |_, _| {})? {
            Reply::Returned { loss } => {
                let node = || self.cluster().context().roster.name(home).clone();
                Ok(loss.map(|(kind, message)| Error::OnNode { node: node(), kind, message }))
            }
            _ => Err(self.out_of_place(home)),
        }
    }

    /// Asks a home what it wants to be done, after it was told so many times what was.
    pub(crate) fn begin_attend(
        &self,
        (home, mapping): (NodeIndex, MappingNumber),
        returns: u64,
    ) -> Result<AskedForOrders> {
        let request = Request::Attend { file: self.file(), mapping: mapping.0, returns };
        self.cluster().context().begin(home, &request, &[]).map(AskedForOrders)
    }

    /// Waits for it; `None` when the mapping was withdrawn.
    pub(crate) fn finish_attend(&self, home: NodeIndex, asked: AskedForOrders) -> Result<Option<Vec<Order>>> {
        match self.cluster().context().wait(home, asked.0, &mut |_, _| {})? {
            Reply::Orders(orders) => Ok(Some(orders)),
            Reply::Done => Ok(None),
            _ => Err(self.out_of_place(home)),
        }
    }

    /// That a home is not lost.
    pub(crate) fn check_home(&self, home: NodeIndex) -> Result<()> {
        self.cluster().check_home(home)
    }

    /// Brings pages home.
    pub(crate) fn surrender(
        &self,
        (home, mapping): (NodeIndex, MappingNumber),
        pages: Returned,
    ) -> Result<()> {
        self.cluster().check_home(home)?;
        let request = Request::Surrender { file: self.file(), mapping: mapping.0, pages: pages.pages };
        self.cluster().context().ask_with(home, &request, &pages.data, &mut |_, _| {}).map(|_| ())
    }

    /// Ends a mapping at a home that it has attended.
    pub(crate) fn withdraw(&self, (home, mapping): (NodeIndex, MappingNumber)) -> Result<()> {
        let request = Request::Withdraw { file: self.file(), mapping: mapping.0 };
        self.cluster().context().ask_with(home, &request, &[], &mut |_, _| {}).map(|_| ())
    }

    fn out_of_place(&self, node: NodeIndex) -> Error {
        self.cluster().context().out_of_place(node)
    }
}
