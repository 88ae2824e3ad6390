//! Building the best barrier for a machine: algorithms of their own at each level of its tree of clusters, each of
//! which may be any of the `repertoire`, of which `phases` makes a part of the whole.

mod phases;
mod repertoire;

use self::phases::Phases;
pub use self::repertoire::algorithms;
use self::repertoire::masters;
use crate::algorithm::{Algorithm, AlgorithmError, NodesOf};
use crate::clustering::{Cluster, SPARSENESS};
use crate::partition::Partition;
use crate::prediction::{CostModel, Prediction};
use crate::profile::Profile;
use crate::rank::Rank;
use crate::schedule::{Schedule, ScheduleError, StepDescription};

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
/// cheapest among the first ranks of its clusters; outermost, of the cheapest few the one with which the whole is.
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
    let phases = composer.build(&cluster, Place::Outermost)?;
    let schedule = Schedule::new(profile.ranks(), phases.steps())?;
    let prediction = schedule.predict(profile, CostModel::Writes);
    Ok(Some(Composition { schedule, choices: composer.choices, prediction }))
}

/// All barriers worth a try on the machine of a profile, the one with the cheapest prediction first. The nodes of
/// two-level ones are the machine's [outermost clusters](outermost_clusters).
///
/// # Errors
/// [`CompositionError`], which would be a defect.
pub fn tune(profile: &Profile) -> Result<Vec<Candidate>, CompositionError> {
    tune_on(profile, &outermost_clusters(profile))
}

/// The same where two-level barriers go by other nodes, which have all of the profile's ranks.
///
/// # Errors
/// [`CompositionError`], which would be a defect.
///
/// # Panics
/// Where the nodes have other ranks.
pub fn tune_on(profile: &Profile, nodes: &Partition) -> Result<Vec<Candidate>, CompositionError> {
    assert_eq!(nodes.ranks(), profile.ranks(), "the nodes are of other ranks");
    let mut candidates = Vec::new();
    if let Some(Composition { schedule, prediction, .. }) = compose(profile)? {
        candidates.push(Candidate { algorithm: None, schedule, prediction });
    }
    if profile.ranks() > 0 {
        let by_nodes = masters(nodes.nodes().len() as u32)
            .into_iter()
            .map(|masters| Algorithm::TwoLevel { nodes: NodesOf::Machine, masters: Box::new(masters) });
        // Where each is a node by itself, or all are one, they are what others are.
        let by_nodes = by_nodes.filter(|_| (2..profile.ranks()).contains(&(nodes.nodes().len() as u32)));
        for algorithm in algorithms(profile.ranks()).into_iter().chain(by_nodes) {
            let schedule = algorithm.schedule_on(nodes)?;
            let prediction = schedule.predict(profile, CostModel::Writes);
            candidates.push(Candidate { algorithm: Some(algorithm), schedule, prediction });
        }
    }
    candidates.sort_by(|one, other| one.prediction.total.total_cmp(&other.prediction.total));
    // What is composed may be one of the others, and some of these are the same for so many ranks.
    candidates.dedup_by(|later, earlier| later.schedule == earlier.schedule);
    Ok(candidates)
}

/// The outermost clusters of the machine of a profile, as nodes.
#[must_use]
pub fn outermost_clusters(profile: &Profile) -> Partition {
    let each_alone = || Partition::blocks(profile.ranks(), 1);
    match Cluster::of(profile, SPARSENESS) {
        // The clusters have each rank once.
        Some(Cluster::Group(clusters)) => {
            let nodes = clusters.iter().map(Cluster::ranks).collect();
            Partition::new(nodes).unwrap_or_else(|_| each_alone())
        }
        _ => each_alone(),
    }
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
    fn build(&mut self, cluster: &Cluster, place: Place) -> Result<Phases, CompositionError> {
        let Cluster::Group(clusters) = cluster else { return Ok(Phases::default()) };
        let ranks: Vec<_> = clusters.iter().map(Cluster::representative).collect();
        // In the order of the groups: what is chosen here comes before what is chosen within.
        let at = self.choices.len();
        let mut within = Phases::default();
        for cluster in clusters {
            let phases = self.build(cluster, Place::Within)?;
            merge(&mut within.arrival, phases.arrival);
            merge(&mut within.departure, phases.departure);
        }
        let (choice, phases) = self.choose(&ranks, place, &within)?;
        self.choices.insert(at, choice);
        Ok(phases)
    }

    /// The cheapest way for some ranks, which are numbered as the whole numbers them, around what is done within their
    /// clusters. Outermost, where nothing else is to come, the cheapest ways among these ranks alone are judged by what
    /// the whole costs: those that are the last to hear of their clusters should have the least to do.
    fn choose(
        &self,
        ranks: &[Rank],
        place: Place,
        within: &Phases,
    ) -> Result<(Choice, Phases), CompositionError> {
        /// Of so many ways the whole is predicted.
        const JUDGED: usize = 8;
        let profile = self.profile.of(ranks);
        let mut found = Vec::new();
        for algorithm in algorithms(ranks.len() as u32) {
            let own = Phases::of(&algorithm, ranks.len() as u32, place)?;
            let predicted = predicted(&own, &profile)?;
            found.push((Choice { ranks: ranks.to_vec(), algorithm, predicted }, own));
        }
        found.sort_by(|(one, _), (other, _)| one.predicted.total_cmp(&other.predicted));
        found.dedup_by(|(_, later), (_, earlier)| later == earlier);
        found.truncate(if place == Place::Outermost { JUDGED } else { 1 });
        let mut best: Option<(f64, Choice, Phases)> = None;
        let is_alone = found.len() == 1;
        for (choice, own) in found {
            let whole = within.around(own.renumbered(ranks));
            let cost = if is_alone { 0.0 } else { predicted(&whole, self.profile)? };
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                best = Some((cost, choice, whole));
            }
        }
        best.map(|(_, choice, whole)| (choice, whole)).ok_or(CompositionError::NoAlgorithm)
    }
}

