//! What is where: names, attributes, lists, and what is open.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use fuser::{FileAttr, FileHandle, FileType, INodeNo};
use rustix::fs::StatVfs;
use rustix::io::Errno as Number;
use svmio_svm::{DirectoryName, Entry, Error, FileId, FileName, StoreSet};

use super::attributes::{Facts, Rights};
use super::directories::Directories;
use super::handles::Handles;
use super::names::Names;
use super::opener::{OpenFile, Opener};
use super::own_handle::OwnHandle;
use super::refused::Answer;
use super::tree::{Node, Tree};

/// The files of stores below a mount point.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) stores: StoreSet,
    pub(super) names: Names,
    pub(super) rights: Rights,
    pub(super) opener: Opener,
    pub(super) tree: Tree,
    pub(super) directories: Directories,
    open: Handles<OpenFile>,
    lists: Handles<OpenList>,
    /// When it was mounted: what has no other time has this one.
    began: SystemTime,
}

/// What a directory holds.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) number: INodeNo,
    pub(super) kind: FileType,
    pub(super) name: OsString,
}

/// A directory that is open to be listed.
#[derive(Debug)]
pub(super) struct OpenList {
    directory: INodeNo,
    list: Mutex<ReadList>,
}

#[derive(Debug)]
struct ReadList {
    list: Arc<Vec<Listed>>,
    /// Whether somebody has begun to read it.
    is_begun: bool,
}

/// What a path leads to.
#[derive(Debug)]
pub(super) enum Found {
    /// With the time when it was last changed.
    Directory(SystemTime),
    File(FileId, Facts),
}

impl Files {
    pub(super) fn new(stores: StoreSet, names: Names, rights: Rights, is_read_only: bool) -> Files {
        Files {
            opener: Opener::new(stores.clone(), is_read_only),
            stores,
            names,
            rights,
            tree: Tree::new(),
            directories: Directories::default(),
            open: Handles::new(),
            lists: Handles::new(),
            began: SystemTime::now(),
        }
    }

    /// Looks for `name` in a directory.
    pub(super) fn look_up(&self, parent: INodeNo, name: &OsStr) -> Answer<FileAttr> {
        let path = self.path_in(parent, name)?;
        match self.find(&path)? {
            Some(Found::Directory(modified)) => {
                Ok(self.rights.directory(self.tree.tell_directory(&path), modified))
            }
            Some(Found::File(id, facts)) => Ok(self.attributes_of(id, &path, &facts)),
            None => Err(Number::NOENT.into()),
        }
    }

    /// The kernel has forgotten a number that it was told so often.
    pub(super) fn forget(&self, number: INodeNo, times: u64) {
        self.tree.forget(number, times);
    }

    /// What there is to tell of a file or directory.
    pub(super) fn attributes(&self, number: INodeNo, handle: Option<FileHandle>) -> Answer<FileAttr> {
        match self.node(number)? {
            Node::Directory(path) => match self.find(&path)? {
                Some(Found::Directory(modified)) => Ok(self.rights.directory(number, modified)),
                _ => Err(Number::STALE.into()),
            },
            Node::File(id, path) => {
                let facts = match self.find(&path)? {
                    Some(Found::File(found, facts)) if found == id => facts,
                    // It has lost its name, or has got another one by another way.
                    _ => self.facts_of_open(id, handle)?,
                };
                Ok(self.rights.file(number, &facts, self.began))
            }
        }
    }

    /// The same of a file of which that is known, for somebody who is told its number.
    pub(super) fn attributes_of(&self, id: FileId, path: &Path, facts: &Facts) -> FileAttr {
        self.rights.file(self.tree.tell(id, path), facts, self.began)
    }

    /// Opens a file.
    pub(super) fn open(&self, number: INodeNo, for_writing: bool) -> Answer<FileHandle> {
        let (id, name) = self.file(number)?;
        Ok(self.hold(self.opener.open(id, &name, for_writing)?))
    }

    /// Has `file` be found by a number.
    pub(super) fn hold(&self, file: OpenFile) -> FileHandle {
        self.open.enter(Arc::new(file))
    }

    /// What was opened under the number.
    pub(super) fn opened(&self, handle: FileHandle) -> Answer<Arc<OpenFile>> {
        self.open.get(handle).ok_or(Number::BADF.into())
    }

    /// Closes a file.
    pub(super) fn close(&self, handle: FileHandle) {
        self.open.remove(handle);
    }

    /// Commits and closes whatever is open: nobody comes any more.
    pub(super) fn close_all(&self) {
        drop(self.open.clear());
    }

    /// Commits whatever is open.
    pub(super) fn settle_all(&self) {
        for file in self.open.all() {
            if let OpenFile::Own(file) = &*file {
                // Who waited for it is told nothing any more.
                let _ = file.settle();
            }
        }
    }

    /// Where the files are below the mount point of which programs have pages mapped that they may change.
    pub(super) fn mapped(&self) -> BTreeSet<PathBuf> {
        let mapped = self.open.all().into_iter().filter_map(|file| match &*file {
            OpenFile::Own(file) => file.id_if_mapped(),
            OpenFile::Seen(_) => None,
        });
        let path = |id| match self.tree.node(Tree::file(id))? {
            Node::File(_, path) => Some(path),
            Node::Directory(_) => None,
        };
        mapped.filter_map(path).collect()
    }

    /// Makes a list of a directory, to be read piece by piece.
    pub(super) fn open_list(&self, number: INodeNo) -> Answer<FileHandle> {
        let list = Mutex::new(ReadList { list: Arc::new(self.listed(number)?), is_begun: false });
        Ok(self.lists.enter(Arc::new(OpenList { directory: number, list })))
    }

