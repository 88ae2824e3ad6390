//! What has to be done at a certain time.

use std::time::{Duration, Instant};

use super::{Peer, Phase, Role, Watchdog};
use crate::job::signals;

impl Peer {
    /// Whether both sides send heartbeats.
    fn beats(&self) -> bool {
        match &self.role {
            Role::Member | Role::Leader | Role::Visitor(_) => true,
            Role::Candidate(greeting) => greeting.is_welcome(),
            Role::Probed(_) | Role::Prober | Role::Shunned => false,
        }
    }
}

impl Watchdog {
    /// When something has to be done even if nothing happens.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if let Phase::Parting { until, .. } = self.phase {
            return Some(until);
        }
        let timeout = self.settings.timeout;
        let mut soonest = self.door.deadline();
        let mut at = |time: Option<Instant>| soonest = soonest.into_iter().chain(time).min();
        for peer in self.peers.values().filter(|peer| peer.beats()) {
            at(Some(self.beat_at));
            at(Some(peer.link.heard() + timeout));
        }
        match &self.phase {
            Phase::Seeking { since, retry_at, .. } => {
                at(*retry_at);
                if !self.is_acquainted() {
                    at(Some(*since + timeout));
                }
            }
            Phase::Leading { gathering: Some(gathering) } => {
                at(Some(gathering.until.min(gathering.probe_at)));
            }
            _ => {}
        }
        at(self.end_at.map(|(time, _)| time));
        soonest
    }

    /// Whether the candidate has proved to be of this job, so that its heartbeats tell of it.
    fn is_acquainted(&self) -> bool {
        self.peers
            .values()
            .any(|peer| matches!(&peer.role, Role::Candidate(greeting) if greeting.is_welcome()))
    }

    /// Sees for how long this process did not run when it should have: others may have sent heartbeats then that wait
    /// to be read, so that time does not count against them.
    pub(super) fn notice_suspension(&mut self, planned: Option<Instant>, now: Instant) {
        let timeout = self.settings.timeout;
        let late = planned.map_or(Duration::ZERO, |planned| now.saturating_duration_since(planned));
        if late <= timeout / 8 {
            return;
        }
        if late > timeout / 2 {
            self.resumed_at = Some(now);
        }
        for peer in self.peers.values_mut() {
            peer.link.excuse(late, now);
        }
        match &mut self.phase {
            Phase::Seeking { since, .. } => *since += late,
            Phase::Leading { gathering: Some(gathering) } => gathering.until += late,
            _ => {}
        }
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, now: Instant) {
        self.door.tick(now);
        if matches!(self.phase, Phase::Parting { .. }) {
            return;
        }
        self.beat(now);
        self.find_hung(now);
        match &self.phase {
            Phase::Seeking { candidate, since, problem, retry_at } => {
                let (candidate, is_due) = (*candidate, retry_at.is_some_and(|at| at <= now));
                if *since + self.settings.timeout <= now && !self.is_acquainted() {
                    let reason = format!("it cannot be reached any more: {problem}");
                    self.lose_now(candidate, reason, now);
                } else if is_due {
                    self.call_candidate(now);
                }
            }
            Phase::Leading { .. } => self.count(now),
            _ => {}
        }
        if let Some((time, signal)) = self.end_at
            && time <= now
        {
            self.end_at = None;
            signals::end_process(signal, self.desk.fabric());
        }
    }

    fn beat(&mut self, now: Instant) {
        if now < self.beat_at {
            return;
        }
        self.beat_at = now + self.settings.beat();
        for peer in self.peers.values_mut().filter(|peer| peer.beats()) {
            peer.link.beat();
        }
    }

    fn find_hung(&mut self, now: Instant) {
        let timeout = self.settings.timeout;
        let is_silent = |peer: &Peer| peer.beats() && peer.link.heard() + timeout <= now;
        let silent: Vec<_> =
            self.peers.iter().filter(|(_, peer)| is_silent(peer)).map(|(token, _)| *token).collect();
        for token in silent {
            // A loss found a moment ago may have ended this connection, too.
            match self.peers.get(&token) {
                Some(Peer { role: Role::Visitor(_), .. }) => drop(self.peers.remove(&token)),
                Some(peer) if peer.beats() => {
                    let rank = peer.rank;
                    self.lose_now(rank, format!("no heartbeat for {timeout:?}"), now);
                }
                _ => {}
            }
        }
    }
}
