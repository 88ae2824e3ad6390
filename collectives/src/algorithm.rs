//! The barrier algorithms by name and parameters.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::constructors::{self, Steps};
use crate::partition::Partition;
use crate::schedule::{Schedule, ScheduleError, StepDescription};

/// A barrier algorithm, with its parameters; as text as in `tree:4`, which is how users name it.
///
/// Parameters that are larger than the number of ranks mean the number of ranks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Algorithm {
    /// `linear`: all tell rank 0, and rank 0 tells all.
    Linear,
    /// `tree:4`: groups of neighbours tell the first of them, level by level, and back; `tree` is the binary one.
    Tree {
        /// How large the groups are: at least 2.
        arity: u32,
    },
    /// `dissemination`: in step *i* each rank tells the one 2ⁱ further.
    Dissemination,
    /// `hsb:3,8`: the hierarchical shared-memory barrier; a tree for arrivals, another for departures. `hsb:3` is
    /// `hsb:3,3`, and `hsb` has all ranks in one level.
    Hsb {
        /// How many tell one, on the way in: at least 1.
        fan_in: u32,
        /// How many are told by one, on the way out: at least 1.
        fan_out: u32,
    },
    /// `nx:6`: *n*-ary exchange, mode 1; `nx` has all ranks in one group.
    Exchange {
        /// How many ranks tell one another in a step: at least 2.
        group: u32,
    },
    /// `nx2:6`: *n*-ary exchange, mode 2, which is *n*-ary dissemination; `nx2` tells all others in one step.
    NaryDissemination {
        /// One more than the ranks that each tells in a step: at least 2.
        radix: u32,
    },
    /// `x1tree`: the four-way tree of the Cray X1, with fetch-add and one scatter.
    X1Tree,
    /// `two-level:8:nx:6`: check-in within each node, then the other algorithm between the nodes' masters, then
    /// check-out. `two-level:nx:6` takes the nodes as they are, `two-level:8:nx:6` any eight consecutive ranks as one.
    TwoLevel {
        /// What counts as a node.
        nodes: NodesOf,
        /// What the masters do; not a two-level form itself.
        masters: Box<Algorithm>,
    },
}

/// What a two-level algorithm takes for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodesOf {
    /// The nodes on which the ranks are.
    Machine,
    /// So many consecutive ranks.
    Blocks(NonZeroU32),
}

/// What stands for "as many as there are ranks".
const ALL: u32 = u32::MAX;

impl Algorithm {
    /// The schedule for so many ranks. Each rank counts as a node of its own: what takes the machine's nodes into
    /// account is better given them by [`schedule_on`](Self::schedule_on).
    ///
    /// # Errors
    /// [`AlgorithmError::Ranks`] where there is no rank, [`AlgorithmError::TooManySignals`] where the schedule would not
    /// fit into memory, as for a hundred thousand ranks each of which tells each, or for hundreds of millions at all.
    pub fn schedule(&self, ranks: u32) -> Result<Schedule, AlgorithmError> {
        // Before as many nodes are made.
        self.check(ranks, ranks)?;
        self.schedule_on(&Partition::blocks(ranks, 1))
    }

