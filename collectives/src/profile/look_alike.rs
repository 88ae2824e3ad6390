//! Measuring less: what looks alike is measured once.

use std::collections::HashMap;

use crate::partition::Partition;
use crate::profile::positions::Positions;
use crate::profile::survey::{Matrices, PairCost, measure_pair, measure_start};
use crate::profile::{Measure, Profile, SurveyError, SurveySettings};
use crate::rank::Rank;

/// When two pairs of ranks look alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LookAlike {
    /// By which part of the larger their costs may differ.
    pub tolerance: f64,
}

impl Default for LookAlike {
    /// A quarter: more than noise, less than what one kind of link differs from another.
    fn default() -> Self {
        Self { tolerance: 0.25 }
    }
}

impl LookAlike {
    fn holds(self, one: PairCost, other: PairCost) -> bool {
        self.is_alike(one.overhead + one.latency, other.overhead + other.latency)
    }

    pub(super) fn is_alike(self, one: f64, other: f64) -> bool {
        (one - other).abs() <= self.tolerance * one.max(other)
    }
}

/// Measures each kind of node and each pair of nodes, and copies what looks alike (the replication of submatrices that
/// Meyer and Elster propose in section IV.B).
///
/// A node is measured in full unless a few of its pairs look as they do on a node of the same size that was. Which
/// nodes stand alike towards all others, a glance at some pairs of their first ranks tells: a message of a byte.
/// Between two nodes that are as far from one another as no two before, a few pairs are measured, and all only if these
/// do not look alike. So a thousand ranks on nodes of eight take ten thousand measurements, not ten millions.
///
/// # Errors
/// [`SurveyError`].
///
/// # Panics
/// Where the partition is of another number of ranks than are measured.
pub fn survey_nodes<M: Measure>(
    measure: &mut M,
    partition: &Partition,
    settings: &SurveySettings,
    look_alike: LookAlike,
) -> Result<Profile, SurveyError<M::Error>> {
    assert_eq!(measure.ranks(), partition.ranks(), "the nodes are those of the ranks that are measured");
    settings.check()?;
    let matrices = Matrices::new(partition.ranks());
    let (between, like) = (Vec::new(), HashMap::new());
    let mut survey = NodeSurvey { measure, settings, look_alike, matrices, between, like };
    let mut known: Vec<&[Rank]> = Vec::new();
    for node in partition.nodes() {
        if !survey.replicate(&known, node)? {
            survey.measure_node(node)?;
            known.push(node);
        }
    }
    let nodes = partition.nodes();
    let kinds: Vec<usize> = nodes.iter().map(Vec::len).collect();
    let positions =
        Positions::find(&kinds, look_alike, |one, other| survey.glance(nodes[one][0], nodes[other][0]))?;
    for (other, one) in (0..nodes.len()).flat_map(|other| (0..other).map(move |one| (other, one))) {
        let models = positions.as_ref().map_or((one, other), |positions| positions.models(one, other));
        let models = survey.measured_like(nodes, models)?;
        if models != (one, other) && models != (other, one) {
            survey.copy_between((&nodes[models.0], &nodes[models.1]), (&nodes[one], &nodes[other]));
        }
    }
    survey.matrices.into_profile()
}

struct NodeSurvey<'survey, M> {
    measure: &'survey mut M,
    settings: &'survey SurveySettings,
    look_alike: LookAlike,
    matrices: Matrices,
    /// Pairs of nodes that were measured, and what a glance at them told.
    between: Vec<((usize, usize), f64)>,
    /// Of other pairs, which of these they are like.
    like: HashMap<(usize, usize), (usize, usize)>,
}

