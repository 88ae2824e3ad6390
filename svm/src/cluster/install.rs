//! Making a file known in a node's store.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::attachment::{Attachment, Filling};
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::name::{DirectoryName, FileName};
use crate::object;
use crate::presence::Gate;
use crate::recovery::make_claimed;
use crate::state::State;
use crate::store::Store;
use crate::units::FileId;

use super::Context;
use super::wire::FileTruth;

/// Sees to it that this node's store has the file and its name, with a manifest that is true. Where processes of
/// the node have it open, nothing is changed, be it that it has lost its name here.
///
/// # Errors
/// [`Error::TwoFiles`]; [`Error::NoSuchFile`] where it has got another name here; what the operating system says.
pub(super) fn install(context: &Context, manifest: &Manifest) -> Result<()> {
    let path = object::path(context.store.path(), manifest.id);
    let failed = |e: io::Error| opening_failed(manifest, &path, e);
    loop {
        if stays_without_name(&context.store, manifest)? {
            return Ok(());
        }
        let new = NewObject::make(context, manifest).map_err(failed)?;
        let Some(state) = open_state(&path).map_err(failed)? else { continue };
        let gate = Gate::lock(&state).map_err(failed)?;
        if object::is_unlinked(&state).map_err(failed)? {
            continue;
        }
        if new.is_none() && !gate.anybody_present().map_err(failed)? {
            renew_alone(&context.store, manifest, &path, &state)?;
        }
        // Under the gate: who removes the file, or gives it another name, has it.
        enter_name(context, manifest, new.is_some())?;
        if let Some(new) = new {
            new.keep();
        }
        return Ok(());
    }
}

/// Has the manifest be true that this node's store has of the file. Where processes of the node have it open, or where
/// it is not there, nothing is changed.
///
/// # Errors
/// What the operating system says.
pub(super) fn renew(context: &Context, manifest: &Manifest) -> Result<()> {
    let path = object::path(context.store.path(), manifest.id);
    let failed = |e: io::Error| opening_failed(manifest, &path, e);
    let Some(state) = open_state(&path).map_err(failed)? else { return Ok(()) };
    let gate = Gate::lock(&state).map_err(failed)?;
    // Who removes it has the gate; then somebody has it open, or it is going.
    if gate.anybody_present().map_err(failed)? || !path.exists() {
        return Ok(());
    }
    renew_alone(&context.store, manifest, &path, &state)
}

/// The same where nobody has the file open, of whose state the caller has the gate.
fn renew_alone(store: &Store, manifest: &Manifest, path: &Path, state: &File) -> Result<()> {
    let failed = |e: io::Error| opening_failed(manifest, path, e);
    let own = own_manifest(path, &manifest.name)?;
    if let Some(own) = &own {
        make_claimed(path, own, manifest, store.node()).map_err(failed)?;
    }
    if own.as_ref() != Some(manifest) {
        manifest.commit(path, false)?;
    }
    // What it says is true no more. The manifest tells what all nodes together know.
    let state = State::map(state.try_clone().map_err(failed)?).map_err(failed)?;
    state.void(manifest.position_of(store.node()));
    Ok(())
}

/// The state of the file in the directory `path`, made where there is none; `None` where there is no such directory.
fn open_state(path: &Path) -> io::Result<Option<File>> {
    let mut opening = fs::OpenOptions::new();
    opening.read(true).write(true).create(true).truncate(false).mode(0o600);
    match opening.open(path.join(object::STATE)) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        state => state.map(Some),
    }
}

