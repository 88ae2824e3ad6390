//! The files that this process has open, and the last ones that it has closed.
//!
//! Who opens a file looks at its manifest and its segments, and maps its state. A file that was closed and is opened
//! again is mostly the same still. So some closed files stay mapped, without their place among those who have them
//! open: to all others they are closed. When one is opened again, its state tells whether it may be used as it is:
//!
//! * it is in place still, valid and not marked as deleted;
//! * for who opens it by its name: that led to it when it was opened, or it has got it since, and it has not lost it
//!   otherwise (which counts as a revival), so that it leads to it still;
//! * it was open through the same cluster, or was and is on this node alone;
//! * nobody has revived it meanwhile: all that was read before is true still;
//! * nobody died while he had it open, unless others have it open.
//!
//! All that is looked at in the gate, as by everyone who opens a file.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::error::{Error, Result};
use crate::mapping_cache;
use crate::node::BootId;
use crate::object;
use crate::store::Store;
use crate::units::FileId;

use super::{Attachment, PROCESSES, View};

/// How many closed files are kept; each holds two file descriptors.
const KEPT: usize = 16;

/// What this process has open and keeps.
#[derive(Default)]
pub(super) struct Registry {
    open: HashMap<(Arc<Path>, FileId), Weak<Attachment>>,
    /// Closed files; the one that was closed last is the last.
    kept: Vec<Arc<Attachment>>,
}

pub(super) fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: OnceLock<Mutex<Registry>> = OnceLock::new();
    // A panic elsewhere leaves the collections whole.
    REGISTRY.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a file that is being closed, unless this process has it open otherwise, or it is going.
pub(crate) fn keep(attachment: Arc<Attachment>) {
    let mut registry = registry();
    // Weak references turn into strong ones under the registry's lock only.
    let mut gone = None;
    if Arc::strong_count(&attachment) == 1 && attachment.leave() {
        registry.kept.push(attachment);
        gone = (registry.kept.len() > KEPT).then(|| registry.kept.remove(0));
    } else if Arc::strong_count(&attachment) == 1 {
        gone.replace(attachment);
    } else {
        // Before the registry is free: of two who keep it at the same time, the second is the last one.
        drop(attachment);
    }
    drop(registry);
    // Unmapped only here, after the registry is free.
    drop(gone);
}

/// Opens a file again that was kept under this name, or that this process has open, if it may be used as it is.
pub(crate) fn reopen(store: &Path, name: &str) -> Option<Arc<Attachment>> {
    let is_meant = |attachment: &Attachment| {
        // Relaxed: where it is not seen yet, the file is looked for by its name.
        *attachment.store == *store && attachment.name == name && attachment.is_named.load(Ordering::Relaxed)
    };
    let mut registry = registry();
    registry.take(is_meant, 0).or_else(|| {
        let mut open = registry.open.values().filter_map(Weak::upgrade);
        open.find(|open| is_meant(open) && open.has_its_name())
    })
}

/// Opens the file `id` again through `cluster`, if this process has it open so, or kept it and may use it as it is.
pub(crate) fn reopen_in_cluster(store: &Store, id: FileId, cluster: u64) -> Option<Arc<Attachment>> {
    let store = store.shared_path();
    let mut registry = registry();
    let known = registry.known(store, id, cluster);
    known.filter(|known| known.check_cluster(cluster).is_ok() && !known.temporary)
}

/// Keeps a file no longer that is gone.
pub(crate) fn forget(store: &Path, id: FileId) {
    let mut registry = registry();
    let position = registry.kept.iter().position(|kept| kept.id == id && *kept.store == *store);
    let gone = position.map(|position| registry.kept.remove(position));
    drop(registry);
    drop(gone);
}

/// Forgets that this process has a file open, as if others had.
#[cfg(test)]
pub(crate) fn overlook(store: &Path, id: FileId) {
    registry().open.retain(|(other, known), _| **other != *store || *known != id);
}