/// What the steps are predicted to cost when nothing is between arrivals and departures.
fn predicted(phases: &Phases, profile: &Profile) -> Result<f64, ScheduleError> {
    Ok(Schedule::new(profile.ranks(), phases.steps())?.predict(profile, CostModel::Writes).total)
}

/// Adds the steps of ranks that are not in `steps` yet, each as early as it can be. All are of flags: words to count in
/// are only used outermost.
fn merge(steps: &mut Vec<StepDescription>, more: Vec<StepDescription>) {
    if steps.len() < more.len() {
        steps.resize_with(more.len(), || StepDescription::from(Vec::new()));
    }
    for (step, more) in steps.iter_mut().zip(more) {
        step.signals.extend(more.signals);
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

    use super::phases::Phases;
    use super::{Place, compose, tune};
    use crate::algorithm::Algorithm;
    use crate::clustering::{Cluster, SPARSENESS};
    use crate::prediction::CostModel;
    use crate::profile::{Matrix, Profile};
    use crate::rank::Rank;
    use crate::schedule::{Schedule, StepKind};

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
    fn all_algorithms_are_tried_with_unequal_fans_and_two_levels_too() {
        let names: Vec<String> = super::algorithms(64).iter().map(Algorithm::to_string).collect();
        for name in
            ["hsb:8,2", "hsb:63,2", "x1tree", "two-level:8:nx:4", "two-level:2:x1tree", "two-level:16:linear"]
        {
            assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
        }
        // None twice.
        for ranks in 2..40 {
            let mut names: Vec<String> = super::algorithms(ranks).iter().map(Algorithm::to_string).collect();
            let all = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), all, "{ranks}");
        }
    }

    #[test]
    fn the_outermost_level_may_count_in_words() {
        let phases = Phases::of(&Algorithm::X1Tree, 9, Place::Outermost).unwrap();
        let kinds: Vec<StepKind> = phases.steps().map(|step| step.kind).collect();
        assert_eq!(kinds, [StepKind::FetchAdd, StepKind::FetchAdd, StepKind::Resume]);
        let within = Phases::of(&Algorithm::X1Tree, 9, Place::Within).unwrap();
        assert!(within.steps().all(|step| step.kind == StepKind::Signals));
    }

    #[test]
    fn every_algorithm_has_phases_that_are_a_barrier_with_nothing_between_them() {
        for ranks in 1..=20 {
            for algorithm in super::algorithms(ranks) {
                for place in [Place::Outermost, Place::Within] {
                    let phases = Phases::of(&algorithm, ranks, place).unwrap();
                    let schedule = Schedule::new(ranks, phases.steps()).unwrap();
                    assert!(schedule.is_barrier(), "{algorithm} for {ranks}, {place:?}");
                }
            }
        }
    }

    #[test]
    fn two_levels_by_the_machines_nodes_are_among_the_candidates() {
        // Ranks dealt out to nodes one by one: consecutive ones are never neighbours.
        let candidates = tune(&machine(25, 60.0, |rank| rank % 5)).unwrap();
        let by_nodes = candidates.iter().find(|candidate| {
            candidate
                .algorithm
                .as_ref()
                .is_some_and(|algorithm| algorithm.to_string() == "two-level:dissemination")
        });
        let by_nodes = by_nodes.unwrap();
        assert!(by_nodes.schedule.is_barrier());
        let flat = candidates
            .iter()
            .find(|candidate| candidate.algorithm == Some(Algorithm::Dissemination))
            .unwrap();
        assert!(by_nodes.prediction.total < flat.prediction.total);
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
