//! What there is to choose from.

use std::num::NonZeroU32;

use crate::algorithm::{Algorithm, NodesOf};

/// The algorithms that differ for so many ranks, with the parameters that are worth a try: those of one level, and the
/// two-level forms by consecutive ranks.
#[must_use]
pub fn algorithms(ranks: u32) -> Vec<Algorithm> {
    let mut found = vec![Algorithm::Linear, Algorithm::Dissemination];
    let widths = [2, 3, 4, 5, 6, 8, 12, 16, 24, 32, WIDEST].into_iter().filter(|&width| width < ranks);
    for width in widths {
        found.push(Algorithm::Tree { arity: width });
        found.push(Algorithm::Hsb { fan_in: width, fan_out: width });
        found.push(Algorithm::Exchange { group: width });
        // Two is the dissemination that is there already.
        found.extend((width > 2).then_some(Algorithm::NaryDissemination { radix: width }));
    }
    // Who is told by many at once need not tell many at once.
    let fans = [2, 4, 8, 16, ranks.saturating_sub(1)].into_iter().filter(|&fan| fan < ranks);
    let mut fans: Vec<u32> = fans.collect();
    fans.sort_unstable();
    fans.dedup();
    for &fan_in in &fans {
        let others = fans.iter().filter(|&&fan_out| fan_out != fan_in && fan_out > 1);
        found.extend(others.map(|&fan_out| Algorithm::Hsb { fan_in, fan_out }));
    }
    // With four ranks, one level of the tree does what the linear barrier does.
    found.extend((ranks > 4).then_some(Algorithm::X1Tree));
    found.extend((3..=WIDEST).contains(&ranks).then_some(Algorithm::NaryDissemination { radix: ranks }));
    for size in [2, 4, 8, 16, 32].into_iter().filter_map(NonZeroU32::new) {
        let nodes = ranks.div_ceil(size.get());
        if nodes > 1 {
            found.extend(masters(nodes).into_iter().map(|masters| Algorithm::TwoLevel {
                nodes: NodesOf::Blocks(size),
                masters: Box::new(masters),
            }));
        }
    }
    found
}

/// Who signals more at once only helps where there are few ranks.
const WIDEST: u32 = 64;

/// What the masters of so many nodes may do, of each kind what is worth a try.
pub(super) fn masters(nodes: u32) -> Vec<Algorithm> {
    const FEW: u32 = 4;
    let mut found = vec![Algorithm::Dissemination];
    found.extend((nodes > 2).then_some(Algorithm::Linear));
    found.extend((3..=WIDEST).contains(&nodes).then_some(Algorithm::NaryDissemination { radix: nodes }));
    if nodes > FEW {
        found.extend([
            Algorithm::Tree { arity: 2 },
            Algorithm::Hsb { fan_in: FEW, fan_out: FEW },
            Algorithm::Exchange { group: FEW },
            Algorithm::NaryDissemination { radix: FEW },
            Algorithm::X1Tree,
        ]);
    }
    found
}
