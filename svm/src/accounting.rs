//! What files have cost, told on standard error at the end of a run that is asked to, by `SVMIO_STATS=1`: by each
//! process of itself, and by rank 0 of all.
//!
//! Before a process leaves its cluster, it has the agent of rank 0 note its cost. Rank 0 leaves when all others have or
//! are lost, and then tells the sum over those who have been noted, and who is missing from it.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use svmio_transport::Rank;

use crate::cluster::{Cluster, ClusterStatistics};
use crate::node::NodeName;

/// What files have cost one process, or several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// Messages sent.
    pub(crate) messages: u64,
    /// Bytes moved over the fabric.
    pub(crate) bytes: u64,
    /// Requests to agents of other nodes.
    pub(crate) requests: u64,
}

impl Cost {
    pub(crate) fn of(statistics: &ClusterStatistics) -> Cost {
        let fabric = &statistics.fabric;
        Cost { messages: fabric.messages(), bytes: fabric.bytes(), requests: statistics.requests() }
    }

    fn and(self, other: &Cost) -> Cost {
        Cost {
            messages: self.messages + other.messages,
            bytes: self.bytes + other.bytes,
            requests: self.requests + other.requests,
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost { messages, bytes, requests } = self;
        write!(f, "{messages} messages and {bytes} bytes over the fabric, {requests} requests to other nodes")
    }
}

/// Whether costs are to be told.
fn is_asked_for() -> bool {
    std::env::var_os("SVMIO_STATS").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Tells what this process's files in `cluster` have cost, and has it noted for the sum.
pub(crate) fn tell_own(cluster: &Cluster) {
    if !is_asked_for() {
        return;
    }
    let (statistics, rank) = (cluster.statistics(), cluster.rank());
    tell(&format!("rank {rank} on node {}: {statistics}", own_node(cluster)));
    if let Err(error) = cluster.note_cost(Cost::of(&statistics)) {
        tracing::warn!("the sum of what files have cost will lack rank {rank}: {error}");
    }
}

/// On rank 0, when all others have left or are lost: tells what the files of all have cost.
pub(crate) fn tell_sum(cluster: &Cluster) {
    if is_asked_for() && cluster.rank() == Rank(0) {
        tell(&summed(&cluster.noted_costs(), cluster.size(), cluster.nodes().len()));
    }
}

/// The sum over those of `size` ranks on `nodes` that were noted.
fn summed(noted: &BTreeMap<Rank, Cost>, size: u32, nodes: usize) -> String {
    let sum = noted.values().fold(Cost::default(), Cost::and);
    let missing: Vec<_> =
        (0..size).map(Rank).filter(|rank| !noted.contains_key(rank)).map(|rank| rank.to_string()).collect();
    if missing.is_empty() {
        return format!("all {size} ranks on {nodes} nodes: {sum}");
    }
    let (told, missing) = (noted.len(), missing.join(", "));
    format!(
        "{told} of {size} ranks on {nodes} nodes, without those that have told nothing ({missing}): {sum}"
    )
}

/// Who has had files on one node, where nothing goes over any fabric, and which member of how many it was.
static ON_ONE_NODE: Mutex<Option<(NodeName, usize, usize)>> = Mutex::new(None);

/// Notes that all `size` who have files open with this process, which is `member` of them, are on its node. The most
/// are remembered.
pub(crate) fn note_one_node(node: &NodeName, member: usize, size: usize) {
    let mut noted = ON_ONE_NODE.lock().unwrap_or_else(PoisonError::into_inner);
    if noted.as_ref().is_none_or(|(.., most)| *most < size) {
        *noted = Some((node.clone(), member, size));
    }
}

/// Tells of a process that has had files on its own node only, once.
pub fn tell_of_one_node() {
    let noted = ON_ONE_NODE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if is_asked_for()
        && let Some((node, member, size)) = noted
    {
        let who = if size == 1 { "one process".into() } else { format!("rank {member} of {size}") };
        tell(&format!("{who} on node {node}: files on this node only, so nothing went over any fabric"));
    }
}

/// Forgets what [`tell_of_one_node`] would tell, where there is more to tell.
pub(crate) fn forget_one_node() {
    *ON_ONE_NODE.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

fn own_node(cluster: &Cluster) -> &NodeName {
    &cluster.nodes()[cluster.own_node().0 as usize]
}

/// In one piece: all ranks write at the same time.
fn tell(what: &str) {
    // There is nobody else to tell.
    let _ = std::io::stderr().write_all(format!("svmio: {what}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_tells_who_is_missing_from_it() {
        let cost = |messages| Cost { messages, bytes: 1000 * messages, requests: 1 };
        let mut noted: BTreeMap<_, _> = (0..3).map(|rank| (Rank(rank), cost(u64::from(rank)))).collect();
        let sum = "3 messages and 3000 bytes over the fabric, 3 requests to other nodes";
        assert_eq!(summed(&noted, 3, 2), format!("all 3 ranks on 2 nodes: {sum}"));
        let partial = summed(&noted, 5, 2);
        assert!(partial.starts_with("3 of 5 ranks") && partial.contains("(3, 4)"), "{partial}");
        noted.clear();
        assert!(summed(&noted, 2, 2).contains("(0, 1): 0 messages and 0 bytes"));
    }
}
