//! What one store knows of a file, and what several stores know of it together.
//!
//! A manifest tells what was committed; the shared state, where it has survived those who had the file open, tells
//! more. Nodes that took no part in the last job know less than the others. Homes never change once they are entered,
//! and segments never go: so what stores know together is all that any of them knows, and where they contradict each
//! other, the newer one is right.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, ErrorKind};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::manifest::{self, Manifest};
use crate::name::FileName;
use crate::node::{BootId, NodeName};
use crate::object;
use crate::presence::Gate;
use crate::state::State;
use crate::store::Store;
use crate::units::{FileId, SegmentIndex};

/// What a node knows of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Finding {
    pub(crate) file: FileId,
    /// The manifest in its store, packed.
    pub(crate) manifest: Vec<u8>,
    /// What its shared state tells beyond that, where it has survived: the size, and the node's own segments.
    pub(crate) survived: Option<Survived>,
}

/// Size and own segments by a file's shared state.
pub(crate) type Survived = (u64, Vec<(SegmentIndex, NodeName)>);

/// What a node's store tells of a file.
type Known<'k> = (&'k NodeName, &'k Manifest, Option<&'k Survived>);

/// What `store` has under `name`, for the processes of a job that have files open through `cluster`.
///
/// # Errors
/// [`Error::OpenInAnotherJob`]; [`Error::Unwritten`] where other nodes have to tell what it is; otherwise what is wrong
/// with the name or the manifest.
pub(crate) fn find(store: &Store, name: &FileName, cluster: u64) -> Result<Option<Finding>> {
    let file = match store.lookup(name) {
        Ok(file) => file,
        Err(Error::NoSuchFile { .. }) => return Ok(None),
        Err(e) => return Err(e),
    };
    let manifest = match read_manifest(store, file, name) {
        Err(Error::CorruptManifest { name, path, .. }) if fs::metadata(&path).is_ok_and(|m| m.len() == 0) => {
            return Err(Error::Unwritten { name, path });
        }
        manifest => manifest?,
    };
    let Some(manifest) = manifest else { return Ok(None) };
    let survived = survived_for(store, file, &manifest, cluster)?;
    Ok(Some(Finding { file, manifest: manifest.pack(), survived }))
}

/// What `store` knows of the file `file`, whoever has it open: nothing is locked, nothing is changed.
///
/// # Errors
/// What is wrong with the manifest.
pub(crate) fn look(
    store: &Store,
    file: FileId,
    name: &FileName,
) -> Result<Option<(Manifest, Option<Survived>)>> {
    let Some(manifest) = read_manifest(store, file, name)? else { return Ok(None) };
    if manifest.id != file {
        let reason = format!("it is that of file {}", manifest.id);
        let path = object::path(store.path(), file).join(manifest::FILE_NAME);
        return Err(Error::CorruptManifest { name: name.to_string(), path, reason });
    }
    let survived = survived_as_seen(store, file, &manifest)?;
    Ok(Some((manifest, survived)))
}

fn read_manifest(store: &Store, file: FileId, name: &FileName) -> Result<Option<Manifest>> {
    let path = object::path(store.path(), file);
    match Manifest::read(&path, &name.to_string()) {
        Ok(manifest) => Ok(Some(manifest)),
        // Removed since, or known by name only.
        Err(_) if matches!(path.try_exists(), Ok(false)) => Ok(None),
        Err(e) => Err(e),
    }
}

