//! Questions to peers, and their answers.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::adapter::{Adapter, Target};
use super::exports::Description;
use super::peers::Peer;
use super::receiving::refused;
use super::wire::Message;
use crate::error::{Error, Result};
use crate::units::{Rank, SegmentId};

/// How long an answer is waited for before it is asked again: the question, or the answer, may go down with a
/// connection.
const AGAIN: Duration = Duration::from_secs(2);

/// Questions to peers that are not answered yet.
#[derive(Default)]
pub(super) struct Questions {
    open: Mutex<HashMap<u64, Open>>,
    numbers: OnceLock<AtomicU64>,
}

/// Who is asked, and where the answer goes.
type Open = (Rank, Arc<OnceLock<Answer>>);

/// What a peer answered.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    /// The segment is there.
    Segment(Description),
    /// What the word was.
    Was(u64),
    /// What was read.
    Bytes(Box<[u8]>),
    /// There is no such thing.
    Refused,
}

/// A question, until it is dropped.
pub(super) struct Question<'a> {
    questions: &'a Questions,
    /// Its number, which the answer repeats.
    pub(super) ticket: u64,
    /// What was answered.
    pub(super) answer: Arc<OnceLock<Answer>>,
}

/// What is asked again and again.
pub(super) struct Asked<'a> {
    pub(super) message: Message<'a>,
    /// What it is for, as errors tell it.
    pub(super) doing: &'a str,
    /// How long an answer is waited for in all.
    pub(super) limit: Duration,
}

impl Questions {
    /// Begins one, which only `peer` can answer.
    pub(super) fn ask(&self, peer: Rank) -> Question<'_> {
        // From a random number on, so that an answer of an earlier life of this address is not taken for one of this.
        let numbers = self.numbers.get_or_init(|| AtomicU64::new(RandomState::new().hash_one(0)));
        let ticket = numbers.fetch_add(1, Ordering::Relaxed);
        let answer = Arc::new(OnceLock::new());
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(ticket, (peer, Arc::clone(&answer)));
        Question { questions: self, ticket, answer }
    }

    /// An answer came.
    pub(super) fn answer(&self, from: Rank, ticket: u64, answer: Answer) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, slot)) = open.get(&ticket).filter(|(asked, _)| *asked == from) {
            // The first answer counts; a peer that was asked again gives another one.
            let _ = slot.set(answer);
        }
    }
}

impl Adapter {
    /// What a peer answers that is asked for a segment.
    ///
    /// # Errors
    /// As for [`tell`](Self::tell); `TimedOut`.
    pub(super) fn ask_for_segment(&self, peer: &Peer, id: SegmentId, limit: Duration) -> Result<Answer> {
        let question = self.questions.ask(peer.rank);
        let message = Message::Connect { ticket: question.ticket, id };
        let asked = Asked { message, doing: &format!("connecting to segment {id} of"), limit };
        self.ask_again_until(peer, &asked, || question.answer.get().cloned())
    }

    /// What the respondent of a peer answers, where it has one. Also a connection that takes nothing is waited for no
    /// longer than `limit`: the question leaves when it takes something, and where it has not for very long, the peer
    /// is lost.
    ///
    /// # Errors
    /// As for [`tell`](Self::tell); `TimedOut`.
    pub(super) fn inquire(&self, peer: &Peer, said: [u64; 2], limit: Duration) -> Result<Option<u64>> {
        let question = self.questions.ask(peer.rank);
        let message = Message::Inquire { ticket: question.ticket, question: said };
        let asked = Asked { message, doing: "inquiring of", limit };
        self.with_endpoint(|endpoint| {
            self.answer(endpoint, peer, &asked.message);
            Ok(())
        })?;
        let answered = self.await_answer(peer, &asked, || question.answer.get().cloned());
        if matches!(answered, Err(Error::TimedOut { .. })) {
            self.lose_if_stuck(peer)?;
        }
        match answered? {
            Answer::Was(answer) => Ok(Some(answer)),
            Answer::Segment(_) | Answer::Bytes(_) | Answer::Refused => Ok(None),
        }
    }

