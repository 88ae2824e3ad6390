//! Names: opening, finding and removing files, for all nodes, at the master.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, PoisonError};

use crate::attachment::{self, Attachment, How};
use crate::cluster::wire::{FileTruth, Finding, Reply, Request};
use crate::cluster::{NodeIndex, install};
use crate::error::{Error, Result};
use crate::file::OpenOptions;
use crate::manifest::{self, Manifest};
use crate::name::FileName;
use crate::units::{FileId, SegmentIndex};

use super::Agent;
use super::files::Served;

impl Agent {
    pub(super) fn find(&self, name: &[u8]) -> Result<Reply> {
        install::find(&self.context, &file_name(name)?).map(Reply::Found)
    }

    pub(super) fn open(&self, name: &[u8], options: &OpenOptions, nodes: &[NodeIndex]) -> Result<Reply> {
        let _one_at_a_time = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        let name = &file_name(name)?;
        let served = match self.served(name)? {
            Some(_) if options.create && options.exclusive => {
                let store = self.context.store.path().into();
                return Err(Error::Exists { name: name.to_string(), store });
            }
            Some(served) => served,
            None if options.create => self.create(name, options)?,
            None => return Err(self.context.store.no_such_file(name)),
        };
        served.add_nodes(nodes);
        let truth = truth(&served)?;
        self.install_elsewhere(&served, &truth, nodes)?;
        Ok(Reply::Opened { truth })
    }

    pub(super) fn remove(&self, name: &[u8]) -> Result<Reply> {
        let _one_at_a_time = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        let file_name = file_name(name)?;
        let findings = self.find_everywhere(&file_name)?;
        if findings.is_empty() {
            return Err(self.context.store.no_such_file(&file_name));
        }
        // The master's own last: as long as it is there, the removal can be repeated.
        for (node, finding) in findings.into_iter().rev() {
            let request = Request::Discard { name: name.to_vec(), file: finding.file };
            if node == self.context.roster.own() {
                self.discard(name, finding.file)?;
            } else {
                self.context.ask_with(node, &request, &[], &mut |_, _| {})?;
            }
        }
        Ok(Reply::Done)
    }

    pub(super) fn discard(&self, name: &[u8], file: FileId) -> Result<Reply> {
        let name = file_name(name)?;
        match self.context.store.lookup(&name) {
            Ok(known) if known == file => match self.context.store.remove(&name) {
                Ok(()) | Err(Error::NoSuchFile { .. }) => {}
                Err(e) => return Err(e),
            },
            Ok(_) | Err(Error::NoSuchFile { .. }) => {}
            Err(e) => return Err(e),
        }
        // After the name is gone: if nobody else here has it open, the file goes with this.
        self.files.remove(file);
        self.cache.forget(file)?;
        Ok(Reply::Done)
    }

    /// The file that is called `name` on whatever nodes, served by this one; `None` where there is none.
    fn served(&self, name: &FileName) -> Result<Option<Arc<Served>>> {
        if let Ok(id) = self.context.store.lookup(name)
            && let Some(served) = self.files.known(id)
        {
            return Ok(Some(served));
        }
        let findings = self.find_everywhere(name)?;
        let Some(manifest) = self.merge(name, &findings)? else { return Ok(None) };
        if manifest.temporary {
            // It should have gone with its last user, who died before.
            self.remove_findings(name, &findings)?;
            return Ok(None);
        }
        let roster = &self.context.roster;
        if let Some(parts) = manifest.parts_on(|node| roster.index(node).is_none()) {
            return Err(Error::NodesMissing { name: name.to_string(), parts });
        }
        let truth = FileTruth { manifest: manifest.encode(), truncations: 0 };
        install::install(&self.context, &truth)?;
        Ok(Some(self.files.insert(self.attach(&manifest)?)))
    }

    fn create(&self, name: &FileName, options: &OpenOptions) -> Result<Arc<Served>> {
        let context = &self.context;
        let unnamed =
            context.store.create_unnamed_for(name, options, context.roster.names(), context.id())?;
        let file = unnamed.enter()?.ok_or_else(|| Error::Exists {
            name: name.to_string(),
            store: context.store.path().to_path_buf(),
        })?;
        Ok(self.files.insert(Arc::clone(file.attachment())))
    }

