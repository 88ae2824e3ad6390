//! Where the files of a communicator live: in the one store that its ranks share, or in those of a cluster's nodes.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use svmio_svm::joined;
use svmio_svm::team::{LocalRank, Place, Team};
use svmio_svm::{
    Cluster, File, FileId, FileName, Introduction, NodeIndex, NodeName, OpenOptions, Placement, Store,
};
use svmio_transport::Rank;

use crate::failure::{ErrorClass, Failure};

/// Where files live.
#[derive(Clone)]
pub(crate) enum Venue {
    /// In one store, which all ranks use for themselves.
    OneNode(Store),
    /// In the stores of a cluster.
    Cluster(Arc<Company>),
}

/// A communicator's ranks as members of a cluster.
pub(crate) struct Company {
    cluster: Arc<Cluster>,
    /// This rank's.
    store: Store,
    /// This rank in the communicator.
    rank: usize,
    /// Each rank's number in the cluster.
    members: Vec<Rank>,
    /// Of each rank.
    nodes: Vec<NodeIndex>,
}

impl Company {
    /// `members` are all ranks of a communicator, of which this one is `rank`, by their numbers in the cluster.
    pub(crate) fn new(cluster: Arc<Cluster>, store: Store, rank: usize, members: Vec<Rank>) -> Company {
        let nodes = members.iter().map(|&member| cluster.node_of(member)).collect();
        Company { cluster, store, rank, members, nodes }
    }

    /// Each rank's number in the cluster.
    pub(crate) fn members(&self) -> &[Rank] {
        &self.members
    }

    /// The cluster's number.
    pub(crate) fn cluster_id(&self) -> u64 {
        self.cluster.id()
    }

    /// Whether no rank is lost, as far as is known here.
    pub(crate) fn check(&self) -> svmio_svm::Result<()> {
        self.cluster.check(&self.members)
    }

    /// The node of each rank.
    pub(crate) fn nodes_of_ranks(&self) -> &[NodeIndex] {
        &self.nodes
    }

    /// The nodes on which the communicator has ranks, in order.
    pub(crate) fn nodes(&self) -> Vec<NodeIndex> {
        let mut nodes = self.nodes.clone();
        nodes.sort_unstable_by_key(|node| node.0);
        nodes.dedup_by_key(|node| node.0);
        nodes
    }

    /// Whether any two of the file's ranks are on one node.
    pub(crate) fn shares_nodes(&self) -> bool {
        self.nodes().len() < self.nodes_of_ranks().len()
    }

    /// The nodes that may get homes by `placement`: for who writes first those of the communicator, else all.
    pub(crate) fn nodes_for(&self, placement: &Placement) -> Vec<NodeIndex> {
        match placement {
            Placement::FirstTouch => self.nodes(),
            _ => (0u32..).zip(self.cluster.nodes()).map(|(index, _)| NodeIndex(index)).collect(),
        }
    }

    /// `team` of this communicator's ranks, on their nodes.
    pub(crate) fn on_nodes(&self, team: Team) -> Team {
        let local = LocalRank::of(self.rank, &self.nodes, &self.nodes[self.rank]);
        team.on_node(NodeName::new(self.own_node()), local)
    }

    /// The name of this rank's node.
    pub(crate) fn own_node(&self) -> &str {
        self.name(self.nodes[self.rank])
    }

    /// The name of a node.
    pub(crate) fn name(&self, node: NodeIndex) -> &str {
        self.cluster.nodes().get(node.0 as usize).map_or("", |name| name.as_str())
    }
}

impl Venue {
    /// Where the files of a communicator's ranks, who are `team`, live. Succeeds on all of them or on none.
    pub(crate) fn of(team: &Team) -> Result<Venue, Failure> {
        let venue = match team.meet()? {
            Place::OneNode(store) => Venue::OneNode(store),
            Place::Nodes { cluster, store, members } => {
                Venue::Cluster(Arc::new(Company::new(cluster, store, team.member(), members)))
            }
        };
        // Until `clusters::finish`.
        venue.store().keep_spares();
        Ok(venue)
    }

    /// For one rank alone: the cluster that this process joined last, if it has joined any, or its store.
    pub(crate) fn alone() -> Result<Venue, Failure> {
        let store = Store::from_environment()?;
        store.keep_spares();
        Ok(match joined::latest() {
            Some(cluster) => {
                let members = vec![cluster.rank()];
                Venue::Cluster(Arc::new(Company::new(cluster, store, 0, members)))
            }
            None => Venue::OneNode(store),
        })
    }

