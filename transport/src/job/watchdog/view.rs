//! What a process knows of its job's course, and what has to be told to one who knows nothing yet.

use std::collections::{BTreeMap, BTreeSet};

use crate::job::wire::Frame;
use crate::units::Rank;

/// Losses, finished processes, and whether the job ends. It only grows.
#[derive(Debug, Default)]
pub(super) struct View {
    lost: BTreeMap<Rank, Loss>,
    finished: BTreeSet<Rank>,
    ending: Option<Ending>,
}

/// How a process was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) reason: String,
    pub(super) had_finished: bool,
}

/// Why the job ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) reason: String,
    pub(super) signal: Option<u8>,
}

impl View {
    /// Enters a loss; whether it is news.
    pub(super) fn lose(&mut self, rank: Rank, loss: Loss) -> bool {
        let is_new = !self.lost.contains_key(&rank);
        self.lost.entry(rank).or_insert(loss);
        is_new
    }

    /// How a process was lost, if it was.
    pub(super) fn loss(&self, rank: Rank) -> Option<&Loss> {
        self.lost.get(&rank)
    }

    /// Enters that a process has finished.
    pub(super) fn finish(&mut self, rank: Rank) {
        self.finished.insert(rank);
    }

    /// Whether a process has finished, as far as was told here.
    pub(super) fn has_finished(&self, rank: Rank) -> bool {
        self.finished.contains(&rank)
    }

    /// Enters that the job ends; whether it is news.
    pub(super) fn end(&mut self, ending: Ending) -> bool {
        let is_new = self.ending.is_none();
        self.ending.get_or_insert(ending);
        is_new
    }

    /// Why the job ends, if it does.
    pub(super) fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// Who, of a job of `size`, leads: the lowest rank that is not lost.
    pub(super) fn leader(&self, size: u32) -> Option<Rank> {
        self.present(size).next()
    }

    /// Who, of a job of `size`, is not lost.
    pub(super) fn present(&self, size: u32) -> impl Iterator<Item = Rank> {
        (0..size).map(Rank).filter(|rank| !self.lost.contains_key(rank))
    }

    /// Who, of a job of `size`, is neither lost nor known to have finished.
    pub(super) fn unfinished(&self, size: u32) -> impl Iterator<Item = Rank> {
        self.present(size).filter(|&rank| !self.has_finished(rank))
    }

    /// Whether nobody of a job of `size` is needed any more.
    pub(super) fn is_over(&self, size: u32) -> bool {
        self.unfinished(size).next().is_none()
    }

    /// All of it, as `me` tells it.
    pub(super) fn tell(&self, me: Rank) -> Vec<Frame> {
        let losses = self.lost.iter().map(|(&rank, loss)| {
            let Loss { reason, had_finished } = loss.clone();
            Frame::Lost { rank, reason, had_finished }
        });
        // Of others' finishing, each tells its leader itself.
        let finished = self.finished.get(&me).map(|&rank| Frame::Finished { rank });
        let ending = self.ending.clone().map(|Ending { reason, signal }| Frame::Ending { reason, signal });
        losses.chain(finished).chain(ending).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(reason: &str) -> Loss {
        Loss { reason: reason.into(), had_finished: false }
    }

    #[test]
    fn the_lowest_that_is_left_leads_and_the_first_reason_stays() {
        let mut view = View::default();
        assert_eq!(view.leader(3), Some(Rank(0)));
        assert!(view.lose(Rank(0), loss("died")));
        assert!(!view.lose(Rank(0), loss("hung")));
        assert_eq!(view.loss(Rank(0)).unwrap().reason, "died");
        assert_eq!(view.leader(3), Some(Rank(1)));
        view.lose(Rank(1), loss("died"));
        view.lose(Rank(2), loss("died"));
        assert_eq!(view.leader(3), None);
    }

    #[test]
    fn it_is_over_when_all_are_finished_or_lost() {
        let mut view = View::default();
        view.finish(Rank(0));
        view.lose(Rank(1), loss("died"));
        assert!(!view.is_over(3));
        view.finish(Rank(2));
        assert!(view.is_over(3));
        assert!(!view.is_over(4));
    }

    #[test]
    fn one_who_is_told_everything_knows_it() {
        let mut view = View::default();
        view.lose(Rank(4), loss("died"));
        view.finish(Rank(2));
        view.finish(Rank(3));
        view.end(Ending { reason: "enough".into(), signal: Some(15) });
        assert!(!view.end(Ending { reason: "more".into(), signal: None }));
        let told = view.tell(Rank(2));
        assert_eq!(
            told,
            [
                Frame::Lost { rank: Rank(4), reason: "died".into(), had_finished: false },
                Frame::Finished { rank: Rank(2) },
                Frame::Ending { reason: "enough".into(), signal: Some(15) },
            ]
        );
    }
}
