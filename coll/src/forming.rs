//! A communicator's members forming a group.
//!
//! What each can tell for itself, and what is the same for all, comes first: an intercommunicator has none, nor has a
//! communicator of one process or of several worlds. Then each member shows a [`Card`] to all, over MPI's own
//! allgather, and all come to the same [`Decision`].

use std::ffi::c_int;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use svmio_adio::Mpi;
use svmio_adio::abi::{Abi, Comm};
use svmio_adio::environment::{self, Concern};
use svmio_collectives::components::Team;
use svmio_collectives::executor::network::{Background, MessageCosts};
use svmio_collectives::executor::{
    self, Fabrics, GroupSettings, NetworkGroup, NetworkSettings, TwoLevelGroup,
};
use svmio_collectives::{Algorithm, AlgorithmError, Partition};
use svmio_transport::job::{Exchange, Job};
use svmio_transport::message::{MessageSettings, Messenger, Port};
use svmio_transport::settings::{FabricChoice, Settings};
use svmio_transport::{Rank, SegmentId};

use crate::card::{self, Card, Decision, Found};
use crate::chosen::{self, Chosen};
use crate::company::Company;
use crate::family::Family;
use crate::group::Group;
use crate::jobs;
use crate::jobs::Reach;
use crate::over_mpi::OverMpi;
use crate::room::{self, Place};
use crate::setting::{Begun, Collectives};
use crate::stock::Stock;
use crate::trial;

/// What the members have come to.
pub(crate) struct Formed {
    pub(crate) group: Group,
    /// The group's place among those of this process.
    pub(crate) place: Place,
    /// What is left to MPI all the same.
    pub(crate) left: Collectives,
    /// Which of those that do not block are not.
    pub(crate) begun: Begun,
}