    /// Asks what may be asked twice, until `look` finds the answer.
    ///
    /// # Errors
    /// As for [`tell`](Self::tell); `TimedOut`.
    pub(super) fn ask_again_until<R>(
        &self,
        peer: &Peer,
        asked: &Asked<'_>,
        look: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        self.tell(peer, &asked.message)?;
        self.await_answer(peer, asked, look)
    }

    /// The rest of it, where the question has been asked for the first time.
    fn await_answer<R>(
        &self,
        peer: &Peer,
        asked: &Asked<'_>,
        mut look: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        let Asked { message, doing, limit } = asked;
        // Some times within a short limit, too.
        let again = AGAIN.min(*limit / 4);
        let mut left = *limit;
        loop {
            let turn = left.min(again);
            match self.wait_for(peer.rank, doing, turn, &mut look) {
                Err(Error::TimedOut { .. }) if left > turn => {
                    left -= turn;
                    // Without waiting for room, for which the limit is not made. Where something waits for that, the
                    // question does, too.
                    if peer.outgoing().answers.is_empty() {
                        self.with_endpoint(|endpoint| {
                            self.answer(endpoint, peer, message);
                            Ok(())
                        })?;
                    }
                }
                Err(Error::TimedOut { .. }) => {
                    return Err(Error::timed_out(&self.membership, doing, peer.rank, *limit));
                }
                done => return done,
            }
        }
    }

    /// A peer whose connection has taken nothing of what waits for room for very long is lost, unless it is this process
    /// that lacks something.
    ///
    /// # Errors
    /// `PeerLost`.
    fn lose_if_stuck(&self, peer: &Peer) -> Result<()> {
        let limit = self.settings.answer_limit();
        let outgoing = peer.outgoing();
        let is_stuck = !outgoing.answers.is_empty()
            && !outgoing.is_short
            && outgoing.waits_since.is_some_and(|since| since.elapsed() >= limit);
        drop(outgoing);
        if is_stuck {
            self.membership.declare_lost(peer.rank, format!("its connection took nothing for {limit:?}"));
        }
        self.membership.check(peer.rank)
    }

    /// Reads into `into`, which is short. The owner looks whether it still exports the memory: a provider that finds it
    /// gone closes the connection, and what else is under way by it is lost.
    pub(super) fn read_by_message(
        &self,
        peer: &Peer,
        target: &Target,
        offset: u64,
        into: &mut [u8],
    ) -> Result<()> {
        let (owner, length) = (peer.rank, into.len() as u64);
        // A process reads what it has written: by messages, behind which this one comes, or by transfers that were
        // waited for.
        let question = self.questions.ask(owner);
        let (ticket, key, place) = (question.ticket, target.memory.key, target.memory.place(offset));
        let message = Message::Read { ticket, key, place, length };
        let limit = self.settings.answer_limit();
        let asked = Asked { message, doing: "reading from", limit };
        match self.ask_again_until(peer, &asked, || question.answer.get().cloned())? {
            Answer::Bytes(bytes) if bytes.len() == into.len() => {
                into.copy_from_slice(&bytes);
                Ok(())
            }
            _ => Err(refused(owner, offset, length)),
        }
    }

    /// The word that was at `offset` of memory of `owner`, which the message asks to change. It is asked once: a second
    /// time would change it again.
    pub(super) fn ask_for_word(
        &self,
        owner: Rank,
        offset: u64,
        message: impl FnOnce(u64) -> Message<'static>,
    ) -> Result<u64> {
        let peer = self.peer(owner)?;
        let question = self.questions.ask(owner);
        self.tell(peer, &message(question.ticket))?;
        let limit = self.settings.answer_limit();
        let doing = "changing a word of";
        match self.wait_for(owner, doing, limit, || question.answer.get().cloned())? {
            Answer::Was(value) => Ok(value),
            Answer::Segment(_) | Answer::Bytes(_) | Answer::Refused => Err(refused(owner, offset, 8)),
        }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.questions.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.ticket);
    }
}
