//! What comes from others, and what is made of it.

use std::time::Instant;

use super::view::{Ending, Loss};
use super::{Peer, Phase, Role, Watchdog};
use crate::job::link::Closing;
use crate::job::poller::Token;
use crate::job::wire::Frame;
use crate::units::Rank;

/// How much one who waits to be led may tell meanwhile: of each process that it is lost and has finished, and a
/// little more.
fn most_kept(size: u32) -> usize {
    2 * size as usize + 16
}

impl Watchdog {
    /// Takes what has come on a connection.
    pub(super) fn hear(&mut self, token: Token, now: Instant) {
        let Some(peer) = self.peers.get_mut(&token) else { return };
        let (frames, closing) = peer.link.receive();
        self.take(token, frames, now);
        if let Some(closing) = closing {
            self.closed(token, &closing, now);
        }
    }

    /// Takes what was said on a connection.
    pub(super) fn take(&mut self, token: Token, frames: Vec<Frame>, now: Instant) {
        for frame in frames {
            // What was heard before may have ended the connection.
            let Some(peer) = self.peers.get_mut(&token) else { return };
            if frame == Frame::Heartbeat {
                continue;
            }
            match &mut peer.role {
                Role::Visitor(kept) if kept.len() < most_kept(self.size) => kept.push(frame),
                Role::Candidate(greeting) | Role::Probed(greeting) if !greeting.is_welcome() => {
                    let heard = greeting.hear(frame, &mut peer.link, &self.secret);
                    self.greeted(token, heard, now);
                }
                _ => {
                    let rank = peer.rank;
                    self.told(token, rank, frame, now);
                }
            }
        }
    }

    /// A step further in getting acquainted.
    fn greeted(&mut self, token: Token, heard: Result<(), String>, now: Instant) {
        let Some(peer) = self.peers.get_mut(&token) else { return };
        match (heard, &peer.role) {
            (Ok(()), Role::Candidate(greeting)) if greeting.is_welcome() => {
                for frame in self.view.tell(self.me) {
                    peer.link.send(&frame);
                }
            }
            (Ok(()), _) => {}
            (Err(problem), _) => self.unreached(token, problem, now),
        }
    }

    /// Something that a process of the job says.
    pub(super) fn told(&mut self, token: Token, rank: Rank, frame: Frame, now: Instant) {
        let Some(Peer { role, .. }) = self.peers.get(&token) else { return };
        match (role, frame) {
            (
                Role::Member | Role::Leader | Role::Candidate(_),
                Frame::Lost { rank, reason, had_finished },
            ) => {
                self.lose(rank, Loss { reason, had_finished }, now);
            }
            (Role::Member | Role::Leader | Role::Candidate(_), Frame::Ending { reason, signal }) => {
                self.end(Ending { reason, signal }, now);
            }
            (Role::Member, Frame::Finished { rank: finished }) if finished == rank => {
                self.view.finish(rank);
                self.settle(now);
            }
            (Role::Member | Role::Leader | Role::Candidate(_), Frame::Leave { reason }) => {
                self.peers.remove(&token);
                self.lose_now(rank, reason, now);
            }
            (Role::Candidate(_), Frame::Lead) => self.follow(token),
            (Role::Leader, Frame::Farewell) => {
                self.peers.clear();
                self.phase = Phase::Parting { until: now, is_over: true };
            }
            (
                Role::Leader | Role::Candidate(_) | Role::Probed(_) | Role::Prober,
                Frame::Expelled { reason },
            ) => self.expelled(format!("rank {rank} took this process for lost: {reason}")),
            (Role::Member | Role::Shunned, Frame::Abandoned { reason }) => self.abandoned(rank, &reason, now),
            // Somebody who has been declared lost may say what it likes.
            (Role::Shunned, _) => {}
            (role, frame) => {
                let name = match role {
                    Role::Member => "follows this process",
                    Role::Leader => "leads this process",
                    Role::Candidate(_) => "is to lead this process",
                    Role::Visitor(_) => "waits for this process to lead",
                    Role::Probed(_) | Role::Prober | Role::Shunned => "has no word here",
                };
                tracing::warn!("rank {rank}, which {name}, says out of place: {frame:?}");
            }
        }
    }

    /// A connection that has ended.
    fn closed(&mut self, token: Token, closing: &Closing, now: Instant) {
        let Some(Peer { rank, role, .. }) = self.peers.get(&token) else { return };
        let rank = *rank;
        match role {
            Role::Candidate(greeting) | Role::Probed(greeting) if !greeting.is_welcome() => {
                if closing.is_refusal() {
                    self.peers.remove(&token);
                    self.lose_now(rank, Closing::NOBODY_LISTENS.into(), now);
                } else {
                    self.unreached(token, closing.to_string(), now);
                }
            }
            Role::Member | Role::Leader | Role::Candidate(_) | Role::Probed(_) => {
                self.peers.remove(&token);
                self.lose_now(rank, closing.to_string(), now);
            }
            Role::Visitor(_) | Role::Prober | Role::Shunned => drop(self.peers.remove(&token)),
        }
    }

    /// One who follows this process says that it takes it for lost.
    fn abandoned(&mut self, by: Rank, reason: &str, now: Instant) {
        self.abandoned_by.insert(by);
        let others = self.view.present(self.size).filter(|rank| !self.abandoned_by.contains(rank));
        // `present` counts this process as well.
        let loyal = others.count().saturating_sub(1);
        let was_suspended = self.resumed_at.is_some_and(|at| now < at + self.settings.timeout);
        if was_suspended || self.abandoned_by.len() >= loyal {
            self.expelled(format!("rank {by} took this process for lost: {reason}"));
        } else {
            self.lose_now(by, format!("it left this process, taking it for lost ({reason})"), now);
        }
    }
}
