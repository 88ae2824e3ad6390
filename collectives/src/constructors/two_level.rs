//! Within nodes, between nodes, within nodes.

use crate::constructors::transposed;
use crate::partition::Partition;
use crate::schedule::{Signal, StepDescription};

/// All of a node check in at their master, the masters do `exchange`, and each lets its node check out (Bierbaum,
/// section 4.1).
///
/// `exchange` is between as many ranks as there are nodes, and numbers them as the partition does.
pub(crate) fn two_level(partition: &Partition, exchange: Vec<StepDescription>) -> Vec<StepDescription> {
    let masters: Vec<_> = partition.masters().collect();
    let mut check_in = Vec::new();
    for (node, &master) in partition.nodes().iter().zip(&masters) {
        check_in.extend(node[1..].iter().map(|&slave| Signal { from: slave, to: master }));
    }
    let check_out = transposed(std::slice::from_ref(&check_in));
    let mut steps = vec![StepDescription::from(check_in)];
    for mut step in exchange {
        for signal in &mut step.signals {
            *signal = Signal { from: masters[signal.from.index()], to: masters[signal.to.index()] };
        }
        steps.push(step);
    }
    steps.extend(check_out.into_iter().map(StepDescription::from));
    steps
}