    /// What a directory holds now.
    fn listed(&self, number: INodeNo) -> Answer<Vec<Listed>> {
        let Node::Directory(path) = self.node(number)? else { return Err(Number::NOTDIR.into()) };
        let parent = path.parent().map_or(number, |parent| self.tree.directory(parent));
        let special = |name: &str, number| Listed { number, kind: FileType::Directory, name: name.into() };
        let mut list = vec![special(".", number), special("..", parent)];
        for entry in self.entries(&path)? {
            let (kind, number, name) = match &entry {
                Entry::Directory(name) => (FileType::Directory, None, name.as_path()),
                // Of a damaged one, the number is not known.
                Entry::File(name, id) => {
                    let number = id.map_or(INodeNo(u64::MAX), Tree::file);
                    (FileType::RegularFile, Some(number), name.as_path())
                }
            };
            if let Some(name) = name.file_name() {
                let number = number.unwrap_or_else(|| self.tree.directory(&path.join(name)));
                list.push(Listed { number, kind, name: name.to_owned() });
            }
        }
        for name in self.directories.within(&path) {
            if list.iter().all(|listed| listed.name != name) {
                let number = self.tree.directory(&path.join(&name));
                list.push(Listed { number, kind: FileType::Directory, name });
            }
        }
        Ok(list)
    }

    /// The list that was made under the number, to be read from the entry `offset` on. Who begins again is shown what the
    /// directory holds by then.
    pub(super) fn list(&self, handle: FileHandle, offset: u64) -> Answer<Arc<Vec<Listed>>> {
        let open = self.lists.get(handle).ok_or(Number::BADF)?;
        // A panic elsewhere leaves the list whole.
        let mut read = open.list.lock().unwrap_or_else(PoisonError::into_inner);
        if offset == 0 && read.is_begun {
            read.list = Arc::new(self.listed(open.directory)?);
        }
        read.is_begun = true;
        Ok(Arc::clone(&read.list))
    }

    /// Gives up a list.
    pub(super) fn close_list(&self, handle: FileHandle) {
        self.lists.remove(handle);
    }

    /// The room on the file system of the first store on this machine.
    pub(super) fn room(&self) -> Answer<Option<StatVfs>> {
        let store = self.stores.stores().first();
        Ok(store.map(|store| rustix::fs::statvfs(store.path())).transpose()?)
    }

    /// What is at `path`; `None` where nothing is.
    pub(super) fn find(&self, path: &Path) -> Answer<Option<Found>> {
        let directory = self.directory_name(path)?;
        if path.as_os_str().is_empty() {
            let modified = self.stores.directory_modified(&directory)?;
            return Ok(Some(Found::Directory(modified.max(Some(self.began)).unwrap_or(self.began))));
        }
        let name = self.names.file(path)?;
        match self.stores.look(&name) {
            Ok(file) => {
                let id = file.id();
                let mut facts = Facts::of(&file)?;
                if let Some(open) = self.opener.known_own(id) {
                    facts.storage.modified = facts.storage.modified.max(open.written_at());
                }
                return Ok(Some(Found::File(id, facts)));
            }
            // A directory, or nothing, or below a file.
            Err(Error::NoSuchFile { .. } | Error::NotAFile { .. }) => {}
            Err(error @ Error::CorruptManifest { .. }) => {
                // It can be seen, and removed.
                let id = self.stores.lookup(&name)?;
                tracing::warn!("{error}");
                return Ok(Some(Found::File(id, Facts::unknown())));
            }
            Err(error) => return Err(error.into()),
        }
        let by_stores = self.stores.directory_modified(&directory)?;
        let modified = by_stores.map(|time| time.max(self.began)).max(self.directories.modified(path));
        Ok(modified.map(Found::Directory))
    }

    /// What stores hold in a directory.
    pub(super) fn entries(&self, path: &Path) -> Answer<Vec<Entry>> {
        match self.stores.list(&self.directory_name(path)?) {
            Err(Error::NoSuchFile { .. } | Error::NotAFile { .. }) => Ok(Vec::new()),
            entries => Ok(entries?),
        }
    }

    /// What a number stands for.
    pub(super) fn node(&self, number: INodeNo) -> Answer<Node> {
        self.tree.node(number).ok_or(Number::STALE.into())
    }

    /// The file that a number stands for.
    pub(super) fn file(&self, number: INodeNo) -> Answer<(FileId, FileName)> {
        match self.node(number)? {
            Node::File(id, path) => Ok((id, self.names.file(&path)?)),
            Node::Directory(_) => Err(Number::ISDIR.into()),
        }
    }

    /// The path of `name` in a directory.
    pub(super) fn path_in(&self, parent: INodeNo, name: &OsStr) -> Answer<PathBuf> {
        match self.node(parent)? {
            Node::Directory(path) => Ok(path.join(name)),
            Node::File(..) => Err(Number::NOTDIR.into()),
        }
    }

    fn directory_name(&self, path: &Path) -> Answer<DirectoryName> {
        Ok(self.names.directory(path)?)
    }

    fn facts_of_open(&self, id: FileId, handle: Option<FileHandle>) -> Answer<Facts> {
        if let Some(open) = self.opener.known_own(id) {
            return Ok(OwnHandle::new(open, false)?.facts(false)?);
        }
        // The kernel does not always tell by which handle.
        let open = handle.and_then(|handle| self.open.get(handle));
        for open in open.into_iter().chain(self.open.all()) {
            if let OpenFile::Seen(file) = &*open
                && file.id() == id
            {
                return Ok(file.facts()?);
            }
        }
        Err(Number::STALE.into())
    }
}
