//! The schedules of the barrier algorithms. Each function gives steps for ranks from 0; none for one rank.
//!
//! Meyer is J. C. Meyer and A. C. Elster, "Optimized Barriers for Heterogeneous Systems Using MPI"; Bierbaum is B.
//! Bierbaum, G. Wassen, S. Lankes and T. Bemmerl, "Evaluation of Optimized Barrier Algorithms for SCI Networks with
//! Different MPI Implementations"; X1 is the paper on MPI on the Cray X1.

mod exchange;
mod hierarchical;
mod two_level;
mod x1_tree;

pub(crate) use self::exchange::{dissemination, exchange};
pub(crate) use self::hierarchical::{fan_in, linear, tree};
pub(crate) use self::two_level::{check_in, two_level};
pub(crate) use self::x1_tree::x1_tree;

use crate::rank::Rank;
use crate::schedule::Signal;

/// The signals of the steps, in order.
pub(crate) type Steps = Vec<Vec<Signal>>;

/// The departure that belongs to an arrival: the same signals backwards, last step first (Meyer, section V.B).
pub(crate) fn transposed(arrival: &[Vec<Signal>]) -> Steps {
    arrival.iter().rev().map(|step| step.iter().map(|signal| signal.reversed()).collect()).collect()
}

/// The signal between those who have the places of its ranks.
pub(crate) fn renumbered(signal: Signal, ranks: &[Rank]) -> Signal {
    Signal { from: ranks[signal.from.index()], to: ranks[signal.to.index()] }
}
