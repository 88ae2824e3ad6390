//! Sends and receives that go on while the program does something else.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use super::Messenger;
use super::ends::End;
use super::outcome::Outcome;
use super::settings::Mode;
use crate::error::Result;
use crate::memory::UserMemory;
use crate::units::Rank;

/// A send or receive that was begun by [`Messenger::post_send`] or [`Messenger::post_receive`].
#[derive(Debug)]
pub struct Posted<'a> {
    messenger: &'a Messenger,
    progress: Progress<'a>,
}

#[derive(Debug)]
enum Progress<'a> {
    /// Successfully, with so many bytes.
    Ended(usize),
    Begun {
        outcome: Arc<Outcome>,
        /// Where the peer tells the end of a send that it takes alone.
        end: Option<End<'a>>,
    },
}

impl<'a> Posted<'a> {
    pub(super) fn ended(messenger: &'a Messenger, result: Result<usize>) -> Self {
        let progress = match result {
            Ok(length) => Progress::Ended(length),
            Err(error) => Progress::Begun { outcome: Arc::new(Outcome::of(Err(error))), end: None },
        };
        Self { messenger, progress }
    }

    pub(super) fn begun(messenger: &'a Messenger, outcome: Arc<Outcome>, end: Option<End<'a>>) -> Self {
        Self { messenger, progress: Progress::Begun { outcome, end } }
    }

    /// Whether it has ended, and then how: with so many bytes, or an error. Does work that is waiting.
    pub fn test(&self) -> Option<Result<usize>> {
        self.look().or_else(|| {
            self.messenger.engine().nudge();
            self.look()
        })
    }

    /// Waits until it has ended; returns how many bytes there were.
    ///
    /// # Errors
    /// As for [`Messenger::send`] and [`Messenger::receive`].
    pub fn wait(&self) -> Result<usize> {
        match &self.progress {
            Progress::Ended(length) => Ok(*length),
            Progress::Begun { outcome, end } => {
                let look = || ended(outcome, end.as_ref());
                let result = self.messenger.engine().wait(|| look().is_some(), || look().transpose());
                outcome.tell();
                result
            }
        }
    }

    fn look(&self) -> Option<Result<usize>> {
        match &self.progress {
            Progress::Ended(length) => Some(Ok(*length)),
            Progress::Begun { outcome, end } => ended(outcome, end.as_ref()).inspect(|_| outcome.tell()),
        }
    }

    /// Whether it has ended. Does no work.
    pub(super) fn has_ended(&self) -> bool {
        match &self.progress {
            Progress::Ended(_) => true,
            Progress::Begun { outcome, end } => ended(outcome, end.as_ref()).is_some(),
        }
    }
}

/// How an operation has ended, if the peer has told it or somebody here has found out.
#[inline]
fn ended(outcome: &Outcome, end: Option<&End<'_>>) -> Option<Result<usize>> {
    if let Some(end) = end
        && end.is_told()
    {
        outcome.set_unless_lent(end.length);
    }
    outcome.get()
}

/// Where sends and receives can be begun that end with it; see [`Messenger::scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    messenger: &'env Messenger,
    begun: RefCell<Begun>,
    scope: PhantomData<&'scope mut &'scope ()>,
    environment: PhantomData<&'env mut &'env ()>,
}

