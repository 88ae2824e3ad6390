//! Holds: a file's data stays for somebody who does not have it open, and will go on with it.
//!
//! To those who open the file he is as if he were not there: it is brought up, opened by a job over several nodes,
//! renamed. Only who would take its data away heeds him, as one who has it open: a removed file lasts until the last of
//! either has gone. The kernel drops a hold with its process; what that leaves of a removed file,
//! [`verify()`](crate::verify()) reclaims.
//!
//! A hold is a lock as those of [`presence`], and shared with forked children as they are.

use std::fs::File as StateFile;
use std::io;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::attachment::{self, AttachError, Attachment, How};
use crate::error::{Error, Result};
use crate::file::File;
use crate::name::FileName;
use crate::object;
use crate::open_options::OpenOptions;
use crate::presence::{self, Gate};
use crate::store::Store;
use crate::units::FileId;

/// Keeps a file's data, whoever removes it, until this is dropped.
#[derive(Debug)]
pub struct Hold {
    store: Store,
    id: FileId,
    name: FileName,
    /// `None` where this process may only look at the store.
    state: Option<StateFile>,
}

impl Store {
    /// Holds `file`, which is one of this store and was opened by `name`. Where this process may only look at the
    /// store, the file goes all the same when it is removed: it could not see to what would be left of it.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn hold(&self, file: &File, name: &FileName) -> Result<Hold> {
        let attachment = file.attachment();
        let hold = || {
            // Not that of the attachment, whose locks go with it.
            let state = open_state(attachment)?;
            state.as_ref().map_or(Ok(()), presence::hold).map(|()| state)
        };
        let state = hold().map_err(|e| Error::io(format!("holding {name}"), &attachment.path(), e))?;
        Ok(Hold { store: self.clone(), id: file.id(), name: name.clone(), state })
    }
}

/// A file's state; `None` where this process may only look at the store.
fn open_state(attachment: &Attachment) -> io::Result<Option<StateFile>> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::openat(attachment.directory(), object::STATE, flags, Mode::empty()) {
        Err(Errno::ACCESS | Errno::ROFS | Errno::PERM | Errno::NOENT) => Ok(None),
        state => Ok(Some(state?.into())),
    }
}

impl Hold {
    /// Opens the file, by whatever name, or without one.
    ///
    /// # Errors
    /// As [`Store::open_file`].
    pub fn open(&self, options: &OpenOptions) -> Result<File> {
        let how = How { fresh: true, removed: true, ..How::default() };
        match attachment::attach(&self.store, self.id, &self.name.to_string(), how) {
            Ok(attachment) => File::new(attachment, options),
            Err(AttachError::Failed(e)) => Err(e),
            Err(AttachError::Gone | AttachError::Abandoned) => Err(self.store.no_such_file(&self.name)),
        }
    }

