//! A node's store: the directory that holds its part of all files.
//!
//! ```text
//! store.json          what this directory is, and of which node
//! names/…             the name space: a small file per file, which holds its identity
//! objects/IDENTITY/   manifest, state, segments of a file
//! deleted/IDENTITY/   the same of a file that lost its name while it was open or held
//! aside/IDENTITY      which file this one is taking the place of, in several stores
//! removed/IDENTITY    that this file was removed, where other nodes still have it
//! spare/              cleared segments of files that are gone, for new ones
//! reserve/            storage for manifests, where there is no other
//! ```
//!
//! Names and objects are apart so that a file can lose its name while it is open, as MPI's
//! `MODE_DELETE_ON_CLOSE` and the shared file pointers need it.

pub(crate) mod aside;
mod description;
pub(crate) mod entry;
mod medium;
mod name_space;
mod removal;
mod renaming;
pub(crate) mod reserve;
pub(crate) mod traces;

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::attachment::{self, AttachError, Attachment, How};
use crate::error::{Error, Result};
use crate::file::File;
use crate::name::{DirectoryName, FileName};
use crate::node::NodeName;
use crate::object;
use crate::open_options::OpenOptions;
use crate::spare;
use crate::units::FileId;

pub use description::StoreIdentity;
pub use medium::{Medium, Mount};

const NAMES: &str = "names";

/// An open store.
#[derive(Debug, Clone)]
pub struct Store {
    root: Arc<Path>,
    node: NodeName,
    identity: StoreIdentity,
}

/// What a directory of a store holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A directory.
    Directory(DirectoryName),
    /// A file; without an identity where what the store holds of its name is damaged.
    File(FileName, Option<FileId>),
}

