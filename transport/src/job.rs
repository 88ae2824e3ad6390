//! A job: processes that find each other, notice who is lost, and end together.
//!
//! ```text
//!   Launcher ── starts ──► processes, each with a Place (rank, size, node, master, secret)
//!                              │
//!   start      the master's Roll of who came; everybody's addresses       over links: wire, proof, greeting, door
//!   exchange   or the program's own way to meet, for the first word; route: by which interface others reach rank 0
//!                              │
//!   Job        a Fabric, and beside the program the watchdog: one thread that sleeps in one poller
//!                 watchdog    who lives, who leads, who has finished; tells the Membership
//!                 signals     SIGINT, SIGTERM or SIGHUP to one ends all
//! ```
//!
//! ```no_run
//! use svmio_transport::job::Job;
//!
//! let job = Job::from_environment()?;
//! println!("{} of {}", job.rank(), job.size());
//! // … job.fabric() …
//! job.finish()?;
//! # Ok::<(), svmio_transport::Error>(())
//! ```
//!
//! The job's secret keeps strangers out. Over a network it is never sent: control connections prove that they know it,
//! libfabric's messages carry a tag made from it. It is told where others cannot listen: by the launcher in the
//! environment, by the program's own exchange ([`Job::by_exchange`]), and over the local sockets of the `shm` fabric,
//! whose other end the kernel vouches to be the same user's. What is said on control connections is not encrypted.
//! Nothing of a job has a name in a file system.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::back_end::Prepared;
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::membership::{ANSWER_LIMIT, Membership};
use crate::secret::JobSecret;
use crate::settings::{FabricChoice, Settings};
use crate::units::Rank;

mod door;
mod exchange;
mod greeting;
mod launcher;
mod link;
mod place;
mod poller;
mod proof;
mod roll;
mod route;
mod settings;
mod signals;
mod start;
mod watchdog;
#[doc(hidden)]
pub mod wire;

pub use exchange::Exchange;
pub use launcher::{Launcher, Running, Streams};
pub use place::{Master, Place, VARIABLES, current_node, is_told_of};
pub use settings::{StartSettings, WatchdogSettings};

use start::{Offer, Started};
use watchdog::{Desk, Order, State};
use wire::LARGEST_FABRIC;

/// How long the control thread may take to stop, once it was told to.
const STOPPING: Duration = Duration::from_secs(3);

/// One process's part in a job. Dropping it without [`finish`](Self::finish) makes the others count this process as
/// lost.
#[derive(Debug)]
pub struct Job {
    fabric: Fabric,
    settings: Settings,
    desk: Arc<Desk>,
    control: Option<JoinHandle<()>>,
}

/// Prepares a fabric, given the job's secret and the address at which the other processes reach this one.
pub type Prepare<'a> = dyn FnMut(&JobSecret, IpAddr) -> Result<Box<dyn Prepared>> + 'a;

impl Job {
    /// Joins the job that the environment tells of: `SVMIO_JOB_MASTER`, `SVMIO_JOB_RANK`, `SVMIO_JOB_SIZE`,
    /// `SVMIO_JOB_SECRET`, `SVMIO_NODE`, and the [`Settings`].
    ///
    /// # Errors
    /// [`Error::Setting`] for what is missing or makes no sense; as [`start`](Self::start).
    pub fn from_environment() -> Result<Self> {
        Self::start(Place::from_environment()?, Settings::load()?)
    }

    /// Joins a job at `place`; returns when all have come.
    ///
    /// # Errors
    /// [`Error::StartUp`], that tells who is missing or does not fit, within the start limit; what the fabric says.
    pub fn start(place: Place, settings: Settings) -> Result<Self> {
        let name = settings.fabric.to_string();
        let for_fabric = settings.clone();
        Self::start_on(place, settings, &name, &mut |secret, address| for_fabric.prepare_at(secret, address))
    }

