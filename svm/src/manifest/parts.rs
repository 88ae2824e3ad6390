//! Which parts of a file lie on some of its nodes, in words: for errors that name what is out of reach.

use std::collections::HashMap;

use super::{Manifest, SegmentRun};
use crate::node::NodeName;

/// How many runs of segments are told of each node, and of how many nodes: a person wants to know what to run on.
const MOST_RUNS: usize = 4;
const MOST_NODES: usize = 16;

/// What one node holds.
struct Part<'m> {
    node: &'m NodeName,
    runs: Vec<&'m SegmentRun>,
    /// Segments of further runs.
    more: u64,
}

impl Manifest {
    /// Which segments lie on which of the nodes that `is_missing` holds for, each node once: "segment 3 lies on node a,
    /// segments 1 and 4 to 7 lie on node b, which are"; `None` where there are none.
    pub(crate) fn parts_on(&self, is_missing: impl Fn(&NodeName) -> bool) -> Option<String> {
        let mut parts: Vec<Part<'_>> = Vec::new();
        // The place of each node's part, if it is missing.
        let mut places: HashMap<u32, Option<usize>> = HashMap::new();
        for run in &self.segments {
            let place = *places.entry(run.home).or_insert_with(|| {
                let node = self.nodes.get(run.home as usize).filter(|node| is_missing(node))?;
                parts.push(Part { node, runs: Vec::new(), more: 0 });
                Some(parts.len() - 1)
            });
            let Some(place) = place else { continue };
            match &mut parts[place] {
                Part { runs, .. } if runs.len() < MOST_RUNS => runs.push(run),
                part => part.more += u64::from(run.count),
            }
        }
        let told: Vec<String> = parts.iter().take(MOST_NODES).map(Part::in_words).collect();
        let list = told.join(", ");
        match (parts.len(), parts.len() - told.len()) {
            (0, _) => None,
            (1, _) => Some(format!("{list}, which is")),
            (_, 0) => Some(format!("{list}, which are")),
            (_, more) => Some(format!("{list}, and others on {more} more nodes, which are")),
        }
    }
}

impl Part<'_> {
    fn in_words(&self) -> String {
        let node = self.node;
        if let ([SegmentRun { first, count: 1, .. }], 0) = (&self.runs[..], self.more) {
            return format!("segment {first} lies on node {node}");
        }
        let mut runs: Vec<String> = self.runs.iter().map(|run| in_words(run)).collect();
        if self.more > 0 {
            runs.push(format!("{} more", self.more));
        }
        let last = runs.pop().unwrap_or_default();
        let all = if runs.is_empty() { last } else { format!("{} and {last}", runs.join(", ")) };
        format!("segments {all} lie on node {node}")
    }
}

fn in_words(run: &SegmentRun) -> String {
    match run.count {
        1 => run.first.to_string(),
        count => format!("{} to {}", run.first, run.first.0 + count - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::runs;
    use super::*;
    use crate::units::{FileId, SegmentIndex, SegmentSize};

    /// A file of which each segment has the home that the letter there names.
    fn parts(homes: &str, missing: &str) -> Option<String> {
        let position = |home: char| u32::from(home) - u32::from('a');
        let homes = (0..).zip(homes.chars()).map(|(index, home)| (SegmentIndex(index), position(home)));
        let manifest = Manifest {
            id: FileId::from_bytes([1; 16]),
            name: "/f".into(),
            size: 0,
            segment_size: SegmentSize::MIN,
            epoch: 1,
            nodes: ('a'..='z').map(|name| NodeName::new(name.to_string())).collect(),
            segments: runs(homes),
            temporary: false,
            placement: None,
            segment_size_reason: None,
        };
        manifest.parts_on(|node| missing.contains(node.as_str()))
    }

    #[test]
    fn parts_are_told_by_nodes() {
        assert_eq!(parts("abab", "c"), None);
        assert_eq!(parts("aba", "b").as_deref(), Some("segment 1 lies on node b, which is"));
        assert_eq!(parts("abbb", "b").as_deref(), Some("segments 1 to 3 lie on node b, which is"));
        assert_eq!(
            parts("abbacbccc", "bc").as_deref(),
            Some("segments 1 to 2 and 5 lie on node b, segments 4 and 6 to 8 lie on node c, which are")
        );
    }

    #[test]
    fn no_node_is_hidden_by_many_parts_of_another() {
        let homes = "ab".repeat(100) + "cc";
        assert_eq!(
            parts(&homes, "bc").as_deref(),
            Some(
                "segments 1, 3, 5, 7 and 96 more lie on node b, segments 200 to 201 lie on node c, which are"
            )
        );
    }

    #[test]
    fn of_very_many_nodes_it_is_told_how_many_there_are() {
        let all: String = ('a'..='z').collect();
        let told = parts(&all, &all).expect("they are missing");
        assert!(told.starts_with("segment 0 lies on node a, segment 1 lies on node b, "), "{told}");
        assert!(
            told.ends_with("segment 15 lies on node p, and others on 10 more nodes, which are"),
            "{told}"
        );
    }
}
