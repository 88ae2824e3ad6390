//! Building the best barrier for a machine: algorithms of their own at each level of its tree of clusters.

use crate::algorithm::{Algorithm, AlgorithmError};
use crate::clustering::{Cluster, SPARSENESS};
use crate::constructors::{self, Steps, transposed};
use crate::prediction::{CostModel, Prediction};
use crate::profile::Profile;
use crate::rank::Rank;
use crate::schedule::{Schedule, ScheduleError, Signal};

/// What was chosen for a group of clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The first ranks of the clusters, who do it.
    pub ranks: Vec<Rank>,
    /// How they do it.
    pub algorithm: Algorithm,
    /// What it is predicted to cost among them, in nanoseconds.
    pub predicted: f64,
}

/// A barrier that is composed of others.
#[derive(Debug, Clone, PartialEq)]
pub struct Composition {
    /// The whole.
    pub schedule: Schedule,
    /// What was chosen for each group, the outermost first.
    pub choices: Vec<Choice>,
    /// What the whole is predicted to cost.
    pub prediction: Prediction,
}

/// A barrier that may be used on a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// What it is: an algorithm by itself, or none for a composition.
    pub algorithm: Option<Algorithm>,
    /// What to do.
    pub schedule: Schedule,
    /// What it is predicted to cost.
    pub prediction: Prediction,
}

/// Composes a barrier for the machine of a profile, greedily: for each group the algorithm that is predicted to be the
/// cheapest among the first ranks of its clusters.
///
/// (J. C. Meyer and A. C. Elster, "Optimized Barriers for Heterogeneous Systems Using MPI", section VII.B. Beyond it:
/// all algorithms are tried, departures are predicted, not taken to cost what arrivals do, and signals are writes.)
/// None for no ranks.
///
/// # Errors
/// [`CompositionError`], which would be a defect.
pub fn compose(profile: &Profile) -> Result<Option<Composition>, CompositionError> {
    let Some(cluster) = Cluster::of(profile, SPARSENESS) else { return Ok(None) };
    let mut composer = Composer { profile, choices: Vec::new() };
    let (arrival, departure) = composer.build(&cluster, Place::Outermost)?;
    let schedule = Schedule::new(profile.ranks(), arrival.into_iter().chain(departure))?;
    let prediction = schedule.predict(profile, CostModel::Writes);
    Ok(Some(Composition { schedule, choices: composer.choices, prediction }))
}

/// All barriers worth a try on the machine of a profile, the one with the cheapest prediction first.
///
/// # Errors
/// [`CompositionError`], which would be a defect.
pub fn tune(profile: &Profile) -> Result<Vec<Candidate>, CompositionError> {
    let mut candidates = Vec::new();
    if let Some(Composition { schedule, prediction, .. }) = compose(profile)? {
        candidates.push(Candidate { algorithm: None, schedule, prediction });
    }
    if profile.ranks() > 0 {
        for algorithm in algorithms(profile.ranks()) {
            let schedule = algorithm.schedule(profile.ranks())?;
            let prediction = schedule.predict(profile, CostModel::Writes);
            candidates.push(Candidate { algorithm: Some(algorithm), schedule, prediction });
        }
    }
    candidates.sort_by(|one, other| one.prediction.total.total_cmp(&other.prediction.total));
    Ok(candidates)
}

/// The algorithms that differ for so many ranks, with the parameters that are worth a try.
#[must_use]
pub fn algorithms(ranks: u32) -> Vec<Algorithm> {
    /// Who signals more at once only helps where there are few ranks.
    const WIDEST: u32 = 64;
    let mut found = vec![Algorithm::Linear, Algorithm::Dissemination];
    let widths = [2, 3, 4, 5, 6, 8, 12, 16, 24, 32, WIDEST].into_iter().filter(|&width| width < ranks);
    for width in widths {
        found.push(Algorithm::Tree { arity: width });
        found.push(Algorithm::Hsb { fan_in: width, fan_out: width });
        found.push(Algorithm::Exchange { group: width });
        // Two is the dissemination that is there already.
        found.extend((width > 2).then_some(Algorithm::NaryDissemination { radix: width }));
    }
    // With four ranks, one level of the tree does what the linear barrier does.
    found.extend((ranks > 4).then_some(Algorithm::X1Tree));
    found.extend((3..=WIDEST).contains(&ranks).then_some(Algorithm::NaryDissemination { radix: ranks }));
    found
}

