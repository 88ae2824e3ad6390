//! What is left of files that were removed while nodes that have parts of them were out of reach, at the master.
//!
//! Who removes a file without some of its nodes has the others keep a [trace](crate::store::traces). When all come
//! together again, those that have none of the file, and should have by what is left of it, are asked for theirs.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::cluster::NodeIndex;
use crate::cluster::wire::{Reply, Request};
use crate::error::Result;
use crate::finding::Finding;
use crate::name::FileName;
use crate::store::traces::Removal;
use crate::units::FileId;

use super::Agent;

impl Agent {
    /// A file that this node should have and has not.
    pub(super) fn missing(&self, file: FileId) -> Result<Reply> {
        let trace = self.context.store.trace_of(file)?;
        Ok(Reply::Removed(trace.map(|trace| trace.removal)))
    }

    /// `findings` without what is left of removed files, which is removed, too.
    pub(super) fn without_leftovers(
        &self,
        name: &FileName,
        mut findings: Vec<(NodeIndex, Finding)>,
    ) -> Result<Vec<(NodeIndex, Finding)>> {
        let files: HashSet<_> = findings.iter().map(|(_, finding)| finding.file).collect();
        for file in files {
            if self.was_removed(file, &findings)? {
                let is_left = |(_, finding): &mut (NodeIndex, Finding)| finding.file == file;
                let left: Vec<_> = findings.extract_if(.., is_left).collect();
                let nodes: Vec<_> = left.iter().map(|(node, _)| *node).collect();
                tracing::info!(
                    "{name} was removed while other nodes were out of reach: what is left of it on node {} goes, too",
                    self.names_of(&nodes)
                );
                self.remove_findings(name, &left)?;
            }
        }
        Ok(findings)
    }

    /// Whether a file was removed on nodes that should have it by what others have of it, and as they have it: what
    /// somebody has committed since, who did not reach the nodes that removed it, is newer.
    fn was_removed(&self, file: FileId, findings: &[(NodeIndex, Finding)]) -> Result<bool> {
        let (context, roster) = (&self.context, &self.context.roster);
        let of_file = || findings.iter().filter(|(_, finding)| finding.file == file);
        let have_it: HashSet<_> = of_file().map(|(node, _)| *node).collect();
        // Most often all do.
        if have_it.len() == roster.names().len() || self.is_open(file) {
            return Ok(false);
        }
        let (mut known, mut to_ask) = (Vec::new(), BTreeSet::new());
        for (node, finding) in of_file() {
            let manifest = context.unpacked(&finding.manifest)?;
            to_ask.extend(manifest.nodes.iter().filter_map(|node| roster.index(node)));
            known.push((roster.name(*node), manifest, finding.survived.as_ref()));
        }
        let to_ask: Vec<_> = to_ask.into_iter().filter(|node| !have_it.contains(node)).collect();
        let others: Vec<_> = to_ask.iter().copied().filter(|node| *node != roster.own()).collect();
        let mut answers = match others.len() < to_ask.len() {
            true => vec![(roster.own(), self.missing(file)?)],
            false => Vec::new(),
        };
        answers.extend(context.ask_those_left(&others, &Request::Missing { file })?);
        let mut was_removed = false;
        for (node, answer) in answers {
            match answer {
                Reply::Removed(None) => {}
                Reply::Removed(Some(removal)) => {
                    was_removed |= known
                        .iter()
                        .all(|(node, manifest, survived)| removal.covers(node, manifest, *survived));
                }
                _ => return Err(context.out_of_place(node)),
            }
        }
        Ok(was_removed)
    }

    /// The trace that each of these files leaves when it is removed, if not all of its nodes are reached.
    pub(super) fn traces_to_leave(
        &self,
        findings: &[(NodeIndex, Finding)],
    ) -> Result<HashMap<FileId, Removal>> {
        let roster = &self.context.roster;
        let others = roster.others().filter(|node| !self.context.is_lost(*node));
        let reached: HashSet<_> = others.chain([roster.own()]).map(|node| roster.name(node)).collect();
        let mut by_file = HashMap::<_, Vec<_>>::new();
        for (_, finding) in findings {
            let manifest = self.context.unpacked(&finding.manifest)?;
            by_file.entry(finding.file).or_default().push(manifest);
        }
        by_file.retain(|_, known| {
            known.iter().flat_map(|manifest| &manifest.nodes).any(|node| !reached.contains(node))
        });
        let traces = by_file.iter().filter_map(|(file, known)| Some((*file, Removal::of(known)?)));
        Ok(traces.collect())
    }
}