impl Registry {
    /// The file `id`, if this process has it open or may open it as it was kept.
    pub(super) fn known(&mut self, store: &Arc<Path>, id: FileId, cluster: u64) -> Option<Arc<Attachment>> {
        self.take(|kept| kept.id == id && kept.store == *store, cluster).or_else(|| {
            let open = self.open.get(&(Arc::clone(store), id)).and_then(Weak::upgrade);
            open.filter(|open| !open.has_left())
        })
    }

    /// Enters a file that was opened.
    pub(super) fn enter(&mut self, attachment: &Arc<Attachment>) {
        self.open.retain(|_, other| other.strong_count() > 0);
        let key = (Arc::clone(&attachment.store), attachment.id);
        self.open.insert(key, Arc::downgrade(attachment));
    }

    /// Opens the kept file that `is_meant`, through `cluster`; one that may not be used as it is is kept no longer.
    fn take(&mut self, is_meant: impl Fn(&Attachment) -> bool, cluster: u64) -> Option<Arc<Attachment>> {
        let position = self.kept.iter().rposition(|kept| is_meant(kept))?;
        let kept = self.kept.remove(position);
        let entered = kept.enter_again(cluster).unwrap_or_else(|error| {
            tracing::debug!("{} is opened as if for the first time: {error}", kept.name);
            false
        });
        entered.then_some(kept)
    }
}

impl Attachment {
    /// Gives up this process's place among those who have the file open. False where the file is not to be kept.
    fn leave(&self) -> bool {
        let View::Full { state, presence } = &self.view else { return false };
        // What the storage device did not take concerns this open alone.
        if self.temporary || state.is_deleted() || self.changes.have_failed() {
            return false;
        }
        self.leave_unsynced(state);
        state.remove_user();
        // Without the gate: who removes a file marks it first and looks then who is there, this looks at the mark after
        // having gone, and dropping it sees to the rest.
        presence.leave().is_ok() && !state.is_deleted()
    }

    /// Whether its name leads to this open file still, which is no other node's business.
    fn has_its_name(&self) -> bool {
        let View::Full { state, presence } = &self.view else { return false };
        let is_unlinked = object::is_unlinked(presence.file()).unwrap_or(true);
        let is_there = !is_unlinked && !state.is_deleted() && !presence.has_left();
        // Whoever gives it another name, or sets it aside, raises the count.
        let has_same_name = state.revivals() == self.revivals;
        is_there && has_same_name && state.cluster() == 0 && !self.temporary
    }

    /// Whether this process has closed the file, and keeps it.
    fn has_left(&self) -> bool {
        matches!(&self.view, View::Full { presence, .. } if presence.has_left())
    }