    /// What each node has under `name`, in the order of nodes.
    fn find_everywhere(&self, name: &FileName) -> Result<Vec<(NodeIndex, Finding)>> {
        let roster = &self.context.roster;
        let others: Vec<_> = roster.others().collect();
        let request = Request::Find { name: name.as_path().as_os_str().as_bytes().to_vec() };
        let answers = self.context.ask_all(&others, &request)?;
        let mut findings: Vec<_> =
            install::find(&self.context, name)?.map(|finding| (roster.own(), finding)).into_iter().collect();
        for (node, answer) in others.into_iter().zip(answers) {
            match answer {
                Reply::Found(finding) => findings.extend(finding.map(|finding| (node, finding))),
                _ => return Err(self.context.out_of_place(node)),
            }
        }
        Ok(findings)
    }

    /// What all nodes together know of a file; the nodes of the cluster are among its nodes then.
    fn merge(&self, name: &FileName, findings: &[(NodeIndex, Finding)]) -> Result<Option<Manifest>> {
        let roster = &self.context.roster;
        let Some((first, _)) = findings.first() else { return Ok(None) };
        let mut newest: Option<Manifest> = None;
        let (mut size, mut homes) = (None, BTreeMap::<SegmentIndex, u32>::new());
        for (node, finding) in findings {
            let manifest = Manifest::decode(&finding.manifest, self.context.store.path(), &name.to_string())?;
            if newest.as_ref().is_some_and(|newest| newest.id != manifest.id) {
                let (one, other) = (roster.name(*first).clone(), roster.name(*node).clone());
                return Err(Error::TwoFiles { name: name.to_string(), one, other });
            }
            if newest.as_ref().is_none_or(|newest| newest.epoch < manifest.epoch) {
                newest = Some(manifest);
            }
        }
        let Some(mut manifest) = newest else { return Ok(None) };
        for node in roster.names() {
            if manifest.position_of(node).is_none() {
                manifest.nodes.push(node.clone());
            }
        }
        homes.extend(manifest.homes());
        for (survived_size, survived) in findings.iter().filter_map(|(_, f)| f.survived.as_ref()) {
            size = size.max(Some(*survived_size));
            for (index, node) in survived {
                if let Some(position) = manifest.position_of(node) {
                    homes.insert(*index, position);
                }
            }
        }
        manifest.size = size.unwrap_or(manifest.size);
        manifest.segments = manifest::runs(homes.into_iter());
        Ok(Some(manifest))
    }

    fn remove_findings(&self, name: &FileName, findings: &[(NodeIndex, Finding)]) -> Result<()> {
        let name = name.as_path().as_os_str().as_bytes();
        for (node, finding) in findings {
            if *node == self.context.roster.own() {
                self.discard(name, finding.file)?;
            } else {
                let request = Request::Discard { name: name.to_vec(), file: finding.file };
                self.context.ask_with(*node, &request, &[], &mut |_, _| {})?;
            }
        }
        Ok(())
    }

    fn attach(&self, manifest: &Manifest) -> Result<Arc<Attachment>> {
        let how = How { fresh: true, cluster: self.context.id() };
        let attached = attachment::attach(&self.context.store, manifest.id, &manifest.name, how);
        attached.map_err(|error| error.into_error(manifest.id))
    }

    /// Has those nodes know the file that hold parts of it and do not open it themselves.
    fn install_elsewhere(&self, served: &Served, truth: &FileTruth, opening: &[NodeIndex]) -> Result<()> {
        let homes = served.attachment.homes();
        let mut holders: Vec<_> = homes.filter_map(|(_, home)| served.node_at(&self.context, home)).collect();
        holders.sort_unstable();
        holders.dedup();
        let own = self.context.roster.own();
        let to_install = |node: &NodeIndex| *node != own && !opening.contains(node);
        let nodes: Vec<_> = holders.into_iter().filter(to_install).collect();
        served.add_nodes(&nodes);
        self.context.ask_all(&nodes, &Request::Install { truth: truth.clone() }).map(|_| ())
    }
}

/// The file as it is now.
fn truth(served: &Served) -> Result<FileTruth> {
    let (state, _) = served.attachment.writable()?;
    let manifest = served.attachment.manifest(state, state.epoch());
    Ok(FileTruth { manifest: manifest.encode(), truncations: state.truncations() })
}

fn file_name(bytes: &[u8]) -> Result<FileName> {
    FileName::new(OsStr::from_bytes(bytes))
}
