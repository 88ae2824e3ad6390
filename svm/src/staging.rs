//! Files that a job reads though not all of their nodes take part in it, or none: they are staged in.
//!
//! ```text
//!   first member   find    here? ──no, or not all of it──► hosts (Servers): has one the name? ──► Found::Elsewhere
//!   all members    stage   what each node's store and each host know ──► one manifest
//!                          a file of the job's own, without a name
//!                            ◄── first member of each node: the segments in that node's store
//!                            ◄── first member of all: those of hosts, through what serves stores there
//! ```
//!
//! The copy is whole before anybody reads it, and it is for those who open it: nobody finds it by a name, it goes with
//! the last of them, and what killed processes leave of it is reclaimed like any file that has lost its name. Nothing of
//! the file itself is changed, on no node. It shows what the stores held when it was opened; whoever has the file open
//! there goes on undisturbed.
//!
//! Who opens a file to write to it is told where it lies, and does not get a copy: writes to that would be lost.

mod copy;
mod servers;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::file::File;
use crate::finding::{self, Finding};
use crate::manifest::Manifest;
use crate::name::FileName;
use crate::node::NodeName;
use crate::open_options::OpenOptions;
use crate::store::Store;
use crate::store_set::{StoreSet, ToldBy};
use crate::team::{Found, Place, Team};

use copy::Copy;
pub use servers::{NoHost, Servers};

/// One member's part in opening a file that may have to be staged.
#[derive(Debug, Default)]
pub struct Staging {
    /// `None`: those that the environment names.
    servers: Option<Servers>,
    /// What the first member has found.
    sought: Option<Sought>,
}

/// A file that hosts have.
#[derive(Debug)]
struct Sought {
    hosts: StoreSet,
    /// What the job lacks.
    here: String,
}

/// What a node's store knows.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    node: NodeName,
    finding: Option<Finding>,
}

impl Staging {
    /// Of a file for which the first member may ask `servers`.
    pub fn by(servers: Servers) -> Staging {
        Staging { servers: Some(servers), sought: None }
    }

    /// The same for whom `SVMIO_SERVERS` names when the file is looked for.
    pub fn by_environment() -> Staging {
        Staging::default()
    }

    /// Finds or makes a file by `open`, unless hosts have what is not here; by the first member. `give_up` undoes what
    /// `open` has done.
    ///
    /// # Errors
    /// Those of `open`; [`Error::NotStaged`] where hosts cannot be asked or do not have it, or where they have it and
    /// it is to be changed; [`Error::Exists`] where it is to be made and they have it; [`Error::Settings`] where
    /// `SVMIO_SERVERS` counts and names no hosts.
    pub fn find(
        &mut self,
        name: &FileName,
        options: &OpenOptions,
        open: impl Fn(&OpenOptions) -> Result<(File, Vec<u8>)>,
        give_up: impl FnOnce(&[u8]),
    ) -> Result<Found<File>> {
        let find_here = || open(options).map(|(file, introduction)| Found::Here(file, introduction));
        let servers = match &self.servers {
            Some(servers) => servers.clone(),
            None => Servers::from_environment()?,
        };
        if servers.is_empty() {
            return find_here();
        }
        // Nothing is made before hosts were asked.
        let missing = match open(&options.clone().create(false).exclusive(false)) {
            Ok((file, introduction)) if options.create && options.exclusive => {
                drop(file);
                give_up(&introduction);
                return find_here();
            }
            Ok((file, introduction)) => return Ok(Found::Here(file, introduction)),
            // Where lost nodes may know it: one that goes with its users is made all the same. Whatever else it is
            // comes again.
            Err(error) if error.kind() == ErrorKind::Other && options.create && options.temporary => {
                return find_here();
            }
            Err(error) if matches!(error.kind(), ErrorKind::NoSuchFile | ErrorKind::OutOfReach) => error,
            Err(error) => return Err(error),
        };
        match seek(&servers, name, options, &missing)? {
            Some(hosts) => {
                self.sought = Some(Sought { hosts, here: missing.to_string() });
                Ok(Found::Elsewhere)
            }
            None => find_here(),
        }
    }

