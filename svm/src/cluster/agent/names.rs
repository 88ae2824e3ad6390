//! Names: finding files and removing them, for all nodes, at the master.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, PoisonError};

use crate::attachment::{self, Attachment, How};
use crate::cluster::wire::{Kept, Reply, Request};
use crate::cluster::{NodeIndex, install, wire_name};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::{self, Finding};
use crate::manifest::Manifest;
use crate::name::FileName;
use crate::node::NodeName;
use crate::store::traces::Removal;
use crate::units::FileId;

use super::Agent;
use super::files::Served;

impl Agent {
    pub(super) fn find(&self, name: &[u8]) -> Result<Reply> {
        match finding::find(&self.context.store, &file_name(name)?, self.context.id()) {
            Err(error @ Error::Unwritten { .. }) => Ok(Reply::FoundUnwritten(error.to_string())),
            found => found.map(Reply::Found),
        }
    }

    /// Has these nodes and this one let go of a file.
    pub(super) fn forget_everywhere(&self, served: Arc<Served>, others: &[NodeIndex]) -> Result<()> {
        let file = served.attachment.id();
        drop(served);
        let elsewhere = self.context.ask_those_left(others, &Request::Forget { file });
        self.forget(file)?;
        elsewhere.map(|_| ())
    }

    pub(super) fn remove(&self, name: &[u8]) -> Result<Reply> {
        let _one_at_a_time = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        let file_name = file_name(name)?;
        let Everywhere { findings, unwritten, unasked } = self.find_everywhere(&file_name)?;
        if findings.is_empty() && !unasked.is_empty() {
            return Err(self.only_lost_ones_may_know(&file_name, &unasked));
        }
        if findings.is_empty() {
            return Err(self.context.store.no_such_file(&file_name));
        }
        if !unasked.is_empty() {
            self.check_lost_hold_nothing(&file_name, &findings, &unasked)?;
        }
        self.remove_unwritten(&file_name, &findings, &unwritten)?;
        self.remove_findings(&file_name, &findings).map(|()| Reply::Done)
    }

    pub(super) fn discard(
        &self,
        name: &[u8],
        file: FileId,
        is_open: bool,
        trace: Option<&Removal>,
    ) -> Result<Reply> {
        let name = file_name(name)?;
        if is_open {
            // Those who have it open may all be on other nodes: then the agent is the one that keeps it here.
            self.files.get(&self.context, file)?;
        }
        match self.context.store.lookup(&name) {
            Ok(known) if known == file => match self.context.store.remove_this_tracing(&name, file, trace) {
                Ok(_) | Err(Error::NoSuchFile { .. }) => {}
                Err(e) => return Err(e),
            },
            Ok(_) | Err(Error::NoSuchFile { .. }) => {}
            // Its object goes with `svmio verify`: nothing tells whose it is.
            Err(Error::Unwritten { .. }) => self.context.store.remove_tracing(&name, None)?,
            Err(e) => return Err(e),
        }
        if !is_open {
            // After the name is gone: if nobody else here has it open, the file goes with this.
            self.files.forget(file, true);
            self.cache.forget(file)?;
        }
        Ok(Reply::Done)
    }

