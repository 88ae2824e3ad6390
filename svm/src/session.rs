//! A process among those with which it shares files: how it comes to know them, and what they open together.
//!
//! ```text
//!   Session ── open, open_unnamed, sync, close, remove
//!     ├── Team     the processes, and by what they tell each other things
//!     └── Place    the store that they share, or the cluster of their nodes
//! ```
//!
//! Processes that [`Launcher`](svmio_transport::job::Launcher) or somebody else has started find each other by their
//! environment; those that can already tell each other something, such as ranks of MPI, by that.
//!
//! ```
//! use std::sync::Arc;
//! use svmio_svm::{FileName, FileOffset, OpenOptions, mapping::Mapping, session::Session};
//!
//! # let directory = tempfile::tempdir()?;
//! # // SAFETY: no other thread of this example has started.
//! # unsafe { std::env::set_var("SVMIO_STORE", directory.path()) };
//! let session = Session::from_environment()?;
//! let options = OpenOptions::read_write().create(true);
//! let file = Arc::new(session.open(&FileName::new("/array")?, &options)?);
//! let mut mapping = Mapping::new(&file, FileOffset(0)..FileOffset(1 << 20))?;
//! let own = session.team().member() * 100;
//! // SAFETY: it lies in the mapping, and the others use other bytes.
//! unsafe { mapping.as_mut_ptr().add(own).write(7) };
//! mapping.barrier(&mut || session.team().agree(Ok::<(), svmio_svm::Error>(())))?;
//! mapping.unmap()?;
//! session.close(&file, false)?;
//! drop(file);
//! session.finish()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use svmio_transport::job::{self, Job};
use svmio_transport::{Rank, SegmentId};

use crate::accounting;
use crate::cache::CacheSettings;
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::file::File;
use crate::joined::{self, Part};
use crate::name::FileName;
use crate::open_options::OpenOptions;
use crate::staging::{Servers, Staging};
use crate::store::{Store, StoreIdentity};
use crate::team::{Engine, Found, InForce, LocalRank, Opening, Place, Reach, Team};
use crate::units::FileId;

/// A process among those with which it shares files. All of them make the same calls in the same order, but for
/// [`remove`](Session::remove) and what concerns a session [of one](Session::of_one).
pub struct Session {
    team: Team,
    place: Place,
    /// What the environment tells of; clusters that teams form are kept by [`joined`].
    job: Option<Job>,
}

impl Session {
    /// A process by itself, with its node's store.
    ///
    /// # Errors
    /// [`Error::Settings`]; those of [`Store::from_environment`].
    pub fn alone() -> Result<Session> {
        InForce::get()?;
        let store = Store::from_environment()?;
        accounting::note_one_node(store.node(), 0, 1);
        Ok(Session { team: Team::alone(), place: Place::OneNode(store), job: None })
    }

    /// The processes of the job that the environment tells of, as [`Job::from_environment`] reads it; where it tells of
    /// none, this process alone.
    ///
    /// # Errors
    /// [`Error::Fabric`] where the processes do not come together; [`Error::Misfit`], [`Error::Settings`]; those of
    /// [`Store::from_environment`].
    pub fn from_environment() -> Result<Session> {
        if !job::is_told_of() {
            return Session::alone();
        }
        let settings = CacheSettings::from_environment();
        let settings = settings.map_err(|error| Error::Settings { problem: error.to_string() })?;
        let store = Store::from_environment()?;
        let failed = |source| Error::Fabric { subject: "joining the job".into(), source };
        let job = Job::from_environment().map_err(failed)?;
        let members: Vec<Rank> = (0..job.size()).map(Rank).collect();
        let is_one_node = {
            let membership = job.membership();
            members.iter().all(|&rank| membership.node(rank) == membership.node(Rank(0)))
        };
        if !is_one_node {
            let cluster =
                Cluster::join(job.fabric().clone(), store.clone(), &settings, &job.settings().messages)?;
            let team = Team::of_cluster(&cluster)?;
            return Ok(Session { team, place: Place::Nodes { cluster, store, members }, job: Some(job) });
        }
        /// What the engine and its [`Reach`] use.
        const SPACE: u32 = 0x7365_7373;
        let mut team = Team::alone();
        if members.len() > 1 {
            let reach = Reach::of(job.fabric(), SegmentId::new(SPACE + 1, 0), &job.settings().messages)?;
            let engine = Engine::join(&reach, &members, SegmentId::new(SPACE, 0), None)?;
            team = Team::new(job.rank().index(), members.len(), Box::new(engine));
        }
        share_one_store(&team, &store)?;
        accounting::note_one_node(store.node(), team.member(), team.size());
        Ok(Session { team, place: Place::OneNode(store), job: Some(job) })
    }