    /// Stages the file that the first member has found on hosts; by all members. Returns what
    /// [`Place::attach`] takes, too.
    ///
    /// # Errors
    /// What went wrong for one of them, on all: [`Error::NotStaged`]; those of making and writing a file.
    pub fn stage(&mut self, team: &Team, place: &Place, name: &FileName) -> Result<(File, Vec<u8>)> {
        let staged = self.stage_together(team, place, name);
        staged.map_err(|error| error.over(name.to_string(), team.member()))
    }

    fn stage_together(&mut self, team: &Team, place: &Place, name: &FileName) -> Result<(File, Vec<u8>)> {
        let sought = self.sought.take();
        let store = place.store();
        let own = if team.local().is_first() { told_by(store, name) } else { Ok(Vec::new()) };
        let (own, outcome) = match own {
            Ok(own) => (own, Ok(())),
            Err(error) => (Vec::new(), Err(team.located_on_node(error))),
        };
        team.agree(outcome)?;
        let all = team.all_gather(&own)?;
        let nodes: Result<Vec<Told>> =
            all.iter().filter(|told| !told.is_empty()).map(|told| decoded(told)).collect();
        // What all were told, all understand or none.
        let nodes = nodes?;
        let names: Vec<NodeName> = nodes.iter().map(|told| told.node.clone()).collect();
        let manifest = sought.as_ref().map_or(Ok(Vec::new()), |sought| {
            let manifest = sought.manifest(name, &nodes, &names);
            manifest.map(|manifest| manifest.pack()).map_err(|error| team.located_on_node(error))
        });
        let manifest = Manifest::unpack(&team.told(0, manifest)?).ok_or_else(senseless)?;
        let stores = match &sought {
            Some(sought) => StoreSet::beside(store.clone(), &sought.hosts, &names),
            None => store.clone().into(),
        };
        let sought = sought.as_ref();
        Copy { team, place, name, manifest: &manifest, nodes: &names, sought }.make(&stores)
    }
}

impl Sought {
    /// What the job's nodes, which are `names` and tell `nodes`, and the hosts know together of the file.
    fn manifest(&self, name: &FileName, nodes: &[Told], names: &[NodeName]) -> Result<Manifest> {
        let hosts = || self.hosts.members().filter(|host| !names.contains(host.node()));
        let mut known = Vec::new();
        for Told { node, finding } in nodes {
            if let Some(Finding { manifest, survived, .. }) = finding {
                let manifest = Manifest::unpack(manifest).ok_or_else(senseless)?;
                known.push((node, manifest, survived.clone()));
            }
        }
        for host in hosts() {
            let look = || match host.lookup(name) {
                Ok(id) => host.look(id, name),
                Err(Error::NoSuchFile { .. }) => Ok(None),
                Err(error) => Err(error),
            };
            let looked = look().map_err(|error| self.failed(error))?;
            known.extend(looked.map(|(manifest, survived)| (host.node(), manifest, survived)));
        }
        let removed = self.hosts.removed().map_err(|error| self.failed(error))?;
        let told_of = |id| -> Vec<ToldBy<'_>> {
            let of_file = known.iter().filter(|(_, manifest, _)| manifest.id == id);
            of_file.map(|(node, manifest, survived)| (*node, manifest, survived.as_ref())).collect()
        };
        let is_left = |id| !removed.is_empty() && removed.tells_of(id, &told_of(id));
        let known: Vec<_> = known
            .iter()
            .filter(|(_, manifest, _)| !is_left(manifest.id))
            .map(|(node, manifest, survived)| (*node, manifest, survived.as_ref()))
            .collect();
        let gone = || Error::NoSuchFile {
            name: name.to_string(),
            stores: self.hosts.members().map(|host| host.label()).collect(),
        };
        let manifest = finding::merge(&name.to_string(), &known)?.ok_or_else(gone)?;
        let is_served = |node: &NodeName| names.contains(node) || hosts().any(|host| host.node() == node);
        match manifest.parts_on(|node| !is_served(node)) {
            Some(parts) => Err(Error::NotStaged {
                kind: ErrorKind::OutOfReach,
                here: Error::NodesMissing { name: name.to_string(), parts }.to_string(),
                there: format!(
                    "the hosts that were asked are those of {}",
                    list(self.hosts.members().map(|host| host.node()))
                ),
            }),
            None => Ok(manifest),
        }
    }

    /// What went wrong with a host, with what the job lacks; any other error as it is.
    fn failed(&self, error: Error) -> Error {
        match error {
            Error::HostLost { .. } | Error::OnHost { .. } => Error::NotStaged {
                kind: error.kind(),
                here: self.here.clone(),
                there: format!("it could not be brought: {error}"),
            },
            other => other,
        }
    }
}

