//! What a schedule costs on a machine, without the machine.

use std::num::NonZeroU32;

use crate::profile::Profile;
use crate::rank::Rank;
use crate::schedule::{Schedule, Signal, Step};

/// What a schedule is predicted to cost. Times are nanoseconds from when all ranks come at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// When the last rank leaves.
    pub total: f64,
    /// When each rank leaves.
    pub leaves: Vec<f64>,
    /// The signals that the last rank to leave had to wait for, one for the other, with the numbers of their steps.
    pub critical_path: Vec<(usize, Signal)>,
}

/// How signals go. Where a profile tells that the ranks [share processors](Profile::sharing), writes take the time of
/// these: *L* of the sender's and *L* of the receiver's, at whatever time one is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CostModel {
    /// As the paper's synchronous messages: a rank's signals of a step cost it what equation 1 says, and where all
    /// their receivers are already waiting, what equation 2 says; they all arrive at the end of that time, and cost
    /// their receivers nothing.
    Messages,
    /// As remote writes: one leaves *L* after the other and takes *O* to arrive, whether or not somebody waits for it;
    /// the sender goes on *O*ᵢᵢ after the last has left. What comes to a rank at the same time it sees one after the
    /// other, each *L* after the one before.
    #[default]
    Writes,
}

impl Schedule {
    /// Predicts what it costs on the machine of the profile, by critical path. Steps of every kind are taken as signals.
    ///
    /// (J. C. Meyer and A. C. Elster, "Optimized Barriers for Heterogeneous Systems Using MPI", sections IV and VI.)
    ///
    /// # Panics
    /// Where the profile is of fewer ranks than the schedule.
    #[must_use]
    pub fn predict(&self, profile: &Profile, costs: CostModel) -> Prediction {
        assert!(self.ranks() <= profile.ranks(), "a profile of {} ranks is too small", profile.ranks());
        let mut progress = Progress::new(self.ranks(), profile.processors());
        for (number, step) in self.steps().iter().enumerate() {
            match costs {
                CostModel::Messages => progress.send_messages(step, profile),
                CostModel::Writes => progress.send_writes(step, profile),
            }
            progress.receive(number, profile, costs);
        }
        progress.into_prediction()
    }
}

/// How far ranks are in time, and why.
struct Progress {
    times: Vec<f64>,
    has_sent: Vec<bool>,
    /// For each rank, which of `causes` it last waited for.
    last: Vec<Option<usize>>,
    /// A signal that somebody waited for, and which one its sender had waited for.
    causes: Vec<(Option<usize>, usize, Signal)>,
    /// What is under way within a step.
    arrivals: Vec<Arrival>,
    /// Until when each of the processors that all ranks share is taken; none where each rank has one.
    processors: Vec<f64>,
}

/// A signal that will arrive.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    signal: Signal,
    time: f64,
    /// For which of the causes its sender had waited.
    cause: Option<usize>,
}

impl Progress {
    fn new(ranks: u32, processors: Option<NonZeroU32>) -> Self {
        let ranks = ranks as usize;
        let processors = processors.map_or(0, NonZeroU32::get) as usize;
        Self {
            processors: vec![0.0; if processors < ranks { processors } else { 0 }],
            times: vec![0.0; ranks],
            has_sent: vec![false; ranks],
            last: vec![None; ranks],
            causes: Vec::new(),
            arrivals: Vec::new(),
        }
    }

    fn send_messages(&mut self, step: &Step, profile: &Profile) {
        let mut free = Vec::new();
        for (from, receivers) in step.senders() {
            let begun = self.times[from.index()];
            let added: f64 = receivers.iter().map(|&to| profile.latency(from, to)).sum();
            // Who has sent is there, and waits unless it sends in this step too.
            let waits = |to: &Rank| {
                let has_come = self.has_sent[to.index()] && self.times[to.index()] <= begun;
                has_come && step.signalled_by(*to).is_empty()
            };
            let first = if receivers.iter().all(waits) {
                profile.start(from)
            } else {
                receivers.iter().map(|&to| profile.overhead(from, to)).fold(0.0, f64::max)
            };
            let (time, cause) = (begun + first + added, self.last[from.index()]);
            free.push((from, time));
            self.arrivals.extend(receivers.iter().map(|&to| Arrival {
                signal: Signal { from, to },
                time,
                cause,
            }));
        }
        for (from, time) in free {
            self.times[from.index()] = time;
            self.has_sent[from.index()] = true;
        }
    }

    fn send_writes(&mut self, step: &Step, profile: &Profile) {
        if !self.processors.is_empty() {
            return self.send_on_shared_processors(step, profile);
        }
        for (from, receivers) in step.senders() {
            let cause = self.last[from.index()];
            let mut left = self.times[from.index()];
            for &to in receivers {
                let time = left + profile.overhead(from, to);
                self.arrivals.push(Arrival { signal: Signal { from, to }, time, cause });
                left += profile.latency(from, to);
            }
            self.times[from.index()] = left + profile.start(from);
        }
    }