/// Where in the tree a group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// When it is done, all have come.
    Outermost,
    /// When it is done, its first rank knows of all its ranks, and lets them go later.
    Within,
}

struct Composer<'profile> {
    profile: &'profile Profile,
    choices: Vec<Choice>,
}

impl Composer<'_> {
    /// How the ranks of a cluster arrive, and how they depart.
    fn build(&mut self, cluster: &Cluster, place: Place) -> Result<(Steps, Steps), CompositionError> {
        let Cluster::Group(clusters) = cluster else { return Ok((Vec::new(), Vec::new())) };
        let ranks: Vec<_> = clusters.iter().map(Cluster::representative).collect();
        let (choice, arrival, departure) = self.choose(&ranks, place)?;
        self.choices.push(choice);
        let (mut before, mut after) = (Steps::new(), Steps::new());
        for cluster in clusters {
            let (arrival, departure) = self.build(cluster, Place::Within)?;
            merge(&mut before, arrival);
            merge(&mut after, departure);
        }
        before.extend(arrival);
        Ok((before, [departure, after].concat()))
    }

    /// The cheapest way for some ranks, which are numbered as the whole numbers them.
    fn choose(&self, ranks: &[Rank], place: Place) -> Result<(Choice, Steps, Steps), CompositionError> {
        let profile = self.profile.of(ranks);
        let mut best: Option<(Choice, Steps, Steps)> = None;
        for algorithm in algorithms(ranks.len() as u32) {
            let (arrival, departure) = phases(&algorithm, ranks.len() as u32, place)?;
            let steps = arrival.iter().chain(&departure).cloned();
            let predicted = Schedule::new(profile.ranks(), steps)?.predict(&profile, CostModel::Writes).total;
            if best.as_ref().is_none_or(|(choice, ..)| predicted < choice.predicted) {
                let choice = Choice { ranks: ranks.to_vec(), algorithm, predicted };
                best = Some((choice, arrival, departure));
            }
        }
        let (choice, arrival, departure) = best.ok_or(CompositionError::NoAlgorithm)?;
        let renumber = |mut steps: Steps| {
            for signal in steps.iter_mut().flatten() {
                *signal = Signal { from: ranks[signal.from.index()], to: ranks[signal.to.index()] };
            }
            steps
        };
        Ok((choice, renumber(arrival), renumber(departure)))
    }
}

/// An algorithm's way to let rank 0 know of all, and the way to let them go. Where all know of all, nobody needs to be
/// let go, unless there is more to wait for.
fn phases(algorithm: &Algorithm, ranks: u32, place: Place) -> Result<(Steps, Steps), AlgorithmError> {
    let there_and_back = |arrival: Steps| {
        let departure = transposed(&arrival);
        (arrival, departure)
    };
    Ok(match *algorithm {
        Algorithm::Linear => there_and_back(constructors::linear(ranks)),
        Algorithm::Tree { arity } => there_and_back(constructors::tree(ranks, arity)),
        Algorithm::Hsb { fan_in, fan_out } => {
            (constructors::fan_in(ranks, fan_in), transposed(&constructors::fan_in(ranks, fan_out)))
        }
        // Without words to count in, what is left of it is its shape: in by fours, out at once.
        Algorithm::X1Tree => (constructors::tree(ranks, 4), transposed(&constructors::linear(ranks))),
        Algorithm::Dissemination | Algorithm::Exchange { .. } | Algorithm::NaryDissemination { .. } => {
            let steps =
                algorithm.schedule(ranks)?.descriptions().into_iter().map(|step| step.signals).collect();
            match place {
                Place::Outermost => (steps, Vec::new()),
                Place::Within => there_and_back(steps),
            }
        }
        Algorithm::TwoLevel { .. } => return Err(AlgorithmError::Nested),
    })
}

/// Adds the steps of ranks that are not in `steps` yet, each as early as it can be.
fn merge(steps: &mut Steps, more: Steps) {
    if steps.len() < more.len() {
        steps.resize_with(more.len(), Vec::new);
    }
    for (step, signals) in steps.iter_mut().zip(more) {
        step.extend(signals);
    }
}

