//! Which nodes stand alike towards all others, by a glance at a few pairs.
//!
//! ```text
//!   every node is glanced at from all landmarks. Is it like one of them?
//!     yes   it takes that one's position: as far as that one from every other landmark, and as far from it, and from
//!           some others of its position, as these are from one another
//!     no    it is a landmark itself: another rack, another kind of link
//!   proof   some pairs that were not glanced at; who is not as its position says is measured by itself
//! ```
//!
//! A network of a few kinds of links has a few positions, so that `n` nodes take about `n` times as many glances as
//! there are positions. One where each node stands by itself, as a ring, has none to spare, and is not taken for more
//! than it is. What the proof does not meet either, as that two of a thousand nodes have a link of their own, is not
//! seen.

use std::collections::HashMap;

use crate::profile::LookAlike;

/// The positions of some nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Positions {
    /// Of each node, by the number of the position; none for a node that is like no other.
    position: Vec<Option<usize>>,
    /// The node that a position is known by, and another one that has it.
    shown_by: Vec<(usize, Option<usize>)>,
}

impl Positions {
    /// Finds them, `glance` by `glance`: something that grows with what a signal between two nodes costs. Nodes of
    /// different `kinds` are never alike. None where there are half as many positions as nodes, or an eighth of them
    /// are not as their positions say.
    pub(super) fn find<E>(
        kinds: &[usize],
        look_alike: LookAlike,
        glance: impl FnMut(usize, usize) -> Result<f64, E>,
    ) -> Result<Option<Positions>, E> {
        let mut glances = Glances { glance, known: HashMap::new(), least: f64::INFINITY };
        let Some(landmarks) = landmarks(kinds, look_alike, &mut glances)? else { return Ok(None) };
        // Anew: who came early could not be compared with those that were found later.
        let mut groups: Vec<Group> = landmarks.iter().map(|&landmark| Group::of(landmark)).collect();
        let (mut position, mut last) = (Vec::new(), 0);
        for (node, &kind) in kinds.iter().enumerate() {
            let own = match landmarks.iter().position(|&landmark| landmark == node) {
                Some(own) => Some(own),
                None => like(&mut groups, kinds, (node, kind, last), look_alike, &mut glances)?,
            };
            last = own.unwrap_or(last);
            position.push(own);
        }
        for node in odd(&position, &groups, look_alike, &mut glances)? {
            position[node] = None;
        }
        if position.iter().filter(|position| position.is_none()).count() > kinds.len() / 8 {
            return Ok(None);
        }
        let shown_by =
            groups.iter().map(|group| (group.landmark, group.witnesses.first().copied())).collect();
        Ok(Some(Positions { position, shown_by }))
    }

    /// The two nodes between which it is as between these two, each in the place of the one that it is like: these
    /// themselves where there are no others.
    pub(super) fn models(&self, one: usize, other: usize) -> (usize, usize) {
        let (Some(first), Some(second)) = (self.position[one], self.position[other]) else {
            return (one, other);
        };
        let (known_by, member) = self.shown_by[first];
        match member {
            _ if first != second => (known_by, self.shown_by[second].0),
            Some(member) => (known_by, member),
            None => (one, other),
        }
    }
}

/// What was glanced at is not glanced at again.
struct Glances<F> {
    glance: F,
    known: HashMap<(usize, usize), f64>,
    /// The least of all.
    least: f64,
}

impl<E, F: FnMut(usize, usize) -> Result<f64, E>> Glances<F> {
    fn far(&mut self, one: usize, other: usize) -> Result<f64, E> {
        let pair = (one.min(other), one.max(other));
        if let Some(&far) = self.known.get(&pair) {
            return Ok(far);
        }
        let far = (self.glance)(pair.0, pair.1)?;
        self.known.insert(pair, far);
        self.least = self.least.min(far);
        Ok(far)
    }

    /// As far as that; a second glance decides, since what disturbed one does not disturb the next.
    fn is_as_far(
        &mut self,
        one: usize,
        other: usize,
        expected: f64,
        look_alike: LookAlike,
    ) -> Result<bool, E> {
        if look_alike.is_alike(self.far(one, other)?, expected) {
            return Ok(true);
        }
        self.known.remove(&(one.min(other), one.max(other)));
        Ok(look_alike.is_alike(self.far(one, other)?, expected))
    }
}

