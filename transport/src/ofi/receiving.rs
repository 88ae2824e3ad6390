//! What comes: messages are carried out, completions passed on.

use std::sync::atomic::Ordering;

use super::adapter::{Adapter, Token};
use super::attendant::Task;
use super::endpoint::{Endpoint, Event};
use super::failures::{Operation, Verdict, verdict};
use super::groups;
use super::peers::{Heard, Peer};
use super::questions::Answer;
use super::sys::library;
use super::wire::{self, Header, Message, Pieces};
use crate::back_end;
use crate::error::{Error, Result};
use crate::units::{Rank, SegmentId};

impl Adapter {
    /// Deals with all that has come; returns how much it was, or nothing where another thread is at it.
    ///
    /// # Errors
    /// `Ending` once the adapter is closed.
    pub(super) fn process(&self) -> Result<Option<usize>> {
        self.with_endpoint(|endpoint| {
            let mut is_news = false;
            let count = endpoint.poll(|event| is_news |= self.handle(endpoint, event));
            if is_news {
                self.waiters.look_again();
            }
            if count.is_some() {
                self.send_waiting_answers(endpoint);
                self.advance_stalled(endpoint);
            }
            Ok(count)
        })
    }

    /// Whether something waits for room.
    pub(super) fn has_leftovers(&self) -> bool {
        self.waiting_answers.load(Ordering::Relaxed) > 0
            || self.chains.needs_attention()
            || self.doubts.are_open()
    }

    /// Deals with an event; returns whether somebody may wait for it.
    pub(super) fn handle(&self, endpoint: &Endpoint<Token>, event: Event<'_, Token>) -> bool {
        if let Event::Transferred(token) = &event
            && let Some(peer) = self.peers.get(token.peer().index())
        {
            peer.note_sign();
        }
        match event {
            Event::Received(bytes) => {
                self.receive(endpoint, bytes);
                return !wire::is_silent(bytes);
            }
            Event::Sent | Event::Transferred(Token::Message { .. } | Token::Repeated(_)) => {
                // Relaxed: who misses it naps for a millisecond at most.
                return self.wanting_room.load(Ordering::Relaxed) > 0;
            }
            Event::Transferred(Token::Part(group)) => group.finish_part(0),
            Event::Transferred(Token::Posted(chain, rank, passage)) => {
                self.finish_part(endpoint, &chain, rank, Ok(passage));
            }
            Event::Transferred(Token::Probe(_, probe))
            | Event::Failed(Token::Probe(_, probe), libc::ECANCELED) => probe.end(),
            Event::Failed(Token::Probe(_, probe), _) => self.probe_again(&probe),
            Event::Missed(begin, code) => {
                let problem = library()
                    .map_or_else(|error| error.to_string(), |library| library.describe(code as isize));
                self.miss(endpoint, begin, &problem);
            }
            Event::Failed(Token::Repeated(_), code) => tracing::debug!(code, "a question was lost"),
            Event::Failed(token, code)
                if verdict(Operation::of(&token), code) == Verdict::Doubtful
                    && self.membership.check(token.peer()).is_ok() =>
            {
                let rank = token.peer();
                let is_message = Operation::of(&token) != Operation::Transfer;
                self.doubt(endpoint, rank, (!is_message).then_some((token, libc::ECANCELED)));
            }
            Event::Failed(token, code) => self.fail(endpoint, token, code),
            Event::Unreadable(code) => self.end_deaf(code),
        }
        true
    }

    /// Ends the job for this process, which learns no more of what comes: whoever waits here would wait for ever.
    fn end_deaf(&self, code: isize) {
        let problem = library().map_or_else(|error| error.to_string(), |library| library.describe(code));
        let provider = &self.capabilities.provider;
        let reason = format!("libfabric's completions cannot be read any more ({provider}): {problem}");
        self.membership.declare_ending(reason);
    }

    /// Passes the failure of an operation on.
    pub(super) fn fail(&self, endpoint: &Endpoint<Token>, token: Token, code: i32) {
        let rank = token.peer();
        let problem =
            library().map_or_else(|error| error.to_string(), |library| library.describe(code as isize));
        let error = endpoint.domain().error(&format!("transferring from or to rank {rank}"), problem);
        tracing::debug!(%error, "a transfer failed");
        if let Some(peer) = self.peers.get(rank.index()) {
            match verdict(Operation::of(&token), code) {
                // Whoever repeats it counts its failure.
                _ if matches!(token, Token::Part(_)) && groups::was_cut_off(code) => {}
                Verdict::Lost => self.lose(peer, &error),
                // Of a peer that was asked, or is lost anyhow.
                Verdict::Refused | Verdict::Doubtful => peer.note_failure(),
            }
        }
        match token {
            Token::Message { .. } | Token::Repeated(_) => {}
            Token::Probe(_, probe) => probe.fail(),
            Token::Part(group) => group.finish_part(code),
            Token::Posted(chain, rank, _) => self.finish_part(endpoint, &chain, rank, Err(error)),
        }
    }

