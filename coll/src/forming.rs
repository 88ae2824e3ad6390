//! A communicator's members forming a group.
//!
//! What each can tell for itself, and what is the same for all, comes first: an intercommunicator has none, nor has a
//! communicator of one process or of several worlds. Then each member shows a [`Card`] to all, over MPI's own allgather,
//! and all come to the same [`Decision`].

use std::ffi::c_int;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};

use svmio_adio::Mpi;
use svmio_adio::abi::{Abi, Comm};
use svmio_collectives::executor::{Group, GroupSettings};
use svmio_transport::job::{Exchange, Job, current_node};
use svmio_transport::settings::{FabricChoice, Settings};
use svmio_transport::{Rank, SegmentId};

use crate::family::Family;
use crate::setting::{self, Collectives};
use crate::stock::Stock;
use crate::{jobs, logging};

/// Forms the group of `comm`, with all of its members; `None`, for all of them, where it has none. With it comes what
/// is left to MPI all the same.
pub(crate) fn form<A: Family>(stock: &Stock<A>, comm: Comm<A>) -> Option<(Group, Collectives)> {
    logging::start();
    let mpi = stock.mpi;
    if stock.is_between(comm) || mpi.size(comm) < 2 || !stock.is_of_one_world(comm) {
        return None;
    }
    let rank = mpi.rank(comm);
    let ready = prepare();
    if let Err(problem) = &ready {
        tracing::warn!("MPI's own collectives are used, of rank {rank} of {}: {problem}", mpi.size(comm));
    }
    let (settings, card) = ready.map_or((None, Card::UNREADY), |(settings, card)| (Some(settings), card));
    let shown = mpi.all_gather_equal(comm, &card.to_bytes()).ok()?;
    let cards: Vec<Card> = shown.iter().map(|bytes| Card::from_bytes(bytes)).collect();
    let decision = decide(&cards);
    let (fabric, members) = match decision {
        Decision::Leave(why) => {
            tracing::info!("MPI's own collectives are used for a communicator of {}: {why}", cards.len());
            return None;
        }
        Decision::Known { job, members } => (jobs::fabric(job), members),
        Decision::Form { job } => {
            let joined = join(mpi, comm, settings?);
            if let Err(problem) = &joined {
                tracing::warn!("MPI's own collectives are used: rank {rank}: {problem}");
            }
            let joined = agreed(mpi, comm, joined.ok())?;
            let fabric = joined.fabric().clone();
            jobs::keep(job, joined);
            (Some(fabric), (0..cards.len() as u32).map(Rank).collect())
        }
    };
    let first = cards.first()?;
    let id = SegmentId::new(SPACES + members.first()?.0, first.number);
    let group = fabric.ok_or("the job that it showed is gone".to_owned()).and_then(|fabric| {
        Group::join(&fabric, &members, id, GroupSettings::default()).map_err(|error| error.to_string())
    });
    if let Err(problem) = &group {
        tracing::warn!("MPI's own collectives are used: rank {rank}: {problem}");
    }
    let group = agreed(mpi, comm, group.ok())?;
    Some((group, cards.iter().fold(Collectives::default(), |all, card| Collectives(all.0 | card.left.0))))
}

/// The segments of groups are in the spaces from this on: one for each member that is the first of a group.
const SPACES: u32 = 0x100;

/// What this process has to show, and the settings for a job of its own.
fn prepare() -> Result<(Settings, Card), String> {
    static NUMBERS: AtomicU32 = AtomicU32::new(0);
    let left = setting::left_to_mpi()?;
    let mut settings = Settings::load().map_err(|error| error.to_string())?;
    // Groups are of processes that share memory, wherever files are.
    settings.fabric = FabricChoice::Shm;
    let card = Card {
        is_ready: true,
        left,
        machine: machine()?,
        job: RandomState::new().hash_one(0),
        // Relaxed: only different numbers matter.
        number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        jobs: jobs::latest(),
    };
    Ok((settings, card))
}

/// How many jobs a card tells of.
const JOBS: usize = 8;

/// What a member shows to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Card {
    /// Whether it can be in a group at all.
    is_ready: bool,
    /// What it leaves to MPI.
    left: Collectives,
    /// The same for processes that can share memory.
    machine: u64,
    /// What a new job will be known by, if this member is the first.
    job: u64,
    /// What no other group has of which this member is the first.
    number: u32,
    /// The jobs that it is in already, with its ranks there.
    jobs: [Option<(u64, u32)>; JOBS],
}

const WORDS: usize = 5 + 2 * JOBS;

impl Card {
    const UNREADY: Card =
        Card { is_ready: false, left: Collectives(0), machine: 0, job: 0, number: 0, jobs: [None; JOBS] };

