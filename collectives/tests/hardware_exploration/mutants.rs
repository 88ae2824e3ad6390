//! Machines with a mistake in them.

use svmio_collectives::hardware::{Level, Node, NodeStep};

use crate::search::{Between, MOST, NodeMachine};

/// A list of what a node does, one after the other; sensing waits for a level, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Await(Level),
    Drive(Level),
    Leave,
}

macro_rules! scripted {
    ($(#[$doc:meta])* $name:ident: $($deed:expr),*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) struct $name(usize);

        impl $name {
            const DEEDS: &'static [Deed] = &[$($deed,)* Deed::Leave];
        }

        impl NodeMachine for $name {
            fn come() -> Self {
                Self(0)
            }

            fn next(self) -> NodeStep {
                match Self::DEEDS[self.0] {
                    Deed::Await(_) => NodeStep::Sense,
                    Deed::Drive(level) => NodeStep::Drive(level),
                    Deed::Leave => NodeStep::Leave,
                }
            }

            fn sensed(self, level: Level) -> Self {
                if Self::DEEDS[self.0] == Deed::Await(level) { Self(self.0 + 1) } else { self }
            }

            fn driven(self) -> Self {
                Self(self.0 + 1)
            }
        }
    };
}

scripted! {
    /// Has one state instead of two: goes back to low at the end, and waits for nobody there.
    OneState: Deed::Drive(Level::High), Deed::Await(Level::High), Deed::Drive(Level::Low)
}

scripted! {
    /// Never goes back to low.
    StaysHigh: Deed::Drive(Level::High), Deed::Await(Level::High)
}

/// Drives what it has sensed instead of the opposite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NeverToggles(Node);

impl NodeMachine for NeverToggles {
    fn come() -> Self {
        Self(Node::come())
    }

    fn next(self) -> NodeStep {
        self.0.next()
    }

    fn sensed(self, level: Level) -> Self {
        let is_first = self.0.awaited().is_none();
        Self(self.0.sensed(if is_first { !level } else { level }))
    }

    fn driven(self) -> Self {
        Self(self.0.driven())
    }
}

/// Waits for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Hasty(Node);

impl NodeMachine for Hasty {
    fn come() -> Self {
        Self(Node::come())
    }

    fn next(self) -> NodeStep {
        self.0.next()
    }

    fn sensed(self, level: Level) -> Self {
        Self(self.0.sensed(level))
    }

    fn driven(self) -> Self {
        let driven = self.0.driven();
        Self(driven.awaited().map_or(driven, |awaited| driven.sensed(awaited)))
    }
}

/// Controllers that see all lines at once and drive one after the other, with a rule for when to change over.
macro_rules! ruled {
    ($(#[$doc:meta])* $name:ident: $rule:expr, $driven:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) struct $name {
            level: Level,
            at: usize,
        }

        impl Between for $name {
            fn new(nodes: usize) -> Self {
                Self { level: Level::Low, at: nodes }
            }

            fn steps(
                self,
                lines_out: &[Level],
                _lines_in: &[Level],
                next: &mut dyn FnMut(Self, usize, Option<Level>),
            ) {
                let rule: fn(Level, &[Level]) -> Level = $rule;
                let driven: fn(usize) -> usize = $driven;
                assert!(lines_out.len() <= MOST);
                if self.at < driven(lines_out.len()) {
                    return next(Self { at: self.at + 1, ..self }, self.at, Some(self.level));
                }
                let level = rule(self.level, lines_out);
                let at = if level == self.level { self.at } else { 0 };
                next(Self { level, at }, 0, None);
            }
        }
    };
}

ruled! {
    /// Changes over when the first line does.
    FirstReleasesAll:
    |level, lines| if lines.iter().any(|&line| line != level) { !level } else { level },
    |nodes| nodes
}

ruled! {
    /// Does not look at the first line.
    DeafToTheFirst:
    |level, lines| if lines[1..].iter().all(|&line| line != level) { !level } else { level },
    |nodes| nodes
}

ruled! {
    /// Does not drive the last line.
    ForgetsTheLast:
    |level, lines| if lines.iter().all(|&line| line != level) { !level } else { level },
    |nodes| nodes - 1
}

ruled! {
    /// Goes back to low as soon as one line does.
    ResetsEarly:
    |_, lines| Level::from(lines.iter().all(|&line| line == Level::High)),
    |nodes| nodes
}
