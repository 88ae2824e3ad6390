//! Names: opening, finding and removing files, for all nodes, at the master.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, PoisonError};

use crate::attachment::{self, Attachment, How};
use crate::cluster::wire::{FileTruth, Kept, Reply, Request};
use crate::cluster::{NodeIndex, install, wire_name};
use crate::error::{Error, Result};
use crate::finding::{self, Finding};
use crate::manifest::Manifest;
use crate::name::FileName;
use crate::node::NodeName;
use crate::open_options::OpenOptions;
use crate::placement::Placement;
use crate::units::FileId;

use super::Agent;
use super::files::Served;

impl Agent {
    pub(super) fn find(&self, name: &[u8]) -> Result<Reply> {
        finding::find(&self.context.store, &file_name(name)?, self.context.id()).map(Reply::Found)
    }

    pub(super) fn open(&self, name: &[u8], options: &OpenOptions, nodes: &[NodeIndex]) -> Result<Reply> {
        if nodes.iter().any(|node| node.0 as usize >= self.context.roster.names().len()) {
            return Err(self.cut_short());
        }
        let _one_at_a_time = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        let name = &file_name(name)?;
        let (served, unasked) = self.served(name)?;
        let goes_with_its_users = options.create && options.temporary;
        let served = match served {
            Some(served) if options.create && options.exclusive => {
                let store = self.context.store.path().into();
                self.let_go_if_unused(served);
                return Err(Error::Exists { name: name.to_string(), store });
            }
            Some(served) => served,
            // A second file of the name is not to be made, but for one that goes with its users.
            None if !unasked.is_empty() && !goes_with_its_users => {
                return Err(self.only_lost_ones_may_know(name, &unasked));
            }
            None if options.create => self.create(name, options)?,
            None => return Err(self.context.store.no_such_file(name)),
        };
        match self.prepare(&served, options, name, nodes) {
            Ok(truth) => {
                served.add_open();
                Ok(Reply::Opened { truth })
            }
            Err(error) => {
                self.let_go_if_unused(served);
                Err(error)
            }
        }
    }

    /// Has all nodes know the file that are going to have to do with it; returns what those who open it have to know.
    fn prepare(
        &self,
        served: &Served,
        options: &OpenOptions,
        name: &FileName,
        opening: &[NodeIndex],
    ) -> Result<FileTruth> {
        served.add_nodes(opening);
        let placement = self.placement(served, options, name);
        let truth = truth(served)?;
        self.install_elsewhere(served, &truth, &placement, opening)?;
        Ok(truth)
    }

    /// After an open that failed: has no node hold the file open, unless somebody has it open. Other jobs could not open
    /// it otherwise.
    fn let_go_if_unused(&self, served: Arc<Served>) {
        if served.opens() > 0 {
            return;
        }
        let name = served.attachment.name().to_owned();
        // All that were asked to serve it may do so.
        let others: Vec<_> = self.context.roster.others().collect();
        if let Err(error) = self.forget_everywhere(served, &others) {
            tracing::warn!("{name}: other nodes hold it open until the job ends: {error}");
        }
    }

    /// Has these nodes and this one let go of a file.
    fn forget_everywhere(&self, served: Arc<Served>, others: &[NodeIndex]) -> Result<()> {
        let file = served.attachment.id();
        drop(served);
        let elsewhere = self.context.ask_those_left(others, &Request::Forget { file });
        self.forget(file)?;
        elsewhere.map(|_| ())
    }

    pub(super) fn remove(&self, name: &[u8]) -> Result<Reply> {
        let _one_at_a_time = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        let file_name = file_name(name)?;
        let Everywhere { findings, unasked } = self.find_everywhere(&file_name)?;
        if findings.is_empty() && !unasked.is_empty() {
            return Err(self.only_lost_ones_may_know(&file_name, &unasked));
        }
        if findings.is_empty() {
            return Err(self.context.store.no_such_file(&file_name));
        }
        if !unasked.is_empty() {
            self.check_lost_hold_nothing(&file_name, &findings, &unasked)?;
        }
        // The master's own last: as long as it is there, the removal can be repeated.
        for (node, finding) in findings.into_iter().rev() {
            let is_open = self.files.known(finding.file).is_some_and(|served| served.opens() > 0);
            let request = Request::Discard { name: name.to_vec(), file: finding.file, is_open };
            if node == self.context.roster.own() {
                self.discard(name, finding.file, is_open)?;
            } else {
                self.context.ask_with(node, &request, &[], &mut |_, _| {})?;
            }
        }
        Ok(Reply::Done)
    }

