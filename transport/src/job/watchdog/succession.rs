//! Who leads when the leader is lost.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{Peer, Phase, Role, Watchdog};
use crate::job::greeting::{Greeting, knock};
use crate::job::link::{Closing, Link};
use crate::job::poller::Token;
use crate::job::wire::{Frame, Hello, Purpose};
use crate::units::Rank;

/// How long after an attempt to reach a process the next one is made.
const RETRY: Duration = Duration::from_millis(50);

/// How long one who has just begun to lead waits for the others to come by themselves before it looks for them.
const PATIENCE: Duration = Duration::from_millis(50);

/// A new leader's wait for those it is to lead.
#[derive(Debug)]
pub(super) struct Gathering {
    /// Who has not come by then is lost.
    pub(super) until: Instant,
    /// When to look next whether those who have not come still live.
    pub(super) probe_at: Instant,
}

impl Watchdog {
    /// The leader is lost: turns to the next.
    pub(super) fn seek(&mut self, now: Instant) {
        match self.view.leader(self.size) {
            Some(candidate) if candidate != self.me => {
                let problem = "no answer".into();
                self.phase = Phase::Seeking { candidate, since: now, retry_at: None, problem };
                self.call_candidate(now);
            }
            // This process never counts as lost here, so it is the lowest that is left.
            _ => self.lead(now),
        }
    }

    /// Tries to reach the candidate.
    pub(super) fn call_candidate(&mut self, now: Instant) {
        let Phase::Seeking { candidate, retry_at, .. } = &mut self.phase else { return };
        let candidate = *candidate;
        *retry_at = None;
        self.call(candidate, Purpose::Follow, now);
    }

    fn call(&mut self, rank: Rank, purpose: Purpose, now: Instant) {
        let hello = Hello { rank: self.me, size: self.size, purpose: purpose.clone() };
        let link = Link::connect(&self.poller, self.listeners[rank.index()]);
        let called = link.map(|mut link| {
            knock(&mut link, self.me);
            (Greeting::begin(hello), link)
        });
        match called {
            Ok((Ok(greeting), link)) => {
                let role = match purpose {
                    Purpose::Probe => Role::Probed(greeting),
                    _ => Role::Candidate(greeting),
                };
                self.peers.insert(link.token(), Peer { link, rank, role });
            }
            Ok((Err(problem), _)) => self.retry(problem.to_string(), now),
            Err(closing) if closing.is_refusal() => {
                self.lose_now(rank, Closing::NOBODY_LISTENS.into(), now);
            }
            Err(closing) => self.retry(closing.to_string(), now),
        }
    }

    /// A process that was called turned out to be none, or not to be reached.
    pub(super) fn unreached(&mut self, token: Token, problem: String, now: Instant) {
        let is_candidate = matches!(self.peers.remove(&token), Some(Peer { role: Role::Candidate(_), .. }));
        // A leader looks again for those it misses anyway.
        if is_candidate {
            self.retry(problem, now);
        }
    }

    fn retry(&mut self, latest: String, now: Instant) {
        if let Phase::Seeking { retry_at, problem, .. } = &mut self.phase {
            *retry_at = Some(now + RETRY);
            *problem = latest;
        }
    }

    /// The candidate leads indeed. One who has left meanwhile does not follow it any more.
    pub(super) fn follow(&mut self, token: Token) {
        if !matches!(self.phase, Phase::Seeking { .. }) {
            return;
        }
        if let Some(peer) = self.peers.get_mut(&token) {
            tracing::debug!("rank {} is led by rank {} now", self.me, peer.rank);
            peer.role = Role::Leader;
            self.phase = Phase::Following;
        }
    }

    /// This process is the lowest that is left.
    fn lead(&mut self, now: Instant) {
        tracing::debug!("rank {} leads now", self.me);
        let gathering = Gathering { until: now + self.settings.timeout, probe_at: now + PATIENCE };
        self.phase = Phase::Leading { gathering: Some(gathering) };
        for token in self.with_role(|role| matches!(role, Role::Visitor(_))) {
            self.admit(token, now);
        }
        self.count(now);
    }

    /// Leads one more.
    pub(super) fn admit(&mut self, token: Token, now: Instant) {
        let Some(peer) = self.peers.get_mut(&token) else { return };
        let rank = peer.rank;
        let Role::Visitor(kept) = std::mem::replace(&mut peer.role, Role::Member) else { return };
        for frame in self.view.tell(self.me) {
            if !matches!(frame, Frame::Finished { .. }) {
                peer.link.send(&frame);
            }
        }
        peer.link.send(&Frame::Lead);
        self.peers.retain(|_, peer| peer.rank != rank || !matches!(peer.role, Role::Probed(_)));
        for frame in kept {
            self.told(token, rank, frame, now);
        }
        self.count(now);
    }

    /// As a new leader: sees who is still missing, and whether they live.
    pub(super) fn count(&mut self, now: Instant) {
        let Phase::Leading { gathering: Some(gathering) } = &mut self.phase else { return };
        let is_late = now >= gathering.until;
        let is_to_probe = now >= gathering.probe_at;
        if is_to_probe {
            gathering.probe_at = now + RETRY;
        }
        let mut came = BTreeSet::from([self.me]);
        let mut called = BTreeSet::new();
        for peer in self.peers.values() {
            match peer.role {
                Role::Member => drop(came.insert(peer.rank)),
                Role::Probed(_) => drop(called.insert(peer.rank)),
                _ => {}
            }
        }
        let missing: Vec<_> = self.view.present(self.size).filter(|rank| !came.contains(rank)).collect();
        if missing.is_empty() || is_late {
            self.phase = Phase::Leading { gathering: None };
            for rank in missing {
                let reason = format!(
                    "it did not come to rank {}, which leads now, within {:?}",
                    self.me, self.settings.timeout
                );
                self.lose_now(rank, reason, now);
            }
            return self.settle(now);
        }
        if is_to_probe {
            for rank in missing.into_iter().filter(|rank| !called.contains(rank)) {
                self.call(rank, Purpose::Probe, now);
            }
        }
    }
}