    /// The schedule for the ranks of these nodes.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    pub fn schedule_on(&self, partition: &Partition) -> Result<Schedule, AlgorithmError> {
        self.check_on(partition)?;
        let steps = match self {
            Self::TwoLevel { nodes, masters } => {
                let blocks;
                let partition = match nodes {
                    NodesOf::Machine => partition,
                    NodesOf::Blocks(size) => {
                        blocks = Partition::blocks(partition.ranks(), size.get());
                        &blocks
                    }
                };
                constructors::two_level(partition, masters.steps(partition.nodes().len() as u32)?)
            }
            flat => flat.steps(partition.ranks())?,
        };
        Ok(Schedule::new(partition.ranks(), steps)?)
    }

    /// Whether the schedule for the ranks of these nodes is one that can be made, which is known before it is.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    pub fn check_on(&self, partition: &Partition) -> Result<(), AlgorithmError> {
        self.check(partition.ranks(), partition.nodes().len() as u32)
    }

    /// The steps of an algorithm of one level, for ranks from 0.
    fn steps(&self, ranks: u32) -> Result<Vec<StepDescription>, AlgorithmError> {
        let there_and_back = |arrival: Steps| {
            let departure = constructors::transposed(&arrival);
            [arrival, departure].concat()
        };
        let steps = match *self {
            Self::Linear => there_and_back(constructors::linear(ranks)),
            Self::Tree { arity } => there_and_back(constructors::tree(ranks, arity)),
            Self::Dissemination => constructors::dissemination(ranks, 2),
            Self::Hsb { fan_in, fan_out } => {
                let departure = constructors::transposed(&constructors::fan_in(ranks, fan_out));
                [constructors::fan_in(ranks, fan_in), departure].concat()
            }
            Self::Exchange { group } => constructors::exchange(ranks, group),
            Self::NaryDissemination { radix } => constructors::dissemination(ranks, radix),
            Self::X1Tree => return Ok(constructors::x1_tree(ranks)),
            Self::TwoLevel { .. } => return Err(AlgorithmError::Nested),
        };
        Ok(steps.into_iter().map(StepDescription::from).collect())
    }

    fn check(&self, ranks: u32, nodes: u32) -> Result<(), AlgorithmError> {
        // So many take some gigabytes.
        const MOST: u64 = 1 << 27;
        if ranks == 0 {
            return Err(AlgorithmError::Ranks);
        }
        if self.signals_about(ranks, nodes) > MOST {
            return Err(AlgorithmError::TooManySignals { algorithm: self.to_string(), ranks });
        }
        Ok(())
    }

    /// How many signals there are between so many ranks on so many nodes, roughly.
    fn signals_about(&self, ranks: u32, nodes: u32) -> u64 {
        let in_groups = |width: u32| {
            let width = width.clamp(2, ranks.max(2));
            u64::from(ranks) * u64::from(width - 1) * u64::from(ranks.max(1).ilog(width).max(1))
        };
        // Each of the others tells somebody, and is told.
        let there_and_back = |others: u32| 2 * u64::from(others);
        match self {
            Self::Linear | Self::Tree { .. } | Self::Hsb { .. } | Self::X1Tree => {
                there_and_back(ranks.saturating_sub(1))
            }
            Self::Dissemination => in_groups(2),
            Self::Exchange { group: width } | Self::NaryDissemination { radix: width } => in_groups(*width),
            Self::TwoLevel { nodes: of, masters } => {
                let nodes = match of {
                    NodesOf::Machine => nodes,
                    NodesOf::Blocks(size) => ranks.div_ceil(size.get()),
                };
                there_and_back(ranks - nodes) + masters.signals_about(nodes, nodes)
            }
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linear => formatter.write_str("linear"),
            Self::Tree { arity } => write!(formatter, "tree:{arity}"),
            Self::Dissemination => formatter.write_str("dissemination"),
            Self::Hsb { fan_in: ALL, fan_out: ALL } => formatter.write_str("hsb"),
            Self::Hsb { fan_in, fan_out } => write!(formatter, "hsb:{fan_in},{fan_out}"),
            Self::Exchange { group: ALL } => formatter.write_str("nx"),
            Self::Exchange { group } => write!(formatter, "nx:{group}"),
            Self::NaryDissemination { radix: ALL } => formatter.write_str("nx2"),
            Self::NaryDissemination { radix } => write!(formatter, "nx2:{radix}"),
            Self::X1Tree => formatter.write_str("x1tree"),
            Self::TwoLevel { nodes: NodesOf::Machine, masters } => write!(formatter, "two-level:{masters}"),
            Self::TwoLevel { nodes: NodesOf::Blocks(size), masters } => {
                write!(formatter, "two-level:{size}:{masters}")
            }
        }
    }
}

impl FromStr for Algorithm {
    type Err = AlgorithmError;

    fn from_str(text: &str) -> Result<Self, AlgorithmError> {
        let unknown = || AlgorithmError::Unknown { text: text.to_owned() };
        let (name, rest) = match text.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        let number = |text: &str, least: u32| {
            let number = text.parse().ok().filter(|&number: &u32| number >= least);
            number.ok_or_else(|| AlgorithmError::Parameter { text: text.to_owned(), least })
        };
        let one = |least, default| rest.map_or(Ok(default), |rest| number(rest, least));
        Ok(match name {
            "linear" if rest.is_none() => Self::Linear,
            "dissemination" if rest.is_none() => Self::Dissemination,
            "x1tree" if rest.is_none() => Self::X1Tree,
            "tree" => Self::Tree { arity: one(2, 2)? },
            "nx" => Self::Exchange { group: one(2, ALL)? },
            "nx2" => Self::NaryDissemination { radix: one(2, ALL)? },
            "hsb" => {
                let (fan_in, fan_out) = rest.map_or((None, None), |rest| match rest.split_once(',') {
                    Some((fan_in, fan_out)) => (Some(fan_in), Some(fan_out)),
                    None => (Some(rest), Some(rest)),
                });
                let fan = |text: Option<&str>| text.map_or(Ok(ALL), |text| number(text, 1));
                Self::Hsb { fan_in: fan(fan_in)?, fan_out: fan(fan_out)? }
            }
            "two-level" => {
                let rest = rest.ok_or_else(unknown)?;
                let (nodes, masters) = match rest.split_once(':') {
                    Some((size, masters)) if size.starts_with(|first: char| first.is_ascii_digit()) => {
                        let size = NonZeroU32::new(number(size, 1)?).ok_or_else(unknown)?;
                        (NodesOf::Blocks(size), masters)
                    }
                    _ => (NodesOf::Machine, rest),
                };
                let masters: Box<Self> = Box::new(masters.parse()?);
                if matches!(*masters, Self::TwoLevel { .. }) {
                    return Err(AlgorithmError::Nested);
                }
                Self::TwoLevel { nodes, masters }
            }
            _ => return Err(unknown()),
        })
    }
}