    pub(super) fn discard(&self, name: &[u8], file: FileId, is_open: bool) -> Result<Reply> {
        let name = file_name(name)?;
        if is_open {
            // Those who have it open may all be on other nodes: then the agent is the one that keeps it here.
            self.files.get(&self.context, file)?;
        }
        match self.context.store.lookup(&name) {
            Ok(known) if known == file => match self.context.store.remove(&name) {
                Ok(()) | Err(Error::NoSuchFile { .. }) => {}
                Err(e) => return Err(e),
            },
            Ok(_) | Err(Error::NoSuchFile { .. }) => {}
            Err(e) => return Err(e),
        }
        if !is_open {
            // After the name is gone: if nobody else here has it open, the file goes with this.
            self.files.forget(file, true);
            self.cache.forget(file)?;
        }
        Ok(Reply::Done)
    }

    pub(super) fn closed(&self, file: FileId) -> Result<Reply> {
        let _one_at_a_time = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(served) = self.files.known(file) else { return Ok(Reply::Done) };
        if served.take_open() > 0 {
            return Ok(Reply::Done);
        }
        let own = self.context.roster.own();
        let others: Vec<_> = served.add_nodes(&[]).into_iter().filter(|node| *node != own).collect();
        self.forget_everywhere(served, &others).map(|()| Reply::Done)
    }

    pub(super) fn forget(&self, file: FileId) -> Result<Reply> {
        let is_removed = self
            .files
            .known(file)
            .is_some_and(|served| served.attachment.state().is_some_and(crate::state::State::is_deleted));
        self.end_coherence(file);
        self.files.forget(file, is_removed);
        // What could not be brought home, those who closed the file were told of. Coming home later, it would lie over
        // what others have written since.
        if is_removed || !self.cache.dirty_pages(file)?.is_empty() {
            self.cache.forget(file)?;
        }
        Ok(Reply::Done)
    }

    /// The file that is called `name` on whatever nodes, served by this one; `None` where there is none, and which
    /// nodes are lost and could not be asked then.
    fn served(&self, name: &FileName) -> Result<(Option<Arc<Served>>, Vec<NodeIndex>)> {
        if let Ok(id) = self.context.store.lookup(name)
            && let Some(served) = match self.files.known(id) {
                Some(served) => Some(served),
                None => self.served_again(name, id)?,
            }
        {
            self.check_parts_of(name, &served)?;
            return Ok((Some(served), Vec::new()));
        }
        let Everywhere { findings, unasked } = self.find_everywhere(name)?;
        let Some(manifest) = self.merge(name, &findings)? else { return Ok((None, unasked)) };
        if manifest.temporary {
            // It should have gone with its last user, who died before.
            self.remove_findings(name, &findings)?;
            return Ok((None, unasked));
        }
        self.check_parts(name, &manifest)?;
        install::install(&self.context, &manifest)?;
        let served = self.files.insert(self.attach(&manifest)?);
        served.begin_round();
        Ok((Some(served), unasked))
    }

    /// That no part of a file that is served lies on a node that was lost.
    fn check_parts_of(&self, name: &FileName, served: &Served) -> Result<()> {
        // Most often there is nothing to look for.
        if !self.context.roster.others().any(|node| self.context.is_lost(node)) {
            return Ok(());
        }
        let (state, _) = served.attachment.writable()?;
        self.check_parts(name, &served.attachment.manifest(state, state.epoch()))
    }

    /// That no part of a file lies on a node that is not there, or is lost.
    fn check_parts(&self, name: &FileName, manifest: &Manifest) -> Result<()> {
        let index = |node: &NodeName| self.context.roster.index(node);
        match manifest.parts_on(|node| index(node).is_none_or(|node| self.context.is_lost(node))) {
            Some(parts) => Err(Error::NodesMissing { name: name.to_string(), parts }),
            None => Ok(()),
        }
    }

    /// That lost nodes hold no part of a file that is to be removed: what they have besides is its name.
    fn check_lost_hold_nothing(
        &self,
        name: &FileName,
        findings: &[(NodeIndex, Finding)],
        lost: &[NodeIndex],
    ) -> Result<()> {
        let Some(manifest) = self.merge(name, findings)? else { return Ok(()) };
        let is_lost =
            |node: &NodeName| self.context.roster.index(node).is_some_and(|node| lost.contains(&node));
        match manifest.parts_on(is_lost) {
            Some(parts) => Err(Error::NodesMissing { name: name.to_string(), parts }),
            None => {
                let nodes = self.names_of(lost);
                tracing::warn!("{name} is removed while node {nodes} is lost: its name may be left there");
                Ok(())
            }
        }
    }

