//! Asking agents, and waiting for their answers.
//!
//! Any number of threads may ask, each any number of questions at a time. Whoever waits receives for all: one thread
//! at a time takes what comes, and wakes whom it is for. When it has its own answer, it wakes one of the others, which
//! receives from then on.

mod mailbox;

pub(crate) use mailbox::{Attending, Come, Mailbox};

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use svmio_transport::message::{MessageSettings, Messenger, Port};
use svmio_transport::{Fabric, Membership, Rank};

use crate::error::{Error, Result};
use crate::node::NodeName;

use super::statistics::Requests;
use super::wire::{self, Reply, Request};

/// How often a waiting thread looks whether the one that receives has ended without telling.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How long a process that is found gone may be unknown to be lost. One that was killed is declared so at once, by
/// those who watch it; one that has left of its own will never is.
const UNDECLARED: Duration = Duration::from_secs(1);

/// The port on which answers come.
pub(super) const ANSWERS: Port = Port::new(2).expect("there are more ports");

/// One process's way to ask.
pub(crate) struct Client {
    membership: Arc<Membership>,
    answers: Messenger,
    next: AtomicU64,
    asked: Requests,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What was asked, until the answer has been taken.
    open: HashMap<u64, Open>,
    /// What the thread that receives receives into; somebody has it where it is not here.
    buffer: Option<Vec<u8>>,
}

/// What has become of a question.
enum Open {
    /// Nobody waits for the answer yet.
    Asked,
    /// This thread does, asleep.
    Awaited(Thread),
    /// It has come.
    Answered(Vec<u8>),
    /// It comes no more: the process was found gone when it was asked.
    Lost(svmio_transport::Error),
    /// Nobody waits for this one alone: it goes to a mailbox, with the mark.
    Mailed(Arc<Mailbox>, u64),
}

/// Who may still answer. Where all others are lost, every receive from anybody says so, and this process's own agent
/// goes on.
#[derive(Debug, Clone, Copy)]
enum Company {
    Others,
    None,
}

/// A question that was asked.
#[derive(Debug)]
pub(crate) struct Question {
    number: u64,
    to: Rank,
}

/// Why a question was not asked.
pub(super) enum Unasked {
    /// It has so many bytes.
    TooLong(usize),
    /// The process cannot be reached.
    Fabric(svmio_transport::Error),
}

impl State {
    /// Gives an answer to whom it is for.
    fn give(&mut self, answer: Vec<u8>) {
        // Of a question that nobody waits for any more, or of none.
        let Some(number) = answer.first_chunk().map(|number| u64::from_le_bytes(*number)) else { return };
        match self.open.remove(&number) {
            None => {}
            Some(Open::Mailed(mailbox, mark)) => mailbox.give(number, mark, answer),
            Some(open) => {
                self.open.insert(number, Open::Answered(answer));
                if let Open::Awaited(waiter) = open {
                    waiter.unpark();
                }
            }
        }
    }

    /// What came of a question of which nothing more comes; it is not open any more then.
    fn take_end(&mut self, number: u64) -> Option<svmio_transport::Result<Vec<u8>>> {
        if !self.has_ended(number) {
            return None;
        }
        match self.open.remove(&number)? {
            Open::Answered(answer) => Some(Ok(answer)),
            Open::Lost(error) => Some(Err(error)),
            Open::Asked | Open::Awaited(_) | Open::Mailed(..) => None,
        }
    }

    fn has_ended(&self, number: u64) -> bool {
        matches!(self.open.get(&number), Some(Open::Answered(_) | Open::Lost(_)))
    }

    /// Where nobody receives, somebody who waits is to.
    fn hand_over(&self) {
        if self.buffer.is_some()
            && let Some(waiter) = self.open.values().find_map(Open::sleeper)
        {
            waiter.unpark();
        }
    }

    fn wake_all(&self) {
        self.open.values().filter_map(Open::sleeper).for_each(|waiter| waiter.unpark());
    }
}

impl Open {
    /// Who waits for the answer, asleep.
    fn sleeper(&self) -> Option<Thread> {
        match self {
            Open::Awaited(waiter) => Some(waiter.clone()),
            Open::Mailed(mailbox, _) => mailbox.sleeper(),
            Open::Asked | Open::Answered(_) | Open::Lost(_) => None,
        }
    }
}

/// Whether only messages of one process come no more.
fn is_of_a_peer(error: &svmio_transport::Error) -> bool {
    use svmio_transport::Error::{NoMessenger, Unreachable, Wire};
    error.lost_peer().is_some() || matches!(error, NoMessenger { .. } | Unreachable { .. } | Wire { .. })
}

impl Client {
    pub(super) fn open(fabric: &Fabric, messages: &MessageSettings) -> svmio_transport::Result<Client> {
        let answers = Messenger::open(fabric, ANSWERS, messages)?;
        let membership = Arc::clone(fabric.membership());
        let state = State { buffer: Some(vec![0; wire::LONGEST]), ..State::default() };
        let (next, asked) = (AtomicU64::new(1), Requests::default());
        Ok(Client { membership, answers, next, asked, state: Mutex::new(state) })
    }

    /// What was asked so far.
    pub(super) fn asked(&self) -> &Requests {
        &self.asked
    }

    /// Where answers are sent from, by an agent of this process.
    pub(super) fn answers(&self) -> &Messenger {
        &self.answers
    }