    fn to_bytes(self) -> [u8; 8 * WORDS] {
        let mut words = [0; WORDS];
        words[..5].copy_from_slice(&[
            self.is_ready.into(),
            self.left.0.into(),
            self.machine,
            self.job,
            self.number.into(),
        ]);
        for (words, (id, rank)) in words[5..].chunks_exact_mut(2).zip(self.jobs.into_iter().flatten()) {
            words.copy_from_slice(&[id, u64::from(rank) + 1]);
        }
        std::array::from_fn(|at| words[at / 8].to_ne_bytes()[at % 8])
    }

    fn from_bytes(bytes: &[u8]) -> Card {
        let word = |at: usize| {
            let bytes = bytes.get(8 * at..8 * at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        Card {
            is_ready: word(0) == 1,
            left: Collectives(word(1) as u32),
            machine: word(2),
            job: word(3),
            number: word(4) as u32,
            jobs: std::array::from_fn(|at| Some((word(5 + 2 * at), word(6 + 2 * at).checked_sub(1)? as u32))),
        }
    }

    fn rank_in(&self, job: u64) -> Option<Rank> {
        self.jobs.iter().flatten().find(|(id, _)| *id == job).map(|&(_, rank)| Rank(rank))
    }
}

/// What members do.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Decision {
    /// They leave all to MPI.
    Leave(&'static str),
    /// They use a job that all are in, where they have these ranks.
    Known { job: u64, members: Vec<Rank> },
    /// They form a job, known by this.
    Form { job: u64 },
}

fn decide(cards: &[Card]) -> Decision {
    let Some(first) = cards.first() else { return Decision::Leave("nobody is in it") };
    if !cards.iter().all(|card| card.is_ready) {
        return Decision::Leave("a member cannot do them, as it says itself");
    }
    if cards.iter().any(|card| card.machine != first.machine) {
        return Decision::Leave("its members are on several nodes");
    }
    if cards.iter().any(|card| card.left.are_all()) {
        return Decision::Leave("the environment says so");
    }
    let known = first.jobs.iter().flatten().find_map(|&(job, _)| {
        let members: Option<Vec<Rank>> = cards.iter().map(|card| card.rank_in(job)).collect();
        Some(Decision::Known { job, members: members? })
    });
    known.unwrap_or(Decision::Form { job: first.job })
}

/// The same number for processes that can share memory and are on one node, also an emulated one.
fn machine() -> Result<u64, String> {
    let told = |problem| format!("finding out which machine this is: {problem}");
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").map_err(told)?;
    // Local sockets have their names in it.
    let network = std::fs::read_link("/proc/self/ns/net").map_err(told)?;
    let mut hasher = DefaultHasher::new();
    (boot, network, current_node()).hash(&mut hasher);
    Ok(hasher.finish())
}

fn join<A: Abi>(mpi: &Mpi<A>, comm: Comm<A>, settings: Settings) -> Result<Job, String> {
    Job::by_exchange(&mut Members { mpi, comm }, settings).map_err(|error| error.to_string())
}

/// `mine`, if all members have theirs.
fn agreed<A: Abi, T>(mpi: &Mpi<A>, comm: Comm<A>, mine: Option<T>) -> Option<T> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn card(machine: u64, jobs: &[(u64, u32)]) -> Card {
        let mut card = Card { is_ready: true, machine, job: 77, number: 4, ..Card::UNREADY };
        for (to, job) in card.jobs.iter_mut().zip(jobs) {
            *to = Some(*job);
        }
        card
    }

    #[test]
    fn cards_survive_the_wire() {
        let card = Card { left: Collectives(5), ..card(3, &[(9, 0), (8, 7)]) };
        assert_eq!(Card::from_bytes(&card.to_bytes()), card);
        assert_eq!(Card::from_bytes(&Card::UNREADY.to_bytes()), Card::UNREADY);
    }

    #[test]
    fn the_latest_job_of_the_first_that_all_are_in_is_used() {
        let cards = [card(1, &[(5, 0), (6, 2)]), card(1, &[(6, 1)]), card(1, &[(7, 0), (6, 0), (5, 1)])];
        let members = vec![Rank(2), Rank(1), Rank(0)];
        assert_eq!(decide(&cards), Decision::Known { job: 6, members });
        assert_eq!(decide(&cards[..1]), Decision::Known { job: 5, members: vec![Rank(0)] });
        assert_eq!(decide(&[cards[0], card(1, &[(7, 0)])]), Decision::Form { job: 77 });
    }

    #[test]
    fn who_cannot_leaves_all_to_mpi() {
        let ready = card(1, &[]);
        let switched_off = Card { left: Collectives::EVERY, ..ready };
        for others in [card(2, &[]), Card::UNREADY, switched_off] {
            assert!(matches!(decide(&[ready, others]), Decision::Leave(_)), "{others:?}");
        }
    }
}