    /// Takes a place again, through `cluster`. False where the file may not be used as it is.
    fn enter_again(&self, cluster: u64) -> Result<bool> {
        let View::Full { state, presence } = &self.view else { return Ok(false) };
        let failed = |e| Error::io(format!("opening {}", self.name), &self.path(), e);
        let gate = presence.gate().map_err(failed)?;
        if object::is_unlinked(presence.file()).map_err(failed)? {
            mapping_cache::forget(&self.store, self.id);
            return Ok(false);
        }
        let is_as_it_was = state.is_valid(BootId::current()?, self.id)
            && !state.is_deleted()
            && state.cluster() == cluster
            && state.revivals() == self.revivals;
        // Whoever is counted and not there died.
        if !is_as_it_was || state.users() != 0 && !gate.anybody_present().map_err(failed)? {
            return Ok(false);
        }
        presence.enter_again(PROCESSES).map_err(failed)?;
        if state.add_user() != 0 {
            // One of those who are counted may have died in this place.
            let reaped = state.reap(presence.slot(), self.own);
            reaped.map_err(|source| Error::Lock { name: self.name.clone(), source })?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use crate::store::aside::Over;
    use crate::units::FileId;
    use crate::{FileName, FileOffset, OpenOptions, Store};

    fn setting() -> (tempfile::TempDir, Store, FileName) {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let name = FileName::new("/a/b").unwrap();
        let file = store.open_file(&name, &OpenOptions::read_write().create(true)).unwrap();
        file.write_at(FileOffset(0), b"first").unwrap();
        file.commit(true).unwrap();
        file.keep();
        (directory, store, name)
    }

    fn content(file: &crate::File) -> Vec<u8> {
        let mut bytes = vec![0; file.size() as usize];
        file.read_at(FileOffset(0), &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_kept_file_is_closed_and_opens_again() {
        let (_directory, store, name) = setting();
        let options = OpenOptions::read_write();
        for turn in 0..3 {
            let file = store.reopen(&name, &options).unwrap().expect("it was kept");
            assert!(file.is_committed() && !file.has_others().unwrap(), "turn {turn}");
            assert_eq!(content(&file), b"first");
            let same = store.reopen(&name, &options).unwrap().expect("it is open");
            let another = store.open_file(&name, &options).unwrap();
            // One of these is the last, and kept.
            same.keep();
            drop(another);
            assert!(!file.has_others().unwrap());
            file.keep();
        }
        assert!(store.reopen(&name, &options.clone().create(true).exclusive(true)).unwrap().is_none());
        assert!(store.reopen(&FileName::new("/a").unwrap(), &options).unwrap().is_none());
    }

    #[test]
    fn a_name_that_changed_hands_leads_to_the_new_file() {
        let (_directory, store, name) = setting();
        let options = OpenOptions::read_write();
        let id = store.lookup(&name).unwrap();
        // What another process does that removes the file: nothing in this one hears of it.
        std::fs::remove_file(store.names().join("a/b")).unwrap();
        crate::object::destroy(store.path(), &crate::object::path(store.path(), id)).unwrap();
        assert!(store.reopen(&name, &options).unwrap().is_none());
        let file = store.open_file(&name, &options.clone().create(true)).unwrap();
        file.write_at(FileOffset(0), b"second").unwrap();
        assert_eq!(content(&store.reopen(&name, &options).unwrap().expect("it is open")), b"second");
    }

    #[test]
    fn nothing_is_left_of_a_removed_file_that_was_kept() {
        let (_directory, store, name) = setting();
        let file = store.reopen(&name, &OpenOptions::read_write()).unwrap().expect("it was kept");
        store.remove(&name).unwrap();
        assert!(store.reopen(&name, &OpenOptions::read_write()).unwrap().is_none());
        file.keep();
        assert_eq!(std::fs::read_dir(store.path().join(crate::object::DELETED)).unwrap().count(), 0);
        assert!(store.reopen(&name, &OpenOptions::read_write()).unwrap().is_none());
    }

    #[test]
    fn a_kept_file_that_is_marked_already_is_removed() {
        let (_directory, store, name) = setting();
        let id = store.lookup(&name).unwrap();
        // Another process had it open still when the one that removes it looked, and is gone when that looks again.
        let path = crate::object::path(store.path(), id).join(crate::object::STATE);
        let state = std::fs::File::options().read(true).write(true).open(path).unwrap();
        crate::state::State::map(state).unwrap().set_deleted();
        let (done, removed) = std::sync::mpsc::channel();
        let remover = store.clone();
        std::thread::spawn(move || done.send(remover.remove(&name)));
        let limit = std::time::Duration::from_secs(30);
        removed.recv_timeout(limit).expect("it waits for itself").unwrap();
        assert_eq!(std::fs::read_dir(store.path().join(crate::object::DELETED)).unwrap().count(), 0);
    }

    #[test]
    fn a_state_that_was_revived_is_looked_at_anew() {
        let (_directory, store, name) = setting();
        let options = OpenOptions::read_write();
        let file = store.reopen(&name, &options).unwrap().expect("it was kept");
        let state = file.attachment().state().unwrap();
        // As if another process had come first, and found what this one left to be repaired.
        state.revive().unwrap();
        state.add_user();
        file.keep();
        assert!(store.reopen(&name, &options).unwrap().is_none());
        // That process died: its count stays.
        let file = store.open_file(&name, &options).unwrap();
        file.attachment().state().unwrap().add_user();
        file.keep();
        assert!(store.reopen(&name, &options).unwrap().is_none());
        assert_eq!(content(&store.open_file(&name, &options).unwrap()), b"first");
    }

    #[test]
    fn who_opens_a_file_while_it_loses_its_name_does_not_open_it_by_that_again() {
        let (_directory, store, name) = setting();
        let (options, other) = (OpenOptions::read_write(), FileName::new("/a/c").unwrap());
        let id = store.lookup(&name).unwrap();
        // What another process does between this one's look for the name and its coming to the gate.
        store.rename(&name, &other, false).unwrap();
        let file = store.attach(id, &name, &options).unwrap();
        assert_eq!(content(&file), b"first");
        assert!(store.reopen(&name, &options).unwrap().is_none(), "it is open");
        file.keep();
        assert!(store.reopen(&name, &options).unwrap().is_none(), "it was kept");
        assert!(store.open_file(&name, &options).is_err());
        let new = store.open_file(&name, &options.clone().create(true)).unwrap();
        new.write_at(FileOffset(0), b"second").unwrap();
        let other = store.open_file(&other, &options).unwrap();
        assert_eq!((content(&new), content(&other)), (b"second".to_vec(), b"first".to_vec()));
        assert_eq!(store.reopen(&name, &options).unwrap().expect("it is open").id(), new.id());
    }

    #[test]
    fn a_file_without_its_name_so_far_is_not_opened_by_it() {
        let (_directory, store, name) = setting();
        let options = OpenOptions::read_write();
        store.remove(&name).unwrap();
        let unnamed = store.create_unnamed(&name, &options).unwrap();
        assert!(store.reopen(&name, &options).unwrap().is_none());
        let file = unnamed.replace().unwrap();
        assert_eq!(store.reopen(&name, &options).unwrap().expect("it is open").id(), file.id());
    }

    #[test]
    fn a_file_that_is_set_aside_is_not_opened_by_its_name() {
        let (_directory, store, name) = setting();
        let options = OpenOptions::read_write();
        let older = store.lookup(&name).unwrap();
        let over = Over { older: Some(older), nodes: vec![store.node().clone()], cleared: Vec::new() };
        for is_open in [true, false] {
            let file = store.open_file(&name, &options).unwrap();
            let file = match is_open {
                true => Some(file),
                false => {
                    file.keep();
                    None
                }
            };
            let unnamed = store.create_unnamed(&name, &options).unwrap();
            let new = unnamed.file().id();
            let aside = unnamed.set_aside(&over).unwrap();
            assert!(store.reopen(&name, &options).unwrap().is_none());
            assert_eq!(store.open_file(&name, &options).unwrap().id(), new);
            store.restore(&aside).unwrap();
            assert_eq!(store.open_file(&name, &options).unwrap().id(), older);
            drop(file);
        }
        let file = store.open_file(&name, &options).unwrap();
        let aside = store.clear_name(&name, FileId::random().unwrap(), &over).unwrap();
        assert!(store.reopen(&name, &options).unwrap().is_none());
        store.restore(&aside.unwrap()).unwrap();
        assert_eq!(store.lookup(&name).unwrap(), file.id());
    }

    #[test]
    fn names_that_are_no_text_are_not_taken_for_one_another() {
        let (_directory, store, _) = setting();
        let names = [&b"/\xff"[..], b"/\xfe", "/\u{fffd}".as_bytes()];
        let names = names.map(|name| FileName::new(std::ffi::OsStr::from_bytes(name)).unwrap());
        let options = OpenOptions::read_write().create(true);
        for turn in 0..2 {
            for (name, content) in names.iter().zip([b"0", b"1", b"2"]) {
                let reopened = store.reopen(name, &options).unwrap();
                let file = reopened.unwrap_or_else(|| store.open_file(name, &options).unwrap());
                assert_eq!(file.size(), turn);
                file.write_at(FileOffset(0), content).unwrap();
                file.keep();
            }
        }
        for (name, expected) in names.iter().zip(["0", "1", "2"]) {
            assert_eq!(content(&store.open_file(name, &options).unwrap()), expected.as_bytes());
        }
    }
}
