//! The machines that are right: what executes, and the paper's circuit.

use svmio_collectives::hardware::{Controller, ControllerStep, Level, Node, NodeStep, settled};

use crate::search::{Between, MOST, NodeMachine};

impl NodeMachine for Node {
    fn come() -> Self {
        Self::come()
    }

    fn next(self) -> NodeStep {
        Self::next(self)
    }

    fn sensed(self, level: Level) -> Self {
        Self::sensed(self, level)
    }

    fn driven(self) -> Self {
        Self::driven(self)
    }
}

/// The controller that senses and drives one line after the other.
impl Between for Controller {
    fn new(nodes: usize) -> Self {
        Self::new(nodes)
    }

    fn steps(
        mut self,
        lines_out: &[Level],
        _lines_in: &[Level],
        next: &mut dyn FnMut(Self, usize, Option<Level>),
    ) {
        match Self::next(&self) {
            ControllerStep::Sense(node) => {
                self.sensed(lines_out[node]);
                next(self, node, None);
            }
            ControllerStep::Drive(node, level) => {
                self.driven();
                next(self, node, Some(level));
            }
        }
    }
}

/// A circuit that sees all lines out and drives all lines in at once, as the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct AllAtOnce {
    level: Level,
}

impl Between for AllAtOnce {
    fn new(_nodes: usize) -> Self {
        Self { level: Level::Low }
    }

    fn steps(
        self,
        lines_out: &[Level],
        _lines_in: &[Level],
        next: &mut dyn FnMut(Self, usize, Option<Level>),
    ) {
        let level = settled(self.level, lines_out.iter().copied());
        next(Self { level }, usize::MAX, Some(level));
    }
}

/// The same with cables: what is driven at one end arrives at the other at any later time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Cables {
    level: Level,
    /// What has arrived of the lines out.
    arrived: [Level; MOST],
}

impl Between for Cables {
    fn new(_nodes: usize) -> Self {
        Self { level: Level::Low, arrived: [Level::Low; MOST] }
    }

    fn steps(
        self,
        lines_out: &[Level],
        lines_in: &[Level],
        next: &mut dyn FnMut(Self, usize, Option<Level>),
    ) {
        let level = settled(self.level, self.arrived[..lines_out.len()].iter().copied());
        next(Self { level, ..self }, 0, None);
        for (node, &line_out) in lines_out.iter().enumerate() {
            let mut arrived = self.arrived;
            arrived[node] = line_out;
            next(Self { arrived, ..self }, node, None);
        }
        for node in 0..lines_in.len() {
            next(self, node, Some(self.level));
        }
    }
}
