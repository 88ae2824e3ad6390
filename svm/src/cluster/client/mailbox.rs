//! Questions that nobody waits for one by one: their answers are taken as they come, by one thread for all who asked.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

use svmio_transport::message::Messenger;
use svmio_transport::{Rank, Result};

use super::{Client, LOOK_AGAIN, Open, State, Unasked};
use crate::cluster::wire::Request;

/// Where the answers to some questions go. Whoever asks gives the question a mark, with which its answer comes.
#[derive(Default)]
pub(crate) struct Mailbox(Mutex<Mail>);

#[derive(Default)]
struct Mail {
    /// Who was asked, and the question's mark: of questions that were sent, and of no others, so that whoever looks
    /// after them can wait for an answer. Together with the client's list of open questions, whose lock is taken first.
    open: HashMap<u64, (Rank, u64)>,
    /// Answers, and why there will be none, that nobody has taken yet.
    come: VecDeque<Come>,
    /// A thread takes what comes.
    is_attended: bool,
    /// It does, asleep.
    sleeper: Option<Thread>,
}

/// The answer to the question of a mark, or why there is none.
pub(crate) type Come = (u64, Result<Vec<u8>>);

/// What there is in a mailbox.
enum Look {
    Come(Come),
    /// Answers are to come.
    Nothing,
    /// Nothing is asked; nobody takes what comes any more.
    Over,
}

impl Mailbox {
    fn mail(&self) -> MutexGuard<'_, Mail> {
        // A panic elsewhere leaves the records whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an answer, and wakes who is to look after it.
    pub(super) fn give(&self, number: u64, mark: u64, answer: Vec<u8>) {
        let mut mail = self.mail();
        // Whoever has asked may not have come so far as to note that it was sent.
        mail.open.remove(&number);
        mail.come.push_back((mark, Ok(answer)));
        mail.sleeper.take().inspect(Thread::unpark);
    }

    /// Who looks after it, where he sleeps.
    pub(super) fn sleeper(&self) -> Option<Thread> {
        self.mail().sleeper.clone()
    }

    fn look(&self, state: &mut State, check: impl Fn(Rank) -> Result<()>) -> Look {
        let mut mail = self.mail();
        mail.sleeper = None;
        if mail.come.is_empty() {
            let failed: Vec<_> = mail.open.iter().map(|(number, (to, _))| (*number, check(*to))).collect();
            for (number, checked) in failed {
                if let Err(error) = checked
                    && let Some((_, mark)) = mail.open.remove(&number)
                {
                    state.open.remove(&number);
                    mail.come.push_back((mark, Err(error)));
                }
            }
        }
        match mail.come.pop_front() {
            Some(come) => Look::Come(come),
            None if mail.open.is_empty() => {
                mail.is_attended = false;
                Look::Over
            }
            None => Look::Nothing,
        }
    }

    /// Nothing comes any more.
    fn fail_all(&self, state: &mut State, error: &svmio_transport::Error) {
        let mut mail = self.mail();
        let open = std::mem::take(&mut mail.open);
        for (number, (_, mark)) in open {
            state.open.remove(&number);
            mail.come.push_back((mark, Err(error.clone())));
        }
    }
}

/// A thread that takes what comes.
pub(crate) struct Attending<'c> {
    client: &'c Client,
    mailbox: &'c Mailbox,
    is_over: bool,
}

impl Client {
    /// Asks the agent in process `to`, by way of `requests`; the answer goes to a mailbox.
    pub(in crate::cluster) fn ask_by_mail(
        &self,
        (mailbox, mark): (&Arc<Mailbox>, u64),
        requests: &Messenger,
        to: Rank,
        request: &Request,
    ) -> std::result::Result<(), Unasked> {
        let number = self.number();
        let sent = self.send((number, Open::Mailed(Arc::clone(mailbox), mark)), requests, to, request, &[]);
        let mut state = self.state();
        // Who looks after the mailbox may have been told of a loss just before the question is there to be looked
        // after.
        match sent.and_then(|()| self.answers.check(to).map_err(Unasked::Fabric)) {
            Ok(()) if state.open.contains_key(&number) => {
                mailbox.mail().open.insert(number, (to, mark));
                Ok(())
            }
            Err(error) if state.open.remove(&number).is_some() => Err(error),
            // The answer is in the mailbox.
            _ => Ok(()),
        }
    }