/// The stores of the hosts, where one has the file; `None` where a new one may be made.
fn seek(
    servers: &Servers,
    name: &FileName,
    options: &OpenOptions,
    missing: &Error,
) -> Result<Option<StoreSet>> {
    let failed = |kind, there: String| Error::NotStaged { kind, here: missing.to_string(), there };
    let unasked = |error: Error| {
        failed(ErrorKind::Other, format!("the hosts that may have it ({servers}) cannot be asked: {error}"))
    };
    let hosts = servers.connect().map_err(unasked)?;
    match hosts.find(name).map_err(unasked)? {
        None if options.create && missing.kind() == ErrorKind::NoSuchFile => return Ok(None),
        None => {
            let there = format!("the hosts that were asked ({servers}) have no file of that name either");
            return Err(failed(missing.kind(), there));
        }
        Some((member, _)) if options.create && options.exclusive => {
            return Err(Error::Exists { name: name.to_string(), store: member.label() });
        }
        Some(_) if options.write || options.temporary => {
            let there = format!(
                "hosts have it ({servers}), which serve it for reading only: to change it, run on its nodes, or copy \
                 it into a store of this job first (svmio cp --hosts)"
            );
            return Err(failed(ErrorKind::ReadOnly, there));
        }
        Some(_) => {}
    }
    Ok(Some(hosts))
}

/// What `store` knows of a file, for the first member.
fn told_by(store: &Store, name: &FileName) -> Result<Vec<u8>> {
    let finding = match store.lookup(name) {
        Ok(file) => finding::look(store, file, name)?.map(|(manifest, survived)| Finding {
            file,
            manifest: manifest.pack(),
            survived,
        }),
        Err(Error::NoSuchFile { .. }) => None,
        Err(error) => return Err(error),
    };
    let told = Told { node: store.node().clone(), finding };
    Ok(postcard::to_stdvec(&told).expect("writing to memory does not fail"))
}

fn decoded(told: &[u8]) -> Result<Told> {
    postcard::from_bytes(told).map_err(|_| senseless())
}

fn senseless() -> Error {
    Error::Disunited { problem: "what was told makes no sense".into() }
}

fn list<'n>(nodes: impl Iterator<Item = &'n NodeName>) -> String {
    nodes.map(|node| format!("node {node}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_file_that_goes_with_its_users_is_made_though_a_node_was_lost() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let name = FileName::new("/f").unwrap();
        let lost = || Error::NodesUnasked { name: name.to_string(), nodes: "b".into() };
        let tries = Cell::new(0);
        let open = |options: &OpenOptions| {
            tries.set(tries.get() + 1);
            match options.create && options.temporary {
                true => store.open_file(&name, options).map(|file| (file, Vec::new())),
                // As it comes from the node that was asked.
                false => Err(Error::OnNode {
                    node: store.node().clone(),
                    kind: lost().kind(),
                    message: lost().to_string(),
                }),
            }
        };
        let find = |options: &OpenOptions| {
            Staging::by("nowhere".parse().unwrap()).find(&name, options, open, |_| {})
        };
        let options = OpenOptions::read_write().create(true);
        assert!(find(&options).unwrap_err().to_string().contains("no node that is left has it"));
        assert_eq!(tries.get(), 1);
        assert!(matches!(find(&options.temporary(true)), Ok(Found::Here(..))));
        assert_eq!(tries.get(), 3);
    }

    #[test]
    fn news_of_a_node_that_make_no_sense_are_an_error() {
        let error = decoded(&[0xff; 3]).unwrap_err().over("/f", 1);
        assert!(error.to_string().contains("/f") && error.to_string().contains("makes no sense"), "{error}");
    }
}