    /// Who could begin earliest is served first, signal by signal.
    fn send_on_shared_processors(&mut self, step: &Step, profile: &Profile) {
        let mut senders: Vec<(Rank, &[Rank])> = step.senders().collect();
        while !senders.is_empty() {
            let time = |sender: &(Rank, &[Rank])| self.times[sender.0.index()];
            let first = (0..senders.len())
                .min_by(|&one, &other| time(&senders[one]).total_cmp(&time(&senders[other])));
            let Some(first) = first else { return };
            let (from, receivers) = senders[first];
            let Some((&to, rest)) = receivers.split_first() else {
                self.times[from.index()] += profile.start(from);
                senders.swap_remove(first);
                continue;
            };
            senders[first].1 = rest;
            let (overhead, latency) = (profile.overhead(from, to), profile.latency(from, to));
            let left = self.work(self.times[from.index()], latency);
            self.times[from.index()] = left;
            // Receiving ends when O is over, where there is a processor for it.
            let time = left - latency + (overhead - latency).max(0.0);
            self.arrivals.push(Arrival { signal: Signal { from, to }, time, cause: self.last[from.index()] });
        }
    }

    /// Takes a processor for so long, from `ready` on or when one is free; returns when it is over.
    fn work(&mut self, ready: f64, length: f64) -> f64 {
        let earliest = (0..self.processors.len())
            .min_by(|&one, &other| self.processors[one].total_cmp(&self.processors[other]));
        let Some(earliest) = earliest else { return ready + length };
        let end = self.processors[earliest].max(ready) + length;
        self.processors[earliest] = end;
        end
    }

    fn receive_on_shared_processors(&mut self, step: usize, profile: &Profile) {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        arrivals.sort_by(|one, other| one.time.total_cmp(&other.time));
        for Arrival { signal, time, cause } in arrivals {
            let to = signal.to.index();
            let ready = time.max(self.times[to]);
            self.times[to] = self.work(ready, profile.latency(signal.from, signal.to));
            self.last[to] = Some(self.causes.len());
            self.causes.push((cause, step, signal));
        }
    }

    fn receive(&mut self, step: usize, profile: &Profile, costs: CostModel) {
        if costs == CostModel::Writes && !self.processors.is_empty() {
            return self.receive_on_shared_processors(step, profile);
        }
        self.arrivals.sort_by(|one, other| {
            (one.signal.to.cmp(&other.signal.to)).then(one.time.total_cmp(&other.time))
        });
        for arrivals in self.arrivals.chunk_by(|one, other| one.signal.to == other.signal.to) {
            let mut received = f64::NEG_INFINITY;
            for &Arrival { signal, time, .. } in arrivals {
                let queued = match costs {
                    CostModel::Messages => received,
                    CostModel::Writes => received + profile.latency(signal.from, signal.to),
                };
                received = time.max(queued);
            }
            let Arrival { signal, cause, .. } = arrivals[arrivals.len() - 1];
            if self.times[signal.to.index()] < received {
                self.times[signal.to.index()] = received;
                self.last[signal.to.index()] = Some(self.causes.len());
                self.causes.push((cause, step, signal));
            }
        }
        self.arrivals.clear();
    }

    fn into_prediction(self) -> Prediction {
        Prediction::of(self.times, &self.last, &self.causes)
    }
}

impl Prediction {
    /// Of when ranks leave, for what each waited last, and what there was to wait for: a signal, and which other one
    /// its sender had waited for.
    pub(crate) fn of(
        leaves: Vec<f64>,
        last: &[Option<usize>],
        causes: &[(Option<usize>, usize, Signal)],
    ) -> Self {
        let slowest = (0..leaves.len()).max_by(|&one, &other| leaves[one].total_cmp(&leaves[other]));
        let mut critical_path = Vec::new();
        let mut at = slowest.and_then(|rank| last[rank]);
        while let Some(cause) = at {
            let (before, step, signal) = causes[cause];
            critical_path.push((step, signal));
            at = before;
        }
        critical_path.reverse();
        Self { total: slowest.map_or(0.0, |rank| leaves[rank]), leaves, critical_path }
    }
}

#[cfg(test)]
mod tests {
    use super::{CostModel, Prediction};
    use crate::algorithm::Algorithm;
    use crate::partition::Partition;
    use crate::profile::{Matrix, Profile};
    use crate::rank::Rank;
    use crate::schedule::Signal;

    const START: f64 = 50.0;

