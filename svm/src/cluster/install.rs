//! Making a file known in a node's store.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::attachment::{Attachment, Filling};
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::name::FileName;
use crate::object;
use crate::presence::Gate;
use crate::recovery::make_claimed;
use crate::state::State;

use super::Context;
use super::wire::FileTruth;

/// Sees to it that this node's store has the file and its name, with a manifest that is true. Where processes of
/// the node have it open, nothing is changed; nor where it was removed since.
pub(super) fn install(context: &Context, manifest: &Manifest) -> Result<()> {
    let store = &context.store;
    let path = object::path(store.path(), manifest.id);
    let failed = |e: io::Error| Error::io(format!("opening {}", manifest.name), &path, e);
    let was_removed = || object::deleted_path(store.path(), manifest.id).exists();
    loop {
        if was_removed() {
            return Ok(());
        }
        let is_new = match make_object(context, manifest) {
            Ok(()) => true,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => false,
            Err(e) => return Err(failed(e)),
        };
        let mut opening = fs::OpenOptions::new();
        opening.read(true).write(true).create(true).truncate(false).mode(0o600);
        let state = match opening.open(path.join(object::STATE)) {
            // It is being removed.
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            state => state.map_err(failed)?,
        };
        let gate = Gate::lock(&state).map_err(failed)?;
        // Whoever removes it has the gate, and may have had it before.
        if was_removed() {
            if is_new {
                object::destroy(store.path(), &path).map_err(failed)?;
            }
            return Ok(());
        }
        if object::is_unlinked(&state).map_err(failed)? {
            continue;
        }
        if !is_new && !gate.anybody_present().map_err(failed)? {
            let own = own_manifest(&path, &manifest.name)?;
            if let Some(own) = &own {
                make_claimed(&path, own, manifest, store.node()).map_err(failed)?;
            }
            if own.as_ref() != Some(manifest) {
                manifest.commit(&path, false)?;
            }
            // What it says is true no more. The manifest tells what all nodes together know.
            State::map(state.try_clone().map_err(failed)?).map_err(failed)?.void();
        }
        // Under the gate: whoever removes the file removes the name, too.
        return enter_name(context, manifest).inspect_err(|_| {
            if is_new && gate.anybody_present().is_ok_and(|present| !present) {
                // Nothing would ever lead to it. What fails here, `verify` finds.
                let _ = object::destroy(store.path(), &path);
            }
        });
    }
}

/// What a node's replica says of a file; `None` where it is damaged or was never written.
///
/// # Errors
/// What says more than this version understands is no damage, and nothing to be replaced; what cannot be read.
fn own_manifest(path: &Path, name: &str) -> Result<Option<Manifest>> {
    match Manifest::read(path, name) {
        Ok(own) => Ok(Some(own)),
        Err(Error::CorruptManifest { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Brings a replica up to what the master node knows, `truth`, of which `manifest` is a part.
pub(super) fn refresh(attachment: &Attachment, manifest: &Manifest, truth: &FileTruth) -> Result<()> {
    let (state, _) = attachment.writable()?;
    // It may have been settled since this node last heard of the file.
    if manifest.epoch >= state.epoch() {
        state.set_segment_size(manifest.segment_size);
    }
    let homes: Vec<_> = manifest.homes().collect();
    attachment.note_homes(&homes, Filling::Sparse, truth.also_locked_at_master)?;
    take_size(state, manifest.size, truth.truncations);
    Ok(())
}

/// Takes over the master node's size: also a smaller one, if the file was made shorter since.
pub(super) fn take_size(state: &State, size: u64, truncations: u64) {
    match truncations.cmp(&state.truncations()) {
        // Told before the file was made shorter.
        std::cmp::Ordering::Less => return,
        std::cmp::Ordering::Equal => state.grow(size),
        std::cmp::Ordering::Greater => {
            // The count after the size, as at the master: see `File::size_and_truncations`.
            state.set_size(size);
            state.set_truncations(truncations);
        }
    }
    state.set_reported_size(size);
}

/// Makes the file's directory, whole or not at all.
fn make_object(context: &Context, manifest: &Manifest) -> io::Result<()> {
    let objects = context.store.path().join(object::OBJECTS);
    let path = object::path(context.store.path(), manifest.id);
    if path.exists() {
        return Err(io::Error::from(ErrorKind::AlreadyExists));
    }
    let unfinished = tempfile::Builder::new().prefix(object::UNFINISHED_PREFIX).tempdir_in(&objects)?;
    let directory = unfinished.path().join("object");
    DirBuilder::new().mode(0o700).create(&directory)?;
    manifest.commit(&directory, false).map_err(io::Error::other)?;
    // Fails where somebody was faster: his is not empty.
    match fs::rename(&directory, &path) {
        Err(e) if e.kind() == ErrorKind::DirectoryNotEmpty => Err(io::Error::from(ErrorKind::AlreadyExists)),
        renamed => renamed,
    }
}

fn enter_name(context: &Context, manifest: &Manifest) -> Result<()> {
    let (store, id) = (&context.store, manifest.id);
    let name = FileName::new(&manifest.name)?;
    loop {
        match store.lookup(&name) {
            Ok(known) if known == id => return Ok(()),
            Ok(_) => {
                let one = context.roster.name(super::Roster::MASTER).clone();
                return Err(Error::TwoFiles { name: name.to_string(), one, other: store.node().clone() });
            }
            Err(Error::NoSuchFile { .. }) => {}
            Err(e) => return Err(e),
        }
        if store.enter_name(&name, id, false)? {
            return Ok(());
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_damaged_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            fs::write(directory.path().join("manifest"), text).unwrap();
            own_manifest(directory.path(), "x")
        };
        assert!(read("svmio-manifest 1 crc32=0 bytes=3\n").unwrap().is_none());
        assert!(matches!(read("svmio-manifest 77 whatever\n"), Err(Error::NewerFormat { .. })));
        fs::remove_file(directory.path().join("manifest")).unwrap();
        assert!(own_manifest(directory.path(), "x").unwrap().is_none());
    }
}
