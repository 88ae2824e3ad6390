//! What the members of a communicator tell each other before they form a group, and what comes of it.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use svmio_transport::Rank;
use svmio_transport::job::current_node;
use svmio_transport::settings::{FabricChoice, Origin, Settings};

use crate::chosen;
use crate::devices;
use crate::jobs::{self, Known, Reach};
use crate::room;
use crate::setting::{self, Begun, Collectives, Nodes, Over};

/// How many jobs a card tells of.
const JOBS: usize = 8;

/// What a member shows to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Card {
    /// Whether it can be in a group at all.
    is_ready: bool,
    /// What it leaves to MPI.
    pub(crate) left: Collectives,
    /// Which of those that do not block it leaves to MPI, too.
    pub(crate) begun: Begun,
    /// On how many nodes the others may be.
    nodes: Nodes,
    /// By what it reaches those that it shares no memory with.
    over: Over,
    /// Whether its user wants components.
    pub(crate) is_choosing: bool,
    /// Whether it has failed to reach others over a network.
    has_failed: bool,
    /// Whether it can be in no more jobs than it is in.
    has_no_room: bool,
    /// Whether it can be in no more groups than it is in.
    pub(crate) has_enough: bool,
    /// Whether its buffers may be in the memory of devices.
    has_devices: bool,
    /// Whether its user has said after how long a process that stands still is lost.
    pub(crate) is_timed: bool,
    /// Which fabric it is told to take between nodes.
    fabric: Option<FabricChoice>,
    /// The same for processes that can share memory.
    machine: u64,
    /// The same for processes of one node, also an emulated one.
    node: u64,
    /// How many collectives of a communicator its user has MPI do before there is a group.
    pub(crate) after: u32,
    /// What a new job will be known by, if this member is the first.
    job: u64,
    /// What no other group has of which this member is the first.
    pub(crate) number: u32,
    /// The jobs that it is in already.
    jobs: [Option<Known>; JOBS],
}

/// What members do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// They leave all to MPI.
    Leave(&'static str),
    /// They form a group over messages of MPI's own; these are the nodes that they are on.
    TakeOverMpi { nodes: Vec<(u64, u64)> },
    /// They form a group.
    Take {
        /// Of the processes of which job.
        found: Found,
        /// By what.
        reach: Reach,
    },
}

/// The job of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// One that all members are in, where they have these ranks.
    Known { job: u64, members: Vec<Rank> },
    /// They have to form one, known by this.
    None { job: u64 },
}

/// Whether forming a job over a network has failed.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// From now on, this process forms no groups over a network with new jobs.
pub(crate) fn cannot_span_nodes() {
    // Relaxed: the next card tells it.
    HAS_FAILED.store(true, Ordering::Relaxed);
}

impl Card {
    /// That of a member that cannot.
    pub(crate) const UNREADY: Card = Card {
        is_ready: false,
        left: Collectives::EVERY,
        begun: Begun::Long,
        nodes: Nodes::One,
        over: Over::Fabric,
        is_choosing: false,
        has_failed: false,
        has_no_room: false,
        has_enough: false,
        has_devices: false,
        is_timed: false,
        fabric: None,
        machine: 0,
        node: 0,
        after: 0,
        job: 0,
        number: 0,
        jobs: [None; JOBS],
    };

    /// This process's, for so many members.
    ///
    /// # Errors
    /// What is wrong with the environment.
    pub(crate) fn own(settings: &Settings, members: usize) -> Result<Self, String> {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        let rows = settings.effective();
        let is_told = |section: &str, key: &str| {
            let mut of_key = rows.iter().filter(|row| row.section == section && row.key == key);
            of_key.any(|row| !matches!(row.origin, Origin::Default))
        };
        let has_enough = room::shortage(members).is_some();
        Ok(Self {
            is_ready: true,
            left: setting::left_to_mpi()?,
            begun: setting::begun()?,
            nodes: setting::nodes()?,
            over: setting::over()?,
            is_choosing: chosen::wanted()?.is_some(),
            // Relaxed: see `cannot_span_nodes`.
            has_failed: HAS_FAILED.load(Ordering::Relaxed),
            has_no_room: !jobs::has_room(),
            has_enough,
            has_devices: setting::may_have_devices()? && devices::are_taken(),
            is_timed: is_told("watchdog", "timeout"),
            fabric: is_told("", "fabric").then_some(settings.fabric),
            // Without descriptors nobody finds out.
            machine: if has_enough { 0 } else { machine()? },
            node: hash(&current_node()),
            after: setting::after()?,
            job: RandomState::new().hash_one(0),
            // Relaxed: only different numbers matter.
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            jobs: jobs::largest(),
        })
    }