    /// The members of a team, who can already tell each other things. Where they are on several nodes, they form a
    /// cluster, unless they have one.
    ///
    /// # Errors
    /// Those of [`Team::meet`].
    pub fn of_team(team: Team) -> Result<Session> {
        let place = team.meet()?;
        let team = match &place {
            Place::OneNode(_) => team,
            Place::Nodes { cluster, members, .. } => {
                let own = cluster.own_node();
                let nodes = members.iter().map(|&member| cluster.node_of(member));
                let local = LocalRank::of(team.member(), nodes, own);
                team.on_node(cluster.nodes()[own.0 as usize].clone(), local)
            }
        };
        Ok(Session { team, place, job: None })
    }

    /// This process by itself, where the others are, too: for files that they do not open together.
    #[must_use]
    pub fn of_one(&self) -> Session {
        let mut place = self.place.clone();
        if let Place::Nodes { cluster, members, .. } = &mut place {
            *members = vec![cluster.rank()];
        }
        Session {
            team: Team::alone().on_node(self.store().node().clone(), LocalRank::ALONE),
            place,
            job: None,
        }
    }

    /// The processes.
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// Where their files are.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// This process's store.
    pub fn store(&self) -> &Store {
        self.place.store()
    }

    /// Opens or makes a file together. What is only to be read and not here, or not all of it, is
    /// [staged](crate::staging) from the hosts that `SVMIO_SERVERS` names, if it names any. The first member's counts.
    ///
    /// # Errors
    /// What went wrong for one member, on all: those of [`Store::open_file`], [`Cluster::open`] and
    /// [`Cluster::attach`]; [`Error::NotStaged`], and [`Error::Settings`] where `SVMIO_SERVERS` names no hosts.
    pub fn open(&self, name: &FileName, options: &OpenOptions) -> Result<File> {
        self.open_by(Staging::by_environment(), name, options)
    }

    fn open_by(&self, staging: Staging, name: &FileName, options: &OpenOptions) -> Result<File> {
        let opened = self.team.open(&mut Together { session: self, name, options, staging }, []);
        opened.map(|(file, [])| file).map_err(|error| error.over(name.to_string(), self.team.member()))
    }

    /// Makes a file that has no name, together: memory that the members share, gone with the last of them.
    ///
    /// # Errors
    /// As [`open`](Self::open), but for those of staging.
    pub fn open_unnamed(&self, options: &OpenOptions) -> Result<File> {
        let failed = |e| Error::io("drawing a name for memory", self.store().path(), e);
        let drawn = FileId::random().map_err(failed);
        let told = self.team.told(0, drawn.map(|id| id.to_string().into_bytes()))?;
        let name = FileName::new(format!("unnamed-{}", String::from_utf8_lossy(&told)))?;
        let options = options.clone().create(true).exclusive(true).temporary(true);
        // No host can have it.
        let opened = self.open_by(Staging::by(Servers::default()), &name, &options);
        let file = opened.inspect_err(|_| self.take_back(&name))?;
        let removed = if self.team.member() == 0 { self.remove(&name) } else { Ok(()) };
        self.team.outcome_of(0, removed)?;
        Ok(file)
    }

