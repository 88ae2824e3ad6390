//! What changes the course of the job: losses, endings, farewells.

use std::time::Instant;

use super::view::{Ending, Loss};
use super::{Phase, Role, State, Watchdog};
use crate::job::poller::Token;
use crate::job::signals;
use crate::job::wire::Frame;
use crate::units::Rank;

impl Watchdog {
    /// A process is lost, as this one found out itself.
    pub(super) fn lose_now(&mut self, rank: Rank, reason: String, now: Instant) {
        let had_finished = self.view.has_finished(rank);
        self.lose(rank, Loss { reason, had_finished }, now);
    }

    /// A process is lost.
    pub(super) fn lose(&mut self, rank: Rank, loss: Loss, now: Instant) {
        if rank == self.me {
            return self.expelled(format!("the others took this process for lost: {}", loss.reason));
        }
        if rank.0 >= self.size || matches!(self.phase, Phase::Alone | Phase::Parting { .. }) {
            return;
        }
        if !self.view.lose(rank, loss.clone()) {
            return;
        }
        // Where both have finished, neither needs the other; where the job ends, all waits end for that reason.
        let matters = !(loss.had_finished && self.view.has_finished(self.me)) && self.view.ending().is_none();
        if matters {
            tracing::debug!("rank {rank} is lost: {}", loss.reason);
            self.membership.declare_lost(rank, loss.reason.clone());
        }
        self.part_with(rank, &loss);
        match &self.phase {
            Phase::Leading { .. } => {
                let Loss { reason, had_finished } = loss;
                self.broadcast(&Frame::Lost { rank, reason, had_finished });
                self.settle(now);
            }
            Phase::Following if !self.peers.values().any(|peer| matches!(peer.role, Role::Leader)) => {
                self.seek(now);
            }
            Phase::Seeking { candidate, .. } if *candidate == rank => self.seek(now),
            _ => {}
        }
    }

    /// Deals with the connections to one who is lost.
    fn part_with(&mut self, rank: Rank, loss: &Loss) {
        let tokens: Vec<Token> =
            self.peers.iter().filter(|(_, peer)| peer.rank == rank).map(|(token, _)| *token).collect();
        for token in tokens {
            let Some(peer) = self.peers.get_mut(&token) else { continue };
            match peer.role {
                // Kept open, so that it learns its fate even if it does not run at the moment.
                Role::Member | Role::Visitor(_) | Role::Prober => {
                    peer.link.send(&Frame::Expelled { reason: loss.reason.clone() });
                    peer.role = Role::Shunned;
                }
                Role::Leader => {
                    peer.link.send(&Frame::Abandoned { reason: loss.reason.clone() });
                    peer.link.shut();
                    self.peers.remove(&token);
                }
                Role::Candidate(_) | Role::Probed(_) => drop(self.peers.remove(&token)),
                Role::Shunned => {}
            }
        }
    }

    /// The job ends.
    pub(super) fn end(&mut self, ending: Ending, now: Instant) {
        if let Some(signal) = ending.signal
            && self.signals.is_some()
            && self.end_at.is_none()
        {
            self.end_at = Some((now + self.settings.grace, signal));
        }
        if !self.view.end(ending.clone()) {
            return;
        }
        let Ending { reason, signal } = ending;
        let frame = Frame::Ending { reason: reason.clone(), signal };
        // The others before the program: that may leave as soon as it hears of it, and they would hear of its loss.
        for peer in self.peers.values_mut() {
            let is_to_be_told = match &peer.role {
                Role::Member | Role::Leader => true,
                Role::Candidate(greeting) => greeting.is_welcome(),
                Role::Visitor(_) | Role::Probed(_) | Role::Prober | Role::Shunned => false,
            };
            if is_to_be_told {
                peer.link.send(&frame);
            }
        }
        self.tell_program_of_ending(reason);
    }

    fn tell_program_of_ending(&self, reason: String) {
        self.membership.declare_ending(reason);
        self.desk.set_state(State::Ending);
    }

    /// This process got a signal.
    pub(super) fn signalled(&mut self, signal: u8, now: Instant) {
        let reason = format!("rank {} on node {} got {}", self.me, self.node(), signals::name(signal));
        self.end(Ending { reason, signal: Some(signal) }, now);
    }

    fn node(&self) -> &str {
        self.membership.node(self.me)
    }

    /// Others take this process for lost: it has no part in the job any more, which goes on. So those who still follow
    /// it are told of no ending: when their connections close, they turn to the next, as if this process had died.
    pub(super) fn expelled(&mut self, reason: String) {
        if matches!(self.phase, Phase::Parting { .. }) {
            return;
        }
        self.peers.clear();
        self.phase = Phase::Alone;
        if self.view.end(Ending { reason: reason.clone(), signal: None }) {
            self.tell_program_of_ending(reason);
        }
    }

    /// The program has finished.
    pub(super) fn finish(&mut self, now: Instant) {
        self.view.finish(self.me);
        let frame = Frame::Finished { rank: self.me };
        for peer in self.peers.values_mut() {
            // One who is not acquainted yet is told everything then.
            if matches!(&peer.role, Role::Leader)
                || matches!(&peer.role, Role::Candidate(greeting) if greeting.is_welcome())
            {
                peer.link.send(&frame);
            }
        }
        self.settle(now);
    }

    /// The program leaves.
    pub(super) fn leave(&mut self, reason: &str, now: Instant) {
        if matches!(self.phase, Phase::Parting { .. }) {
            return;
        }
        self.part(&Frame::Leave { reason: reason.into() }, false, now);
    }

    /// As the leader: sees whether all have come who should, and whether all have finished.
    pub(super) fn settle(&mut self, now: Instant) {
        let Phase::Leading { gathering } = &self.phase else { return };
        if gathering.is_some() {
            return;
        }
        if self.view.has_finished(self.me) {
            self.desk.set_unfinished(self.view.unfinished(self.size).collect());
        }
        if self.view.is_over(self.size) {
            self.part(&Frame::Farewell, true, now);
        }
    }

    /// Says a last word to those who have to do with this process.
    fn part(&mut self, word: &Frame, is_over: bool, now: Instant) {
        // Before the others know: they may come at once for another job at the same place, and are to find its rank 0.
        self.door.close();
        self.peers.retain(|_, peer| {
            let is_to_be_told = match &peer.role {
                Role::Member | Role::Leader => true,
                Role::Candidate(greeting) => greeting.is_welcome(),
                Role::Visitor(_) | Role::Probed(_) | Role::Prober | Role::Shunned => false,
            };
            if is_to_be_told {
                peer.link.send(word);
                peer.link.shut();
            }
            is_to_be_told
        });
        self.phase = Phase::Parting { until: now + Self::PARTING, is_over };
    }
}
