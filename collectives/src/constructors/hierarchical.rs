//! Algorithms with a root: all arrivals are told to rank 0, which lets all depart.

use crate::constructors::Steps;
use crate::schedule::Signal;

/// The way of arrivals to rank 0; departures go the same way back.
pub(crate) type Arrival = Steps;

/// Everyone tells rank 0 (Meyer, figure 2).
pub(crate) fn linear(ranks: u32) -> Arrival {
    if ranks < 2 {
        return Vec::new();
    }
    vec![(1..ranks).map(|rank| Signal::new(rank, 0)).collect()]
}

/// In each step, groups of `arity` neighbours that are left tell the first of them, who goes on (Meyer, figure 4, where
/// the arity is two): ⌈log ranks⌉ steps.
pub(crate) fn tree(ranks: u32, arity: u32) -> Arrival {
    let arity = u64::from(arity.max(2));
    let ranks = u64::from(ranks);
    let strides = std::iter::successors(Some(1), |stride| Some(stride * arity));
    let step = |stride: u64| {
        let left = (0..ranks).step_by(stride as usize).filter(|rank| rank % (stride * arity) != 0);
        left.map(|rank| Signal::new(rank as u32, (rank - rank % (stride * arity)) as u32)).collect()
    };
    strides.take_while(|&stride| stride < ranks).map(step).collect()
}

/// The tree of `hsb`: below rank `r` are `fan` ranks from `fan * r + 1` on (Bierbaum, section 4.2, figure 3). Each rank
/// tells the one above when all below have told it, a rank with none below at once.
pub(crate) fn fan_in(ranks: u32, fan: u32) -> Arrival {
    let fan = fan.max(1);
    let mut heights = vec![0_u32; ranks as usize];
    // Those below have larger numbers, so that their heights are known.
    for rank in (1..ranks).rev() {
        let above = ((rank - 1) / fan) as usize;
        heights[above] = heights[above].max(heights[rank as usize] + 1);
    }
    let mut steps = vec![Vec::new(); heights.first().map_or(0, |&height| height as usize)];
    for rank in 1..ranks {
        steps[heights[rank as usize] as usize].push(Signal::new(rank, (rank - 1) / fan));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::{fan_in, linear, tree};
    use crate::schedule::Signal;

    fn pairs(steps: &[Vec<Signal>]) -> Vec<Vec<(u32, u32)>> {
        steps.iter().map(|step| step.iter().map(|signal| (signal.from.0, signal.to.0)).collect()).collect()
    }

    #[test]
    fn arrivals_are_those_of_the_papers_figures() {
        assert_eq!(pairs(&linear(4)), [[(1, 0), (2, 0), (3, 0)]]);
        assert_eq!(pairs(&tree(4, 2)), [vec![(1, 0), (3, 2)], vec![(2, 0)]]);
        // Seven nodes and a ternary tree; 2 and 3 have nobody below.
        assert_eq!(pairs(&fan_in(7, 3)), [vec![(2, 0), (3, 0), (4, 1), (5, 1), (6, 1)], vec![(1, 0)]]);
    }

    #[test]
    fn a_tree_is_as_high_as_it_must_be() {
        for (ranks, arity, height) in
            [(1, 2, 0), (2, 2, 1), (5, 2, 3), (64, 4, 3), (65, 4, 4), (9, 8, 2), (8, 8, 1)]
        {
            assert_eq!(tree(ranks, arity).len(), height, "{ranks} ranks, {arity}");
        }
        assert!(linear(1).is_empty() && linear(0).is_empty() && fan_in(1, 3).is_empty());
        assert_eq!(fan_in(9, 8).len(), 1);
        assert_eq!(fan_in(10, 8).len(), 2);
    }
}