    /// A file that all have made together, for something that has failed since, loses its name: the first member
    /// removes it. Whoever has it open, as they have, keeps it until closing it. What keeps it from that is told in the log.
    pub fn take_back(&self, name: &FileName) {
        if self.team.member() == 0 {
            self.place.take_back(name);
        }
    }

    /// Before all let go of a file: what they wrote is committed, unless the file has no name and `goes` with that.
    ///
    /// # Errors
    /// Those of [`Team::close`].
    pub fn close(&self, file: &File, goes: bool) -> Result<()> {
        self.team.close(file, goes)
    }

    /// The same by one member, where the others cannot be told anything any more.
    ///
    /// # Errors
    /// Those of [`Team::close_severed`].
    pub fn close_severed(&self, file: &File, goes: bool) -> Result<()> {
        self.team.close_severed(file, goes)
    }

    /// Removes a file on all nodes; by one process. Whoever has it open keeps it until closing it.
    ///
    /// # Errors
    /// Those of [`Store::remove`].
    pub fn remove(&self, name: &FileName) -> Result<()> {
        self.place.remove(name)
    }

    /// Leaves the others, when all do: their files are closed. Where this is dropped instead, a session from the
    /// environment counts as lost; one of a team leaves the cluster that it is in to whoever
    /// [takes](joined::take_all) it.
    ///
    /// # Errors
    /// [`Error::Fabric`] where some were lost meanwhile.
    pub fn finish(self) -> Result<()> {
        let Session { team, place, job } = self;
        drop(team);
        let failed = |source| Error::Fabric { subject: "leaving the others".into(), source };
        match (job, place) {
            (Some(job), Place::Nodes { cluster, .. }) => Part { job, cluster }.leave().map_err(failed),
            (Some(job), Place::OneNode(_)) => {
                accounting::tell_of_one_node();
                job.finish().map_err(failed)
            }
            (None, place) => {
                drop(place);
                let left = joined::take_all().into_iter().map(Part::leave);
                let left = left.fold(Ok(()), Result::and).map_err(failed);
                accounting::tell_of_one_node();
                left
            }
        }
    }
}

/// That all members have one store, as those of one node must.
fn share_one_store(team: &Team, store: &Store) -> Result<()> {
    let StoreIdentity { device, inode, .. } = store.identity();
    let own: Vec<u8> = [device, inode].into_iter().flat_map(u64::to_ne_bytes).collect();
    let all = team.all_gather_equal(&own)?;
    match all.iter().position(|identity| *identity != all[0]) {
        None => Ok(()),
        Some(second) => Err(Error::of_two_stores(0, second)),
    }
}

/// A file that is being opened by all members.
struct Together<'o> {
    session: &'o Session,
    name: &'o FileName,
    options: &'o OpenOptions,
    staging: Staging,
}

impl Together<'_> {
    fn located(&self, error: Error) -> Error {
        match self.session.place {
            Place::OneNode(_) => error,
            Place::Nodes { .. } => self.session.team.located_on_node(error),
        }
    }
}

impl Opening for Together<'_> {
    type Opened = File;
    type Error = Error;

    fn find(&mut self) -> Result<Found<File>> {
        let (place, name) = (&self.session.place, self.name);
        let open = |options: &OpenOptions| place.open(name, options);
        let found = self.staging.find(name, self.options, open, |opened| place.give_up(opened, name));
        found.map_err(|error| self.located(error))
    }

    fn stage(&mut self, team: &Team) -> Result<(File, Vec<u8>)> {
        self.staging.stage(team, &self.session.place, self.name)
    }

    fn attach(&mut self, introduction: &[u8]) -> Result<File> {
        let attached = self.session.place.attach(introduction, self.name, self.options);
        attached.map_err(|error| self.located(error))
    }

    fn give_up(&mut self, introduction: &[u8]) {
        self.session.place.give_up(introduction, self.name);
    }
}
