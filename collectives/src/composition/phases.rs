//! The two halves of algorithms, as they stand within a composed barrier: arrivals before whatever else there is to
//! wait for, departures after it.

use super::Place;
use crate::algorithm::{Algorithm, AlgorithmError, NodesOf};
use crate::constructors::{self, Steps, transposed};
use crate::partition::Partition;
use crate::rank::Rank;
use crate::schedule::StepDescription;

/// An algorithm's way to let rank 0 know of all, and the way to let them go.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Phases {
    pub(super) arrival: Vec<StepDescription>,
    pub(super) departure: Vec<StepDescription>,
}

impl Phases {
    /// Those of `algorithm` among so many ranks. Where all know of all, nobody needs to be let go, unless there is more
    /// to wait for.
    pub(super) fn of(algorithm: &Algorithm, ranks: u32, place: Place) -> Result<Phases, AlgorithmError> {
        Ok(match *algorithm {
            Algorithm::Linear => Phases::there_and_back(constructors::linear(ranks)),
            Algorithm::Tree { arity } => Phases::there_and_back(constructors::tree(ranks, arity)),
            Algorithm::Hsb { fan_in, fan_out } => Phases::of_signals(
                constructors::fan_in(ranks, fan_in),
                transposed(&constructors::fan_in(ranks, fan_out)),
            ),
            // Who comes last at a word goes on, and it need not be the one who is waited for further on: there, what
            // is left of this algorithm is its shape, in by fours and out at once.
            Algorithm::X1Tree if place == Place::Within => {
                Phases::of_signals(constructors::tree(ranks, 4), transposed(&constructors::linear(ranks)))
            }
            Algorithm::X1Tree
            | Algorithm::Dissemination
            | Algorithm::Exchange { .. }
            | Algorithm::NaryDissemination { .. } => {
                let arrival = algorithm.schedule(ranks)?.descriptions();
                match place {
                    Place::Outermost => Phases { arrival, departure: Vec::new() },
                    Place::Within => {
                        Phases::there_and_back(arrival.into_iter().map(|step| step.signals).collect())
                    }
                }
            }
            Algorithm::TwoLevel { ref nodes, ref masters } => {
                let partition = match *nodes {
                    // As for a schedule by itself.
                    NodesOf::Machine => Partition::blocks(ranks, 1),
                    NodesOf::Blocks(size) => Partition::blocks(ranks, size.get()),
                };
                let between = Phases::of(masters, partition.nodes().len() as u32, place)?;
                let masters: Vec<Rank> = partition.masters().collect();
                let between = between.renumbered(&masters);
                let check_in = constructors::check_in(&partition);
                let check_out = transposed(&check_in);
                let mut phases = Phases::of_signals(check_in, Steps::new());
                phases.arrival.extend(between.arrival);
                phases.departure = between.departure;
                phases.departure.extend(check_out.into_iter().map(StepDescription::from));
                phases
            }
        })
    }

    /// With the rank `ranks[i]` in the place of rank `i`.
    pub(super) fn renumbered(mut self, ranks: &[Rank]) -> Phases {
        for step in self.arrival.iter_mut().chain(&mut self.departure) {
            for signal in &mut step.signals {
                *signal = constructors::renumbered(*signal, ranks);
            }
        }
        self
    }

    /// These, with `inner` between arrivals and departures.
    pub(super) fn around(&self, inner: Phases) -> Phases {
        Phases {
            arrival: [self.arrival.clone(), inner.arrival].concat(),
            departure: [inner.departure, self.departure.clone()].concat(),
        }
    }

    /// All steps, when nothing is in between.
    pub(super) fn steps(&self) -> impl Iterator<Item = StepDescription> + '_ {
        self.arrival.iter().chain(&self.departure).cloned()
    }

    fn there_and_back(arrival: Steps) -> Phases {
        let departure = transposed(&arrival);
        Phases::of_signals(arrival, departure)
    }

    fn of_signals(arrival: Steps, departure: Steps) -> Phases {
        let described = |steps: Steps| steps.into_iter().map(StepDescription::from).collect();
        Phases { arrival: described(arrival), departure: described(departure) }
    }
}