/// What a file's shared state tells to processes of `cluster`, which may bring it up.
fn survived_for(store: &Store, file: FileId, manifest: &Manifest, cluster: u64) -> Result<Option<Survived>> {
    let path = object::path(store.path(), file).join(object::STATE);
    let failed = |e: io::Error| Error::io(format!("opening {}", manifest.name), &path, e);
    let opened = match fs::OpenOptions::new().read(true).write(true).open(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let gate = Gate::lock(&opened).map_err(failed)?;
    let Some(state) = State::map_for_reading(opened.try_clone().map_err(failed)?).map_err(failed)? else {
        return Ok(None);
    };
    if !state.is_valid(BootId::current()?, file) {
        return Ok(None);
    }
    if gate.anybody_present().map_err(failed)? && state.cluster() != cluster {
        return Err(Error::OpenInAnotherJob { name: manifest.name.clone() });
    }
    Ok(Some(told_by(&state, store, manifest)))
}

/// What a file's shared state tells to somebody who only looks on.
fn survived_as_seen(store: &Store, file: FileId, manifest: &Manifest) -> Result<Option<Survived>> {
    let path = object::path(store.path(), file).join(object::STATE);
    let failed = |e: io::Error| Error::io(format!("looking at {}", manifest.name), &path, e);
    let opened = match fs::File::open(&path) {
        // What one may not see, the manifest has to tell.
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let Some(state) = State::map_for_reading(opened).map_err(failed)? else { return Ok(None) };
    let boot = BootId::current()?;
    loop {
        // Whoever brings the state up raises the count of punches, so that a table read meanwhile is not trusted.
        let punches = state.punches();
        if !state.is_valid(boot, file) {
            return Ok(None);
        }
        let told = told_by(&state, store, manifest);
        if state.is_valid(boot, file) && state.punches() == punches {
            return Ok(Some(told));
        }
    }
}

fn told_by(state: &State, store: &Store, manifest: &Manifest) -> Survived {
    let node = store.node();
    let own = manifest.position_of(node);
    let homes = state.homes().filter(|(_, home)| own.is_some() && Some(*home) == own);
    (state.size(), homes.map(|(index, _)| (index, node.clone())).collect())
}

/// What all of `known` know together of the file `name`; `None` where there is nothing. Each comes with the node whose
/// store tells it.
///
/// # Errors
/// [`Error::TwoFiles`], [`Error::TwoHomes`].
pub(crate) fn merge<M: Borrow<Manifest>>(
    name: &str,
    known: &[(&NodeName, M, Option<&Survived>)],
) -> Result<Option<Manifest>> {
    let known: Vec<Known<'_>> =
        known.iter().map(|(node, manifest, survived)| (*node, manifest.borrow(), *survived)).collect();
    let Some((first, any, _)) = known.first() else { return Ok(None) };
    if let Some((other, ..)) = known.iter().find(|(_, manifest, _)| manifest.id != any.id) {
        let (one, other) = ((*first).clone(), (*other).clone());
        return Err(Error::TwoFiles { name: name.into(), one, other });
    }
    check_homes(name, &known)?;
    let mut oldest_first = known;
    oldest_first.sort_by_key(|(_, manifest, _)| manifest.epoch);
    let Some((_, newest, _)) = oldest_first.last() else { return Ok(None) };
    let mut merged = (*newest).clone();
    // It may have had another one when it was committed last.
    merged.name = name.into();
    let mut positions = HashMap::new();
    for (position, node) in (0..).zip(&newest.nodes) {
        positions.entry(node).or_insert(position);
    }
    let nodes = oldest_first.iter().rev().flat_map(|(_, manifest, _)| &manifest.nodes);
    for node in nodes.chain(oldest_first.iter().map(|(node, ..)| *node)) {
        positions.entry(node).or_insert_with(|| {
            merged.nodes.push(node.clone());
            (merged.nodes.len() - 1) as u32
        });
    }
    let mut homes = BTreeMap::<SegmentIndex, u32>::new();
    let newer = oldest_first.iter().skip(1).map(|(_, newer, _)| Some(*newer)).chain([None]);
    for ((_, manifest, survived), newer) in oldest_first.iter().zip(newer) {
        // After a regular end every node has the same manifest, of all segments: that is gone through once.
        if !newer.is_some_and(|newer| has_same_homes(manifest, newer)) {
            let nodes: Vec<_> = manifest.nodes.iter().map(|node| positions.get(node).copied()).collect();
            let told = manifest
                .homes()
                .filter_map(|(index, home)| Some((index, nodes.get(home as usize).copied().flatten()?)));
            homes.extend(told);
        }
        let survived = survived.iter().flat_map(|(_, own)| own.iter());
        homes.extend(survived.filter_map(|(index, node)| Some((*index, *positions.get(node)?))));
    }
    // A node that took no part since may remember a size that the file has no more.
    let latest = || oldest_first.iter().filter(|(_, manifest, _)| manifest.epoch == newest.epoch);
    let by_state = latest().filter_map(|(_, _, survived)| survived.map(|(size, _)| size)).max();
    let by_manifest = latest().map(|(_, manifest, _)| manifest.size).max();
    merged.size = by_state.copied().or(by_manifest).unwrap_or(newest.size);
    merged.segments = manifest::runs(homes.into_iter());
    Ok(Some(merged))
}

/// Whether two manifests of a file say the same of where its segments lie.
fn has_same_homes(one: &Manifest, other: &Manifest) -> bool {
    one.nodes == other.nodes && one.segments == other.segments
}

/// That no two nodes hold the same segment, each by what its own store tells. Jobs without a node in common can come to
/// that which open the same empty file: none of them misses a part of it. What was committed on the one and not on the
/// other is not in doubt: the other's job was killed.
fn check_homes(name: &str, known: &[Known<'_>]) -> Result<()> {
    let (mut committed, mut uncommitted) = (BTreeMap::new(), BTreeMap::new());
    for &(node, manifest, survived) in known {
        let is_own: Vec<_> = manifest.nodes.iter().map(|known| known == node).collect();
        let own = manifest.segments.iter().filter(|run| is_own.get(run.home as usize) == Some(&true));
        let by_manifest = own.flat_map(|run| run.indices());
        let by_state = survived.iter().flat_map(|(_, own)| own.iter().map(|(index, _)| *index));
        let by_state = by_state.filter(|index| !manifest.promises(*index, node));
        let claims = by_manifest.map(|index| (index, true)).chain(by_state.map(|index| (index, false)));
        for (segment, is_committed) in claims {
            let homes = if is_committed { &mut committed } else { &mut uncommitted };
            if let Some(one) = homes.insert(segment, node) {
                let (name, one, other) = (name.into(), NodeName::clone(one), node.clone());
                return Err(Error::TwoHomes { name, segment, one, other });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::manifest::runs;
    use crate::units::SegmentSize;

    fn node(name: &str) -> NodeName {
        NodeName::new(name)
    }

    fn manifest(epoch: u64, size: u64, nodes: &[&str], homes: &[(u32, u32)]) -> Manifest {
        Manifest {
            id: FileId::from_bytes([1; 16]),
            name: "/f".into(),
            size,
            segment_size: SegmentSize::MIN,
            epoch,
            nodes: nodes.iter().map(|name| node(name)).collect(),
            segments: runs(homes.iter().map(|(index, home)| (SegmentIndex(*index), *home))),
            temporary: false,
            placement: None,
            segment_size_reason: None,
        }
    }

    fn by_name(manifest: &Manifest) -> Vec<(u32, &str)> {
        manifest.homes().map(|(index, home)| (index.0, manifest.nodes[home as usize].as_str())).collect()
    }

    #[test]
    fn nodes_know_together_what_any_of_them_knows() {
        let (a, b) = (node("a"), node("b"));
        // Nodes have other positions in an older list, and b was killed before a commit told of segment 7.
        let of_a = manifest(5, 100, &["a", "b"], &[(0, 0), (1, 1)]);
        let of_b = manifest(5, 100, &["b", "a"], &[(0, 1), (1, 0), (3, 0)]);
        let survived = (500, vec![(SegmentIndex(7), b.clone())]);
        let known = [(&a, of_a, None), (&b, of_b, Some(&survived))];
        let merged = merge("/f", &known).unwrap().unwrap();
        assert_eq!(by_name(&merged), [(0, "a"), (1, "b"), (3, "b"), (7, "b")]);
        assert_eq!((merged.size, merged.epoch), (500, 5));
    }

    #[test]
    fn what_is_newer_is_right() {
        let (a, c) = (node("a"), node("c"));
        let new = manifest(9, 10, &["a"], &[(5, 0)]);
        let old = manifest(3, 100, &["a", "c"], &[(0, 0)]);
        // A job with c was killed; the next one, without c, gave segment 5 a home and made the file shorter.
        let survived = (700, vec![(SegmentIndex(5), c.clone())]);
        let known = [(&c, old, Some(&survived)), (&a, new, None)];
        let merged = merge("/f", &known).unwrap().unwrap();
        assert_eq!(by_name(&merged), [(0, "a"), (5, "a")]);
        assert_eq!((merged.size, merged.epoch), (10, 9));
    }

    #[test]
    fn two_files_of_one_name_are_told_with_their_nodes() {
        let (a, b) = (node("a"), node("b"));
        let other = Manifest { id: FileId::from_bytes([2; 16]), ..manifest(1, 0, &["b"], &[]) };
        let error = merge("/f", &[(&a, manifest(1, 0, &["a"], &[]), None), (&b, other, None)]).unwrap_err();
        assert!(error.to_string().contains("one file on node a and another one on node b"), "{error}");
        assert!(merge::<Manifest>("/f", &[]).unwrap().is_none());
    }

    #[test]
    fn a_segment_that_two_nodes_hold_is_told_with_both() {
        let (a, b) = (node("a"), node("b"));
        let of_a = manifest(6, 100, &["a", "b"], &[(0, 0), (1, 0)]);
        let of_b = manifest(7, 100, &["a", "b"], &[(1, 1), (2, 1)]);
        let error = merge("/f", &[(&a, of_a.clone(), None), (&b, of_b, None)]).unwrap_err();
        assert!(
            error.to_string().contains("segment 1 of /f lies on node a and another one on node b"),
            "{error}"
        );
        // By what a node tells of others, there is no second one.
        let of_b = manifest(7, 100, &["a", "b"], &[(1, 0), (2, 1)]);
        let merged = merge("/f", &[(&a, of_a, None), (&b, of_b, None)]).unwrap().unwrap();
        assert_eq!(by_name(&merged), [(0, "a"), (1, "a"), (2, "b")]);
        // Two jobs that were killed.
        let survived = [&a, &b].map(|node| (10, vec![(SegmentIndex(3), node.clone())]));
        let known = [(&a, manifest(1, 0, &["a", "b"], &[]), Some(&survived[0]))];
        let known = [known[0].clone(), (&b, manifest(1, 0, &["a", "b"], &[]), Some(&survived[1]))];
        assert!(matches!(merge("/f", &known), Err(Error::TwoHomes { .. })));
    }

    /// What several nodes know, gone through segment by segment: the homes by name.
    fn by_each(known: &[(&NodeName, Manifest, Option<&Survived>)]) -> Vec<(u32, String)> {
        let mut oldest_first: Vec<_> = known.iter().collect();
        oldest_first.sort_by_key(|(_, manifest, _)| manifest.epoch);
        let mut homes = BTreeMap::new();
        for (_, manifest, survived) in oldest_first {
            for (index, home) in manifest.homes() {
                homes.extend(manifest.nodes.get(home as usize).map(|node| (index.0, node.to_string())));
            }
            let survived = survived.iter().flat_map(|(_, own)| own);
            homes.extend(survived.map(|(index, node)| (index.0, node.to_string())));
        }
        homes.into_iter().collect()
    }

    proptest! {
        #[test]
        fn what_several_manifests_say_alike_is_told_as_if_each_were_asked(
            // Of each node: which manifest it has, and which segments survived there.
            nodes in prop::collection::vec((0usize..3, prop::collection::vec(0u32..9, 0..3)), 1..6),
            // Epoch, list of nodes, and homes.
            manifests in prop::collection::vec((1u64..4, 0usize..3, prop::collection::vec(0u32..7, 9)), 3),
        ) {
            const LISTS: [&[&str]; 3] = [&["n0", "n1", "n2"], &["n4", "n3", "n2", "n1", "n0"], &["n1", "n1", "n3"]];
            let names: Vec<_> = (0..nodes.len()).map(|number| node(&format!("n{number}"))).collect();
            let survived: Vec<Survived> = names
                .iter()
                .zip(&nodes)
                .map(|(name, (_, own))| (9, own.iter().map(|index| (SegmentIndex(*index), name.clone())).collect()))
                .collect();
            let known: Vec<_> = names
                .iter()
                .zip(&nodes)
                .zip(&survived)
                .map(|((name, (which, _)), survived)| {
                    let (epoch, list, homes) = &manifests[*which];
                    let homes = (0..).zip(homes.iter().copied()).filter(|(_, home)| *home != 6);
                    (name, manifest(*epoch, 9, LISTS[*list], &homes.collect::<Vec<_>>()), Some(survived))
                })
                .collect();
            match merge("/f", &known) {
                Ok(merged) => {
                    let merged = merged.unwrap();
                    let by_name = by_name(&merged).into_iter().map(|(index, node)| (index, node.to_owned()));
                    prop_assert_eq!(by_name.collect::<Vec<_>>(), by_each(&known));
                    prop_assert!(names.iter().all(|name| merged.nodes.contains(name)));
                }
                Err(error) => prop_assert!(matches!(error, Error::TwoHomes { .. }), "{error}"),
            }
        }
    }
}
