//! Several nodes' stores, looked at together by somebody who takes part in no job: the tool at a shell, say.
//!
//! A file that several nodes share has its manifest in the store of each, and its segments where they are at home. Here
//! the stores are all within reach of this process: mounted, or those of emulated nodes. What they know of a name is
//! [put together](crate::finding); reading (see [`StoredFile`](crate::StoredFile)) changes nothing, so that a job that has
//! the file open goes on undisturbed. Making files is [`SpreadFile`](crate::SpreadFile)'s business.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::finding::{self, Survived};
use crate::manifest::Manifest;
use crate::name::{DirectoryName, FileName};
use crate::node::NodeName;
use crate::store::{Entry, Store};
use crate::units::FileId;

/// One or several stores, each of another node.
#[derive(Debug, Clone)]
pub struct StoreSet {
    stores: Vec<Store>,
}

/// What one of the stores knows of a file.
#[derive(Debug)]
pub(crate) struct Known<'s> {
    pub(crate) store: &'s Store,
    pub(crate) manifest: Manifest,
    pub(crate) survived: Option<Survived>,
}

impl From<Store> for StoreSet {
    fn from(store: Store) -> StoreSet {
        StoreSet { stores: vec![store] }
    }
}

impl StoreSet {
    /// The stores `first` and `others`; one that is given twice counts once.
    ///
    /// # Errors
    /// [`Error::TwoStores`] where two are of one node: segments know their homes by name.
    pub fn new(first: Store, others: impl IntoIterator<Item = Store>) -> Result<StoreSet> {
        let mut set = StoreSet::from(first);
        for store in others {
            if set.stores.iter().any(|known| known.identity() == store.identity()) {
                continue;
            }
            if let Some(known) = set.store_of(store.node()) {
                let (node, one) = (store.node().clone(), known.path().to_path_buf());
                return Err(Error::TwoStores { node, one, other: store.path().to_path_buf() });
            }
            set.stores.push(store);
        }
        Ok(set)
    }

    /// The stores, in the order in which they were given; at least one.
    pub fn stores(&self) -> &[Store] {
        &self.stores
    }

    /// The store that was given first.
    pub fn first(&self) -> &Store {
        &self.stores[0]
    }

    /// The store of a node.
    pub fn store_of(&self, node: &NodeName) -> Option<&Store> {
        self.stores.iter().find(|store| store.node() == node)
    }