/// The nodes of a position.
struct Group {
    landmark: usize,
    /// Some others of them.
    witnesses: Vec<usize>,
    /// How far they are from one another, once there are two.
    usual: Option<f64>,
}

impl Group {
    fn of(landmark: usize) -> Self {
        Group { landmark, witnesses: Vec::new(), usual: None }
    }
}

/// Nodes of which no two are alike, and one of which every node is like. None where there are too many of them.
fn landmarks<E>(
    kinds: &[usize],
    look_alike: LookAlike,
    glances: &mut Glances<impl FnMut(usize, usize) -> Result<f64, E>>,
) -> Result<Option<Vec<usize>>, E> {
    /// So many are landmarks in any case: with fewer there is nothing to compare by.
    const FIRST: usize = 4;
    let most = FIRST.max(kinds.len() / 2);
    let mut groups: Vec<Group> = Vec::new();
    let mut last = 0;
    for (node, &kind) in kinds.iter().enumerate() {
        if groups.len() >= FIRST
            && let Some(own) = like(&mut groups, kinds, (node, kind, last), look_alike, glances)?
        {
            last = own;
            continue;
        }
        last = groups.len();
        if groups.len() == most {
            return Ok(None);
        }
        groups.push(Group::of(node));
    }
    Ok(Some(groups.iter().map(|group| group.landmark).collect()))
}

/// The group of those that the node is like, the nearest of several; it is one of them then. The group of the one that
/// was looked at last is the first to be asked: neighbours by number often are in earnest.
fn like<E>(
    groups: &mut [Group],
    kinds: &[usize],
    (node, kind, last): (usize, usize, usize),
    look_alike: LookAlike,
    glances: &mut Glances<impl FnMut(usize, usize) -> Result<f64, E>>,
) -> Result<Option<usize>, E> {
    /// So many of a group are asked besides its landmark.
    const WITNESSES: usize = 3;
    let mut nearest: Option<(f64, usize)> = None;
    for number in std::iter::once(last).chain((0..groups.len()).filter(|&number| number != last)) {
        let far = glances.far(groups[number].landmark, node)?;
        let is_nearer = nearest.is_none_or(|(least, _)| far < least);
        if kinds[groups[number].landmark] == kind
            && is_nearer
            && is_like(groups, number, (node, far), look_alike, glances)?
        {
            nearest = Some((far, number));
            // Nothing is nearer anywhere.
            if look_alike.is_alike(far, glances.least) {
                break;
            }
        }
    }
    let Some((far, number)) = nearest else { return Ok(None) };
    let group = &mut groups[number];
    group.usual.get_or_insert(far);
    if group.witnesses.len() < WITNESSES {
        group.witnesses.push(node);
    }
    Ok(Some(number))
}