impl<M: Measure> NodeSurvey<'_, M> {
    fn pair(&mut self, one: Rank, other: Rank) -> Result<PairCost, SurveyError<M::Error>> {
        measure_pair(self.measure, self.settings, one, other)
    }

    /// What a message of a byte takes: enough to see whether others are like it.
    fn glance(&mut self, one: Rank, other: Rank) -> Result<f64, SurveyError<M::Error>> {
        self.measure.one_way(one, other, 1, self.settings.repetitions).map_err(SurveyError::Measure)
    }

    /// The pair of nodes, of the same sizes, that was measured and is like this one: itself, where there is none yet.
    fn measured_like(
        &mut self,
        nodes: &[Vec<Rank>],
        pair: (usize, usize),
    ) -> Result<(usize, usize), SurveyError<M::Error>> {
        let sizes = |(one, other): (usize, usize)| (nodes[one].len(), nodes[other].len());
        if let Some(&like) = self.like.get(&pair) {
            return Ok(like);
        }
        let far = self.glance(nodes[pair.0][0], nodes[pair.1][0])?;
        let alike = self
            .between
            .iter()
            .find(|(known, its)| sizes(*known) == sizes(pair) && self.look_alike.is_alike(far, *its));
        let like = alike.map(|(known, _)| *known);
        if like.is_none() {
            self.measure_between(&nodes[pair.0], &nodes[pair.1])?;
            self.between.push((pair, far));
        }
        let like = like.unwrap_or(pair);
        self.like.insert(pair, like);
        Ok(like)
    }

    /// Copies what is between two nodes to two others of the same sizes.
    fn copy_between(&mut self, (one, other): (&[Rank], &[Rank]), (like, likewise): (&[Rank], &[Rank])) {
        for (&from, &copied_from) in one.iter().zip(like) {
            for (&to, &copied_to) in other.iter().zip(likewise) {
                self.matrices.set(copied_from, copied_to, self.matrices.get(from, to));
            }
        }
    }

    /// Copies a node that was measured to one that looks like it; tells whether there was one.
    fn replicate(&mut self, known: &[&[Rank]], node: &[Rank]) -> Result<bool, SurveyError<M::Error>> {
        let mut samples = Vec::new();
        for (one, other) in places_within(node.len()) {
            samples.push((one, other, self.pair(node[one], node[other])?));
        }
        let is_like = |model: &&&[Rank]| {
            let mut like =
                samples.iter().map(|&(one, other, cost)| (self.matrices.get(model[one], model[other]), cost));
            model.len() == node.len() && like.all(|(known, cost)| self.look_alike.holds(known, cost))
        };
        let Some(model) = known.iter().find(is_like) else { return Ok(false) };
        for one in 0..node.len() {
            self.matrices.set_start(node[one], self.matrices.start(model[one]));
            for other in one + 1..node.len() {
                self.matrices.set(node[one], node[other], self.matrices.get(model[one], model[other]));
            }
        }
        Ok(true)
    }

    fn measure_node(&mut self, node: &[Rank]) -> Result<(), SurveyError<M::Error>> {
        for (number, &one) in node.iter().enumerate() {
            let start = measure_start(self.measure, self.settings, one)?;
            self.matrices.set_start(one, start);
            for &other in &node[number + 1..] {
                let cost = self.pair(one, other)?;
                self.matrices.set(one, other, cost);
            }
        }
        Ok(())
    }

    fn measure_between(&mut self, one: &[Rank], other: &[Rank]) -> Result<(), SurveyError<M::Error>> {
        let mut samples = Vec::new();
        for (from, to) in places_between(one.len(), other.len()) {
            samples.push(self.pair(one[from], other[to])?);
        }
        let count = samples.len() as f64;
        let mean = PairCost {
            overhead: samples.iter().map(|cost| cost.overhead).sum::<f64>() / count,
            latency: samples.iter().map(|cost| cost.latency).sum::<f64>() / count,
        };
        let alike = samples.iter().all(|&cost| self.look_alike.holds(cost, mean));
        for &from in one {
            for &to in other {
                let cost = if alike { mean } else { self.pair(from, to)? };
                self.matrices.set(from, to, cost);
            }
        }
        Ok(())
    }
}

/// Pairs of places of a node that show what kind it is: neighbours, both ends, and the middle with its next.
fn places_within(ranks: usize) -> Vec<(usize, usize)> {
    let mut places = vec![(0, 1), (0, ranks.saturating_sub(1)), (ranks / 2, ranks / 2 + 1)];
    places.retain(|&(one, other)| one < other && other < ranks);
    places.sort_unstable();
    places.dedup();
    places
}

