//! Traces of files that were removed while not all of their nodes were within reach.
//!
//! The other nodes keep name, manifest and segments of such a file, which would look like a file that has lost parts:
//! those of the nodes that removed it. So these keep a trace, by which whoever finds what is left of the file knows
//! that it was removed, and removes it, too.
//!
//! A trace is written before the name goes, and counts from when the object is gone: wherever a removal is killed, the
//! store has the file, or tells that it was removed. It tells of no more than what was removed: what somebody has given
//! another size on the other nodes since stays, and so do segments that were not known where the file was removed. Those
//! may be another job's, which opened the same empty file.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::finding::Survived;
use crate::manifest::Manifest;
use crate::name::FileName;
use crate::node::NodeName;
use crate::object;
use crate::spare;
use crate::units::FileId;

use super::Store;

/// Where traces lie: a file per removed file, called like it.
const TRACES: &str = "removed";

/// The most traces that a store has; in this package's own tests fewer, which take thousands of removals less to reach.
const MOST: usize = if cfg!(test) { 64 } else { 4096 };

/// So many stay where there would be more: not every removal is to look at all of them.
const KEPT: usize = MOST - MOST / 8;

/// That a file was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trace {
    pub(crate) file: FileId,
    pub(crate) removal: Removal,
}

/// What was known of a file when it was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Removal {
    /// The epoch of the newest manifest.
    epoch: u64,
    /// How many segments each node had that had some.
    segments: Vec<(NodeName, u64)>,
}

impl Removal {
    /// What these manifests tell together; `None` where there are none.
    pub(crate) fn of<'m>(manifests: impl IntoIterator<Item = &'m Manifest>) -> Option<Removal> {
        let (mut epoch, mut segments) = (None, BTreeMap::<NodeName, u64>::new());
        for manifest in manifests {
            epoch = epoch.max(Some(manifest.epoch));
            for (node, count) in counts(manifest) {
                let most = segments.entry(node.clone()).or_default();
                *most = count.max(*most);
            }
        }
        epoch.map(|epoch| Removal { epoch, segments: segments.into_iter().collect() })
    }

    /// Whether what `node` still has of the file is no more than what was known.
    pub(crate) fn covers(&self, node: &NodeName, manifest: &Manifest, survived: Option<&Survived>) -> bool {
        // Segments never go, and nobody knows a node's better than itself: where there are no more, they are the same.
        let known = self.segments.iter().find(|(known, _)| known == node).map_or(0, |(_, count)| *count);
        let by_manifest = counts(manifest).remove(node).unwrap_or(0);
        let by_state = survived.map_or(0, |(_, own)| own.len() as u64);
        manifest.epoch <= self.epoch && by_manifest.max(by_state) <= known
    }
}

/// How many segments each node has.
fn counts(manifest: &Manifest) -> BTreeMap<&NodeName, u64> {
    let mut counts = BTreeMap::new();
    for run in &manifest.segments {
        if let Some(node) = manifest.nodes.get(run.home as usize) {
            *counts.entry(node).or_default() += u64::from(run.count);
        }
    }
    counts
}

impl Store {
    /// All traces of files that this store has no more.
    ///
    /// # Errors
    /// What keeps it from reading them.
    pub(crate) fn traces(&self) -> Result<Vec<Trace>> {
        let failed = |e: io::Error| Error::io("reading what was removed from the store", self.path(), e);
        let files = traced(&self.path().join(TRACES)).map_err(failed)?;
        let traces = files.into_iter().map(|(file, _)| self.trace_of(file));
        traces.filter_map(Result::transpose).collect()
    }

    /// The trace of the file `file`; `None` where there is none, or the file is still here.
    ///
    /// # Errors
    /// What keeps it from reading it.
    pub(crate) fn trace_of(&self, file: FileId) -> Result<Option<Trace>> {
        let path = self.trace_path(file);
        let text = match fs::read(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|e| Error::io("reading what was removed from the store", &path, e))?,
        };
        // Its removal was killed before it came to the object, or it is going on.
        if object::path(self.path(), file).exists() {
            return Ok(None);
        }
        // Otherwise it was never written to its end.
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        Ok(serde_json::from_slice(line).ok().map(|removal| Trace { file, removal }))
    }

    /// What the trace tells of a file that is about to go; `None` where all of its nodes are reached.
    pub(super) fn removal_to_tell(
        &self,
        file: FileId,
        is_reached: impl Fn(&NodeName) -> bool,
    ) -> Option<Removal> {
        // Of what is damaged nothing is known.
        let manifest = Manifest::read(&object::path(self.path(), file), "a file").ok()?;
        manifest.nodes.iter().any(|node| !is_reached(node)).then(|| Removal::of([&manifest]))?
    }

    /// The same where it goes in this store alone.
    pub(super) fn removal_here_to_tell(&self, file: FileId) -> Option<Removal> {
        self.removal_to_tell(file, |node| node == self.node())
    }

    /// Leaves a trace of a file that is about to lose its name. That it cannot is no reason to keep the file: removing
    /// files is the way out where the store is full.
    pub(super) fn leave_trace(&self, name: &FileName, file: FileId, removal: &Removal) {
        if let Err(e) = self.write_trace(name, file, removal) {
            tracing::warn!(
                "{name} is removed without a trace in the store {}: what other nodes have of it will look like a \
                 damaged file: {e}",
                self.path().display()
            );
        }
        #[cfg(test)]
        crate::killing::point();
    }

    fn write_trace(&self, name: &FileName, file: FileId, removal: &Removal) -> io::Result<()> {
        let directory = self.path().join(TRACES);
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let mut text = serde_json::to_vec(removal)?;
        text.push(b'\n');
        text.extend(name.as_path().as_os_str().as_bytes());
        let mut options = fs::OpenOptions::new();
        let mut trace =
            options.write(true).create(true).truncate(true).mode(0o600).open(self.trace_path(file))?;
        let whole = trace.try_clone()?;
        let mut rest = &text[..];
        spare::with_room(&whole, || {
            while !rest.is_empty() {
                rest = &rest[trace.write(rest)?..];
            }
            Ok(())
        })?;
        // Before the name goes: file systems keep to that order over a power cut, but for what is in files.
        trace.sync_all()?;
        thin_out(&directory, file)
    }

    fn trace_path(&self, file: FileId) -> PathBuf {
        self.path().join(TRACES).join(file.to_string())
    }
}