/// Whether a node that is so far from the landmark of a group is like its nodes.
fn is_like<E>(
    groups: &[Group],
    number: usize,
    (node, far): (usize, f64),
    look_alike: LookAlike,
    glances: &mut Glances<impl FnMut(usize, usize) -> Result<f64, E>>,
) -> Result<bool, E> {
    /// So many other groups' landmarks tell where it is.
    const BEARINGS: usize = 8;
    let own = &groups[number];
    if own.usual.is_some_and(|usual| !look_alike.is_alike(far, usual)) {
        return Ok(false);
    }
    let mut nearest = f64::INFINITY;
    let others = (1..groups.len()).step_by(groups.len().div_ceil(BEARINGS));
    for other in others.map(|further| &groups[(number + further) % groups.len()]) {
        let from_landmark = glances.far(own.landmark, other.landmark)?;
        nearest = nearest.min(from_landmark);
        if !look_alike.is_alike(glances.far(other.landmark, node)?, from_landmark) {
            return Ok(false);
        }
    }
    // Where nobody else has its position yet, others of it are not further away than any landmark.
    let usual = own.usual.unwrap_or(nearest.min(far));
    if !look_alike.is_alike(far, usual) {
        return Ok(false);
    }
    for &witness in own.witnesses.iter().filter(|&&witness| witness != node) {
        if !glances.is_as_far(witness, node, usual, look_alike)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The nodes that are not as their positions say, by pairs that had nothing to do with finding them.
fn odd<E>(
    position: &[Option<usize>],
    groups: &[Group],
    look_alike: LookAlike,
    glances: &mut Glances<impl FnMut(usize, usize) -> Result<f64, E>>,
) -> Result<Vec<usize>, E> {
    let count = position.len();
    let mut odd = Vec::new();
    for node in 0..count {
        // The next one, and others that have nothing to do with how nodes are numbered.
        let others = [node + 1, node + count / 3 + 1, node * 17 + 5].map(|other| other % count);
        let mut is_odd = false;
        for other in others.into_iter().filter(|&other| other != node) {
            let (Some(own), Some(its)) = (position[node], position[other]) else { continue };
            let expected = match groups[own].usual {
                _ if own != its => glances.far(groups[own].landmark, groups[its].landmark)?,
                Some(usual) => usual,
                None => continue,
            };
            is_odd |= !glances.is_as_far(node, other, expected, look_alike)?;
        }
        odd.extend(is_odd.then_some(node));
    }
    Ok(odd)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::Positions;
    use crate::profile::LookAlike;

    /// The positions, and how many glances it took.
    fn found(count: usize, far: impl Fn(usize, usize) -> f64) -> (Option<Positions>, usize) {
        let mut glances = 0;
        let Ok(positions) =
            Positions::find::<Infallible>(&vec![1; count], LookAlike::default(), |one, other| {
                glances += 1;
                Ok(far(one, other))
            });
        (positions, glances)
    }

    /// How many pairs are not as their models are, and how many pairs of models there are.
    fn compared(positions: &Positions, count: usize, far: impl Fn(usize, usize) -> f64) -> (usize, usize) {
        let mut models = std::collections::HashSet::new();
        let mut wrong = 0;
        for (one, other) in (0..count).flat_map(|one| (one + 1..count).map(move |other| (one, other))) {
            let (model, like) = positions.models(one, other);
            assert_ne!(model, like, "{one} and {other}");
            wrong += usize::from(far(model, like) != far(one, other));
            models.insert((model.min(like), model.max(like)));
        }
        (wrong, models.len())
    }

    fn is_right(positions: &Positions, count: usize, far: impl Fn(usize, usize) -> f64) -> usize {
        let (wrong, models) = compared(positions, count, far);
        assert_eq!(wrong, 0);
        models
    }

    #[test]
    fn nodes_of_one_switch_are_all_alike() {
        let (positions, glances) = found(1000, |_, _| 20.0);
        assert!(is_right(&positions.unwrap(), 1000, |_, _| 20.0) <= 7);
        assert!(glances < 12_000, "{glances}");
    }

    #[test]
    fn racks_are_told_apart_however_nodes_are_numbered() {
        for rack in [|node: usize| node / 40, |node: usize| node % 10] {
            let far = move |one: usize, other: usize| if rack(one) == rack(other) { 5.0 } else { 20.0 };
            let (positions, glances) = found(400, far);
            let positions = positions.unwrap();
            let models = is_right(&positions, 400, far);
            assert!(models < 200, "{models}");
            assert!(glances < 400 * 20, "{glances}");
        }
    }

    #[test]
    fn one_slow_node_is_found() {
        let far = |one: usize, other: usize| if one == 77 || other == 77 { 90.0 } else { 20.0 };
        let (positions, _) = found(200, far);
        is_right(&positions.unwrap(), 200, far);
    }

    #[test]
    fn a_ring_has_nothing_to_spare() {
        let far = |one: usize, other: usize| 10.0 * one.abs_diff(other).min(100 - one.abs_diff(other)) as f64;
        assert_eq!(found(100, far).0, None);
        assert!(found(3, |_, _| 1.0).0.is_some() && found(0, |_, _| 1.0).0.is_some());
    }

    #[test]
    fn trees_of_any_depth_are_told_or_given_up() {
        for seed in 0..400 {
            let mut chance = fastrand::Rng::with_seed(seed);
            let count = chance.usize(1..120);
            let places: Vec<(u8, u8)> = (0..count).map(|_| (chance.u8(..3), chance.u8(..3))).collect();
            let far = |one: usize, other: usize| match (places[one], places[other]) {
                (one, other) if one.0 != other.0 => 100.0,
                (one, other) if one.1 != other.1 => 30.0,
                _ => 10.0,
            };
            if let (Some(positions), _) = found(count, far) {
                // Where few are near one another, some pairs of them may be met by no glance.
                let (wrong, _) = compared(&positions, count, far);
                let pairs = count * count.saturating_sub(1) / 2;
                assert!(wrong * 20 <= pairs, "{wrong} of {pairs}, seed {seed}");
            }
        }
    }
}
