//! Algorithms without a root: every rank comes to know of all arrivals by itself.

use crate::constructors::{Steps, transposed};
use crate::schedule::Signal;

/// n-ary exchange, mode 1: in each step groups of `group` ranks tell one another, and in the next those meet who were
/// in different groups (Bierbaum, section 4.2, figure 4).
///
/// That takes a power of `group` ranks. The others tell one of these before, and are told after: two steps more. (The
/// paper counts ⌈log⌉ + 2 steps; the power below the number of ranks is enough for ⌊log⌋ + 2.)
pub(crate) fn exchange(ranks: u32, group: u32) -> Steps {
    if ranks < 2 {
        return Vec::new();
    }
    let group = u64::from(group.clamp(2, ranks));
    let powers = std::iter::successors(Some(1), |power| Some(power * group));
    let core = powers.take_while(|&power| power <= u64::from(ranks)).last().unwrap_or(1);
    let check_in: Vec<_> =
        (core..u64::from(ranks)).map(|rank| Signal::new(rank as u32, (rank % core) as u32)).collect();
    let check_out = transposed(std::slice::from_ref(&check_in));
    let mut steps = vec![check_in];
    let strides = std::iter::successors(Some(1), |stride| Some(stride * group));
    for stride in strides.take_while(|&stride| stride < core) {
        let step = (0..core).flat_map(|rank| {
            let digit = rank / stride % group;
            let first = rank - digit * stride;
            let others = (0..group).filter(move |&other| other != digit);
            others.map(move |other| Signal::new(rank as u32, (first + other * stride) as u32))
        });
        steps.push(step.collect());
    }
    steps.extend(check_out);
    steps
}

/// n-ary dissemination, mode 2 of the n-ary exchange: in step *i* each rank tells those at distances *j nⁱ*, for *j*
/// from 1 to *n* - 1, as far as there are ranks (Bierbaum, section 4.2, figure 5). With two it is the dissemination
/// barrier (Meyer, figure 3).
pub(crate) fn dissemination(ranks: u32, radix: u32) -> Steps {
    let ranks = u64::from(ranks);
    let radix = u64::from(radix).clamp(2, ranks.max(2));
    let strides = std::iter::successors(Some(1), |stride| Some(stride * radix));
    let step = |stride: u64| {
        let distances =
            (1..radix).map(move |times| times * stride).take_while(move |&distance| distance < ranks);
        let of_rank = |rank: u64| {
            distances
                .clone()
                .map(move |distance| Signal::new(rank as u32, ((rank + distance) % ranks) as u32))
        };
        (0..ranks).flat_map(of_rank).collect()
    };
    strides.take_while(|&stride| stride < ranks).map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::{dissemination, exchange};

    #[test]
    fn steps_are_as_many_as_the_paper_counts() {
        for (ranks, radix, steps) in
            [(1, 6, 0), (2, 2, 1), (9, 3, 2), (16, 2, 4), (17, 2, 5), (17, 16, 2), (36, 6, 2), (37, 6, 3)]
        {
            assert_eq!(dissemination(ranks, radix).len(), steps, "{ranks} ranks by {radix}");
        }
        // Where the first is a power of the second, mode 1 needs no more; else one to tell and one to be told.
        for (ranks, group, steps) in [(9, 3, 2), (27, 3, 3), (10, 3, 4), (26, 3, 4), (5, 16, 1)] {
            let exchange = exchange(ranks, group);
            assert_eq!(
                exchange.iter().filter(|step| !step.is_empty()).count(),
                steps,
                "{ranks} ranks by {group}"
            );
        }
    }

    #[test]
    fn nine_nodes_by_three_send_four_signals_each_and_by_nine_eight() {
        let signals = |radix| dissemination(9, radix).iter().map(Vec::len).sum::<usize>();
        assert_eq!((signals(3), signals(9)), (36, 72));
    }
}