    fn only_lost_ones_may_know(&self, name: &FileName, lost: &[NodeIndex]) -> Error {
        Error::NodesUnasked { name: name.to_string(), nodes: self.names_of(lost) }
    }

    fn names_of(&self, nodes: &[NodeIndex]) -> String {
        let names: Vec<_> = nodes.iter().map(|node| self.context.roster.name(*node).as_str()).collect();
        names.join(", ")
    }

    /// The file `id`, called `name`, served by all nodes as it was when the cluster had it open before; `None` where
    /// one of them does not have it as it was then.
    ///
    /// What the nodes have then is what they would find by looking for it: each has the manifest that the last commit
    /// put in place on all of them, no segment that it does not tell of, and a shared state that nobody has touched
    /// since.
    fn served_again(&self, name: &FileName, id: FileId) -> Result<Option<Arc<Served>>> {
        let context = &self.context;
        let reopened = attachment::reopen_in_cluster(&context.store, id, context.id());
        let Some(attachment) = reopened else { return Ok(None) };
        let served = self.files.insert(attachment);
        let (state, _) = served.attachment.writable()?;
        let others: Vec<_> = context.roster.others().collect();
        let request = Request::Reopen { name: wire_name(name), file: id, epoch: state.epoch() };
        let may_be = !state.needs_commit() && self.check_parts_of(name, &served).is_ok();
        let answers = if may_be { context.ask_those_left(&others, &request) } else { Ok(Vec::new()) };
        let took_part = served.add_nodes(&[]);
        // A node that is lost has no parts of it, as was seen before.
        let is_as_it_was = |node: &NodeIndex, answers: &[(NodeIndex, Reply)]| match answers
            .iter()
            .find(|(answering, _)| answering == node)
        {
            Some((_, Reply::Reopened(Kept::AsItWas))) => true,
            Some((_, Reply::Reopened(Kept::Nothing))) => !took_part.contains(node),
            Some(_) => false,
            None => context.is_lost(*node),
        };
        let have_it = |answers: &Vec<_>| others.iter().all(|node| is_as_it_was(node, answers));
        if may_be && answers.as_ref().is_ok_and(have_it) {
            served.begin_round();
            return Ok(Some(served));
        }
        drop(served);
        // Nobody is to have it open while it is looked for.
        let forgotten = context.ask_those_left(&others, &Request::Forget { file: id });
        self.files.forget(id, false);
        answers.and(forgotten).map(|_| None)
    }

    /// This node's part in serving a file again.
    pub(super) fn reopen(&self, name: &[u8], file: FileId, epoch: u64) -> Result<Reply> {
        let store = &self.context.store;
        match store.lookup(&file_name(name)?) {
            Ok(known) if known == file => {}
            Ok(_) => return Ok(Reply::Reopened(Kept::Changed)),
            Err(Error::NoSuchFile { .. }) => return Ok(Reply::Reopened(Kept::Nothing)),
            Err(error) => return Err(error),
        }
        let reopened = attachment::reopen_in_cluster(store, file, self.context.id());
        let Some(attachment) = reopened else { return Ok(Reply::Reopened(Kept::Changed)) };
        // Where it is not as it was, the master has it forgotten.
        let served = self.files.insert(attachment);
        let (state, _) = served.attachment.writable()?;
        let is_as_it_was = state.epoch() == epoch && state.is_table_committed();
        Ok(Reply::Reopened(if is_as_it_was { Kept::AsItWas } else { Kept::Changed }))
    }

    fn create(&self, name: &FileName, options: &OpenOptions) -> Result<Arc<Served>> {
        let context = &self.context;
        let nodes = context.roster.names();
        let options = &options.clone().placement(options.placement_among(nodes));
        let unnamed = context.store.create_unnamed_for(name, options, nodes, context.id())?;
        let file = unnamed.enter()?.ok_or_else(|| Error::Exists {
            name: name.to_string(),
            store: context.store.path().to_path_buf(),
        })?;
        let served = self.files.insert(Arc::clone(file.attachment()));
        served.begin_round();
        Ok(served)
    }

