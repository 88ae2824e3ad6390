//! Several nodes' stores, looked at together by somebody who takes part in no job: the tool at a shell, say.
//!
//! A file that several nodes share has its manifest in the store of each, and its segments where they are at home. Here
//! the stores are all within reach of this process: mounted, those of emulated nodes, or [answered for](RemoteStore) by
//! other hosts. What they know of a name is [put together](crate::finding); reading (see
//! [`StoredFile`](crate::StoredFile)) changes nothing, so that a job that has the file open goes on undisturbed. Making
//! files is [`SpreadFile`](crate::SpreadFile)'s business.

mod leftovers;
mod member;
mod renaming;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::error::{Error, ErrorKind, Result};
use crate::finding::{self, Survived};
use crate::manifest::Manifest;
use crate::name::{DirectoryName, FileName};
use crate::node::NodeName;
use crate::remote_store::RemoteStore;
use crate::store::{Entry, Store};
use crate::units::FileId;

pub(crate) use leftovers::{Removed, ToldBy};
pub(crate) use member::Member;

/// One or several stores, each of another node.
#[derive(Debug, Clone)]
pub struct StoreSet {
    stores: Vec<Store>,
    remote: Vec<Arc<RemoteStore>>,
}

/// What one of the stores knows of a file.
#[derive(Debug)]
pub(crate) struct Known<'s> {
    pub(crate) member: Member<'s>,
    pub(crate) manifest: Manifest,
    pub(crate) survived: Option<Survived>,
}

impl From<Store> for StoreSet {
    fn from(store: Store) -> StoreSet {
        StoreSet { stores: vec![store], remote: Vec::new() }
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

    /// Stores on other hosts: at least one.
    ///
    /// # Errors
    /// [`Error::TwoStores`] where two are of one node.
    pub fn of_hosts(stores: Vec<RemoteStore>) -> Result<StoreSet> {
        let mut set = StoreSet { stores: Vec::new(), remote: Vec::new() };
        for store in stores.into_iter().map(Arc::new) {
            if let Some(known) = set.member_of(store.node()) {
                let (node, one, other) = (store.node().clone(), known.label(), store.label().into());
                return Err(Error::TwoStores { node, one, other });
            }
            set.remote.push(store);
        }
        Ok(set)
    }

    /// A store of this machine, and those of other hosts that are of none of `nodes`.
    pub(crate) fn beside(store: Store, hosts: &StoreSet, nodes: &[NodeName]) -> StoreSet {
        let remote = hosts.remote.iter().filter(|host| !nodes.contains(host.node())).cloned().collect();
        StoreSet { stores: vec![store], remote }
    }

    /// The stores on this machine, in the order in which they were given.
    pub fn stores(&self) -> &[Store] {
        &self.stores
    }

    /// The store of a node, if it is on this machine.
    pub fn store_of(&self, node: &NodeName) -> Option<&Store> {
        self.stores.iter().find(|store| store.node() == node)
    }

    /// Where the file `name` is, or else the first of the stores, for people: of another host's store, host and
    /// directory.
    pub fn place_of(&self, name: &FileName) -> PathBuf {
        let holder = self.members().find(|member| member.lookup(name).is_ok());
        holder.or_else(|| self.members().next()).map(|member| member.label()).unwrap_or_default()
    }

    /// All stores.
    pub(crate) fn members(&self) -> impl Iterator<Item = Member<'_>> {
        self.stores.iter().map(Member::Here).chain(self.remote.iter().map(Member::There))
    }