    /// Has the caller take what comes into a mailbox, unless another thread does.
    pub(in crate::cluster) fn attend<'c>(&'c self, mailbox: &'c Mailbox) -> Option<Attending<'c>> {
        let mut mail = mailbox.mail();
        if mail.is_attended || mail.open.is_empty() && mail.come.is_empty() {
            return None;
        }
        mail.is_attended = true;
        Some(Attending { client: self, mailbox, is_over: false })
    }
}

impl Attending<'_> {
    /// Waits for what comes next, after `before` each time; `None` where nothing is asked any more. After that, another
    /// thread may attend.
    pub(crate) fn next(&mut self, mut before: impl FnMut()) -> Option<Come> {
        if self.is_over {
            return None;
        }
        let (client, mailbox) = (self.client, self.mailbox);
        let mut state = client.state();
        loop {
            let company = client.company();
            match mailbox.look(&mut state, |to| client.answers.check(to)) {
                Look::Come(come) => {
                    state.hand_over();
                    return Some(come);
                }
                Look::Over => {
                    self.is_over = true;
                    state.hand_over();
                    return None;
                }
                Look::Nothing => {}
            }
            let Some(buffer) = state.buffer.take() else {
                // Told while the state is held: whoever answers, or hands over, finds this thread.
                mailbox.mail().sleeper = Some(thread::current());
                drop(state);
                before();
                thread::park_timeout(LOOK_AGAIN);
                state = client.state();
                continue;
            };
            drop(state);
            before();
            let received = client.receive(buffer, company);
            state = received.0;
            if let Err(error) = received.1 {
                mailbox.fail_all(&mut state, &error);
            }
        }
    }
}

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.mailbox.mail().is_attended = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer to a question of this number.
    fn answer(number: u64) -> Vec<u8> {
        number.to_le_bytes().to_vec()
    }

    #[test]
    fn an_answer_that_comes_before_it_is_noted_that_the_question_was_sent_is_looked_after() {
        let (mailbox, mut state) = (Arc::<Mailbox>::default(), State::default());
        state.open.insert(7, Open::Mailed(Arc::clone(&mailbox), 3));
        let looked = |state: &mut State| match mailbox.look(state, |_| Ok(())) {
            Look::Come((mark, bytes)) => Some((mark, bytes.unwrap())),
            Look::Over => None,
            Look::Nothing => panic!("nothing was sent"),
        };
        // Who looks after the mailbox meanwhile does not wait for a question that may never be sent.
        assert_eq!(looked(&mut state), None);
        state.give(answer(7));
        assert_eq!(looked(&mut state), Some((3, answer(7))));
        assert_eq!(looked(&mut state), None);
        assert!(state.open.is_empty());
    }

    #[test]
    fn whoever_sleeps_over_a_mailbox_is_found_by_those_who_stop_receiving() {
        let (mailbox, mut state) = (Arc::<Mailbox>::default(), State::default());
        state.open.insert(7, Open::Mailed(Arc::clone(&mailbox), 3));
        mailbox.mail().open.insert(7, (Rank(1), 3));
        assert!(matches!(mailbox.look(&mut state, |_| Ok(())), Look::Nothing));
        mailbox.mail().sleeper = Some(thread::current());
        state.buffer = Some(Vec::new());
        state.hand_over();
        // It returns at once, for this thread was told.
        thread::park();
        state.give(answer(7));
        thread::park();
        assert!(matches!(mailbox.look(&mut state, |_| Ok(())), Look::Come((3, Ok(_)))));
    }
}
