//! Barriers that are predicted to be cheap, tried beside the one in use.

use super::council::Waiting;
use super::{Built, TunedBarrier, concerted, numbered, timed};
use crate::composition;
use crate::executor::error::Result;
use crate::executor::measuring::pairs::{Pairs, median};
use crate::partition::Partition;
use crate::profile::Profile;
use crate::schedule::Schedule;

/// A barrier that may be better.
struct Rival {
    schedule: Schedule,
    built: Built,
    bursts: Vec<f64>,
}

impl TunedBarrier {
    /// Surveys the machine and takes the best of what is promising; whether another barrier is in use now.
    pub(super) fn tune_again(&mut self) -> Result<bool> {
        let mut rivals = Vec::new();
        for schedule in self.promising()? {
            if let Some(built) = self.built(&schedule)? {
                rivals.push(Rival { schedule, built, bursts: Vec::new() });
            }
        }
        let tried = self.try_out(&mut rivals);
        if let Err(error) = &tried
            && let Some(member) = error.who_leaves(self.council.own())
        {
            // The others may be in any of them.
            rivals.iter().for_each(|rival| rival.built.barrier.refuse_for(member));
        }
        let cost = tried?;
        let mut best: Option<(f64, Rival)> = None;
        for rival in rivals {
            let cost = self.agreed(rival.bursts.clone())?;
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, rival));
            }
        }
        // The councils have come after the last burst, so all have left all of these barriers.
        match best {
            Some((least, rival)) if least < self.settings.gain * cost => {
                self.take(rival.schedule, rival.built);
                self.expect(least);
                Ok(true)
            }
            _ => {
                self.expect(cost);
                Ok(false)
            }
        }
    }

    /// The schedules that are predicted to be the best on the machine as it is, without the one in use: the same for
    /// all.
    fn promising(&mut self) -> Result<Vec<Schedule>> {
        let id = numbered(self.first, self.next_segment());
        let pairs = Pairs::join(&self.fabrics, &self.members, id, &self.settings.survey);
        let Some(pairs) = self.all_have(pairs, |pairs, member| pairs.leave(member))? else {
            return Ok(Vec::new());
        };
        let membership = self.fabrics.job().membership();
        let nodes = Partition::of_nodes(self.members.iter().map(|&member| membership.node(member)));
        let (surveyed, signals) = concerted::survey(pairs, &mut self.council, &nodes, &self.settings)?;
        // The next one is going to take as many.
        self.survey_signals = signals;
        let Some(profile) = surveyed else {
            self.retunings.failures += 1;
            return Ok(Vec::new());
        };
        let mut promising = self.best_of(&profile);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // A member may be kept on fewer than there are.
        let [cores, ..] = self.council.largest([cores as f64, 0.0, 0.0, 0.0], Waiting::Awake)?;
        if nodes.nodes().len() == 1 && (self.members.len() as f64) > cores {
            let of_shared = self.best_of(&profile.sharing(cores as u32));
            promising.extend(of_shared);
        }
        let mut once: Vec<Schedule> = Vec::new();
        for schedule in promising {
            if !once.contains(&schedule) {
                once.push(schedule);
            }
        }
        Ok(once)
    }

    fn best_of(&mut self, profile: &Profile) -> Vec<Schedule> {
        let Ok(candidates) = composition::tune(profile) else {
            // All have the same profile, so this is the same for all.
            self.retunings.failures += 1;
            return Vec::new();
        };
        let others = candidates.into_iter().map(|candidate| candidate.schedule);
        others.filter(|schedule| *schedule != self.schedule).take(self.settings.candidates).collect()
    }

    /// Lets the barrier in use and others run in turns, so that what drifts meets all alike; tells the cost of the
    /// one in use.
    fn try_out(&mut self, rivals: &mut [Rival]) -> Result<f64> {
        let mut bursts = Vec::new();
        for _ in 0..self.settings.window {
            bursts.push(timed(&mut self.barrier, &self.fabrics, self.settings.burst)?);
            for Rival { built, bursts, .. } in &mut *rivals {
                bursts.push(timed(&mut built.barrier, &self.fabrics, self.settings.burst)?);
            }
        }
        self.agreed(bursts)
    }

    /// The cost that all agree upon, from the bursts that each has timed.
    fn agreed(&mut self, bursts: Vec<f64>) -> Result<f64> {
        let [least, ..] = self.council.largest([-median(bursts), 0.0, 0.0, 0.0], Waiting::Awake)?;
        Ok(-least)
    }
}