/// Forms the group of `comm`, with all of its members; `None`, for all of them, where it has none.
pub(crate) fn form<A: Family>(stock: &'static Stock<A>, comm: Comm<A>) -> Option<Formed> {
    svmio_logging::start();
    let mpi = stock.mpi;
    if stock.is_between(comm) || mpi.size(comm) < 2 || !stock.is_of_one_world(comm) {
        return None;
    }
    let rank = mpi.rank(comm);
    if rank == 0 {
        environment::tell(&[Concern::Collectives]);
    }
    let members = mpi.size(comm).unsigned_abs() as usize;
    let ready = Settings::load()
        .map_err(|error| error.to_string())
        .and_then(|settings| Card::own(&settings, members).map(|card| (settings, card)));
    let warn = |problem: &str| tracing::warn!("MPI's own collectives are used: rank {rank}: {problem}");
    if let Err(problem) = &ready {
        warn(problem);
    }
    let (settings, mut card) = ready.map_or((None, Card::UNREADY), |(settings, card)| (Some(settings), card));
    if card.has_enough
        && let Some(shortage) = room::shortage(members)
    {
        room::tell(rank, shortage);
    }
    if !can_go_on_in_background(mpi) {
        card.left = card.left.or(Collectives::NONBLOCKING);
    }
    // From now on: what other threads show tells of it.
    let place = Place::take();
    let shown = mpi.all_gather_equal(comm, &card.to_bytes()).ok()?;
    let cards: Vec<Card> = shown.iter().map(|bytes| Card::from_bytes(bytes)).collect();
    if comm.0 == stock.communicators.world.0 {
        trial::agree(cards.iter().map(|card| card.after));
    }
    let (found, reach) = match card::decide(&cards) {
        Decision::Leave(why) => {
            tracing::info!("MPI's own collectives are used for a communicator of {}: {why}", cards.len());
            return None;
        }
        Decision::TakeOverMpi { nodes } => {
            if rank == 0 && cards.iter().any(|card| card.is_choosing) {
                tracing::warn!("SVMIO_COMPONENTS has no effect on collectives that go by MPI's own messages");
            }
            let group = over_mpi(stock, comm, nodes);
            if let Err(problem) = &group {
                warn(problem);
            }
            let mut group = agreed(mpi, comm, group.ok())?;
            let learned = group.learn_costs(known_costs());
            if let Err(problem) = &learned {
                warn(&problem.to_string());
            }
            costs_are(agreed(mpi, comm, learned.ok())?);
            let group = Group::over_mpi(group);
            // MPI's messages go on only while their group is waited in.
            let left = left_by(&cards).or(Collectives::NONBLOCKING);
            return Some(Formed { group, place, left, begun: Begun::default() });
        }
        Decision::Take { found, reach } => (found, reach),
    };
    let mut settings = settings?;
    if reach == Reach::Memory && !cards.iter().any(|card| card.is_timed) {
        settings.watchdog.timeout = UNTIMED;
    }
    let messages = settings.messages.clone();
    let (fabrics, members) = match found {
        Found::Known { job, members } => (jobs::fabrics(job), members),
        Found::None { job } => {
            let joined = join(mpi, comm, settings, reach);
            if let Err(problem) = &joined {
                warn(problem);
            }
            let joined = agreed(mpi, comm, joined.ok());
            if joined.is_none() && reach == Reach::Network {
                // Once is enough: it would take as long again, and come to the same.
                card::cannot_span_nodes();
            }
            let (joined, fabrics) = joined?;
            jobs::keep(job, joined, fabrics.clone(), reach);
            (Some(fabrics), (0..cards.len() as u32).map(Rank).collect())
        }
    };
    let (first, first_rank) = (cards.first()?, members.first()?.0);
    // Each has a messenger of its own.
    let processes = fabrics.as_ref().map_or(1, |fabrics| fabrics.job().size());
    let [own, another, behind] = [0, 1, 2].map(|which| port(first_rank, first.number, which, processes));
    let chosen = if cards.iter().any(|card| card.is_choosing) {
        chosen::choose(mpi, comm, reach, || {
            let fabrics = fabrics.as_ref().ok_or(NO_JOB)?;
            let messenger = messenger(fabrics, another.ok_or(NO_PORT)?, &members, messages.clone());
            let messenger = messenger.map_err(|error| error.to_string())?;
            let id = SegmentId::new(TEAMS + first_rank, first.number);
            Team::across(fabrics, &members, id, messenger).map_err(|error| error.to_string())
        })
    } else {
        Chosen::default()
    };
    let (fabrics, within) = (fabrics.ok_or(NO_JOB), chosen.within);
    let id = SegmentId::new(SPACES + first_rank, SEGMENTS.wrapping_mul(first.number));
    let over_network = |port: Option<Port>, id: SegmentId| {
        let fabrics = fabrics.as_ref().map_err(ToString::to_string)?;
        let messenger = messenger(fabrics, port.ok_or(NO_PORT)?, &members, messages.clone());
        let group = messenger.map_err(executor::Error::from).and_then(|messenger| {
            over_network(fabrics, &messenger, &members, id, (within, chosen.between.clone()))
        });
        group.map_err(|error| error.to_string())
    };
    let group = match reach {
        Reach::Memory => fabrics.as_ref().map_err(ToString::to_string).and_then(|fabrics| {
            let fabric = fabrics.mapped().ok_or("its node's memory is not mapped")?;
            let group = executor::Group::join(fabric, &members, id, within);
            group.map(Group::of_memory).map_err(|error| {
                if matches!(error, executor::Error::Fabric(svmio_transport::Error::TimedOut { .. })) {
                    room::stall();
                }
                error.to_string()
            })
        }),
        Reach::Network => over_network(own, id).and_then(|group| {
            let membership = Arc::clone(fabrics.as_ref().map_err(ToString::to_string)?.job().membership());
            Ok(Group::of_network(group, Company::new(membership, members.clone())))
        }),
    };
    if let Err(problem) = &group {
        warn(problem);
    }
    let mut group = agreed(mpi, comm, group.ok())?.with_barrier(chosen.barrier);
    let mut left = left_by(&cards);
    let are_all = cards.iter().all(|card| card.begun == Begun::All);
    if reach == Reach::Network {
        // They take as much memory as all others.
        let background = if are_all && left.or(Collectives::NONBLOCKING) != left {
            let background = over_network(behind, SegmentId::new(id.space, id.number + BEHIND));
            let background = background.and_then(|group| Background::of(group).map_err(|e| e.to_string()));
            if let Err(problem) = &background {
                tracing::warn!("MPI's own collectives that do not block are used: rank {rank}: {problem}");
            }
            agreed(mpi, comm, background.ok())
        } else {
            None
        };
        match background {
            Some(background) => group.go_on_by(background),
            None => left = left.or(Collectives::NONBLOCKING),
        }
    }
    Some(Formed { group, place, left, begun: if are_all { Begun::All } else { Begun::Long } })
}

/// What any member leaves to MPI.
fn left_by(cards: &[Card]) -> Collectives {
    cards.iter().fold(Collectives::default(), |all, card| all.or(card.left))
}

/// Members on these nodes, over messages of MPI's own.
fn over_mpi<A: Family>(
    stock: &'static Stock<A>,
    comm: Comm<A>,
    nodes: Vec<(u64, u64)>,
) -> Result<NetworkGroup, String> {
    // First: all call it, whatever comes of the rest.
    let messages = OverMpi::new(stock, comm).map_err(|problem| problem.to_string())?;
    let algorithm: Algorithm = BARRIER.parse().map_err(|problem: AlgorithmError| problem.to_string())?;
    let barrier =
        algorithm.schedule_on(&Partition::of_nodes(nodes)).map_err(|problem| problem.to_string())?;
    let settings = NetworkSettings { barrier: Some(barrier), ..NetworkSettings::default() };
    NetworkGroup::over(messages, settings).map_err(|problem| problem.to_string())
}

/// What messages between nodes cost, as this process's first group over some has learned it. Where the first members of
/// two groups differ in that, those of each go by what theirs knows.
static COSTS: OnceLock<MessageCosts> = OnceLock::new();