/// Whether processes of this node have the file open, or [hold](crate::Hold) it, although it has lost its name here:
/// where they only hold it, its manifest is true then. What was left so by killed ones goes.
fn stays_without_name(store: &Store, manifest: &Manifest) -> Result<bool> {
    let path = object::deleted_path(store.path(), manifest.id);
    let failed = |e: io::Error| opening_failed(manifest, &path, e);
    let state = match File::options().read(true).write(true).open(path.join(object::STATE)) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return take_and_destroy(store.path(), &path).map(|()| false).map_err(failed);
        }
        state => state.map_err(failed)?,
    };
    // Who removes the file, and who is the last to close it, destroys it under the gate: where two did, one would clear
    // what the other has kept of it for new files, and somebody has got since.
    let gate = Gate::lock(&state).map_err(failed)?;
    if object::is_unlinked(&state).map_err(failed)? {
        return Ok(false);
    }
    if gate.anybody_present().map_err(failed)? {
        return Ok(true);
    }
    if gate.is_held().map_err(failed)? {
        return renew_alone(store, manifest, &path, &state).map(|()| true);
    }
    object::destroy(store.path(), &path).map(|()| false).map_err(failed)
}

/// Destroys the object at `path` if nobody else takes it away before: nobody finds half of it there.
fn take_and_destroy(store: &Path, path: &Path) -> io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let going = object::reclaimed_path(store)?;
    match fs::rename(path, &going) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        moved => moved.and_then(|()| object::destroy(store, &going)),
    }
}

fn opening_failed(manifest: &Manifest, path: &Path, e: io::Error) -> Error {
    Error::io(format!("opening {}", manifest.name), path, e)
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

/// A file's directory that was made just now. Where it is not kept, it goes again, unless somebody has come to have the
/// file open: nothing would ever lead to it.
struct NewObject<'c> {
    store: &'c Path,
    path: PathBuf,
    is_kept: bool,
}

impl NewObject<'_> {
    /// Makes it, whole or not at all; `None` where there is one.
    fn make<'c>(context: &'c Context, manifest: &Manifest) -> io::Result<Option<NewObject<'c>>> {
        let store = context.store.path();
        let path = object::path(store, manifest.id);
        if path.exists() {
            return Ok(None);
        }
        let objects = store.join(object::OBJECTS);
        let unfinished = tempfile::Builder::new().prefix(object::UNFINISHED_PREFIX).tempdir_in(&objects)?;
        let directory = unfinished.path().join("object");
        DirBuilder::new().mode(0o700).create(&directory)?;
        manifest.commit(&directory, false).map_err(io::Error::other)?;
        match fs::rename(&directory, &path) {
            // Somebody was faster: his is not empty.
            Err(e) if matches!(e.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => Ok(None),
            renamed => renamed.map(|()| Some(NewObject { store, path, is_kept: false })),
        }
    }

    fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for NewObject<'_> {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let destroy_unused = || {
            let Some(state) = open_state(&self.path)? else { return Ok(()) };
            // Until it is gone: who comes to open it waits, and finds that.
            let gate = Gate::lock(&state)?;
            if object::is_unlinked(&state)? || gate.is_anybodys()? {
                return Ok(());
            }
            take_and_destroy(self.store, &self.path)
        };
        if let Err(e) = destroy_unused() {
            tracing::debug!("{} stays until svmio verify: {e}", self.path.display());
        }
    }
}

fn enter_name(context: &Context, manifest: &Manifest, is_new: bool) -> Result<()> {
    let (store, id) = (&context.store, manifest.id);
    let name = FileName::new(&manifest.name)?;
    loop {
        match store.lookup(&name) {
            Ok(known) if known == id => return Ok(()),
            Ok(_) => {
                let one = context.roster.name(super::Roster::MASTER).clone();
                return Err(Error::TwoFiles { name: name.to_string(), one, other: store.node().clone() });
            }
            // Most often because a killed process got no further; else it was given another name just now.
            Err(Error::NoSuchFile { .. }) if !is_new && has_name(store, id)? => {
                return Err(store.no_such_file(&name));
            }
            Err(Error::NoSuchFile { .. }) => {}
            // Its object came before it, and is there.
            Err(Error::Unwritten { .. }) if !is_new => return store.write_name_again(&name, id),
            Err(e) => return Err(e),
        }
        // A new file's first durable commit brings the name to the device; who has lost it has one behind it, maybe.
        if store.enter_name(&name, id, !is_new && !manifest.temporary)? {
            return Ok(());
        }
    }
}

