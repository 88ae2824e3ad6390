//! The search: all states that can be reached, and what can be reached from each.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

use svmio_collectives::hardware::{Level, NodeStep};

/// Nodes at most.
pub(crate) const MOST: usize = 5;

/// More states than any of these machines has.
const LIMIT: usize = 4_000_000;

/// A node, as a machine.
pub(crate) trait NodeMachine: Copy + Eq + Hash + Debug {
    /// One that has come to a barrier.
    fn come() -> Self;
    fn next(self) -> NodeStep;
    fn sensed(self, level: Level) -> Self;
    fn driven(self) -> Self;
}

/// What lies between the nodes: a controller, and how levels get to and fro.
pub(crate) trait Between: Copy + Eq + Hash + Debug {
    fn new(nodes: usize) -> Self;
    /// What one step of it may make of itself and of the lines in.
    fn steps(self, lines_out: &[Level], lines_in: &[Level], next: &mut dyn FnMut(Self, usize, Option<Level>));
}

/// What is wrong with a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A node has left a barrier that another one has not come to.
    ReleasedEarly,
    /// There is a state from which some node never leaves a barrier again, whatever happens.
    Stuck,
    /// There is no end of states.
    Unbounded,
}

/// What a search has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) states: usize,
    /// How many more barriers a node has left than another one.
    pub(crate) furthest_ahead: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Place<N> {
    /// What it does in a barrier; none where it is in none.
    machine: Option<N>,
    line_out: Level,
    line_in: Level,
    /// To how many barriers it has come, and how many it has left; both less those that all have left.
    come: u8,
    left: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct World<N, B> {
    nodes: usize,
    places: [Place<N>; MOST],
    between: B,
}

impl<N: NodeMachine, B: Between> World<N, B> {
    fn new(nodes: usize) -> Self {
        let place = Place { machine: None, line_out: Level::Low, line_in: Level::Low, come: 0, left: 0 };
        Self { nodes, places: [place; MOST], between: B::new(nodes) }
    }

    /// Counts less what all have left, so that states are the same that differ in nothing else.
    fn normalised(mut self) -> Self {
        let least = self.places[..self.nodes].iter().map(|place| place.left).min().unwrap_or(0);
        for place in &mut self.places[..self.nodes] {
            place.come -= least;
            place.left -= least;
        }
        self
    }

    /// The states that follow by a step of a node; with it, whether it leaves a barrier.
    fn after_node(mut self, number: usize) -> Result<(Self, bool), Fault> {
        let place = &mut self.places[number];
        let Some(machine) = place.machine else {
            place.machine = Some(N::come());
            place.come += 1;
            return Ok((self, false));
        };
        match machine.next() {
            NodeStep::Sense => place.machine = Some(machine.sensed(place.line_in)),
            NodeStep::Drive(level) => {
                place.line_out = level;
                place.machine = Some(machine.driven());
            }
            NodeStep::Leave => {
                place.machine = None;
                place.left += 1;
                let left = place.left;
                if self.places[..self.nodes].iter().any(|other| other.come < left) {
                    return Err(Fault::ReleasedEarly);
                }
                return Ok((self.normalised(), true));
            }
        }
        Ok((self, false))
    }

    fn after_between(self, mut found: impl FnMut(Self)) {
        let lines_out = self.places.map(|place| place.line_out);
        let lines_in = self.places.map(|place| place.line_in);
        self.between.steps(&lines_out[..self.nodes], &lines_in[..self.nodes], &mut |between, node, level| {
            let mut next = self;
            next.between = between;
            if let Some(level) = level {
                if node == usize::MAX {
                    next.places[..self.nodes].iter_mut().for_each(|place| place.line_in = level);
                } else {
                    next.places[node].line_in = level;
                }
            }
            found(next);
        });
    }
}

/// Goes through all states of so many nodes.
pub(crate) fn explore<N: NodeMachine, B: Between>(nodes: usize) -> Result<Report, Fault> {
    let first = World::<N, B>::new(nodes);
    let mut numbers = HashMap::from([(first, 0_u32)]);
    let mut worlds = vec![first];
    // By which step one state follows another: from, to, and which node has left a barrier.
    let mut steps: Vec<(u32, u32, Option<u8>)> = Vec::new();
    let mut furthest_ahead = 0;
    let mut at = 0;
    while at < worlds.len() {
        let world = worlds[at];
        let mut reach = |next: World<N, B>, left: Option<u8>| {
            if next == world {
                return;
            }
            let number = *numbers.entry(next).or_insert_with(|| {
                worlds.push(next);
                worlds.len() as u32 - 1
            });
            steps.push((at as u32, number, left));
        };
        for node in 0..nodes {
            let (next, has_left) = world.after_node(node)?;
            reach(next, has_left.then_some(node as u8));
        }
        world.after_between(|next| reach(next, None));
        let ahead = world.places[..nodes].iter().map(|place| place.left).max().unwrap_or(0);
        furthest_ahead = furthest_ahead.max(ahead);
        if worlds.len() > LIMIT {
            return Err(Fault::Unbounded);
        }
        at += 1;
    }
    let states = worlds.len();
    (0..nodes as u8).try_for_each(|node| always_leaves_again(node, states, &steps))?;
    Ok(Report { states, furthest_ahead })
}

/// That from each state there is a way to one from which a node leaves a barrier. As there are finitely many states, it
/// then does leave, again and again, wherever no step that is possible again and again is left out for ever.
fn always_leaves_again(node: u8, states: usize, steps: &[(u32, u32, Option<u8>)]) -> Result<(), Fault> {
    let mut begins = vec![0_u32; states + 1];
    steps.iter().for_each(|&(_, to, _)| begins[to as usize + 1] += 1);
    (0..states).for_each(|state| begins[state + 1] += begins[state]);
    let (mut from, mut end) = (vec![0; steps.len()], begins.clone());
    for &(one, to, _) in steps {
        from[end[to as usize] as usize] = one;
        end[to as usize] += 1;
    }
    let mut can_leave = vec![false; states];
    let mut open: Vec<u32> =
        steps.iter().filter(|(_, _, left)| *left == Some(node)).map(|(from, _, _)| *from).collect();
    while let Some(state) = open.pop() {
        let state = state as usize;
        if !std::mem::replace(&mut can_leave[state], true) {
            open.extend_from_slice(&from[begins[state] as usize..begins[state + 1] as usize]);
        }
    }
    if can_leave.iter().all(|&can| can) { Ok(()) } else { Err(Fault::Stuck) }
}