    /// What each node has under `name` that is not lost.
    fn find_everywhere(&self, name: &FileName) -> Result<Everywhere> {
        let roster = &self.context.roster;
        let others: Vec<_> = roster.others().collect();
        let request = Request::Find { name: wire_name(name) };
        let answers = self.context.ask_those_left(&others, &request)?;
        let unasked =
            others.into_iter().filter(|node| answers.iter().all(|(answering, _)| answering != node));
        let unasked = unasked.collect();
        let mut findings: Vec<_> = finding::find(&self.context.store, name, self.context.id())?
            .map(|finding| (roster.own(), finding))
            .into_iter()
            .collect();
        for (node, answer) in answers {
            match answer {
                Reply::Found(finding) => findings.extend(finding.map(|finding| (node, finding))),
                _ => return Err(self.context.out_of_place(node)),
            }
        }
        Ok(Everywhere { findings, unasked })
    }

    /// What all nodes together know of a file; the nodes of the cluster are among its nodes then.
    fn merge(&self, name: &FileName, findings: &[(NodeIndex, Finding)]) -> Result<Option<Manifest>> {
        let roster = &self.context.roster;
        let mut known = Vec::new();
        for (node, finding) in findings {
            let manifest = self.context.unpacked(&finding.manifest)?;
            known.push((roster.name(*node), manifest, finding.survived.as_ref()));
        }
        let Some(mut manifest) = finding::merge(&name.to_string(), &known)? else { return Ok(None) };
        for node in roster.names() {
            if manifest.position_of(node).is_none() {
                manifest.nodes.push(node.clone());
            }
        }
        Ok(Some(manifest))
    }

    fn remove_findings(&self, name: &FileName, findings: &[(NodeIndex, Finding)]) -> Result<()> {
        let name = &wire_name(name)[..];
        for (node, finding) in findings {
            if *node == self.context.roster.own() {
                self.discard(name, finding.file, false)?;
            } else {
                let request = Request::Discard { name: name.to_vec(), file: finding.file, is_open: false };
                self.context.ask_with(*node, &request, &[], &mut |_, _| {})?;
            }
        }
        Ok(())
    }

    fn attach(&self, manifest: &Manifest) -> Result<Arc<Attachment>> {
        let how = How::through(self.context.id());
        let attached = attachment::attach(&self.context.store, manifest.id, &manifest.name, how);
        attached.map_err(|error| error.into_error(manifest.id))
    }

    /// The placement in force for who opens a file. What a writer asks for is the file's own from then on.
    fn placement(&self, served: &Served, options: &OpenOptions, name: &FileName) -> Placement {
        let nodes = self.context.roster.names();
        let mut policies = served.attachment.policies();
        options.warn_of_missing(policies.placement.as_ref(), &name.to_string(), nodes);
        options.enforce_placement(&mut policies, nodes)
    }

    /// Has those nodes know the file that hold parts of it, or will by its placement, and do not open it themselves.
    fn install_elsewhere(
        &self,
        served: &Served,
        truth: &FileTruth,
        placement: &Placement,
        opening: &[NodeIndex],
    ) -> Result<()> {
        let roster = &self.context.roster;
        let mut holders: Vec<_> = match placement {
            Placement::FirstTouch => {
                let homes = served.attachment.homes();
                homes.filter_map(|(_, home)| served.node_at(&self.context, home)).collect()
            }
            Placement::RoundRobin | Placement::Block | Placement::Node(_) => roster.others().collect(),
        };
        holders.sort_unstable();
        holders.dedup();
        // No file with parts on a lost node is opened; what is to be put there by its placement fails when it is
        // written.
        let to_install = |node: &NodeIndex| {
            *node != roster.own() && !opening.contains(node) && !self.context.is_lost(*node)
        };
        let nodes: Vec<_> = holders.into_iter().filter(to_install).collect();
        served.add_nodes(&nodes);
        self.context.ask_all(&nodes, &Request::Install { truth: truth.clone() }).map(|_| ())
    }
}

/// What nodes know under a name.
struct Everywhere {
    /// In the order of nodes, this one first.
    findings: Vec<(NodeIndex, Finding)>,
    /// Those that are lost.
    unasked: Vec<NodeIndex>,
}

/// The file as it is now.
fn truth(served: &Served) -> Result<FileTruth> {
    let (state, _) = served.attachment.writable()?;
    // Before the size, which the manifest has: see `File::size_and_truncations`.
    let truncations = state.truncations();
    let manifest = served.attachment.manifest(state, state.epoch());
    // After the homes, which it has, too.
    let also_locked_at_master = state.are_also_locked_at_master();
    Ok(FileTruth { manifest: manifest.pack(), truncations, also_locked_at_master })
}

fn file_name(bytes: &[u8]) -> Result<FileName> {
    FileName::new(OsStr::from_bytes(bytes))
}