/// Why no barrier could be composed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompositionError {
    /// An algorithm refused.
    #[error(transparent)]
    Algorithm(#[from] AlgorithmError),
    /// The steps fit together into no schedule.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// Nothing to choose from.
    #[error("there is no barrier algorithm for a group")]
    NoAlgorithm,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{compose, tune};
    use crate::algorithm::Algorithm;
    use crate::clustering::{Cluster, SPARSENESS};
    use crate::prediction::CostModel;
    use crate::profile::{Matrix, Profile};
    use crate::rank::Rank;

    /// Nodes that the ranks are on by `node`: within them signals cost little, between them much.
    fn machine(ranks: u32, far: f64, node: impl Fn(u32) -> u32) -> Profile {
        let scale = |from: Rank, to: Rank| if node(from.0) == node(to.0) { 1.0 } else { far };
        let overhead =
            Matrix::from_fn(ranks, |from, to| if from == to { 40.0 } else { 300.0 * scale(from, to) });
        Profile::new(overhead, Matrix::from_fn(ranks, |from, to| 80.0 * scale(from, to))).unwrap()
    }

    #[test]
    fn a_cluster_of_nodes_gets_a_hybrid_that_beats_every_single_algorithm() {
        // Nodes of seven, and one of four: no flat algorithm's groups are the nodes.
        let profile = machine(60, 60.0, |rank| rank / 7);
        let candidates = tune(&profile).unwrap();
        assert_eq!(candidates[0].algorithm, None);
        assert!(candidates[0].prediction.total < candidates[1].prediction.total);
        let composition = compose(&profile).unwrap().unwrap();
        assert_eq!(composition.choices.len(), 1 + 9);
        assert_eq!(composition.choices[0].ranks, (0..9).map(|node| Rank(7 * node)).collect::<Vec<_>>());
        // Over far links, nobody tells anybody twice: all know when the exchange is done.
        let outermost = &composition.choices[0].algorithm;
        assert!(
            matches!(
                outermost,
                Algorithm::Dissemination | Algorithm::Exchange { .. } | Algorithm::NaryDissemination { .. }
            ),
            "{outermost}"
        );
    }

    #[test]
    fn machines_without_ranks_and_with_one() {
        assert_eq!(compose(&machine(0, 1.0, |_| 0)).unwrap(), None);
        assert_eq!(tune(&machine(0, 1.0, |_| 0)).unwrap(), []);
        let alone = compose(&machine(1, 1.0, |_| 0)).unwrap().unwrap();
        assert_eq!((alone.schedule.steps().len(), alone.prediction.total), (0, 0.0));
    }

    #[test]
    fn a_thousand_ranks_are_composed_in_good_time() {
        let composition = compose(&machine(1000, 50.0, |rank| rank / 40)).unwrap().unwrap();
        assert!(composition.schedule.is_barrier());
        assert_eq!(composition.choices.len(), 1 + 25);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        #[test]
        fn whatever_is_composed_is_a_barrier_and_predicted_as_such(
            places in prop::collection::vec((0_u8..4, 0_u8..3, 0_u8..3), 1..40), noise in 0_u64..1000
        ) {
            let cost = |from: Rank, to: Rank| {
                let (one, other) = (places[from.index()], places[to.index()]);
                let base = match () {
                    () if one.0 != other.0 => 9000.0,
                    () if one.1 != other.1 => 900.0,
                    () if one.2 != other.2 => 200.0,
                    () => 60.0,
                };
                base + ((u64::from(from.0 + to.0) * noise) % 37) as f64
            };
            let ranks = places.len() as u32;
            let profile = Profile::new(
                Matrix::from_fn(ranks, |from, to| if from == to { 5.0 } else { cost(from, to) }),
                Matrix::from_fn(ranks, |from, to| cost(from, to) / 3.0),
            ).unwrap();
            let composition = compose(&profile).unwrap().unwrap();
            prop_assert!(composition.schedule.is_barrier());
            let mut ranks = Cluster::of(&profile, SPARSENESS).unwrap().ranks();
            ranks.sort_unstable();
            prop_assert_eq!(ranks, (0..profile.ranks()).map(Rank).collect::<Vec<_>>());
            for candidate in tune(&profile).unwrap() {
                prop_assert!(candidate.schedule.is_barrier());
                prop_assert_eq!(candidate.prediction, candidate.schedule.predict(&profile, CostModel::Writes));
            }
        }
    }
}
