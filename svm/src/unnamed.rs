//! Files that have no name yet: made whole first, named last.
//!
//! A name never leads to an unfinished file, because a file is made without one: its object, its manifest
//! and this process's attachment come first. Whoever wants more to be there before others see the file (a
//! copy of another one, say) keeps it unnamed until then. Killed meanwhile, it leaves an object that no name
//! leads to, which [`crate::verify()`] reclaims.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;

use crate::attachment::{self, AttachError, Filling, How};
use crate::error::{Error, Result};
use crate::file::File;
use crate::manifest::Manifest;
use crate::name::FileName;
use crate::node::NodeName;
use crate::object;
use crate::open_options::OpenOptions;
use crate::store::Store;
use crate::store::aside::{Aside, Over};
use crate::units::{FileId, SegmentIndex, SegmentSize};

/// A file that only this process can reach. It is gone when this is dropped, unless it was given its name.
#[derive(Debug)]
pub struct UnnamedFile {
    // Before `object`: closed before it is removed.
    file: File,
    object: Object,
    name: FileName,
    durable: bool,
}

/// A file's directory in the store, removed on drop unless it is kept.
#[derive(Debug)]
struct Object {
    store: Store,
    id: FileId,
    keep: bool,
}

impl Store {
    /// Makes a file that gets the name `name` later, by [`UnnamedFile::persist`] or [`UnnamedFile::replace`].
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Quota`], [`Error::Access`], [`Error::ReadOnly`].
    pub fn create_unnamed(&self, name: &FileName, options: &OpenOptions) -> Result<UnnamedFile> {
        self.create_unnamed_for(name, options, std::slice::from_ref(self.node()), 0)
    }

    /// The same of a file that `nodes` share through `cluster`; 0 stands for this node alone.
    pub(crate) fn create_unnamed_for(
        &self,
        name: &FileName,
        options: &OpenOptions,
        nodes: &[NodeName],
        cluster: u64,
    ) -> Result<UnnamedFile> {
        let id = FileId::random().map_err(|e| Error::io(format!("creating {name}"), self.path(), e))?;
        self.create_unnamed_as(id, name, options, nodes, cluster)
    }

    /// The same with an identity that the caller has drawn.
    pub(crate) fn create_unnamed_as(
        &self,
        id: FileId,
        name: &FileName,
        options: &OpenOptions,
        nodes: &[NodeName],
        cluster: u64,
    ) -> Result<UnnamedFile> {
        let directory = object::path(self.shared_path(), id);
        loop {
            let made = DirBuilder::new().mode(0o700).create(&directory);
            made.map_err(|e| Error::io(format!("creating {name}"), self.path(), e))?;
            // Somebody who verifies the store may take it for what a killed process left.
            if let Some(unnamed) = self.make_unnamed(id, name, options, nodes, cluster)? {
                return Ok(unnamed);
            }
        }
    }

    /// Makes such a file of its directory, which is empty; `None` where that has gone, of which nothing is left then.
    fn make_unnamed(
        &self,
        id: FileId,
        name: &FileName,
        options: &OpenOptions,
        nodes: &[NodeName],
        cluster: u64,
    ) -> Result<Option<UnnamedFile>> {
        let directory = object::path(self.shared_path(), id);
        let object = Object { store: self.clone(), id, keep: false };
        let unless_gone = |e| if directory.exists() { Err(e) } else { Ok(None) };
        let policies = options.policies();
        let manifest = Manifest {
            id,
            name: name.to_string(),
            size: 0,
            segment_size: options.segment_size.unwrap_or(SegmentSize::DEFAULT),
            epoch: 0,
            nodes: nodes.to_vec(),
            segments: Vec::new(),
            temporary: options.temporary,
            placement: policies.placement,
            segment_size_reason: policies.size_reason,
        };
        if let Err(e) = manifest.commit(&directory, !options.temporary) {
            return unless_gone(e);
        }
        if !options.temporary {
            // The object's own entry: a name that survives a power cut must lead to something.
            let objects = self.path().join(object::OBJECTS);
            fs::File::open(&objects)
                .and_then(|directory| directory.sync_all())
                .map_err(|e| Error::io(format!("creating {name}"), &objects, e))?;
        }
        let attachment = match attachment::attach(self, id, &name.to_string(), How::through(cluster)) {
            Ok(attachment) => attachment,
            Err(AttachError::Failed(e)) => return unless_gone(e),
            Err(AttachError::Gone | AttachError::Abandoned) => return Ok(None),
        };
        if let Some(state) = attachment.state().filter(|_| !options.temporary) {
            // The manifest and the object have; the name will, when the file gets it.
            state.set_durable(0);
        }
        let file = File::new(attachment, options)?;
        Ok(Some(UnnamedFile { file, object, name: name.clone(), durable: !options.temporary }))
    }
}

impl Store {
    /// Removes the file `name` if it is the file `id`.
    ///
    /// # Errors
    /// As [`Store::remove`].
    pub(crate) fn take_back(&self, name: &FileName, id: FileId) -> Result<()> {
        let removed = match self.lookup(name) {
            Ok(found) if found == id => self.remove_this(name, id).map(drop),
            found => found.map(drop),
        };
        match removed {
            // A name that cannot be read was not given by svmio.
            Err(Error::NoSuchFile { .. } | Error::NotAFile { .. }) => Ok(()),
            Err(Error::CorruptManifest { .. } | Error::Unwritten { .. }) => Ok(()),
            removed => removed,
        }
    }
}

impl UnnamedFile {
    /// The file, to be filled.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Enters where segments lie: each with a position among the nodes for which the file was made.
    ///
    /// # Errors
    /// As [`Store::create_unnamed`].
    pub(crate) fn enter_homes(&self, homes: &[(SegmentIndex, u32)]) -> Result<()> {
        self.file.attachment().enter_homes(homes, Filling::Sparse).map(drop)
    }

    /// Makes the file `size` bytes long and brings all of it to the storage device.
    ///
    /// # Errors
    /// As [`File::set_size`], [`File::sync_data`] and [`File::commit`].
    pub(crate) fn settle(&self, size: u64) -> Result<()> {
        self.file.set_size(size)?;
        self.file.sync_data()?;
        self.file.commit(true)
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// [`Error::Exists`] where a file has it already; otherwise as [`Store::open_file`]. The file is gone then.
    pub fn persist(self) -> Result<File> {
        let (name, store) = (self.name.to_string(), self.object.store.path().to_path_buf());
        self.enter()?.ok_or(Error::Exists { name, store })
    }

    /// Gives the file its name, in place of the file that has it, which is removed then: the name leads to one of them
    /// at every moment.
    ///
    /// # Errors
    /// As [`Store::open_file`] and [`Store::remove`]. The file is gone then, and the older one is as it was.
    pub fn replace(mut self) -> Result<File> {
        let Object { store, id, keep } = &mut self.object;
        store.replace_name(&self.name, *id, self.durable).inspect_err(|_| store.prune(&self.name))?;
        *keep = true;
        self.note_named();
        Ok(self.file)
    }

    /// The same, but sets the older file aside, which can be restored.
    ///
    /// # Errors
    /// As [`UnnamedFile::replace`] and [`Store::set_aside`].
    pub(crate) fn set_aside(mut self, over: &Over) -> Result<Aside> {
        let Object { store, id, keep } = &mut self.object;
        let aside = store.set_aside(&self.name, *id, over).inspect_err(|_| store.prune(&self.name))?;
        *keep = true;
        Ok(aside)
    }

    /// Gives the file its name; `None` where it is taken.
    pub(crate) fn enter(mut self) -> Result<Option<File>> {
        Ok(self.enter_name()?.then_some(self.file))
    }

    fn enter_name(&mut self) -> Result<bool> {
        let Object { store, id, keep } = &mut self.object;
        *keep = store.enter_name(&self.name, *id, self.durable).inspect_err(|_| {
            // The directories that were made for it.
            store.prune(&self.name);
        })?;
        let is_entered = *keep;
        if is_entered {
            self.note_named();
        }
        Ok(is_entered)
    }

    /// Notes that the file has its name, unless that is no text: it is known by what stands for it then, which another
    /// file may be called.
    fn note_named(&self) {
        if self.name.as_path().to_str().is_some() {
            self.file.attachment().note_named();
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        let store = self.store.shared_path();
        attachment::forget(store, self.id);
        if let Err(e) = object::destroy(store, &object::path(store, self.id)) {
            tracing::warn!("what is left of an unnamed file stays until svmio verify: {e}");
        }
        crate::mapping_cache::forget(store, self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::killing::{self, End};
    use crate::name::DirectoryName;
    use crate::units::FileOffset;
    use crate::warnings::told_by;

    fn setting() -> (tempfile::TempDir, Store, FileName) {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        (directory, store, FileName::new("/a/b").unwrap())
    }

    fn unnamed(store: &Store, name: &FileName, content: &[u8]) -> UnnamedFile {
        let unnamed = store.create_unnamed(name, &OpenOptions::read_write()).unwrap();
        unnamed.file().write_at(FileOffset(0), content).unwrap();
        unnamed
    }

    fn content(store: &Store, name: &FileName) -> Vec<u8> {
        let file = store.open_file(name, &OpenOptions::reading()).unwrap();
        let mut bytes = vec![0; file.size() as usize];
        file.read_at(FileOffset(0), &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn nothing_is_left_of_one_that_gets_no_name() {
        let (_directory, store, name) = setting();
        drop(unnamed(&store, &name, b"lost"));
        assert_eq!(store.list(&DirectoryName::root()).unwrap(), []);
        assert_eq!(std::fs::read_dir(store.path().join(object::OBJECTS)).unwrap().count(), 0);
    }

    #[test]
    fn one_that_is_taken_for_a_leftover_while_it_is_made_is_made_again() {
        let (_directory, store, name) = setting();
        for _ in 0..200 {
            let together = Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    together.wait();
                    for _ in 0..3 {
                        crate::verify::reclaim(&store).unwrap();
                    }
                });
                together.wait();
                let told = told_by(|| drop(unnamed(&store, &name, b"whole").replace().unwrap()));
                assert_eq!(told, [""; 0]);
            });
            assert_eq!(content(&store, &name), b"whole");
        }
    }

    #[test]
    fn one_that_is_made_again_can_be_removed_before_its_leftover_is_gone() {
        const TEST: &str =
            "unnamed::tests::one_that_is_made_again_can_be_removed_before_its_leftover_is_gone";
        if let Some((path, point)) = killing::task() {
            killing::arm(point);
            crate::verify::reclaim(&Store::open(std::path::Path::new(&path)).unwrap()).unwrap();
            return;
        }
        let (_directory, store, name) = setting();
        let id = FileId::random().unwrap();
        std::fs::create_dir(object::path(store.path(), id)).unwrap();
        assert_eq!(killing::run_anew(TEST, &store.path().to_string_lossy(), 1), End::KilledItself);
        let count = |directory| std::fs::read_dir(store.path().join(directory)).unwrap().count();
        assert_eq!((count(object::OBJECTS), count(object::DELETED)), (0, 1));

        let nodes = std::slice::from_ref(store.node());
        let again = store.create_unnamed_as(id, &name, &OpenOptions::read_write(), nodes, 0).unwrap();
        drop(again.persist().unwrap());
        store.remove(&name).unwrap();
        assert_eq!((count(object::OBJECTS), count(object::DELETED)), (0, 1));
        assert_eq!(crate::verify::reclaim(&store).unwrap().len(), 1);
        assert_eq!(count(object::DELETED), 0);
    }

    #[test]
    fn a_name_is_taken_only_by_force() {
        let (_directory, store, name) = setting();
        let first = unnamed(&store, &name, b"first");
        assert!(matches!(store.lookup(&name), Err(Error::NoSuchFile { .. })));
        let first = first.persist().unwrap();
        assert!(matches!(unnamed(&store, &name, b"second").persist(), Err(Error::Exists { .. })));
        assert_eq!(content(&store, &name), b"first");
        unnamed(&store, &name, b"third").replace().unwrap();
        assert_eq!(content(&store, &name), b"third");
        let mut still = [0; 5];
        first.read_at(FileOffset(0), &mut still).unwrap();
        assert_eq!(&still, b"first");
        drop(first);
        assert_eq!(std::fs::read_dir(store.path().join(object::OBJECTS)).unwrap().count(), 1);
        assert_eq!(std::fs::read_dir(store.path().join(object::DELETED)).unwrap().count(), 0);
    }

    #[test]
    fn wherever_a_replacement_is_killed_the_name_leads_to_one_of_both() {
        const TEST: &str = "unnamed::tests::wherever_a_replacement_is_killed_the_name_leads_to_one_of_both";
        let (_directory, store, name) = setting();
        if let Some((path, point)) = killing::task() {
            let new = unnamed(&Store::open(std::path::Path::new(&path)).unwrap(), &name, b"new");
            killing::arm(point);
            drop(new.replace().unwrap());
            return;
        }
        let mut seen = [0; 2];
        for point in 1..100 {
            drop(unnamed(&store, &name, b"old").replace().unwrap());
            let end = killing::run_anew(TEST, &store.path().to_string_lossy(), point);
            let report = crate::verify(&store, &DirectoryName::root()).unwrap();
            assert!(report.is_clean(), "{point}: {report:?}");
            let found = content(&store, &name);
            seen[usize::from(found == b"new")] += 1;
            assert!([&b"old"[..], b"new"].contains(&&found[..]), "{point}: {found:?}");
            assert_eq!(std::fs::read_dir(store.path().join(object::OBJECTS)).unwrap().count(), 1, "{point}");
            assert_eq!(std::fs::read_dir(store.path().join(object::DELETED)).unwrap().count(), 0, "{point}");
            if end == End::Finished {
                assert!(found == b"new" && seen[0] > 1 && seen[1] > 2, "{seen:?}");
                return;
            }
        }
        panic!("it never came to its end");
    }
}