    /// The same place for one of its ranks alone.
    pub(crate) fn for_one(&self) -> Venue {
        match self {
            Venue::OneNode(_) => self.clone(),
            Venue::Cluster(company) => {
                let (cluster, store) = (Arc::clone(&company.cluster), company.store.clone());
                let members = vec![cluster.rank()];
                Venue::Cluster(Arc::new(Company::new(cluster, store, 0, members)))
            }
        }
    }

    /// This rank's store.
    pub(crate) fn store(&self) -> &Store {
        match self {
            Venue::OneNode(store) => store,
            Venue::Cluster(company) => &company.store,
        }
    }

    /// The ranks, where they are members of a cluster.
    pub(crate) fn company(&self) -> Option<&Arc<Company>> {
        match self {
            Venue::OneNode(_) => None,
            Venue::Cluster(company) => Some(company),
        }
    }

    /// The same for who stages files.
    pub(crate) fn place(&self) -> Place {
        match self {
            Venue::OneNode(store) => Place::OneNode(store.clone()),
            Venue::Cluster(company) => Place::Nodes {
                cluster: Arc::clone(&company.cluster),
                store: company.store.clone(),
                members: company.members.clone(),
            },
        }
    }

    /// Finds or makes a file; returns it and what the other ranks have to know for [`Venue::open_introduced`].
    pub(crate) fn open(&self, name: &FileName, options: &OpenOptions) -> svmio_svm::Result<(File, Vec<u8>)> {
        match self {
            Venue::OneNode(store) => {
                let file = match store.reopen(name, options)? {
                    Some(file) => file,
                    None => store.open_file(name, options)?,
                };
                let introduction = file.id().to_bytes().to_vec();
                Ok((file, introduction))
            }
            Venue::Cluster(company) => {
                let introduction = company.cluster.open(name, options, &company.nodes())?;
                match company.cluster.attach(&introduction, options) {
                    Ok(file) => Ok((file, introduction.to_bytes())),
                    Err(error) => {
                        // The first error is the one to tell.
                        let _ = company.cluster.give_up(&introduction);
                        Err(error)
                    }
                }
            }
        }
    }

    /// Gives up a file that was opened for all ranks, because not all could attach it.
    pub(crate) fn give_up(&self, introduction: &[u8]) {
        if let Venue::Cluster(company) = self
            && let Err(error) =
                Introduction::from_bytes(introduction).and_then(|file| company.cluster.give_up(&file))
        {
            tracing::warn!("a file that could not be opened is held until the job ends: {error}");
        }
    }

    /// Opens a file that another rank has opened.
    pub(crate) fn open_introduced(
        &self,
        introduction: &[u8],
        name: &FileName,
        options: &OpenOptions,
    ) -> Result<File, Failure> {
        match self {
            Venue::OneNode(store) => {
                let id = introduction.try_into().map_err(|_| {
                    Failure::new(ErrorClass::Other, format!("rank 0 told no identity of svm:{name}"))
                })?;
                Ok(store.attach(FileId::from_bytes(id), name, options)?)
            }
            Venue::Cluster(company) => {
                Ok(company.cluster.attach(&Introduction::from_bytes(introduction)?, options)?)
            }
        }
    }

    /// Removes a file.
    pub(crate) fn remove(&self, name: &OsStr) -> Result<(), Failure> {
        let name = FileName::new(name)?;
        match self {
            Venue::OneNode(store) => store.remove(&name)?,
            Venue::Cluster(company) => company.cluster.remove(&name)?,
        }
        Ok(())
    }
}

/// The files that this process has open, by name, and where they live: their shared file pointers live there, too,
/// and are opened much later.
static OPEN: Mutex<Vec<(Box<OsStr>, Venue)>> = Mutex::new(Vec::new());

/// Notes that a file was opened.
pub(crate) fn note_open(name: &OsStr, venue: &Venue) {
    open().push((name.into(), venue.clone()));
}

/// Undoes [`note_open`].
pub(crate) fn note_closed(name: &OsStr) {
    let mut open = open();
    if let Some(position) = open.iter().rposition(|(known, _)| **known == *name) {
        open.remove(position);
    }
}

/// Where the open file `name` lives.
pub(crate) fn of_open(name: &OsStr) -> Option<Venue> {
    open().iter().rev().find(|(known, _)| **known == *name).map(|(_, venue)| venue.clone())
}

fn open() -> MutexGuard<'static, Vec<(Box<OsStr>, Venue)>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}
