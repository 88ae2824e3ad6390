//! What a store's directory says of itself: `store.json`, written once, atomically.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::name::RESERVED_PREFIX;
use crate::node::{BootId, NodeName};

const DESCRIPTION: &str = "store.json";
const FORMAT: &str = "svmio store";
const VERSION: u32 = 1;

/// Which directory of which running kernel a store is: equal for two processes that share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreIdentity {
    /// The kernel's run.
    pub boot: BootId,
    /// The file system.
    pub device: u64,
    /// The store's description in it.
    pub inode: u64,
}

#[derive(Serialize, Deserialize)]
struct Description {
    format: String,
    version: u32,
    node: NodeName,
}

impl StoreIdentity {
    /// The identity of the store in `root`.
    pub(super) fn of(root: &Path) -> Result<StoreIdentity> {
        let path = root.join(DESCRIPTION);
        let metadata = fs::metadata(&path).map_err(|e| Error::io("looking at the store", &path, e))?;
        Ok(StoreIdentity { boot: BootId::current()?, device: metadata.dev(), inode: metadata.ino() })
    }
}

/// The node of the store in `root`; made for `node` where there is none.
///
/// # Errors
/// [`Error::NotAStore`] where something else is there; [`Error::NewerFormat`].
pub(super) fn read_or_make(root: &Path, node: &NodeName) -> Result<NodeName> {
    match read(root)? {
        Some(description) => Ok(description.node),
        None => make(root, node),
    }
}

fn read(root: &Path) -> Result<Option<Description>> {
    let path = root.join(DESCRIPTION);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io("opening the store", &path, e)),
    };
    let not_a_store = |reason: String| Error::NotAStore { path: root.into(), reason };
    let value: serde_json::Value = serde_json::from_slice(&text)
        .map_err(|e| not_a_store(format!("its {DESCRIPTION} is damaged: {e}")))?;
    if value["format"] != FORMAT {
        return Err(not_a_store(format!("its {DESCRIPTION} is of another program")));
    }
    let version = value["version"].as_u64().unwrap_or(0);
    if version > u64::from(VERSION) {
        let subject = "opening the store".into();
        return Err(Error::NewerFormat { subject, path, found: version as u32, supported: VERSION });
    }
    serde_json::from_value(value)
        .map(Some)
        .map_err(|e| not_a_store(format!("its {DESCRIPTION} is damaged: {e}")))
}

/// Makes a store of the empty directory `root`.
fn make(root: &Path, node: &NodeName) -> Result<NodeName> {
    let failed = |e: io::Error| Error::io("making the store", root, e);
    let foreign = |entry: io::Result<fs::DirEntry>| -> io::Result<bool> {
        let name = entry?.file_name();
        Ok(name != DESCRIPTION && !name.to_string_lossy().starts_with(RESERVED_PREFIX))
    };
    let is_foreign = fs::read_dir(root)
        .and_then(|mut entries| entries.try_fold(false, |found, entry| Ok(found || foreign(entry)?)));
    if is_foreign.map_err(failed)? {
        // Unless another process has made the store meanwhile: then they are the store's.
        return read(root)?.map(|description| description.node).ok_or_else(|| Error::NotAStore {
            path: root.into(),
            reason: "it holds something else; choose an empty or a new directory".into(),
        });
    }
    let description = Description { format: FORMAT.into(), version: VERSION, node: node.clone() };
    let mut file = tempfile::Builder::new().prefix(RESERVED_PREFIX).tempfile_in(root).map_err(failed)?;
    let text = serde_json::to_string_pretty(&description).expect("a description has no map");
    writeln!(file, "{text}").and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    match file.persist_noclobber(root.join(DESCRIPTION)) {
        Ok(_) => Ok(node.clone()),
        // Another process was faster; its word counts.
        Err(e) if e.error.kind() == ErrorKind::AlreadyExists => {
            Ok(read(root)?.map_or_else(|| node.clone(), |description| description.node))
        }
        Err(e) => Err(failed(e.error)),
    }
}