    pub(super) fn closed(&self, file: FileId, is_given_up: bool) -> Result<Reply> {
        let _one_at_a_time = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(served) = self.files.known(file) else { return Ok(Reply::Done) };
        if served.take_open() > 0 {
            return Ok(Reply::Done);
        }
        if is_given_up && served.is_new() {
            let name = FileName::new(served.attachment.name())?;
            self.unmake(&name, served);
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
    pub(super) fn served(&self, name: &FileName) -> Result<(Option<Arc<Served>>, Vec<NodeIndex>)> {
        if let Ok(id) = self.context.store.lookup(name)
            && let Some(served) = match self.files.known(id) {
                Some(served) => Some(served),
                None => self.served_again(name, id)?,
            }
        {
            self.check_parts_of(name, &served)?;
            return Ok((Some(served), Vec::new()));
        }
        let Everywhere { findings, unasked, .. } = self.find_everywhere(name)?;
        let Some(manifest) = self.merge(name, &findings)? else { return Ok((None, unasked)) };
        if manifest.temporary {
            // It should have gone with its last user, who died before.
            self.remove_findings(name, &findings)?;
            return Ok((None, unasked));
        }
        self.check_parts(name, &manifest)?;
        match install::install(&self.context, &manifest) {
            // It has got another name meanwhile.
            Err(Error::NoSuchFile { .. }) => return Ok((None, unasked)),
            installed => installed?,
        }
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

    pub(super) fn only_lost_ones_may_know(&self, name: &FileName, lost: &[NodeIndex]) -> Error {
        Error::NodesUnasked { name: name.to_string(), nodes: self.names_of(lost) }
    }

    pub(super) fn names_of(&self, nodes: &[NodeIndex]) -> String {
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
            Ok(_) | Err(Error::Unwritten { .. }) => return Ok(Reply::Reopened(Kept::Changed)),
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

    /// What each node has under `name` that is not lost. What is left of a removed file goes first.
    ///
    /// # Errors
    /// Of a node that cannot tell what it has there, where no other one can.
    fn find_everywhere(&self, name: &FileName) -> Result<Everywhere> {
        let roster = &self.context.roster;
        let others: Vec<_> = roster.others().collect();
        let request = Request::Find { name: wire_name(name) };
        let answers = self.context.ask_those_left(&others, &request)?;
        let unasked =
            others.into_iter().filter(|node| answers.iter().all(|(answering, _)| answering != node));
        let unasked = unasked.collect();
        let (mut findings, mut unwritten) = (Vec::new(), Vec::new());
        match finding::find(&self.context.store, name, self.context.id()) {
            Err(error @ Error::Unwritten { .. }) => unwritten.push((roster.own(), error)),
            found => findings.extend(found?.map(|finding| (roster.own(), finding))),
        }
        for (node, answer) in answers {
            match answer {
                Reply::Found(finding) => findings.extend(finding.map(|finding| (node, finding))),
                Reply::FoundUnwritten(message) => {
                    let (kind, name) = (ErrorKind::Other, roster.name(node).clone());
                    unwritten.push((node, Error::OnNode { node: name, kind, message }));
                }
                _ => return Err(self.context.out_of_place(node)),
            }
        }
        let findings = self.without_leftovers(name, findings)?;
        if findings.is_empty()
            && let Some((_, error)) = unwritten.pop()
        {
            return Err(error);
        }
        let unwritten = unwritten.into_iter().map(|(node, _)| node).collect();
        Ok(Everywhere { findings, unwritten, unasked })
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

    /// Removes what nodes have under `name`.
    pub(super) fn remove_findings(&self, name: &FileName, findings: &[(NodeIndex, Finding)]) -> Result<()> {
        let name = &wire_name(name)[..];
        let traces = self.traces_to_leave(findings)?;
        // The master's own last: as long as it is there, the removal can be repeated.
        for (node, Finding { file, .. }) in findings.iter().rev() {
            let is_open = self.is_open(*file);
            let trace = traces.get(file);
            if *node == self.context.roster.own() {
                self.discard(name, *file, is_open, trace)?;
            } else {
                let (name, trace) = (name.to_vec(), trace.cloned());
                let request = Request::Discard { name, file: *file, is_open, trace };
                self.context.ask_with(*node, &request, &[], &mut |_, _| {})?;
            }
        }
        Ok(())
    }

    /// Removes what nodes have under `name` that cannot tell of which file it is; `findings` tell of one.
    fn remove_unwritten(
        &self,
        name: &FileName,
        findings: &[(NodeIndex, Finding)],
        nodes: &[NodeIndex],
    ) -> Result<()> {
        let Some((_, Finding { file, .. })) = findings.first() else { return Ok(()) };
        let (file, is_open, bytes) = (*file, self.is_open(*file), wire_name(name));
        let (own, others): (Vec<_>, Vec<_>) =
            nodes.iter().partition(|node| **node == self.context.roster.own());
        let request = Request::Discard { name: bytes.clone(), file, is_open, trace: None };
        self.context.ask_all(&others, &request)?;
        own.into_iter().try_for_each(|_| self.discard(&bytes, file, is_open, None).map(drop))
    }

    /// At the master: whether processes of the cluster have a file open.
    pub(super) fn is_open(&self, file: FileId) -> bool {
        self.files.known(file).is_some_and(|served| served.opens() > 0)
    }

    fn attach(&self, manifest: &Manifest) -> Result<Arc<Attachment>> {
        let how = How::through(self.context.id());
        let attached = attachment::attach(&self.context.store, manifest.id, &manifest.name, how);
        attached.map_err(|error| error.into_error(manifest.id))
    }
}

/// What nodes know under a name.
struct Everywhere {
    /// In the order of nodes, this one first.
    findings: Vec<(NodeIndex, Finding)>,
    /// Those that have something there of which others have to tell what it is.
    unwritten: Vec<NodeIndex>,
    /// Those that are lost.
    unasked: Vec<NodeIndex>,
}

pub(super) fn file_name(bytes: &[u8]) -> Result<FileName> {
    FileName::new(OsStr::from_bytes(bytes))
}
