//! Asking agents, and waiting for their answers.
//!
//! Any number of threads may ask, each any number of questions at a time. Whoever waits receives for all: one thread
//! at a time takes what comes, and gives it to whom it is for.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use svmio_transport::message::{MessageSettings, Messenger, Port};
use svmio_transport::{Fabric, Rank};

use crate::error::{Error, Result};
use crate::node::NodeName;

use super::statistics::Requests;
use super::wire::{self, Reply, Request};

/// How often a waiting thread looks whether the one that receives has ended without telling.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The port on which answers come.
pub(super) const ANSWERS: Port = Port::new(2).expect("there are more ports");

/// One process's way to ask.
pub(crate) struct Client {
    fabric: Fabric,
    answers: Messenger,
    next: AtomicU64,
    asked: Requests,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What was asked and not been waited for; with the answer, once it has come.
    open: HashMap<u64, Option<Vec<u8>>>,
    /// What the thread that receives receives into; somebody has it where it is not here.
    buffer: Option<Vec<u8>>,
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

impl Client {
    pub(super) fn open(fabric: &Fabric) -> svmio_transport::Result<Client> {
        let answers = Messenger::open(fabric, ANSWERS, &MessageSettings::default())?;
        let state = State { buffer: Some(vec![0; wire::LONGEST]), ..State::default() };
        Ok(Client {
            fabric: fabric.clone(),
            answers,
            next: AtomicU64::new(1),
            asked: Requests::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    /// What was asked so far.
    pub(super) fn asked(&self) -> &Requests {
        &self.asked
    }

    /// Where answers are sent from, by an agent of this process.
    pub(super) fn answers(&self) -> &Messenger {
        &self.answers
    }

    /// Asks the agent in process `to`, by way of `requests`.
    pub(super) fn ask(
        &self,
        requests: &Messenger,
        to: Rank,
        request: &Request,
        data: &[u8],
    ) -> std::result::Result<Question, Unasked> {
        // Relaxed: only uniqueness counts.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let bytes = wire::encode(number, request, data);
        if bytes.len() > wire::LONGEST {
            return Err(Unasked::TooLong(bytes.len()));
        }
        self.state().open.insert(number, None);
        let question = Question { number, to };
        match requests.send(to, &bytes) {
            Ok(()) => {
                self.asked.add(request);
                Ok(question)
            }
            Err(error) => {
                self.state().open.remove(&number);
                Err(Unasked::Fabric(error))
            }
        }
    }

    /// Waits for the answer; the data behind it is put where `take` says.
    pub(super) fn wait(
        &self,
        question: Question,
        node: &NodeName,
        take: &mut dyn FnMut(&Reply, &[u8]),
    ) -> Result<Reply> {
        let subject = || format!("asking node {node}");
        let lost = |source| Error::Fabric { subject: subject(), source };
        let bytes = self.wait_for_bytes(&question).map_err(lost)?;
        let (_, reply, data) =
            wire::decode::<Reply>(&bytes).ok_or_else(|| self.senseless(&question, node))?;
        let reply = reply.into_result(node)?;
        take(&reply, data);
        Ok(reply)
    }

    fn wait_for_bytes(&self, question: &Question) -> svmio_transport::Result<Vec<u8>> {
        let mut state = self.state();
        loop {
            if let Some(answer) = state.open.get_mut(&question.number).and_then(Option::take) {
                state.open.remove(&question.number);
                return Ok(answer);
            }
            if let Err(error) = self.fabric.membership().check(question.to) {
                state.open.remove(&question.number);
                return Err(error);
            }
            let Some(mut buffer) = state.buffer.take() else {
                let waited = self.changed.wait_timeout(state, LOOK_AGAIN);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            };
            drop(state);
            // An error is that a process was lost, perhaps not the one that is waited for here.
            let received = self.answers.receive_any(&mut buffer);
            state = self.state();
            if let Ok((_, length)) = received
                && let Some(number) = buffer[..length].first_chunk::<8>()
                && let Some(place) = state.open.get_mut(&u64::from_le_bytes(*number))
            {
                *place = Some(buffer[..length].to_vec());
            }
            state.buffer = Some(buffer);
            self.changed.notify_all();
            if let Err(error) = received
                && error.lost_peer().is_none()
            {
                state.open.remove(&question.number);
                return Err(error);
            }
        }
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