    /// The same on a fabric of the caller's own, which all processes know by `name`, of 64 bytes at most.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_on(
        mut place: Place,
        settings: Settings,
        name: &str,
        prepare: &mut Prepare<'_>,
    ) -> Result<Self> {
        place.check().map_err(|problem| Error::StartUp { problem })?;
        let listener = if place.rank == Rank(0) {
            let master = std::mem::replace(&mut place.master, Master::Known(Vec::new()));
            Some(start::listen(master)?)
        } else {
            None
        };
        Self::meet(&place, listener, None, settings, name, prepare)
    }

    /// Joins a job whose processes can already tell each other something. They have to be started with the same
    /// settings; a secret is made for the job.
    ///
    /// # Errors
    /// As [`start`](Self::start); the exchange's own.
    pub fn by_exchange(exchange: &mut dyn Exchange, settings: Settings) -> Result<Self> {
        let name = settings.fabric.to_string();
        let for_fabric = settings.clone();
        Self::by_exchange_on(exchange, settings, &name, &mut |secret, address| {
            for_fabric.prepare_at(secret, address)
        })
    }

    /// The same on a fabric of the caller's own, as for [`start_on`](Self::start_on).
    ///
    /// # Errors
    /// As [`by_exchange`](Self::by_exchange).
    pub fn by_exchange_on(
        exchange: &mut dyn Exchange,
        settings: Settings,
        name: &str,
        prepare: &mut Prepare<'_>,
    ) -> Result<Self> {
        let (rank, size) = (exchange.rank(), exchange.size());
        let invited = if rank == Rank(0) { Some(invite(&settings)) } else { None };
        // Who has failed takes part all the same, or the others would wait in the exchange.
        let ours = match &invited {
            Some(Ok((_, invitation))) => invitation.as_slice(),
            _ => &[],
        };
        let all = exchange.all_gather(ours);
        let listener = invited.transpose()?.map(|(listener, _)| listener);
        let invited = exchange::accept(size, &all?)?;
        let (addresses, known) = route::agree(exchange, invited.addresses)?;
        let secret = invited.secret?;
        let place = Place { rank, size, node: current_node(), master: Master::Known(addresses), secret };
        place.check().map_err(|problem| Error::StartUp { problem })?;
        Self::meet(&place, listener, known, settings, name, prepare)
    }

    fn meet(
        place: &Place,
        listener: Option<TcpListener>,
        known: Option<IpAddr>,
        settings: Settings,
        name: &str,
        prepare: &mut Prepare<'_>,
    ) -> Result<Self> {
        // What the program set is not checked yet. The others learn of it like of a fabric that cannot be prepared.
        let mut checked = settings.check();
        let limit = if checked.is_ok() { settings.start.limit } else { StartSettings::default().limit };
        checked = checked.and_then(|()| check_name(name));
        let mut prepared = None;
        let mut offer = |reached_at: IpAddr| {
            let checked = std::mem::replace(&mut checked, Ok(()));
            let result = checked.and_then(|()| prepare(&place.secret, reached_at));
            let address = result.as_ref().map(|prepared| prepared.address()).map_err(ToString::to_string);
            prepared = Some(result);
            Offer { fabric: name.into(), address }
        };
        let started = match listener {
            Some(listener) => start::gather(place, listener, known, &mut offer, limit),
            None => start::register(place, known, &mut offer, limit),
        };
        // Its own failure tells a process more than that the start has failed.
        let prepared = prepared.transpose()?;
        match (started?, prepared) {
            (started, Some(prepared)) => Self::watch(place, started, prepared, settings),
            (_, None) => Err(Error::StartUp { problem: "nobody asked for the fabric's address".into() }),
        }
    }

    fn watch(
        place: &Place,
        started: Started,
        prepared: Box<dyn Prepared>,
        settings: Settings,
    ) -> Result<Self> {
        let nodes = started.entries.iter().map(|entry| entry.node.clone()).collect();
        let addresses = started.entries.iter().map(|entry| entry.address.clone()).collect();
        let membership = Membership::new(place.rank, nodes).with_answer_limit(answer_limit(&settings));
        let membership = Arc::new(membership);
        let (desk, control) = watchdog::spawn(started, &membership, &place.secret, &settings.watchdog)?;
        let leaving = Leaving { desk: &desk, reason: "could not join the fabric" };
        let fabric = Fabric::new(prepared.join(membership, addresses)?);
        std::mem::forget(leaving);
        desk.set_fabric(fabric.clone());
        Ok(Self { fabric, settings, desk, control: Some(control) })
    }

    /// The job's fabric.
    #[must_use]
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Who takes part, and who is lost.
    #[must_use]
    pub fn membership(&self) -> &Arc<Membership> {
        self.fabric.membership()
    }

    /// This process.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.fabric.rank()
    }

    /// How many processes the job has.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.fabric.size()
    }

    /// What is in force.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Leaves cleanly: waits until all others have finished or are lost, serving them meanwhile; then closes the
    /// fabric. It waits for as long as they take, unless [`StartSettings::finish_limit`] says otherwise; one that hangs
    /// is lost by the watchdog's timeout.
    ///
    /// # Errors
    /// [`Error::Ending`] where the job was ended meanwhile; [`Error::TimedOut`] where others had not finished within
    /// the finish limit: for them, this process is lost then.
    pub fn finish(mut self) -> Result<()> {
        let limit = self.settings.start.finish_limit;
        self.desk.order(Order::Finish);
        let deadline = (limit > Duration::ZERO).then(|| Instant::now() + limit);
        let state = self.desk.wait(deadline, |state| state != State::Watching);
        let unfinished = self.desk.unfinished();
        let membership = Arc::clone(self.membership());
        let ending = membership.check_job();
        self.stop(match (&ending, state) {
            (Err(_), _) => "it left, as the job was ending".into(),
            _ => format!("it had finished and left, having waited {limit:?} for the others"),
        });
        ending?;
        match state {
            State::Stopped { is_over: true } => Ok(()),
            _ => Err(unfinished_within(limit, &membership, &unfinished)),
        }
    }

    /// Ends the control thread and the fabric; does nothing where that was done.
    fn stop(&mut self, reason: String) {
        let Some(control) = self.control.take() else { return };
        self.desk.order(Order::Leave(reason));
        let deadline = Some(Instant::now() + STOPPING);
        let state = self.desk.wait(deadline, |state| matches!(state, State::Stopped { .. }));
        self.fabric.close();
        // A thread that does not stop is left behind; it holds nothing but its sockets.
        if matches!(state, State::Stopped { .. }) && control.join().is_err() {
            tracing::error!("the control thread has panicked");
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let how = if std::thread::panicking() { "it panicked" } else { "it left without finishing" };
        self.stop(how.into());
    }
}