    /// Nodes of eight: within them O = 400 and L = 100, between them O = 20,000 and L = 4000.
    fn cluster(ranks: u32) -> Profile {
        let cost = |near, far| move |from: Rank, to: Rank| if from.0 / 8 == to.0 / 8 { near } else { far };
        let (overhead, latency) = (cost(400.0, 20_000.0), cost(100.0, 4000.0));
        let overhead = Matrix::from_fn(ranks, |from, to| if from == to { START } else { overhead(from, to) });
        Profile::new(overhead, Matrix::from_fn(ranks, latency)).unwrap()
    }

    fn predict(algorithm: &str, ranks: u32) -> Prediction {
        algorithm
            .parse::<Algorithm>()
            .unwrap()
            .schedule(ranks)
            .unwrap()
            .predict(&cluster(ranks), CostModel::Messages)
    }

    #[test]
    fn both_equations_are_the_papers() {
        // Arrivals by equation 1, since rank 0 has only just come; the departure by equation 2, since all wait.
        assert_eq!(predict("linear", 8).total, (400.0 + 100.0) + (START + 7.0 * 100.0));
        // All send at the same time: nobody is known to wait.
        assert_eq!(predict("dissemination", 8).total, 3.0 * 500.0);
        assert_eq!(predict("nx2", 8).total, 400.0 + 7.0 * 100.0);
        assert_eq!(predict("tree", 8).total, 3.0 * 500.0 + 3.0 * (START + 100.0));
        assert_eq!(predict("linear", 1).total, 0.0);
    }

    #[test]
    fn writes_are_under_way_together_and_queue_where_they_meet() {
        let predict = |algorithm: &str| {
            let schedule = algorithm.parse::<Algorithm>().unwrap().schedule(8).unwrap();
            schedule.predict(&cluster(8), CostModel::Writes).total
        };
        // Seven meet at rank 0; of the seven that it sends, the last leaves after six others.
        assert_eq!(predict("linear"), (400.0 + 6.0 * 100.0) + (6.0 * 100.0 + 400.0));
        assert_eq!(predict("dissemination"), 3.0 * 400.0);
        assert_eq!(predict("tree"), 6.0 * 400.0);
        // Each rank sends by number: rank 7's come last of all, when most have come before.
        assert!((1000.0..1700.0).contains(&predict("nx2")));
    }

    #[test]
    fn ranks_that_share_processors_pay_for_every_signal() {
        let alone = cluster(8);
        let shared = cluster(8).sharing(2);
        let predict = |algorithm: &str, profile: &Profile| {
            let schedule = algorithm.parse::<Algorithm>().unwrap().schedule(8).unwrap();
            schedule.predict(profile, CostModel::Writes).total
        };
        // Twenty-four signals, each L of a sender and L of a receiver.
        assert!(predict("dissemination", &shared) >= 24.0 * 2.0 * 100.0 / 2.0);
        assert!(predict("dissemination", &alone) < predict("linear", &alone));
        assert!(predict("nx2", &shared) > predict("tree", &shared));
        // With processors for all, nothing changes.
        assert_eq!(predict("tree", &cluster(8).sharing(8)), predict("tree", &alone));
    }

    #[test]
    fn the_critical_path_leads_from_an_arrival_to_the_last_departure() {
        let prediction = predict("tree", 16);
        let last = prediction.critical_path.last().unwrap().1;
        assert_eq!(prediction.leaves[last.to.index()], prediction.total);
        for pair in prediction.critical_path.windows(2) {
            assert!(pair[0].0 < pair[1].0 && pair[0].1.to == pair[1].1.from, "{pair:?}");
        }
        // Across to the other node, and back.
        assert!(prediction.critical_path.iter().any(|path| path.1 == Signal::new(8, 0)));
        assert!(prediction.critical_path.iter().any(|path| path.1 == Signal::new(0, 8)));
    }

    /// Figure 5, where ranks are dealt to the nodes in turn: with 64 the last steps of dissemination stay within nodes.
    #[test]
    fn algorithms_are_ordered_as_the_paper_found_them() {
        let scale = |from: Rank, to: Rank| if from.0 % 8 == to.0 % 8 { 1.0 } else { 50.0 };
        let overhead = |from, to| if from == to { START } else { 400.0 * scale(from, to) };
        let total = |algorithm: &str, ranks| {
            let latency = Matrix::from_fn(ranks, |from, to| 100.0 * scale(from, to));
            let profile = Profile::new(Matrix::from_fn(ranks, overhead), latency).unwrap();
            let nodes = Partition::of_nodes((0..ranks).map(|rank| rank % 8));
            algorithm
                .parse::<Algorithm>()
                .unwrap()
                .schedule_on(&nodes)
                .unwrap()
                .predict(&profile, CostModel::Messages)
                .total
        };
        assert!(total("linear", 64) > total("tree", 64) && total("linear", 64) > total("dissemination", 64));
        assert!(total("dissemination", 64) < 0.7 * total("dissemination", 60));
        assert!(total("tree", 60) < total("dissemination", 60));
        assert!(total("two-level:dissemination", 64) < total("dissemination", 60));
    }
}