/// Removes the oldest traces where there are too many, but never that of `newest`.
fn thin_out(directory: &Path, newest: FileId) -> io::Result<()> {
    let mut files = traced(directory)?;
    if files.len() <= MOST {
        return Ok(());
    }
    files.retain(|(file, _)| *file != newest);
    let mut by_age = Vec::with_capacity(files.len());
    for (_, path) in files {
        match fs::metadata(&path).and_then(|metadata| metadata.modified()) {
            // Who removes another file was faster.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            modified => by_age.push((modified?, path)),
        }
    }
    by_age.sort_unstable_by_key(|(modified, _): &(SystemTime, PathBuf)| *modified);
    let too_many = by_age.len().saturating_sub(KEPT - 1);
    for (_, path) in by_age.into_iter().take(too_many) {
        match fs::remove_file(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    Ok(())
}

/// The files of which `directory` has traces, with the traces' paths.
fn traced(directory: &Path) -> io::Result<Vec<(FileId, PathBuf)>> {
    let entries = match fs::read_dir(directory) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let file = entry.file_name().to_str().and_then(|name| name.parse().ok());
        files.extend(file.map(|file| (file, entry.path())));
    }
    Ok(files)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::open_options::OpenOptions;

    /// A store with a file that another node shares.
    fn store_with(name: &FileName) -> (tempfile::TempDir, Store, FileId) {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::open_for(directory.path(), &NodeName::new("a")).unwrap();
        let file = make(&store, name);
        (directory, store, file)
    }

    fn told(epoch: u64) -> Removal {
        Removal { epoch, segments: vec![(NodeName::new("b"), 2)] }
    }

    fn make(store: &Store, name: &FileName) -> FileId {
        let nodes = ["a", "b"].map(NodeName::new);
        let options = OpenOptions::read_write().create(true);
        let made = store.create_unnamed_for(name, &options, &nodes, 0).unwrap().enter().unwrap();
        drop(made.expect("nobody else has the name"));
        store.lookup(name).unwrap()
    }

    #[test]
    fn a_trace_counts_only_without_the_file() {
        let name = FileName::new("/d/f").unwrap();
        let (_directory, store, file) = store_with(&name);
        store.leave_trace(&name, file, &told(7));
        assert_eq!(store.trace_of(file).unwrap(), None, "a removal that was killed");
        assert_eq!(store.traces().unwrap(), []);
        store.remove_tracing(&name, Some(&told(9))).unwrap();
        let trace = Trace { file, removal: told(9) };
        assert_eq!(store.trace_of(file).unwrap().as_ref(), Some(&trace));
        assert_eq!(store.traces().unwrap(), [trace]);
        assert_eq!(
            fs::read(store.trace_path(file)).unwrap(),
            br#"{"epoch":9,"segments":[["b",2]]}"#.iter().chain(b"\nd/f").copied().collect::<Vec<_>>()
        );
        fs::write(store.trace_path(file), "").unwrap();
        assert_eq!(store.traces().unwrap(), [], "it was never written to its end");
    }

    #[test]
    fn only_what_others_may_have_leaves_a_trace() {
        let name = FileName::new("/f").unwrap();
        let (_directory, store, shared) = store_with(&name);
        store.remove(&name).unwrap();
        drop(store.open_file(&name, &OpenOptions::read_write().create(true)).unwrap());
        store.remove(&name).unwrap();
        make(&store, &name);
        store.remove_tracing(&name, None).unwrap();
        let traces = store.traces().unwrap();
        assert!(matches!(traces[..], [Trace { file, .. }] if file == shared), "{traces:?}");
    }

    #[test]
    fn the_oldest_traces_go_where_there_are_too_many() {
        let name = FileName::new("/f").unwrap();
        let (_directory, store, first) = store_with(&name);
        store.remove(&name).unwrap();
        let now = SystemTime::now();
        let mut older = Vec::new();
        for age in 1..MOST as u64 {
            let file = FileId::random().unwrap();
            store.write_trace(&name, file, &told(1)).unwrap();
            let trace = fs::File::open(store.trace_path(file)).unwrap();
            trace.set_modified(now - Duration::from_secs(age)).unwrap();
            older.push(file);
        }
        assert_eq!(store.traces().unwrap().len(), MOST);
        // By a clock that was put back, even the newest looks like the oldest.
        let newest = make(&store, &name);
        store.remove(&name).unwrap();
        assert_eq!(store.traces().unwrap().len(), KEPT);
        let is_there = |file: FileId| store.trace_of(file).unwrap().is_some();
        assert!(is_there(first) && is_there(newest));
        let stay = KEPT - 2;
        assert!(older[..stay].iter().all(|file| is_there(*file)));
        assert!(!older[stay..].iter().any(|file| is_there(*file)));
    }
}
