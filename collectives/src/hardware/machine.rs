//! The machine: what a node does, and what the controller does, step by step.
//!
//! A step senses one line or drives one, and that is all that happens at once. So these are what executes and also what
//! a search through all interleavings can look at.

use std::ops::Not;

/// What a line carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Level {
    /// 0: what all lines carry at first.
    #[default]
    Low,
    /// 1.
    High,
}

impl Not for Level {
    type Output = Self;

    #[inline]
    fn not(self) -> Self {
        match self {
            Self::Low => Self::High,
            Self::High => Self::Low,
        }
    }
}

impl From<bool> for Level {
    #[inline]
    fn from(is_high: bool) -> Self {
        if is_high { Self::High } else { Self::Low }
    }
}

impl From<Level> for bool {
    #[inline]
    fn from(level: Level) -> Self {
        level == Level::High
    }
}

/// What a node does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeStep {
    /// Senses its line in.
    Sense,
    /// Drives its line out.
    Drive(Level),
    /// Leaves the barrier.
    Leave,
}

/// A node in a barrier: it senses its line in, drives its line out to the other level, and waits until its line in has
/// that level, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Stage {
    /// Has come.
    Come,
    /// Knows what it has to drive.
    Toggling(Level),
    /// Has driven it, and waits.
    Waiting(Level),
    /// May go.
    Released,
}

impl Node {
    /// One that has come to a barrier.
    #[inline]
    #[must_use]
    pub const fn come() -> Self {
        Self { stage: Stage::Come }
    }

    /// What it does next.
    #[inline]
    #[must_use]
    pub const fn next(self) -> NodeStep {
        match self.stage {
            Stage::Come | Stage::Waiting(_) => NodeStep::Sense,
            Stage::Toggling(level) => NodeStep::Drive(level),
            Stage::Released => NodeStep::Leave,
        }
    }

    /// The level that it waits for, once it has driven its line to it.
    #[inline]
    #[must_use]
    pub const fn awaited(self) -> Option<Level> {
        match self.stage {
            Stage::Waiting(level) => Some(level),
            _ => None,
        }
    }

    /// It sensed this level.
    #[inline]
    #[must_use]
    pub fn sensed(self, level: Level) -> Self {
        let stage = match self.stage {
            Stage::Come => Stage::Toggling(!level),
            Stage::Waiting(awaited) if awaited == level => Stage::Released,
            stage => stage,
        };
        Self { stage }
    }

    /// It drove its line.
    #[inline]
    #[must_use]
    pub fn driven(self) -> Self {
        match self.stage {
            Stage::Toggling(level) => Self { stage: Stage::Waiting(level) },
            _ => self,
        }
    }
}

/// What the controller does next. Nodes count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ControllerStep {
    /// Senses the line out of a node.
    Sense(usize),
    /// Drives the line in of a node.
    Drive(usize, Level),
}

/// The controller of one circuit, one line at a time, as a processor does it.
///
/// It goes through the lines out until it has found each at the other level, and waits at one that is not: a node that
/// has toggled its line leaves it so until its line in has toggled, so none needs to be looked at twice. Then it
/// changes over, and drives all lines in. A node whose line is driven early may come to the next barrier before the
/// last line is driven; that is no matter, as the controller looks at lines out only afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Controller {
    nodes: usize,
    level: Level,
    at: usize,
    drives: bool,
}

impl Controller {
    /// One with that many nodes, at least one; all lines are low.
    #[must_use]
    pub const fn new(nodes: usize) -> Self {
        Self { nodes, level: Level::Low, at: 0, drives: false }
    }

    /// Its state: the level that it drives all lines in to.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }

    /// What it does next.
    #[inline]
    #[must_use]
    pub const fn next(&self) -> ControllerStep {
        if self.drives { ControllerStep::Drive(self.at, self.level) } else { ControllerStep::Sense(self.at) }
    }

    /// It sensed this level at the line out that it was at.
    #[inline]
    pub fn sensed(&mut self, level: Level) {
        if level != self.level && self.goes_on() {
            self.level = level;
            self.drives = true;
        }
    }

    /// It drove the line in that it was at.
    #[inline]
    pub fn driven(&mut self) {
        if self.goes_on() {
            self.drives = false;
        }
    }

    /// To the next node; tells whether that was the last one.
    #[inline]
    fn goes_on(&mut self) -> bool {
        self.at += 1;
        let is_last = self.at >= self.nodes;
        if is_last {
            self.at = 0;
        }
        is_last
    }
}

/// The state that follows where all lines out are looked at at once, as the paper's circuit does: from low to high by
/// the conjunction of all lines, from high to low by their disjunction.
#[must_use]
pub fn settled(level: Level, mut lines_out: impl Iterator<Item = Level>) -> Level {
    match level {
        Level::Low => lines_out.all(bool::from).into(),
        Level::High => lines_out.any(bool::from).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Controller, ControllerStep, Level, Node, NodeStep, settled};

    #[test]
    fn a_node_goes_by_what_it_senses_first() {
        for level in [Level::Low, Level::High] {
            let node = Node::come();
            assert_eq!(node.next(), NodeStep::Sense);
            let node = node.sensed(level);
            assert_eq!(node.next(), NodeStep::Drive(!level));
            let node = node.driven();
            assert_eq!((node.next(), node.sensed(level)), (NodeStep::Sense, node));
            assert_eq!(node.sensed(!level).next(), NodeStep::Leave);
        }
    }

    #[test]
    fn the_controller_changes_over_when_it_has_seen_all_lines() {
        let mut controller = Controller::new(2);
        for level in [Level::High, Level::Low, Level::High] {
            controller.sensed(level);
            assert_eq!(controller.next(), ControllerStep::Sense(1));
            controller.sensed(!level);
            assert_eq!(controller.next(), ControllerStep::Sense(1));
            controller.sensed(level);
            assert_eq!(controller.next(), ControllerStep::Drive(0, level));
            controller.driven();
            assert_eq!(controller.next(), ControllerStep::Drive(1, level));
            controller.driven();
        }
    }

    #[test]
    fn all_at_once_it_is_and_one_way_and_or_the_other() {
        let lines = |bits: u32| (0..3).map(move |line| Level::from(bits >> line & 1 == 1));
        for bits in 0..8 {
            assert_eq!(settled(Level::Low, lines(bits)), Level::from(bits == 7));
            assert_eq!(settled(Level::High, lines(bits)), Level::from(bits != 0));
        }
    }
}
