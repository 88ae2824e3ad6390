//! Within nodes, between nodes, within nodes.

use crate::constructors::{Steps, renumbered, transposed};
use crate::partition::Partition;
use crate::rank::Rank;
use crate::schedule::{Signal, StepDescription};

/// All of a node check in at their master, the masters do `exchange`, and each lets its node check out (Bierbaum,
/// section 4.1).
///
/// `exchange` is between as many ranks as there are nodes, and numbers them as the partition does.
pub(crate) fn two_level(partition: &Partition, exchange: Vec<StepDescription>) -> Vec<StepDescription> {
    let masters: Vec<_> = partition.masters().collect();
    let check_in = check_in(partition);
    let check_out = transposed(&check_in);
    let mut steps: Vec<_> = check_in.into_iter().map(StepDescription::from).collect();
    for mut step in exchange {
        for signal in &mut step.signals {
            *signal = renumbered(*signal, &masters);
        }
        steps.push(step);
    }
    steps.extend(check_out.into_iter().map(StepDescription::from));
    steps
}

/// All of a node tell their master that they have come: one step.
pub(crate) fn check_in(partition: &Partition) -> Steps {
    let of_node = |node: &[Rank]| {
        let master = node[0];
        node[1..].iter().map(move |&slave| Signal { from: slave, to: master }).collect::<Vec<_>>()
    };
    vec![partition.nodes().iter().flat_map(|node| of_node(node)).collect()]
}
