//! What stores have left of files that were removed while these were out of reach, by the
//! [traces](crate::store::traces) that the others keep.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use crate::error::Result;
use crate::finding::Survived;
use crate::manifest::Manifest;
use crate::name::FileName;
use crate::node::NodeName;
use crate::store::traces::{Removal, Trace};
use crate::units::FileId;

use super::StoreSet;

/// The removed files of which stores keep traces.
#[derive(Debug, Default)]
pub(crate) struct Removed(HashMap<FileId, Vec<Removal>>);

/// What the store of a node knows of a file.
pub(crate) type ToldBy<'k> = (&'k NodeName, &'k Manifest, Option<&'k Survived>);

impl Removed {
    /// Whether nobody has any.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the file `id` was removed as those know it who still have it: what somebody has committed since, who did
    /// not reach the stores that removed it, is more.
    pub(crate) fn tells_of(&self, id: FileId, known: &[ToldBy<'_>]) -> bool {
        let covers = |removal: &Removal| {
            known.iter().all(|(node, manifest, survived)| removal.covers(node, manifest, *survived))
        };
        self.0.get(&id).is_some_and(|removals| removals.iter().any(covers))
    }
}

impl StoreSet {
    /// What the stores tell of removed files.
    pub(crate) fn removed(&self) -> Result<Removed> {
        let mut removed = HashMap::<_, Vec<_>>::new();
        for member in self.members() {
            for Trace { file, removal } in member.traces()? {
                removed.entry(file).or_default().push(removal);
            }
        }
        Ok(Removed(removed))
    }

    /// Whether what stores have as the file `id` is left of a removed one.
    pub(super) fn is_leftover(&self, name: &FileName, id: FileId, removed: &Removed) -> bool {
        // Manifests are read of few files only. One that is damaged may tell more.
        removed.0.contains_key(&id)
            && self.known(id, name).is_ok_and(|known| {
                let told = known.iter().map(|k| (k.member.node(), &k.manifest, k.survived.as_ref()));
                let told: Vec<ToldBy<'_>> = told.collect();
                !told.is_empty() && removed.tells_of(id, &told)
            })
    }

    /// Removes what is left under `name` of removed files, where nobody has it open; says where it was.
    ///
    /// # Errors
    /// As [`Store::remove`](crate::Store::remove).
    pub(crate) fn remove_leftovers(&self, name: &FileName, removed: &Removed) -> Result<Vec<PathBuf>> {
        let mut by_file = BTreeMap::<String, (FileId, Vec<_>)>::new();
        for member in self.members().filter(|_| !removed.is_empty()) {
            // What is wrong with a name is for those to say who want its file.
            if let Ok(id) = member.lookup(name) {
                by_file.entry(id.to_string()).or_insert((id, Vec::new())).1.push(member);
            }
        }
        let mut paths = Vec::new();
        for (id, members) in by_file.into_values() {
            if self.is_leftover(name, id, removed) {
                let trace = self.trace_to_leave(name, id);
                for member in members {
                    paths.extend(member.remove_leftover(name, id, trace.as_ref())?);
                }
            }
        }
        Ok(paths)
    }

    /// The trace that the file `id` leaves when it is removed; `None` where the stores of all its nodes are here.
    pub(super) fn trace_to_leave(&self, name: &FileName, id: FileId) -> Option<Removal> {
        // What is damaged is removed, too.
        let known: Vec<_> =
            self.members().filter_map(|member| member.look(id, name).ok().flatten()).collect();
        let manifests = || known.iter().map(|(manifest, _)| manifest);
        let mut nodes = manifests().flat_map(|manifest| &manifest.nodes);
        nodes.any(|node| self.member_of(node).is_none()).then(|| Removal::of(manifests()))?
    }
}