    /// As it is shown.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let flags = u64::from(self.is_ready)
            | u64::from(self.nodes == Nodes::One) << 1
            | u64::from(self.has_failed) << 2
            | self.fabric.map_or(0, |fabric| if fabric == FabricChoice::Shm { 1 } else { 2 }) << 3
            | u64::from(self.begun == Begun::All) << 5
            | u64::from(self.over == Over::Mpi) << 6
            | u64::from(self.is_choosing) << 7
            | u64::from(self.has_no_room) << 8
            | u64::from(self.has_enough) << 9
            | u64::from(self.is_timed) << 10
            | u64::from(self.has_devices) << 11;
        let words = [
            flags,
            self.left.0,
            self.machine,
            self.node,
            self.job,
            u64::from(self.number),
            u64::from(self.after),
        ];
        let job = |job: Option<Known>| {
            job.map_or([0; 3], |Known { id, rank, reach }| {
                [id, u64::from(rank) + 1, u64::from(reach == Reach::Network)]
            })
        };
        words.into_iter().chain(self.jobs.into_iter().flat_map(job)).flat_map(u64::to_ne_bytes).collect()
    }

    /// As it was shown; unready where it makes no sense.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Card {
        let word = |at: usize| {
            let bytes = bytes.get(8 * at..8 * at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        let flag = |bit: u32| word(0) >> bit & 1 == 1;
        let job = |at: usize| {
            let rank = word(8 + 3 * at).checked_sub(1)? as u32;
            let reach = if word(9 + 3 * at) == 1 { Reach::Network } else { Reach::Memory };
            Some(Known { id: word(7 + 3 * at), rank, reach })
        };
        Card {
            is_ready: flag(0),
            left: Collectives(word(1)),
            begun: if flag(5) { Begun::All } else { Begun::Long },
            nodes: if flag(1) { Nodes::One } else { Nodes::All },
            over: if flag(6) { Over::Mpi } else { Over::Fabric },
            is_choosing: flag(7),
            has_failed: flag(2),
            has_no_room: flag(8),
            has_enough: flag(9),
            has_devices: flag(11),
            is_timed: flag(10),
            fabric: match word(0) >> 3 & 3 {
                1 => Some(FabricChoice::Shm),
                2 => Some(FabricChoice::Ofi),
                _ => None,
            },
            machine: word(2),
            node: word(3),
            job: word(4),
            number: word(5) as u32,
            after: word(6) as u32,
            jobs: std::array::from_fn(job),
        }
    }

    fn rank_in(&self, job: u64) -> Option<Rank> {
        self.jobs.iter().flatten().find(|known| known.id == job).map(|known| Rank(known.rank))
    }

    fn place(&self) -> (u64, u64) {
        (self.machine, self.node)
    }
}

/// What those who have shown these cards do.
pub(crate) fn decide(cards: &[Card]) -> Decision {
    let Some(first) = cards.first() else { return Decision::Leave("nobody is in it") };
    if !cards.iter().all(|card| card.is_ready) {
        return Decision::Leave("a member cannot do them, as it says itself");
    }
    if cards.iter().any(|card| card.left.are_all()) {
        return Decision::Leave("the environment says so");
    }
    if cards.iter().any(|card| card.has_devices) {
        return Decision::Leave(
            "MPI takes buffers in the memory of devices, which svmio cannot read: SVMIO_COLLECTIVES_DEVICES=0 says that \
             the program has none",
        );
    }
    if cards.iter().any(|card| card.has_enough) {
        return Decision::Leave(
            "a member joins no more groups: it is in those of many communicators, has few descriptors left, or has \
             waited in vain for others to join one",
        );
    }
    let is_one_node = cards.iter().all(|card| card.place() == first.place());
    let reach = if is_one_node { Ok(Reach::Memory) } else { between_nodes(cards) };
    let reach = match reach {
        Ok(reach) => reach,
        Err(why) => return Decision::Leave(why),
    };
    if reach == Reach::Network && cards.iter().all(|card| card.over == Over::Mpi) {
        return Decision::TakeOverMpi { nodes: cards.iter().map(Card::place).collect() };
    }
    // Those of one node have its memory in any job.
    let known = first.jobs.iter().flatten().filter(|known| is_one_node || known.reach == reach);
    let found = known.into_iter().find_map(|known| {
        let members: Option<Vec<Rank>> = cards.iter().map(|card| card.rank_in(known.id)).collect();
        Some(Found::Known { job: known.id, members: members? })
    });
    match found {
        Some(found) => Decision::Take { found, reach },
        None if reach == Reach::Network && cards.iter().any(|card| card.has_failed) => {
            Decision::Leave("a member has failed to reach others over a network")
        }
        None if cards.iter().any(|card| card.has_no_room) => Decision::Leave(
            "a member has formed jobs with so many others that it forms no more: a collective over all of a program's \
             ranks, before those of parts of it, forms one for all",
        ),
        None => Decision::Take { found: Found::None { job: first.job }, reach },
    }
}

/// By what those of several nodes reach each other.
fn between_nodes(cards: &[Card]) -> Result<Reach, &'static str> {
    let mut places: Vec<_> = cards.iter().map(|card| (card.node, card.machine)).collect();
    places.sort_unstable();
    places.dedup();
    if places.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err("two of its hosts have the same name: SVMIO_NODE gives them others");
    }
    let is_told = |fabric| cards.iter().any(|card| card.fabric == Some(fabric));
    let is_one_machine = cards.iter().all(|card| card.machine == cards[0].machine);
    let all_want = cards.iter().all(|card| card.nodes == Nodes::All);
    match (is_one_machine, is_told(FabricChoice::Ofi), is_told(FabricChoice::Shm)) {
        (_, true, _) | (false, _, false) if !all_want => Err(
            "its members are on several nodes, whose collectives are MPI's unless SVMIO_COLLECTIVES_NODES=all is set",
        ),
        (_, true, _) | (false, _, false) => Ok(Reach::Network),
        (true, false, _) => Ok(Reach::Memory),
        (false, false, true) => Err("its members are on several hosts, and are told to use shared memory"),
    }
}

/// The same number for processes that can share memory.
fn machine() -> Result<u64, String> {
    let told = |problem| format!("finding out which machine this is: {problem}");
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").map_err(told)?;
    // Local sockets have their names in it.
    let network = std::fs::read_link("/proc/self/ns/net").map_err(told)?;
    Ok(hash(&(boot, network)))
}

/// The same in all processes.
fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