impl Store {
    /// The store that `SVMIO_STORE` names, or the user's own below `/dev/shm`; made where there is none.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn from_environment() -> Result<Store> {
        // Programs open files by the thousand: the store is looked at whole once, and then only for being
        // the same one still.
        static LAST: Mutex<Option<(Option<OsString>, Store)>> = Mutex::new(None);
        let path = std::env::var_os("SVMIO_STORE").filter(|path| !path.is_empty());
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, store)) = &*last
            && *known == path
            && StoreIdentity::of(&store.root).is_ok_and(|identity| identity == store.identity)
        {
            return Ok(store.clone());
        }
        let store = match &path {
            Some(path) => Store::open(Path::new(path))?,
            None => Store::open_own(&Store::default_path(rustix::process::geteuid().as_raw()))?,
        };
        *last = Some((path, store.clone()));
        Ok(store)
    }

    /// The store in the directory `path`; made, readable for its owner only, where there is none.
    ///
    /// # Errors
    /// [`Error::NotAStore`] where something else is there; [`Error::NewerFormat`]; [`Error::Access`] and the
    /// like where it cannot be made.
    pub fn open(path: &Path) -> Result<Store> {
        Store::open_for(path, &NodeName::current())
    }

    /// The same, made for `node` where there is none.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_for(path: &Path, node: &NodeName) -> Result<Store> {
        let failed = |e: io::Error| Error::io("opening the store", path, e);
        make_directory(path)?;
        let root: Arc<Path> = canonical(path).map_err(failed)?.into();
        let node = description::read_or_make(&root, node)?;
        for directory in [NAMES, object::OBJECTS, object::DELETED] {
            match DirBuilder::new().mode(0o700).create(root.join(directory)) {
                Err(e) if e.kind() != ErrorKind::AlreadyExists && !root.join(directory).is_dir() => {
                    return Err(failed(e));
                }
                _ => {}
            }
        }
        let identity = StoreIdentity::of(&root)?;
        spare::sweep(&root);
        reserve::keep(&root);
        Ok(Store { root, node, identity })
    }

    /// The same as [`Store::open`] at a place where anybody may make directories, like `/dev/shm`: nothing that another
    /// user put there is opened, or looked into.
    ///
    /// # Errors
    /// As [`Store::open`]; [`Error::NotAStore`] also where the directory is not the caller's, or a link.
    pub fn open_own(path: &Path) -> Result<Store> {
        make_directory(path)?;
        let user = rustix::process::geteuid().as_raw();
        let found = fs::symlink_metadata(path).map_err(|e| Error::io("opening the store", path, e))?;
        if found.uid() != user || !found.is_dir() {
            let owner = found.uid();
            let what = match found.is_symlink() {
                true => format!("it is a link, of user {owner}"),
                false => format!("it belongs to user {owner}"),
            };
            let reason = format!("{what}; set SVMIO_STORE to a directory of your own");
            return Err(Error::NotAStore { path: path.into(), reason });
        }
        // Only from here on: at such a place nobody else can put another directory there instead. To open a store is to
        // remove what killed processes have left in it, which another user could have made up.
        Store::open(path)
    }

    /// Has this process keep some of the storage of files that it removes, cleared, for files that any process like it
    /// makes on this node: where the store is in memory, as much as `SVMIO_SPARE` says. It has to call
    /// [`spare::leave`] at its end.
    pub fn keep_spares(&self) {
        spare::take_part(&self.root);
    }

    /// Where the store of the user `user` is, by number, unless `SVMIO_STORE` names another place.
    pub fn default_path(user: u32) -> PathBuf {
        // Emulated nodes have a store each.
        let node = std::env::var("SVMIO_NODE").ok().filter(|name| !name.is_empty());
        let node = node.map(|name| format!("-{}", as_part_of_file_name(&name))).unwrap_or_default();
        PathBuf::from(format!("/dev/shm/svmio-{user}{node}"))
    }

    /// The store's directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The directory of the name space.
    pub(crate) fn names(&self) -> PathBuf {
        self.root.join(NAMES)
    }

    pub(crate) fn shared_path(&self) -> &Arc<Path> {
        &self.root
    }

    /// The node that the store belongs to.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// What tells whether two processes use the same store.
    pub fn identity(&self) -> StoreIdentity {
        self.identity
    }

    /// Opens the file `name`.
    ///
    /// # Errors
    /// [`Error::NoSuchFile`], [`Error::Exists`], [`Error::NotAFile`], [`Error::NameTooLong`],
    /// [`Error::CorruptManifest`], [`Error::NewerFormat`], [`Error::NewerWord`], [`Error::MissingSegment`],
    /// [`Error::DamagedSegment`], [`Error::Access`], [`Error::ReadOnly`], [`Error::NoSpace`], [`Error::Quota`].
    pub fn open_file(&self, name: &FileName, options: &OpenOptions) -> Result<File> {
        loop {
            let id = match self.lookup(name) {
                Ok(_) if options.create && options.exclusive => {
                    return Err(Error::Exists { name: name.to_string(), store: self.root.to_path_buf() });
                }
                Ok(id) => id,
                Err(Error::NoSuchFile { .. }) if options.create => match self.create(name, options)? {
                    Some(file) => return Ok(file),
                    None => continue,
                },
                Err(e) => return Err(e),
            };
            match attachment::attach(self, id, &name.to_string(), How::default()) {
                Ok(attachment) => {
                    self.warn_of_missing(&attachment, options);
                    return File::new(attachment, options);
                }
                Err(AttachError::Failed(e)) => return Err(e),
                // Its remover took the name away first: look again.
                Err(AttachError::Gone) if !self.is_dangling(name)? => {}
                Err(AttachError::Gone) => return Err(self.lost_object(name)),
                // Whoever else found it so may have put a new one there already.
                Err(AttachError::Abandoned) => match self.remove_abandoned(name, id) {
                    Err(Error::NoSuchFile { .. }) | Ok(_) => {}
                    Err(e) => return Err(e),
                },
            }
        }
    }

    /// Opens a file by its identity: one that another process of this node has open.
    ///
    /// # Errors
    /// As [`Store::open_file`].
    pub fn attach(&self, id: FileId, name: &FileName, options: &OpenOptions) -> Result<File> {
        match attachment::attach(self, id, &name.to_string(), How::default()) {
            Ok(attachment) => File::new(attachment, options),
            Err(AttachError::Failed(e)) => Err(e),
            Err(AttachError::Gone | AttachError::Abandoned) => Err(self.no_such_file(name)),
        }
    }

    /// Opens the file `name` if this process has it open or [kept](File::keep) what it takes to open it again, and if
    /// nothing has happened to it since that this process would have to look at. It costs few system calls, and does
    /// not look at what was not changed by svmio.
    ///
    /// # Errors
    /// [`Error::Access`] or [`Error::ReadOnly`] where the store is not writable.
    pub fn reopen(&self, name: &FileName, options: &OpenOptions) -> Result<Option<File>> {
        // What is no text is told with what stands for it, like other such names.
        if options.exclusive || options.temporary || name.as_path().to_str().is_none() {
            return Ok(None);
        }
        let open = |attachment: Arc<Attachment>| {
            self.warn_of_missing(&attachment, options);
            File::new(attachment, options)
        };
        attachment::reopen(&self.root, &name.to_string()).map(open).transpose()
    }

    fn warn_of_missing(&self, attachment: &Attachment, options: &OpenOptions) {
        let own = attachment.policies().placement.clone();
        options.warn_of_missing(own.as_ref(), attachment.name(), std::slice::from_ref(self.node()));
    }

    /// Makes the file `name`; `None` where another process was faster.
    fn create(&self, name: &FileName, options: &OpenOptions) -> Result<Option<File>> {
        let nodes = std::slice::from_ref(self.node());
        options.warn_of_missing(None, &name.to_string(), nodes);
        let options = options.clone().placement(options.placement_among(nodes));
        self.create_unnamed(name, &options)?.enter()
    }
}

/// Makes the directory of a store where there is none, readable for its owner only.
fn make_directory(path: &Path) -> Result<()> {
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Ok(()) => {}
        Err(e) if matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => {
            return Err(Error::NotAStore { path: path.into(), reason: "it is not a directory".into() });
        }
        Err(e) if path.is_dir() => tracing::debug!("{}: {e}", path.display()),
        Err(e) => return Err(Error::io("opening the store", path, e)),
    }
    Ok(())
}

/// `path` without links, where such a path leads to the same place: another process's root (`/proc/PID/root`) cannot be
/// reached by any.
fn canonical(path: &Path) -> io::Result<PathBuf> {
    let canonical = path.canonicalize();
    let place = |path: &Path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()));
    let wanted = place(path)?;
    match canonical {
        Ok(canonical) if place(&canonical).is_ok_and(|found| found == wanted) => Ok(canonical),
        _ => std::path::absolute(path),
    }
}

/// `text` in characters that every file name may have, different for different texts.
fn as_part_of_file_name(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02x}"),
    };
    text.bytes().map(encoded).collect()
}