impl<'scope> Scope<'scope, '_> {
    /// Begins to send `bytes`, by the settings' mode.
    ///
    /// # Errors
    /// As for [`Messenger::send`], as far as it is known at once.
    pub fn send(&'scope self, to: Rank, bytes: &'scope [u8]) -> Result<Request<'scope>> {
        self.send_by(self.messenger.settings().mode, to, bytes)
    }

    /// Begins to send `bytes` by `mode`.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn send_by(&'scope self, mode: Mode, to: Rank, bytes: &'scope [u8]) -> Result<Request<'scope>> {
        // SAFETY: the bytes are borrowed until the scope has ended, and it does not end before the send.
        let posted = unsafe { self.messenger.post_send(to, UserMemory::of(bytes), mode) }?;
        Ok(self.keep(to, posted))
    }

    /// Begins to receive the next message of `from` that nobody waits for yet.
    ///
    /// # Errors
    /// As for [`Messenger::receive`], as far as it is known at once.
    pub fn receive(&'scope self, from: Rank, into: &'scope mut [u8]) -> Result<Request<'scope>> {
        // SAFETY: as for sending; they are borrowed exclusively.
        let posted = unsafe { self.messenger.post_receive(from, UserMemory::of_mut(into)) }?;
        Ok(self.keep(from, posted))
    }

    /// Waits until at least one of `requests` has ended; returns which, `None` if there are none.
    ///
    /// # Errors
    /// None of an operation's: its [`wait`](Request::wait) tells that.
    pub fn wait_any(&self, requests: &[Request<'scope>]) -> Result<Option<usize>> {
        if requests.is_empty() {
            return Ok(None);
        }
        let ended = || requests.iter().position(|request| request.0.has_ended());
        self.messenger.engine().wait(|| ended().is_some(), || Ok(ended())).map(Some)
    }

    fn keep(&'scope self, peer: Rank, posted: Posted<'scope>) -> Request<'scope> {
        if let Progress::Begun { outcome, .. } = &posted.progress {
            self.begun.borrow_mut().push((peer, Arc::clone(outcome)));
        }
        Request(posted)
    }
}

/// What was begun in a scope, and at which peer.
#[derive(Debug, Default)]
struct Begun {
    /// Most scopes have only this one, and need no list.
    first: Option<(Rank, Arc<Outcome>)>,
    others: Vec<(Rank, Arc<Outcome>)>,
}

impl Begun {
    fn push(&mut self, begun: (Rank, Arc<Outcome>)) {
        if self.first.is_none() {
            self.first = Some(begun);
            return;
        }
        // Those that have ended need not be kept; looking only when the list doubles keeps it cheap.
        if self.others.len() == self.others.capacity() {
            self.others.retain(|(_, outcome)| !matches!(outcome.get(), Some(Ok(_))));
        }
        self.others.push(begun);
    }

    fn iter(&self) -> impl Iterator<Item = &(Rank, Arc<Outcome>)> {
        self.first.iter().chain(&self.others)
    }
}

/// A send or receive of a [`Scope`].
#[derive(Debug)]
pub struct Request<'scope>(Posted<'scope>);

impl Request<'_> {
    /// Whether it has ended; then how many bytes there were. Does work that is waiting.
    ///
    /// # Errors
    /// As for [`Messenger::send`] and [`Messenger::receive`].
    pub fn test(&self) -> Result<Option<usize>> {
        self.0.test().transpose()
    }

    /// Waits until it has ended; returns how many bytes there were.
    ///
    /// # Errors
    /// As for [`Messenger::send`] and [`Messenger::receive`].
    pub fn wait(self) -> Result<usize> {
        self.0.wait()
    }
}

/// Runs `body` in a scope.
pub(super) fn run<'env, T>(
    messenger: &'env Messenger,
    body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<T>,
) -> Result<T> {
    let scope = Scope { messenger, begun: RefCell::default(), scope: PhantomData, environment: PhantomData };
    // What was begun uses memory that a panic would free.
    let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
    let begun = scope.begun.take();
    if !matches!(result, Ok(Ok(_))) {
        give_up(messenger, &begun);
    }
    let mut first_error = None;
    // Of an end that was told nothing has to be found out any more.
    for (_, outcome) in begun.iter().filter(|(_, outcome)| !outcome.is_told()) {
        if let Err(error) = messenger.engine().wait_for(outcome) {
            first_error.get_or_insert(error);
        }
    }
    match (result, first_error) {
        (Err(panic), _) => resume_unwind(panic),
        (Ok(Ok(_)), Some(error)) => Err(error),
        (Ok(result), _) => result,
    }
}

/// Ends what no peer has to do with yet, and asks for the rest back. What a peer has begun with it ends with, or is
/// lost.
fn give_up(messenger: &Messenger, begun: &Begun) {
    for (peer, outcome) in begun.iter() {
        if let Ok(link) = messenger.engine().link(*peer) {
            let mut state = link.take_turn();
            if state.error.is_none()
                && let Err(error) = state.give_up(link, outcome)
            {
                state.fail(link, error);
            }
            state.publish(link);
        }
    }
}