/// Tells the others if this process does not come to be part of the job after all.
struct Leaving<'a> {
    desk: &'a Desk,
    reason: &'static str,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.desk.order(Order::Leave(self.reason.into()));
        self.desk.wait(Some(Instant::now() + STOPPING), |state| matches!(state, State::Stopped { .. }));
    }
}

/// How long answers of peers are waited for: one may stand still, in a debugger say, for as long as it takes until it
/// is lost by that.
fn answer_limit(settings: &Settings) -> Duration {
    let of_fabric = match settings.fabric {
        FabricChoice::Shm => Duration::ZERO,
        FabricChoice::Ofi => settings.ofi.answer_limit(),
    };
    ANSWER_LIMIT.max(settings.watchdog.timeout).max(of_fabric)
}

/// The error of one that has waited too long for others to finish: as far as it is known, for whom.
fn unfinished_within(limit: Duration, membership: &Membership, unfinished: &[Rank]) -> Error {
    if let Some(&first) = unfinished.first() {
        let ranks: Vec<_> = unfinished.iter().map(|rank| rank.0).collect();
        let (number, ranks) = (ranks.len(), roll::list(&ranks));
        let doing =
            format!("waiting for the others to finish, of which {number} ({ranks}) did not; the first is");
        return Error::timed_out(membership, doing, first, limit);
    }
    // Only the leader, the lowest rank that is left, is told who has finished.
    let leader = membership.ranks().find(|&rank| membership.check(rank).is_ok());
    let doing = "waiting for the others to finish; who has not, is known to the leader,";
    Error::timed_out(membership, doing, leader.unwrap_or(membership.rank()), limit)
}

/// Whether rank 0 can compare a fabric's name with its own: what is longer comes to it cut.
fn check_name(name: &str) -> Result<()> {
    if name.len() <= LARGEST_FABRIC {
        return Ok(());
    }
    let length = name.len();
    let problem = format!("the fabric's name has {length} bytes, {LARGEST_FABRIC} are the most: {name}");
    Err(Error::StartUp { problem })
}

/// Rank 0's part before an exchange: listens, and makes a secret.
fn invite(settings: &Settings) -> Result<(TcpListener, Vec<u8>)> {
    let listener = match settings.start.address.as_str() {
        "" => start::listen(Master::Known(vec![SocketAddr::new(route::everywhere()?, 0)]))?,
        address => start::listen_for_exchange(address)?,
    };
    let secret = JobSecret::random().map_err(|problem| Error::system("making the job's secret", problem))?;
    let invitation = exchange::invite(&secret, route::candidates(&listener)?)?;
    Ok((listener, invitation))
}