/// Pairs of places of two nodes: the ends of one with the ends of the other.
fn places_between(ranks: usize, others: usize) -> Vec<(usize, usize)> {
    let mut places: Vec<_> =
        [0, ranks - 1].into_iter().flat_map(|one| [0, others - 1].map(|other| (one, other))).collect();
    places.sort_unstable();
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::{LookAlike, survey_nodes};
    use crate::partition::Partition;
    use crate::profile::{Measure, SurveySettings, survey};
    use crate::rank::Rank;

    /// A machine whose costs are known: 8 ranks per node in two sockets; node 3 is slower within.
    struct Machine {
        ranks: u32,
        measured: u64,
        noise: fastrand::Rng,
    }

    impl Machine {
        fn new(ranks: u32) -> Self {
            Self { ranks, measured: 0, noise: fastrand::Rng::with_seed(7) }
        }

        fn cost(&self, from: Rank, to: Rank) -> (f64, f64) {
            if from.0 / 8 != to.0 / 8 {
                (20_000.0, 5000.0)
            } else if from.0 / 8 == 3 {
                (2000.0, 1000.0)
            } else if from.0 / 4 == to.0 / 4 {
                (200.0, 50.0)
            } else {
                (800.0, 200.0)
            }
        }

        fn noisy(&mut self, time: f64) -> f64 {
            self.measured += 1;
            time * (0.98 + 0.04 * self.noise.f64())
        }
    }

    impl Measure for Machine {
        type Error = Infallible;

        fn ranks(&self) -> u32 {
            self.ranks
        }

        fn one_way(&mut self, from: Rank, to: Rank, bytes: u64, _: u32) -> Result<f64, Infallible> {
            Ok(self.noisy(self.cost(from, to).0 + 0.2 * bytes as f64))
        }

        fn burst(&mut self, from: Rank, to: Rank, signals: u32, _: u32) -> Result<f64, Infallible> {
            let (overhead, latency) = self.cost(from, to);
            Ok(self.noisy(overhead + latency * f64::from(signals)))
        }

        fn start(&mut self, _: Rank, _: u32) -> Result<f64, Infallible> {
            Ok(self.noisy(30.0))
        }
    }

    #[test]
    fn a_survey_finds_what_signals_cost() {
        let mut machine = Machine::new(20);
        let profile = survey(&mut machine, &SurveySettings::default()).unwrap();
        for (from, to) in (0..20).flat_map(|from| (0..20).map(move |to| (Rank(from), Rank(to)))) {
            if from != to {
                let (overhead, latency) = machine.cost(from, to);
                assert!((profile.overhead(from, to) / overhead - 1.0).abs() < 0.05, "{from} to {to}");
                assert!(
                    (profile.latency(from, to) - latency).abs() < 0.1 * (overhead + latency),
                    "{from} to {to}"
                );
            }
        }
        assert!((profile.start(Rank(5)) - 30.0).abs() < 2.0);
    }

    #[test]
    fn look_alike_nodes_are_copied_and_others_are_not() {
        let settings = SurveySettings::default();
        let (mut all, mut few) = (Machine::new(64), Machine::new(64));
        let full = survey(&mut all, &settings).unwrap();
        let partition = Partition::blocks(64, 8);
        let replicated = survey_nodes(&mut few, &partition, &settings, LookAlike::default()).unwrap();
        for (from, to) in (0..64).flat_map(|from| (0..64).map(move |to| (Rank(from), Rank(to)))) {
            let (one, other) = (full.distance(from, to), replicated.distance(from, to));
            assert!((one - other).abs() <= 0.2 * one, "{from} to {to}: {one} and {other}");
        }
        assert!(few.measured * 8 < all.measured, "{} of {}", few.measured, all.measured);
    }

    #[test]
    fn a_thousand_ranks_take_few_of_their_half_million_pairs() {
        let (mut machine, settings) = (Machine::new(1000), SurveySettings::default());
        survey_nodes(&mut machine, &Partition::blocks(1000, 8), &settings, LookAlike::default()).unwrap();
        assert!(machine.measured < 12_000, "{}", machine.measured);
        // Also where each is on a node of its own: it is then seen who is near.
        let mut machine = Machine::new(1000);
        let profile =
            survey_nodes(&mut machine, &Partition::blocks(1000, 1), &settings, LookAlike::default());
        let profile = profile.unwrap();
        assert!(machine.measured < 100_000, "{}", machine.measured);
        for (from, to) in
            [(0, 1), (0, 5), (24, 31), (500, 508), (998, 999)].map(|(from, to)| (Rank(from), Rank(to)))
        {
            let (overhead, latency) = machine.cost(from, to);
            let cost = profile.distance(from, to);
            assert!((cost / (overhead + latency) - 1.0).abs() < 0.25, "{from} to {to}: {cost}");
        }
    }
}