/// Whether any name leads to the file.
fn has_name(store: &Store, id: FileId) -> Result<bool> {
    Ok(store.files(&DirectoryName::root())?.into_iter().any(|(_, known)| known == Some(id)))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::killing::{self, Child, End};
    use crate::open_options::OpenOptions;
    use crate::presence::{self, Presence};
    use crate::units::{FileOffset, SegmentIndex};

    /// An object without a name, with a state where `has_state`, and what is true of it.
    fn object_without_name(store: &Store, has_state: bool) -> (Manifest, PathBuf) {
        let name = FileName::new("f").unwrap();
        let made = store.create_unnamed(&name, &OpenOptions::read_write()).unwrap();
        let manifest = Manifest::read(&made.file().directory(), "f").unwrap();
        drop(made);
        let path = object::deleted_path(store.path(), manifest.id);
        fs::create_dir(&path).unwrap();
        if has_state {
            open_state(&path).unwrap().unwrap();
        }
        (manifest, path)
    }

    #[test]
    fn what_killed_processes_left_without_a_name_goes_and_what_is_open_stays() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        for has_state in [true, false] {
            let (manifest, path) = object_without_name(&store, has_state);
            assert!(!stays_without_name(&store, &manifest).unwrap());
            assert!(!path.exists());
            assert!(!stays_without_name(&store, &manifest).unwrap(), "nothing is there");
        }
        let (manifest, path) = object_without_name(&store, true);
        let presence = Presence::enter(open_state(&path).unwrap().unwrap(), 1).unwrap();
        assert!(stays_without_name(&store, &manifest).unwrap());
        assert!(path.exists() && own_manifest(&path, "f").unwrap().is_none());
        drop(presence);
        let holding = open_state(&path).unwrap().unwrap();
        presence::hold(&holding).unwrap();
        assert!(stays_without_name(&store, &manifest).unwrap());
        assert_eq!(own_manifest(&path, "f").unwrap(), Some(manifest));
    }

    #[test]
    fn what_somebody_else_is_about_to_destroy_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let (manifest, path) = object_without_name(&store, true);
        let state = open_state(&path).unwrap().unwrap();
        let gate = Gate::lock(&state).unwrap();
        let child = Child::run(|| assert!(!stays_without_name(&store, &manifest).unwrap()));
        while !child.is_asleep() {
            assert_eq!(child.ended(libc::WNOHANG), None, "it does not wait");
            std::thread::yield_now();
        }
        assert!(path.exists());
        drop(gate);
        assert_eq!(child.wait(), End::Finished);
        assert!(!path.exists());
    }

    #[test]
    fn what_killed_processes_left_unsynced_is_known_where_their_state_counts_no_more() {
        const TEST: &str = "cluster::install::tests::\
                            what_killed_processes_left_unsynced_is_known_where_their_state_counts_no_more";
        let (name, options) = (FileName::new("f").unwrap(), OpenOptions::read_write().create(true));
        if let Some((path, _)) = killing::task() {
            let file = Store::open(std::path::Path::new(&path)).unwrap().open_file(&name, &options).unwrap();
            file.write_at(FileOffset(0), b"seen by others").unwrap();
            file.commit(false).unwrap();
            // As if it were killed.
            std::mem::forget(file);
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        assert_eq!(killing::run_anew(TEST, &store.path().to_string_lossy(), 0), End::Finished);
        let path = object::path(store.path(), store.lookup(&name).unwrap());
        let state = || State::map(open_state(&path).unwrap().unwrap()).unwrap();
        state().void(Some(0));
        let file = store.open_file(&name, &options).unwrap();
        assert_eq!(state().left_unsynced().map(|(index, _)| index).collect::<Vec<_>>(), [SegmentIndex(0)]);
        file.sync_left().unwrap();
        assert_eq!(state().left_unsynced().count(), 0);
    }

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