impl TryFrom<String> for Algorithm {
    type Error = AlgorithmError;

    fn try_from(text: String) -> Result<Self, AlgorithmError> {
        text.parse()
    }
}

impl From<Algorithm> for String {
    fn from(algorithm: Algorithm) -> Self {
        algorithm.to_string()
    }
}

/// Why there is no such algorithm, or no schedule of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AlgorithmError {
    /// A name that nothing has.
    #[error(
        "no barrier algorithm is called {text:?}; there are linear, tree:K, dissemination, hsb:IN,OUT, nx:N, nx2:N, \
         x1tree and two-level:[RANKS:]ALGORITHM"
    )]
    Unknown {
        /// What was asked for.
        text: String,
    },
    /// A parameter that is not a number or too small.
    #[error("{text:?} is not a number from {least} up")]
    Parameter {
        /// What was given.
        text: String,
        /// What is the least that makes sense.
        least: u32,
    },
    /// Two levels within two levels.
    #[error("what the masters of a two-level barrier do cannot have two levels itself")]
    Nested,
    /// A group without ranks.
    #[error("a barrier needs at least one rank")]
    Ranks,
    /// Too large for memory.
    #[error(
        "{algorithm} for {ranks} ranks has too many signals; a smaller parameter or fewer ranks have fewer"
    )]
    TooManySignals {
        /// Which algorithm.
        algorithm: String,
        /// For how many ranks.
        ranks: u32,
    },
    /// The steps fit together into no schedule.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

#[cfg(test)]
mod tests {
    use super::{Algorithm, AlgorithmError};
    use crate::partition::Partition;

    #[test]
    fn an_algorithm_is_named_as_users_write_it() {
        for text in [
            "linear",
            "tree:2",
            "tree:4",
            "dissemination",
            "hsb",
            "hsb:3,8",
            "nx",
            "nx:6",
            "nx2",
            "nx2:6",
            "x1tree",
            "two-level:nx:6",
            "two-level:8:hsb:3,3",
            "two-level:linear",
            "two-level:4:x1tree",
        ] {
            assert_eq!(text.parse::<Algorithm>().unwrap().to_string(), text);
        }
        for (short, long) in [("tree", "tree:2"), ("hsb:3", "hsb:3,3")] {
            assert_eq!(short.parse::<Algorithm>().unwrap().to_string(), long);
        }
    }

    #[test]
    fn what_no_algorithm_is_called_is_refused() {
        for text in
            ["", "ring", "linear:3", "x1tree:4", "two-level", "two-level:8", "two-level:8:ring", "Tree"]
        {
            assert!(matches!(text.parse::<Algorithm>(), Err(AlgorithmError::Unknown { .. })), "{text}");
        }
        for text in ["tree:1", "tree:x", "nx:", "nx2:1", "hsb:0,3", "hsb:3,", "hsb:-1", "two-level:0:linear"]
        {
            assert!(matches!(text.parse::<Algorithm>(), Err(AlgorithmError::Parameter { .. })), "{text}");
        }
        assert_eq!("two-level:two-level:linear".parse::<Algorithm>(), Err(AlgorithmError::Nested));
    }

    #[test]
    fn what_cannot_be_is_refused_in_good_time() {
        assert_eq!(Algorithm::Linear.schedule(0), Err(AlgorithmError::Ranks));
        let all: Algorithm = "nx2".parse().unwrap();
        assert!(matches!(all.schedule(100_000), Err(AlgorithmError::TooManySignals { .. })));
        assert!(all.schedule(1000).is_ok());
        for text in
            ["linear", "tree:4", "dissemination", "hsb", "nx:2", "nx2:2", "x1tree", "two-level:16:nx2:2"]
        {
            let refused = text.parse::<Algorithm>().unwrap().schedule(u32::MAX);
            assert!(matches!(refused, Err(AlgorithmError::TooManySignals { .. })), "{text}");
        }
        let masters: Algorithm = "two-level:nx2".parse().unwrap();
        assert!(masters.schedule_on(&Partition::blocks(100_000, 1000)).is_ok());
        assert!(masters.schedule_on(&Partition::blocks(100_000, 1)).is_err());
    }
}