fn known_costs() -> Option<MessageCosts> {
    COSTS.get().copied()
}

fn costs_are(costs: MessageCosts) {
    COSTS.get_or_init(|| {
        tracing::info!(
            "a message between nodes costs {:.1} µs, {:.3} ns for each byte of a short one, {:.3} ns for each further one",
            costs.latency / 1e3,
            costs.per_short_byte,
            costs.per_byte
        );
        costs
    });
}

/// Whether programs can be given requests of collectives that svmio does. An MPI that asks for them with its locks
/// taken would have other threads of the program wait, on which the collective may depend.
fn can_go_on_in_background<A: Abi>(mpi: &Mpi<A>) -> bool {
    mpi.has_background_requests() && !(mpi.asks_operations() && mpi.has_many_threads())
}

/// After how long a process of one machine that stands still is lost, where its user has not said: never. The kernel tells
/// of one that has died, and MPI's own collectives wait for one that a debugger has stopped, too.
const UNTIMED: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How members on several nodes wait for each other over messages of MPI's own.
const BARRIER: &str = "two-level:dissemination";

/// The segments of groups are in the spaces from this on: one for each member that is the first of a group.
const SPACES: u32 = 0x100;

/// Those of the teams that choose are from this on.
const TEAMS: u32 = 0x4000_0000;

/// Why there is no group.
const NO_JOB: &str = "the job that it showed is gone";
const NO_PORT: &str = "no port is left for its messages";

/// How many segments a group may have.
const SEGMENTS: u32 = 8;

/// From which of them on are those of its operations in the background.
const BEHIND: u32 = 4;

/// The segment by which the processes of a node find each other's memory.
const NODES: SegmentId = SegmentId::new(SPACES - 1, 0);

/// How many ports a group has.
const PORTS: u32 = 3;

/// One of the ports of the group of that number among those of which that rank of a job of so many is the first. None is
/// used twice: who had it first may have it still.
fn port(first: u32, number: u32, which: u32, processes: u32) -> Option<Port> {
    let groups = Port::SILENT / processes / PORTS;
    if number >= groups {
        return None;
    }
    let group = first.checked_mul(groups)?.checked_add(number)?;
    Port::silent(group.checked_mul(PORTS)?.checked_add(which)?)
}

/// What the members of a group send messages by.
fn messenger(
    fabrics: &Fabrics,
    port: Port,
    members: &[Rank],
    messages: MessageSettings,
) -> Result<Arc<Messenger>, svmio_transport::Error> {
    let messenger = Messenger::open(fabrics.job(), port, &NetworkSettings::messages(messages))?;
    messenger.watch(members);
    Ok(messenger.into())
}

/// Members on several nodes.
fn over_network(
    fabrics: &Fabrics,
    messenger: &Arc<Messenger>,
    members: &[Rank],
    id: SegmentId,
    (within, between): (GroupSettings, NetworkSettings),
) -> Result<TwoLevelGroup, executor::Error> {
    let mut group = TwoLevelGroup::join(fabrics, messenger, members, id, within, between)?;
    if let Some(costs) = group.learn_costs(known_costs())? {
        costs_are(costs);
    }
    Ok(group)
}

/// A job of the members of `comm`.
fn join<A: Abi>(
    mpi: &Mpi<A>,
    comm: Comm<A>,
    mut settings: Settings,
    reach: Reach,
) -> Result<(Job, Fabrics), String> {
    settings.fabric = match reach {
        Reach::Memory => FabricChoice::Shm,
        Reach::Network => FabricChoice::Ofi,
    };
    let job = Job::by_exchange(&mut Members { mpi, comm }, settings).map_err(|error| error.to_string())?;
    let fabrics = Fabrics::join(job.fabric(), NODES).map_err(|error| error.to_string())?;
    Ok((job, fabrics))
}

/// `mine`, if all members have theirs.
pub(crate) fn agreed<A: Abi, T>(mpi: &Mpi<A>, comm: Comm<A>, mine: Option<T>) -> Option<T> {
    let failed = mpi.maximum(comm, c_int::from(mine.is_none())).ok()?;
    mine.filter(|_| failed == 0)
}

/// A communicator's members, who tell each other something by MPI's own collectives.
struct Members<'m, A: Abi> {
    mpi: &'m Mpi<A>,
    comm: Comm<A>,
}

impl<A: Abi> Exchange for Members<'_, A> {
    fn rank(&self) -> Rank {
        Rank(self.mpi.rank(self.comm).unsigned_abs())
    }

    fn size(&self) -> u32 {
        self.mpi.size(self.comm).unsigned_abs()
    }

    fn all_gather(&mut self, ours: &[u8]) -> svmio_transport::Result<Vec<Vec<u8>>> {
        let all = self.mpi.all_gather(self.comm, ours);
        all.map_err(|failure| svmio_transport::Error::StartUp { problem: failure.message })
    }
}