    /// What the directory `name` holds in any of the stores, by name. A file whose name leads to different identities
    /// has none here; opening it tells why.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn list(&self, name: &DirectoryName) -> Result<Vec<Entry>> {
        let mut entries = BTreeMap::<OsString, Entry>::new();
        let lists =
            self.of_each(|store| store.list(name))?.ok_or_else(|| self.nothing_called(&name.to_string()))?;
        for (_, list) in lists {
            for entry in list {
                let last = |path: &std::path::Path| path.file_name().map(OsStr::to_owned).unwrap_or_default();
                let key = match &entry {
                    Entry::Directory(name) => last(name.as_path()),
                    Entry::File(name, _) => last(name.as_path()),
                };
                match (entries.get_mut(&key), &entry) {
                    (Some(Entry::File(_, known)), Entry::File(_, id)) if known != id => *known = None,
                    // A file in one store and a directory in another: opening the file tells what is there.
                    (Some(known @ Entry::Directory(_)), Entry::File(..)) => *known = entry,
                    (Some(_), _) => {}
                    (None, _) => drop(entries.insert(key, entry)),
                }
            }
        }
        Ok(entries.into_values().collect())
    }

    /// All files below `directory` in any of the stores, by name, with their identities as in [`StoreSet::list`].
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn files(&self, directory: &DirectoryName) -> Result<Vec<(FileName, Option<FileId>)>> {
        let mut files = Vec::new();
        for entry in self.list(directory)? {
            match entry {
                Entry::File(name, id) => files.push((name, id)),
                Entry::Directory(inner) => files.extend(self.files(&inner)?),
            }
        }
        Ok(files)
    }

    /// The identity of the file `name`.
    ///
    /// # Errors
    /// As [`Store::lookup`]; [`Error::TwoFiles`].
    pub fn lookup(&self, name: &FileName) -> Result<FileId> {
        let found = self
            .of_each(|store| store.lookup(name))?
            .ok_or_else(|| self.nothing_called(&name.to_string()))?;
        let (first, id) = found[0];
        match found.iter().find(|(_, other)| *other != id) {
            Some((other, _)) => {
                let (one, other) = (first.node().clone(), other.node().clone());
                Err(Error::TwoFiles { name: name.to_string(), one, other })
            }
            None => Ok(id),
        }
    }

    /// Removes the file `name` in all of the stores; whoever has it open keeps it until closing it. With `incomplete`
    /// also one that has parts on other nodes, which lose nothing by it but their sense.
    ///
    /// # Errors
    /// As [`Store::remove`]; [`Error::StoresMissing`], [`Error::TwoFiles`].
    pub fn remove(&self, name: &FileName, incomplete: bool) -> Result<()> {
        self.check_removable(name, incomplete)?;
        match self.of_each(|store| store.remove(name))? {
            Some(_) => Ok(()),
            None => Err(self.nothing_called(&name.to_string())),
        }
    }

    /// That removing the file `name` here removes all of it.
    pub(crate) fn check_removable(&self, name: &FileName, incomplete: bool) -> Result<()> {
        let id = match self.lookup(name) {
            // Nothing tells where the rest of it might be.
            Err(Error::CorruptManifest { .. }) => return Ok(()),
            id => id?,
        };
        match self.known(id, name).and_then(|known| merged(name, &known)) {
            _ if incomplete => Ok(()),
            Ok(Some(manifest)) => match self.missing_parts(&manifest) {
                Some(parts) => Err(Error::StoresMissing { name: name.to_string(), parts }),
                None => Ok(()),
            },
            // A damaged file, too, can be removed.
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// What the stores know of the file `id`, where they know it.
    pub(crate) fn known(&self, id: FileId, name: &FileName) -> Result<Vec<Known<'_>>> {
        let look = |store| {
            let known = finding::look(store, id, name).transpose()?;
            Some(known.map(|(manifest, survived)| Known { store, manifest, survived }))
        };
        self.stores.iter().filter_map(look).collect()
    }

    /// Which segments lie on nodes whose stores are not here.
    pub(crate) fn missing_parts(&self, manifest: &Manifest) -> Option<String> {
        manifest.parts_on(|node| self.store_of(node).is_none())
    }

    /// What `ask` answers for each store that has what it asks for; `None` where none has.
    fn of_each<'s, T>(&'s self, ask: impl Fn(&'s Store) -> Result<T>) -> Result<Option<Vec<(&'s Store, T)>>> {
        let (mut answers, mut in_the_way) = (Vec::new(), None);
        for store in &self.stores {
            match ask(store) {
                Ok(answer) => answers.push((store, answer)),
                Err(Error::NoSuchFile { .. }) => {}
                Err(error @ Error::NotAFile { .. }) => in_the_way = in_the_way.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        match (answers.is_empty(), in_the_way) {
            (false, _) => Ok(Some(answers)),
            (true, Some(error)) => Err(error),
            (true, None) => Ok(None),
        }
    }

    pub(crate) fn nothing_called(&self, name: &str) -> Error {
        let paths: Vec<_> = self.stores.iter().map(|store| store.path().as_os_str()).collect();
        Error::NoSuchFile { name: name.into(), store: PathBuf::from(paths.join(OsStr::new(", "))) }
    }
}

/// What stores know together.
pub(crate) fn merged(name: &FileName, known: &[Known<'_>]) -> Result<Option<Manifest>> {
    let known: Vec<_> =
        known.iter().map(|k| (k.store.node(), k.manifest.clone(), k.survived.as_ref())).collect();
    finding::merge(&name.to_string(), &known)
}
