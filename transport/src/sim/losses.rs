//! Processes that are lost: they die or hang, and the others learn of it.

use std::sync::Arc;

use crate::error::Error;
use crate::sim::state::{Effect, Event, State};
use crate::units::Rank;

/// What has become of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Runs,
    /// It makes no more progress. Its memory and its adapter are there: what others write arrives and is acknowledged,
    /// what they read is answered, and what it has handed over itself still goes out.
    Hangs,
    /// Nothing is left of it.
    IsDead,
}

impl State {
    /// Whether `rank` neither hangs nor is dead.
    pub(crate) fn runs(&self, rank: Rank) -> bool {
        self.ranks[rank.index()].life == Life::Runs
    }

    /// Whether there is an adapter of `rank`: it runs, or hangs.
    pub(crate) fn has_adapter(&self, rank: Rank) -> bool {
        self.ranks[rank.index()].life != Life::IsDead
    }

    /// A process dies.
    pub(crate) fn kill(&mut self, rank: Rank) {
        if !self.has_adapter(rank) {
            return;
        }
        self.faults.counts.killed += 1;
        self.stop(rank, Life::IsDead);
        // What its engine was to carry was its own memory; nobody waits for the ends.
        self.chains.retain(|_, chain| chain.rank != rank);
        self.rank(rank).registrations.clear();
    }

    /// A process hangs, for good.
    pub(crate) fn hang(&mut self, rank: Rank) {
        if !self.runs(rank) {
            return;
        }
        self.faults.counts.hung += 1;
        self.stop(rank, Life::Hangs);
    }

    /// Has no task of `rank` go on any more, and the others notice in time.
    fn stop(&mut self, rank: Rank, life: Life) {
        self.rank(rank).life = life;
        let tasks = std::mem::take(&mut self.rank(rank).tasks);
        self.living -= tasks.len();
        for task in tasks {
            self.tasks[task].waking += 1;
            self.programs -= usize::from(task == rank.index());
        }
        let noticed = self.now.after(self.faults.options().detection);
        self.agenda.enter(noticed, Event::Detect(rank));
    }

    /// Those that run learn of a loss.
    pub(crate) fn detect(&mut self, lost: Rank) {
        let reason = if self.has_adapter(lost) { "it hangs" } else { "it was killed" };
        for process in self.ranks.iter().filter(|process| process.life == Life::Runs) {
            let membership = Arc::clone(&process.membership);
            self.effects.push(Effect::DeclareLost { membership, lost, reason: reason.to_owned() });
        }
        let node = self.ranks[lost.index()].membership.node(lost).to_owned();
        let error = || Error::PeerLost { rank: lost, node: node.clone(), reason: reason.into() };
        self.end_chains(|chain| chain.peers.contains(&lost), error);
    }
}