    /// Lets go of the file. What is left of it, if it has lost its name and is nobody's, goes.
    fn end(&self, state: &StateFile) -> io::Result<()> {
        presence::let_go(state)?;
        let deleted = object::deleted_path(self.store.path(), self.id);
        // Only after having let go: who removes a file moves it there first, looks then whose it is, and leaves the
        // rest to him.
        if !deleted.exists() {
            return Ok(());
        }
        let gate = Gate::lock(state)?;
        if object::is_unlinked(state)? || gate.is_anybodys()? {
            return Ok(());
        }
        object::destroy(self.store.path(), &deleted)?;
        // Otherwise this process might take the gate while it has it.
        drop(gate);
        self.store.let_go(self.id);
        Ok(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Some(state) = &self.state else { return };
        if let Err(e) = self.end(state) {
            tracing::warn!("closing {}: what is left of it stays until svmio verify: {e}", self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Barrier;

    use super::*;
    use crate::killing::{self, End};
    use crate::state::State;
    use crate::units::FileOffset;
    use crate::verify::reclaim;

    const CONTENT: &[u8] = b"here it is";

    fn setting() -> (tempfile::TempDir, Store, FileName) {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::open(directory.path()).unwrap();
        (directory, store, FileName::new("/a/f").unwrap())
    }

    /// A file that nobody has open, and its hold.
    fn held(store: &Store, name: &FileName, options: &OpenOptions) -> Hold {
        let file = store.open_file(name, &options.clone().create(true)).unwrap();
        file.write_at(FileOffset(0), CONTENT).unwrap();
        file.commit(false).unwrap();
        let hold = store.hold(&file, name).unwrap();
        drop(file);
        hold
    }

    fn content(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; file.size() as usize];
        file.read_at(FileOffset(0), &mut bytes).unwrap();
        bytes
    }

    fn is_there(store: &Store, id: FileId) -> bool {
        object::path(store.path(), id).exists() || object::deleted_path(store.path(), id).exists()
    }

    #[test]
    fn what_is_held_stays_until_the_last_who_has_it_open_or_holds_it_has_gone() {
        let (_directory, store, name) = setting();
        let options = OpenOptions::read_write();
        for temporary in [false, true] {
            let hold = held(&store, &name, &options.clone().temporary(temporary));
            let id = hold.id;
            store.remove(&name).unwrap();
            assert!(matches!(store.open_file(&name, &options), Err(Error::NoSuchFile { .. })));
            assert!(reclaim(&store).unwrap().is_empty());
            for turn in 0..3 {
                let file = hold.open(&options).unwrap();
                assert!(file.is_removed(), "turn {turn}");
                assert_eq!(content(&file), CONTENT);
                file.write_at(FileOffset(0), CONTENT).unwrap();
                file.sync_data().unwrap();
                file.commit(true).unwrap();
                file.keep();
            }
            let (file, second) = (hold.open(&options).unwrap(), held(&store, &name, &options));
            drop(hold);
            assert_eq!(content(&file), CONTENT);
            let third = store.hold(&file, &name).unwrap();
            drop(file);
            assert_eq!(content(&third.open(&options).unwrap()), CONTENT);
            drop(third);
            assert!(!is_there(&store, id) && is_there(&store, second.id));
            drop(second);
            store.remove(&name).unwrap();
        }
        assert_eq!(std::fs::read_dir(store.path().join(object::DELETED)).unwrap().count(), 0);
    }

    #[test]
    fn who_holds_a_file_is_in_the_way_of_nobody_who_opens_it() {
        let (_directory, store, name) = setting();
        let hold = held(&store, &name, &OpenOptions::read_write());
        let file = store.open_file(&name, &OpenOptions::read_write()).unwrap();
        assert!(!file.has_others().unwrap());
        drop(file);
        attachment::forget(store.shared_path(), hold.id);
        let state = StateFile::open(object::path(store.path(), hold.id).join(object::STATE)).unwrap();
        assert!(!presence::anybody_attached(&state).unwrap());
        drop(hold);
        assert_eq!(content(&store.open_file(&name, &OpenOptions::reading()).unwrap()), CONTENT);
    }

    #[test]
    fn what_is_held_is_brought_up_where_its_state_counts_no_more() {
        let (_directory, store, name) = setting();
        let hold = held(&store, &name, &OpenOptions::read_write());
        // As somebody does who has put a newer manifest there.
        State::map(hold.state.as_ref().unwrap().try_clone().unwrap()).unwrap().void(Some(0));
        store.remove(&name).unwrap();
        for _ in 0..2 {
            let file = hold.open(&OpenOptions::read_write()).unwrap();
            assert!(file.is_removed());
            assert_eq!(content(&file), CONTENT);
        }
        let id = hold.id;
        drop(hold);
        assert!(!is_there(&store, id));
    }

    #[test]
    fn who_removes_a_file_while_its_last_hold_goes_or_that_one_takes_all_of_it_away() {
        let (_directory, store, name) = setting();
        for turn in 0..1000 {
            let hold = held(&store, &name, &OpenOptions::read_write());
            let (id, file) = (hold.id, (turn % 2 == 0).then(|| hold.open(&OpenOptions::reading()).unwrap()));
            let meeting = Barrier::new(3);
            std::thread::scope(|scope| {
                for leave in [Box::new(|| drop(hold)) as Box<dyn FnOnce() + Send>, Box::new(|| drop(file))] {
                    scope.spawn(|| {
                        meeting.wait();
                        leave();
                    });
                }
                meeting.wait();
                store.remove(&name).unwrap();
            });
            assert!(!is_there(&store, id), "turn {turn}");
        }
    }

    #[test]
    fn who_opens_a_file_while_it_is_removed_has_it_whole_or_not_at_all() {
        let (_directory, store, name) = setting();
        for turn in 0..300 {
            let hold = held(&store, &name, &OpenOptions::read_write());
            if turn % 2 == 0 {
                State::map(hold.state.as_ref().unwrap().try_clone().unwrap()).unwrap().void(Some(0));
            }
            let meeting = Barrier::new(3);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    meeting.wait();
                    match store.open_file(&name, &OpenOptions::reading()) {
                        Err(Error::NoSuchFile { .. }) => {}
                        opened => assert_eq!(content(&opened.unwrap()), CONTENT),
                    }
                });
                scope.spawn(|| {
                    meeting.wait();
                    assert_eq!(content(&hold.open(&OpenOptions::reading()).unwrap()), CONTENT);
                });
                meeting.wait();
                store.remove(&name).unwrap();
            });
            let id = hold.id;
            drop(hold);
            assert!(!is_there(&store, id), "turn {turn}");
        }
    }

    #[test]
    fn what_a_killed_process_held_is_reclaimed() {
        const TEST: &str = "hold::tests::what_a_killed_process_held_is_reclaimed";
        let options = OpenOptions::read_write();
        if let Some((path, point)) = killing::task() {
            let (store, name) = (Store::open(Path::new(&path)).unwrap(), FileName::new("/a/f").unwrap());
            let hold = held(&store, &name, &options);
            killing::arm(point);
            store.remove(&name).unwrap();
            assert_eq!(content(&hold.open(&options).unwrap()), CONTENT);
            killing::arm(1);
            killing::point();
        }
        for point in 0..=2 {
            let (_directory, store, _) = setting();
            let end = killing::run_anew(TEST, &store.path().to_string_lossy(), point);
            assert_eq!(end, End::KilledItself);
            let left = reclaim(&store).unwrap();
            for directory in [object::OBJECTS, object::DELETED] {
                let count = std::fs::read_dir(store.path().join(directory)).unwrap().count();
                assert_eq!(count, 0, "{point}: {left:?}");
            }
        }
    }
}
