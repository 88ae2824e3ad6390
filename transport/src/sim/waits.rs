//! What a simulated process waits for at another's adapter.

use std::time::Duration;

use crate::back_end::Remote;
use crate::error::{Error, Result};
use crate::sim::adapter::SimAdapter;
use crate::sim::state::{Awaited, Target};
use crate::sim::traffic::{Answer, CONTROL_BYTES, Cargo, Packet, Question};
use crate::units::Rank;

impl SimAdapter {
    /// Puts `question` to the adapter of `peer`, and waits for the answer.
    pub(crate) fn ask(
        &self,
        peer: Rank,
        question: Question,
        doing: &str,
        limit: Option<Duration>,
    ) -> Result<Answer> {
        let begun = self.shared.settle();
        self.membership.check(peer)?;
        let deadline = limit.map(|limit| begun.after(limit));
        let Some(task) = self.shared.task() else { return Err(ended()) };
        let number = {
            let mut state = self.shared.lock();
            let number = state.number();
            let cargo = Cargo::Ask { task, number, question };
            let packet =
                Packet { from: self.rank, to: peer, bytes: CONTROL_BYTES, injection: Duration::ZERO, cargo };
            state.send(begun, packet);
            number
        };
        loop {
            let (answer, now) = {
                let mut state = self.shared.lock();
                (state.tasks[task].answer.take(), state.now)
            };
            match answer {
                Some((answered, answer)) if answered == number => return Ok(answer),
                _ => self.membership.check(peer)?,
            }
            if let (Some(deadline), Some(limit)) = (deadline, limit)
                && now >= deadline
            {
                return Err(Error::timed_out(&self.membership, doing, peer, limit));
            }
            self.shared.park(Awaited::Answer { doing: doing.into(), peer }, deadline);
        }
    }

    /// Waits until what was written to `peer` before is there, and at least for `least`.
    pub(crate) fn await_writes(&self, peer: Rank, least: Duration) -> Result<()> {
        let begun = self.shared.settle();
        let Some(task) = self.shared.task() else { return Err(ended()) };
        let issued = self.shared.lock().pair(self.rank, peer).issued;
        let acknowledged = loop {
            self.membership.check(peer)?;
            let awaited = {
                let mut state = self.shared.lock();
                let pair = state.pair(self.rank, peer);
                if pair.outstanding.first().is_none_or(|&number| number >= issued) {
                    break pair.acknowledged;
                }
                Awaited::Writes { peer }
            };
            self.shared.park(awaited, None);
        };
        let ended = begun.after(least).max(acknowledged);
        self.shared.sleep_until(ended);
        let mut state = self.shared.lock();
        let pair = state.pair(self.rank, peer);
        pair.settled = pair.settled.max(issued);
        // The processor stood meanwhile; its time has passed already.
        let rank = state.tasks[task].rank;
        state.rank(rank).report.processor += ended.since(begun);
        state.rank(rank).report.checks += 1;
        Ok(())
    }

    pub(crate) fn is_near(&self, peer: Rank) -> bool {
        let state = self.shared.lock();
        state.node(self.rank) == state.node(peer)
    }

    pub(crate) fn word(&self, remote: &Remote, offset: u64) -> Result<Target> {
        if !offset.is_multiple_of(8) {
            return Err(Error::Misaligned { offset });
        }
        self.shared.lock().resolve(self.rank, remote, offset, 8)
    }

    pub(crate) fn change(&self, owner: Rank, question: Question) -> Result<u64> {
        match self.ask(owner, question, "changing a word of", None)? {
            Answer::Word(word) => Ok(word),
            _ => Err(Error::wire(&self.membership, owner, "no word for an answer")),
        }
    }
}

/// Nobody's time passes any more.
pub(crate) fn ended() -> Error {
    Error::Ending { reason: "the simulated world is over".into() }
}