    /// Asks the agent in process `to`, by way of `requests`. That it is gone, whoever [waits](Self::wait) is told: others
    /// may be to be asked first.
    pub(super) fn ask(
        &self,
        requests: &Messenger,
        to: Rank,
        request: &Request,
        data: &[u8],
    ) -> std::result::Result<Question, Unasked> {
        let number = self.number();
        let sent = self.send((number, Open::Asked), requests, to, request, data);
        match sent {
            Ok(()) => Ok(Question { number, to }),
            Err(Unasked::Fabric(error @ svmio_transport::Error::PeerLost { .. })) => {
                self.state().open.insert(number, Open::Lost(error));
                Ok(Question { number, to })
            }
            Err(unasked) => {
                self.state().open.remove(&number);
                Err(unasked)
            }
        }
    }

    /// A question's number.
    fn number(&self) -> u64 {
        // Relaxed: only uniqueness counts.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a question, which is open from then on, also where that fails, unless the answer has come.
    fn send(
        &self,
        (number, open): (u64, Open),
        requests: &Messenger,
        to: Rank,
        request: &Request,
        data: &[u8],
    ) -> std::result::Result<(), Unasked> {
        self.state().open.insert(number, open);
        let bytes = wire::encode(number, request, data);
        if bytes.len() > wire::LONGEST {
            return Err(Unasked::TooLong(bytes.len()));
        }
        requests.send(to, &bytes).map_err(Unasked::Fabric)?;
        self.asked.add(request);
        Ok(())
    }

    /// Waits for the answer; the data behind it is put where `take` says. Where the process is gone, this ends once it is
    /// declared lost.
    pub(super) fn wait(
        &self,
        question: Question,
        node: &NodeName,
        take: &mut dyn FnMut(&Reply, &[u8]),
    ) -> Result<Reply> {
        let subject = || format!("asking node {node}");
        let lost = |source| Error::Fabric { subject: subject(), source: self.when_declared(source) };
        let bytes = self.wait_for_bytes(&question).map_err(lost)?;
        let (_, reply, data) =
            wire::decode::<Reply>(&bytes).ok_or_else(|| self.senseless(&question, node))?;
        let reply = reply.into_result(node)?;
        take(&reply, data);
        Ok(reply)
    }

    /// Whether the answer has come, as far as somebody receives, or comes no more: then the wait for it ends at once, or
    /// once its process is declared lost.
    pub(super) fn is_answered(&self, question: &Question) -> bool {
        self.state().has_ended(question.number) || self.answers.check(question.to).is_err()
    }

    /// `error`, once the membership knows of the loss that it may tell of, or of the job's end: the back end can notice a
    /// loss before it is declared, and callers decide by what was declared.
    fn when_declared(&self, error: svmio_transport::Error) -> svmio_transport::Error {
        let svmio_transport::Error::PeerLost { rank: lost, .. } = error else { return error };
        let waiter = thread::current();
        let _woken = self.membership.on_disturbance(move || waiter.unpark());
        let found = Instant::now();
        loop {
            if let Err(declared) = self.membership.check(lost) {
                return declared;
            }
            let Some(left) = UNDECLARED.checked_sub(found.elapsed()) else { return error };
            thread::park_timeout(left);
        }
    }

    fn wait_for_bytes(&self, question: &Question) -> svmio_transport::Result<Vec<u8>> {
        let mut state = self.state();
        loop {
            if let Some(end) = state.take_end(question.number) {
                state.hand_over();
                return end;
            }
            let company = self.company();
            if let Err(error) = self.answers.check(question.to) {
                state.open.remove(&question.number);
                state.hand_over();
                return Err(error);
            }
            let Some(buffer) = state.buffer.take() else {
                // Told while the state is held: whoever answers, or hands over, finds this thread.
                state.open.insert(question.number, Open::Awaited(thread::current()));
                drop(state);
                thread::park_timeout(LOOK_AGAIN);
                state = self.state();
                continue;
            };
            drop(state);
            let received = self.receive(buffer, company);
            state = received.0;
            if let Err(error) = received.1 {
                state.open.remove(&question.number);
                return Err(error);
            }
        }
    }

    /// Whether anybody else can still answer. To be asked before it is looked at whether the one can who is waited for:
    /// who is lost after that ends a receive from anybody, and not one from this process.
    fn company(&self) -> Company {
        if self.membership.is_alone() { Company::None } else { Company::Others }
    }

    /// Receives one answer, for whomever it is, and gives the buffer back.
    ///
    /// # Errors
    /// Nothing comes any more, from nobody.
    fn receive(
        &self,
        mut buffer: Vec<u8>,
        company: Company,
    ) -> (MutexGuard<'_, State>, svmio_transport::Result<()>) {
        // An error is that nothing more comes from a process, perhaps not the one that is waited for here.
        let received = match company {
            Company::Others => self.answers.receive_any(&mut buffer).map(|(_, length)| length),
            Company::None => self.answers.receive(self.membership.rank(), &mut buffer),
        };
        let received = received.map(|length| buffer[..length].to_vec());
        let mut state = self.state();
        state.buffer = Some(buffer);
        let received = received.map(|answer| state.give(answer)).or_else(|error| {
            // Each looks whether it is concerned.
            state.wake_all();
            if is_of_a_peer(&error) { Ok(()) } else { Err(error) }
        });
        (state, received)
    }

    fn senseless(&self, question: &Question, node: &NodeName) -> Error {
        let message = format!("rank {} gave an answer that makes no sense", question.to);
        Error::OnNode { node: node.clone(), kind: crate::error::ErrorKind::Other, message }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the map whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