    fn receive(&self, endpoint: &Endpoint<Token>, bytes: &[u8]) {
        match wire::decode(bytes) {
            Ok((header, message)) if header.tag == self.tag && header.sender != self.rank() => {
                match self.peers.get(header.sender.index()) {
                    Some(peer) => self.obey(endpoint, peer, &header, &message),
                    None => self.ignore("it comes from a rank that there is not"),
                }
            }
            Ok(_) => self.ignore("it is of another job"),
            Err(problem) if self.sender_of(bytes).is_some() => {
                self.miss(endpoint, bytes, &problem.to_string())
            }
            Err(problem) => self.ignore(&problem.to_string()),
        }
    }

    /// Drops a message; tells of the first, the second, the fourth … of them.
    fn ignore(&self, problem: &str) {
        let count = self.strangers.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            tracing::warn!(count, problem, "a message that is none of this job's was dropped");
        }
    }

    /// Whose message it is that begins so, if it is one of this job.
    fn sender_of(&self, begin: &[u8]) -> Option<&Peer> {
        let header = wire::decode_header(begin).filter(|header| header.tag == self.tag)?;
        self.peers.get(header.sender.index()).filter(|peer| peer.rank != self.rank())
    }

    /// A message could not be received. Where its beginning is there it tells whose it was. Else all with whom
    /// there was anything are asked: an answer tells how many messages there were, and whoever does not answer is lost.
    /// It may have been a stranger's message as well.
    fn miss(&self, endpoint: &Endpoint<Token>, begin: &[u8], problem: &str) {
        tracing::warn!(problem, "a message could not be received");
        if let Some(peer) = self.sender_of(begin) {
            self.lose_message(peer, &format!("a message from it could not be received: {problem}"));
            return;
        }
        for peer in self.peers.iter().filter(|peer| peer.rank != self.rank()) {
            let is_known = peer.incoming().has_heard() || peer.outgoing().address.is_some();
            if is_known {
                self.doubt(endpoint, peer.rank, None);
            }
        }
    }

    /// What follows a message that did not arrive may rely on it, so nothing more of that peer can be applied.
    fn lose_message(&self, peer: &Peer, problem: &str) {
        peer.has_parted.store(true, Ordering::Relaxed);
        let provider = &self.capabilities.provider;
        self.membership.declare_lost(peer.rank, format!("{problem} (libfabric, provider {provider})"));
    }

    fn obey(&self, endpoint: &Endpoint<Token>, peer: &Peer, header: &Header, message: &Message<'_>) {
        peer.note_sign();
        peer.note_applied(header.applied);
        let heard = peer.incoming().hear(header.number, message.is_numbered());
        match heard {
            Heard::InOrder => {}
            Heard::OutOfOrder { expected } => {
                let number = header.number;
                let problem = if number < expected {
                    format!("its message {number} came twice")
                } else {
                    format!(
                        "its message {expected} of {number} did not arrive, as if a connection had broken"
                    )
                };
                self.lose_message(peer, &problem);
                return self.tell_parted(endpoint, peer);
            }
            // It has not heard of that, and asks.
            Heard::AfterGap if *message == Message::Barrier => return self.tell_parted(endpoint, peer),
            Heard::AfterGap => {}
        }
        if message.is_numbered() {
            let is_applied = heard == Heard::InOrder && self.apply(message);
            peer.incoming().note(header.number, is_applied);
            return;
        }
        match *message {
            Message::Barrier => {
                let refused = peer.incoming().refused();
                self.answer(endpoint, peer, &Message::Applied { number: header.number, refused });
            }
            Message::Applied { number, refused } => {
                // In this order: whoever sees the answer sees the failures.
                peer.note_refused(refused);
                peer.note_applied(number);
                peer.note_answer();
            }
            Message::Connect { ticket, id } => self.offer(endpoint, peer, ticket, id),
            Message::Connected { ticket, key, base, length } => {
                let memory = super::exports::Description { key, base, length };
                self.questions.answer(peer.rank, ticket, Answer::Segment(memory));
            }
            Message::Add { ticket, key, place, amount } => {
                let was = self.change(key, place, |word| word.fetch_add(amount, Ordering::SeqCst));
                self.answer(endpoint, peer, &was_or_refused(ticket, was));
            }
            Message::Swap { ticket, key, place, expected, new } => {
                let was = self.compare_swap_here(key, place, expected, new);
                self.answer(endpoint, peer, &was_or_refused(ticket, was));
            }
            Message::Was { ticket, value } => self.questions.answer(peer.rank, ticket, Answer::Was(value)),
            Message::Read { ticket, key, place, length } => {
                let mut bytes = [0; wire::LONGEST_READ];
                let bytes = usize::try_from(length).ok().and_then(|length| bytes.get_mut(..length));
                let bytes = bytes.and_then(|bytes| self.read_here(key, place, bytes).then_some(&*bytes));
                let refused = Message::Refused { ticket };
                self.answer(endpoint, peer, &bytes.map_or(refused, |bytes| Message::Bytes { ticket, bytes }));
            }
            Message::Bytes { ticket, bytes } => {
                self.questions.answer(peer.rank, ticket, Answer::Bytes(bytes.into()));
            }
            Message::Refused { ticket } => self.questions.answer(peer.rank, ticket, Answer::Refused),
            Message::Parted => {
                let problem = "a message to it, or from it, did not arrive, as if a connection had broken";
                self.lose_message(peer, problem);
            }
            Message::Stop { key } => self.stop(endpoint, peer, key),
            Message::Stopped { key } => self.note_stopped(peer.rank, key),
            Message::Inquire { ticket, question } => {
                self.leave(Task::Respond { asker: peer.rank, ticket, question });
            }
            Message::Write { .. } | Message::Trigger(_) | Message::Ring => {}
        }
    }

    /// Carries out a numbered message; returns whether it could be.
    fn apply(&self, message: &Message<'_>) -> bool {
        match *message {
            Message::Write { interrupt, key, pieces } => {
                let is_written = self.write_here(key, pieces);
                if let Some(interrupt) = interrupt {
                    self.interrupts.raise(interrupt);
                }
                is_written
            }
            Message::Trigger(interrupt) => {
                self.interrupts.raise(interrupt);
                true
            }
            // The waiters are woken after every message but silent ones.
            _ => true,
        }
    }

    fn write_here(&self, key: u64, pieces: Pieces<'_>) -> bool {
        let mut pieces = pieces;
        self.exports
            .with(key, |memory| pieces.all(|(place, bytes)| memory.write(place, bytes)))
            .unwrap_or(false)
    }

    fn read_here(&self, key: u64, place: u64, into: &mut [u8]) -> bool {
        self.exports.with(key, |memory| memory.read(place, into)).unwrap_or(false)
    }

    /// Changes a word of this process's exported memory.
    pub(super) fn change<R>(
        &self,
        key: u64,
        place: u64,
        change: impl FnOnce(&std::sync::atomic::AtomicU64) -> R,
    ) -> Option<R> {
        self.exports.with(key, |memory| memory.word(place).map(change)).flatten()
    }

    /// Sets such a word to `new` if it is `expected`; returns what it was.
    pub(super) fn compare_swap_here(&self, key: u64, place: u64, expected: u64, new: u64) -> Option<u64> {
        self.change(key, place, |word| {
            match word.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(was) | Err(was) => was,
            }
        })
    }

    /// Answers who wants to connect, or has the segment provided first.
    fn offer(&self, endpoint: &Endpoint<Token>, peer: &Peer, ticket: u64, id: SegmentId) {
        if !self.exports.has(id) && self.exports.provider(id.space).is_some() {
            self.leave(Task::Provide { asker: peer.rank, ticket, id });
            return;
        }
        self.answer(endpoint, peer, &self.found(peer.rank, ticket, id));
    }

    /// Has a segment provided, and answers who asked for it.
    pub(super) fn provide(&self, asker: Rank, ticket: u64, id: SegmentId) {
        if !self.exports.has(id)
            && let Some(provider) = self.exports.provider(id.space)
        {
            back_end::provide(&*provider, asker, id);
        }
        if asker == self.rank() {
            let answer = self.exports.describe(id, asker).map_or(Answer::Refused, Answer::Segment);
            self.questions.answer(asker, ticket, answer);
            self.waiters.look_again();
            return;
        }
        let Some(peer) = self.peers.get(asker.index()) else { return };
        // Closed meanwhile, there is nobody to answer.
        let _ = self.with_endpoint(|endpoint| {
            self.answer(endpoint, peer, &self.found(peer.rank, ticket, id));
            Ok(())
        });
    }

    /// Answers what a peer inquires.
    pub(super) fn respond(&self, asker: Rank, ticket: u64, question: [u64; 2]) {
        let Some(peer) = self.peers.get(asker.index()) else { return };
        let answer = self.exports.respondent().and_then(|one| back_end::respond(&*one, asker, question));
        // Closed meanwhile, there is nobody to answer.
        let _ = self.with_endpoint(|endpoint| {
            self.answer(endpoint, peer, &was_or_refused(ticket, answer));
            Ok(())
        });
    }

    fn found(&self, asker: Rank, ticket: u64, id: SegmentId) -> Message<'static> {
        match self.exports.describe(id, asker) {
            Some(memory) => {
                let super::exports::Description { key, base, length } = memory;
                Message::Connected { ticket, key, base, length }
            }
            None => Message::Refused { ticket },
        }
    }
}

fn was_or_refused(ticket: u64, was: Option<u64>) -> Message<'static> {
    was.map_or(Message::Refused { ticket }, |value| Message::Was { ticket, value })
}

/// The error of whoever reached for something that the peer refused.
pub(super) fn refused(owner: Rank, offset: u64, length: u64) -> Error {
    Error::OutOfBounds {
        what: format!("memory that rank {owner} exports no longer"),
        offset,
        length,
        size: 0,
    }
}