    /// The store of a node.
    pub(crate) fn member_of(&self, node: &NodeName) -> Option<Member<'_>> {
        self.members().find(|member| member.node() == node)
    }

    /// What the directory `name` holds in any of the stores, by name. A file whose name leads to different identities
    /// has none here; opening it tells why.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn list(&self, name: &DirectoryName) -> Result<Vec<Entry>> {
        self.list_without(name, &self.removed()?)
    }

    /// The same but for what is left of removed files.
    fn list_without(&self, name: &DirectoryName, removed: &Removed) -> Result<Vec<Entry>> {
        self.list_by(|member| member.list(name), name, removed)
    }

    /// The same of what `list` says of each store.
    fn list_by(
        &self,
        list: impl Fn(Member<'_>) -> Result<Vec<Entry>>,
        name: &DirectoryName,
        removed: &Removed,
    ) -> Result<Vec<Entry>> {
        let mut entries = BTreeMap::<OsString, Entry>::new();
        let lists = self.of_each(list)?.ok_or_else(|| self.nothing_called(&name.to_string()))?;
        for (_, list) in lists {
            for entry in list {
                if let Entry::File(name, Some(id)) = &entry
                    && self.is_leftover(name, *id, removed)
                {
                    continue;
                }
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

    /// When something last came to the directory `name` in any of the stores, or went from it, as far as that is known;
    /// `None` where none has such a directory.
    ///
    /// # Errors
    /// As [`Store::directory_modified`]; what other hosts say.
    pub fn directory_modified(&self, name: &DirectoryName) -> Result<Option<SystemTime>> {
        self.members().try_fold(None, |latest, member| Ok(member.directory_modified(name)?.max(latest)))
    }

    /// All files below `directory` in any of the stores, by name, with their identities as in [`StoreSet::list`].
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn files(&self, directory: &DirectoryName) -> Result<Vec<(FileName, Option<FileId>)>> {
        self.files_without(directory, &self.removed()?)
    }

    /// The same but for what is left of removed files.
    pub(crate) fn files_without(
        &self,
        directory: &DirectoryName,
        removed: &Removed,
    ) -> Result<Vec<(FileName, Option<FileId>)>> {
        files_by(directory, |inner| self.list_without(inner, removed))
    }

    /// The same, and adds to `unread` which directories may not be read in one of the stores: what they hold there is
    /// not among it.
    ///
    /// # Errors
    /// As [`Store::list`], but for [`ErrorKind::Access`].
    pub(crate) fn readable_files_without(
        &self,
        directory: &DirectoryName,
        removed: &Removed,
        unread: &mut Vec<(DirectoryName, Error)>,
    ) -> Result<Vec<(FileName, Option<FileId>)>> {
        let unread = RefCell::new(unread);
        let list = |name: &DirectoryName| {
            let list = |member: Member<'_>| match member.list(name) {
                Err(error) if error.kind() == ErrorKind::Access => {
                    unread.borrow_mut().push((name.clone(), error));
                    Ok(Vec::new())
                }
                list => list,
            };
            self.list_by(list, name, removed)
        };
        files_by(directory, list)
    }

    /// The identity of the file `name`.
    ///
    /// # Errors
    /// As [`Store::lookup`]; [`Error::TwoFiles`].
    pub fn lookup(&self, name: &FileName) -> Result<FileId> {
        let found = self.find(name)?.ok_or_else(|| self.nothing_called(&name.to_string()))?;
        Ok(found.1)
    }

    /// The same, with the first store that has it; `None` where there is none.
    pub(crate) fn find(&self, name: &FileName) -> Result<Option<(Member<'_>, FileId)>> {
        let Some(mut found) = self.of_each(|member| member.lookup(name))? else { return Ok(None) };
        // Where all have the same, nobody has removed it.
        if found.len() < self.members().count() || found.iter().any(|(_, id)| *id != found[0].1) {
            let removed = self.removed()?;
            found.retain(|(_, id)| !self.is_leftover(name, *id, &removed));
        }
        let Some(&(first, id)) = found.first() else { return Ok(None) };
        match found.iter().find(|(_, other)| *other != id) {
            Some((other, _)) => {
                let (one, other) = (first.node().clone(), other.node().clone());
                Err(Error::TwoFiles { name: name.to_string(), one, other })
            }
            None => Ok(Some((first, id))),
        }
    }

    /// Removes the file `name` in all of the stores; whoever has it open keeps it until closing it. With `incomplete`
    /// also one that has parts on other nodes, which lose nothing by it but their sense. What other nodes have of it is
    /// removed when they are next looked at together with these.
    ///
    /// # Errors
    /// As [`Store::remove`]; [`Error::StoresMissing`], [`Error::TwoFiles`].
    pub fn remove(&self, name: &FileName, incomplete: bool) -> Result<()> {
        self.remove_leftovers(name, &self.removed()?)?;
        // Otherwise a file that a killed process had set aside would have the name again later.
        match self.settle_replacement(name)? {
            Some(undecided) if !incomplete => return Err(undecided),
            _ => self.check_removable(name, incomplete)?,
        }
        let trace = self.lookup(name).ok().and_then(|id| self.trace_to_leave(name, id));
        match self.of_each(|member| member.remove(name, trace.as_ref()))? {
            Some(_) => Ok(()),
            None => Err(self.nothing_called(&name.to_string())),
        }
    }

    /// That removing the file `name` here removes all of it.
    pub(crate) fn check_removable(&self, name: &FileName, incomplete: bool) -> Result<()> {
        let id = match self.lookup(name) {
            // Nothing tells where the rest of it might be.
            Err(Error::CorruptManifest { .. } | Error::Unwritten { .. }) => return Ok(()),
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
        let mut all = Vec::new();
        for member in self.members() {
            let known = member.look(id, name)?;
            all.extend(known.map(|(manifest, survived)| Known { member, manifest, survived }));
        }
        Ok(all)
    }

    /// Which segments lie on nodes whose stores are not here.
    pub(crate) fn missing_parts(&self, manifest: &Manifest) -> Option<String> {
        manifest.parts_on(|node| self.member_of(node).is_none())
    }

    /// What `ask` answers for each store that has what it asks for; `None` where none has.
    fn of_each<'s, T>(
        &'s self,
        ask: impl Fn(Member<'s>) -> Result<T>,
    ) -> Result<Option<Vec<(Member<'s>, T)>>> {
        let (mut answers, mut in_the_way) = (Vec::new(), None);
        for member in self.members() {
            match ask(member) {
                Ok(answer) => answers.push((member, answer)),
                Err(Error::NoSuchFile { .. }) => {}
                // The others may know it.
                Err(error @ (Error::NotAFile { .. } | Error::Unwritten { .. })) => {
                    in_the_way = in_the_way.or(Some(error));
                }
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
        Error::NoSuchFile { name: name.into(), stores: self.members().map(|member| member.label()).collect() }
    }
}

/// What stores know together.
pub(crate) fn merged(name: &FileName, known: &[Known<'_>]) -> Result<Option<Manifest>> {
    let known: Vec<_> = known.iter().map(|k| (k.member.node(), &k.manifest, k.survived.as_ref())).collect();
    finding::merge(&name.to_string(), &known)
}

/// All files below `directory`, by what `list` says of each directory.
fn files_by(
    directory: &DirectoryName,
    list: impl Fn(&DirectoryName) -> Result<Vec<Entry>>,
) -> Result<Vec<(FileName, Option<FileId>)>> {
    let mut files = Vec::new();
    // Not by a call to each level: another host says how many there are.
    let mut open = vec![list(directory)?.into_iter()];
    while let Some(entries) = open.last_mut() {
        match entries.next() {
            None => drop(open.pop()),
            Some(Entry::File(name, id)) => files.push((name, id)),
            Some(Entry::Directory(inner)) => match list(&inner) {
                // Its last file went meanwhile, or it became a file.
                Err(Error::NoSuchFile { .. } | Error::NotAFile { .. }) => {}
                inner => open.push(inner?.into_iter()),
            },
        }
    }
    Ok(files)
}
