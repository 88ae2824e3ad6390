//! Opening files for all nodes, at the master.

use std::sync::{Arc, PoisonError};

use crate::cluster::wire::{FileTruth, Reply, Request};
use crate::cluster::{NodeIndex, wire_name};
use crate::error::{Error, Result};
use crate::name::FileName;
use crate::open_options::OpenOptions;
use crate::placement::Placement;

use super::Agent;
use super::files::Served;
use super::names::file_name;

impl Agent {
    pub(super) fn open(&self, name: &[u8], options: &OpenOptions, nodes: &[NodeIndex]) -> Result<Reply> {
        if nodes.iter().any(|node| node.0 as usize >= self.context.roster.names().len()) {
            return Err(self.cut_short());
        }
        let _one_at_a_time = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        let name = &file_name(name)?;
        let (served, unasked) = self.served(name)?;
        let goes_with_its_users = options.create && options.temporary;
        let is_new = served.is_none();
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
                served.set_new(is_new);
                Ok(Reply::Opened { truth })
            }
            Err(error) if is_new => {
                self.unmake(name, served);
                Err(error)
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
        let placement = self.placement(served, options, name);
        self.install_elsewhere(served, &truth(served)?, &placement, opening)?;
        served.add_nodes(opening);
        // Others may have the file open, and commit it. What they did before the new nodes were noted, these hear now; of
        // the rest they are told.
        truth(served)
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

    /// After an open that has made a file and failed: no node keeps the file, which nobody else has open.
    pub(super) fn unmake(&self, name: &FileName, served: Arc<Served>) {
        let file = served.attachment.id();
        self.let_go_if_unused(served);
        let bytes = wire_name(name);
        let request = Request::Discard { name: bytes.clone(), file, is_open: false, trace: None };
        let others: Vec<_> = self.context.roster.others().collect();
        // The master's own last: as long as it is there, the file can be removed.
        let elsewhere = self.context.ask_those_left(&others, &request);
        if let Err(error) = elsewhere.and_then(|_| self.discard(&bytes, file, false, None)) {
            tracing::warn!("{name}: it was made, could not be opened, and is left as it is: {error}");
        }
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

    /// The placement in force for who opens a file. What a writer asks for is the file's own from then on.
    fn placement(&self, served: &Served, options: &OpenOptions, name: &FileName) -> Placement {
        let nodes = self.context.roster.names();
        let mut policies = served.attachment.policies();
        options.warn_of_missing(policies.placement.as_ref(), &name.to_string(), nodes);
        options.enforce_placement(&mut policies, nodes)
    }

    /// Has those nodes know the file that hold parts of it, or will by its placement, and do not open it themselves; and
    /// those that open it and are new to it: whoever has it open, or removes it, may ask them for it before they attach it.
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
        let known = served.add_nodes(&[]);
        let holders = holders.into_iter().filter(|node| !opening.contains(node));
        let newcomers = opening.iter().copied().filter(|node| !known.contains(node));
        let to_install = |node: &NodeIndex| *node != roster.own() && !self.context.is_lost(*node);
        let nodes: Vec<_> = holders.chain(newcomers).filter(to_install).collect();
        let answers = self.context.ask_each(&nodes, &Request::Install { truth: truth.clone() });
        // Also where the open fails: who has the file is told when all have closed it.
        let have_it = nodes.iter().zip(&answers).filter(|(_, answer)| answer.is_ok()).map(|(node, _)| *node);
        served.add_nodes(&have_it.collect::<Vec<_>>());
        answers.into_iter().try_for_each(|answer| answer.map(drop))
    }
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
