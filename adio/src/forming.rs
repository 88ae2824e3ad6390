//! A communicator's ranks forming the [`Engine`] by which they tell each other things from then on.
//!
//! On one node each rank shows a [`Card`] to all, over MPI's own allgather, and all come to the same [`Decision`]: they
//! use a job that all are in, or form one. The ranks of a cluster use that one's job. Whatever keeps one of them from
//! it is agreed upon, too: then all stay with MPI's own collectives.

use std::ffi::c_int;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};

use svmio_svm::BootId;
use svmio_svm::team::{self, Engine, Reach};
use svmio_transport::job::Job;
use svmio_transport::settings::{FabricChoice, Settings};
use svmio_transport::{Rank, SegmentId};

use crate::abi::{Abi, Comm};
use crate::calls::Mpi;
use crate::exchange::CommunicatorExchange;
use crate::venue::Company;
use crate::{clusters, jobs, progress};

/// The segments of engines are in the spaces from this on: one for each rank that is the first of its communicator.
const SPACES: u32 = 0x7500_0000;
/// What a [`Reach`] uses.
const REACH: SegmentId = SegmentId::new(SPACES - 1, 0);

/// Numbers for engines of which this process is the first member: no two have the same.
static NUMBERS: AtomicU32 = AtomicU32::new(0);

/// The engine of the ranks of `comm`, which use one store; `None`, for all of them, where they cannot have one.
pub(crate) fn on_one_node<A: Abi>(mpi: &'static Mpi<A>, comm: Comm<A>) -> Option<Engine> {
    let ready = prepare();
    if let Err(problem) = &ready {
        tracing::warn!("rank {}: {STAYING}: {problem}", mpi.rank(comm));
    }
    let (settings, card) = ready.map_or((None, Card::UNREADY), |(settings, card)| (Some(settings), card));
    let shown = mpi.all_gather_equal(comm, &card.to_bytes()).ok()?;
    let cards: Vec<Card> = shown.iter().map(|bytes| Card::from_bytes(bytes)).collect();
    let (reach, members) = match decide(&cards) {
        Decision::Stay(why) => {
            tracing::info!("{STAYING}, of {} ranks: {why}", cards.len());
            return None;
        }
        Decision::Known { job, members } => (jobs::reach(job), members),
        Decision::Form { job: id } => {
            let formed = settings.ok_or("no settings".to_owned()).and_then(|settings| {
                let job = Job::by_exchange(&mut CommunicatorExchange::new(mpi, comm), settings);
                let job = job.map_err(|error| error.to_string())?;
                let reach = Reach::of(job.fabric(), REACH, &job.settings().messages)
                    .map_err(|error| error.to_string())?;
                Ok(jobs::Part { id, job, reach })
            });
            let part = agreed(mpi, comm, formed)?;
            let reach = part.reach.clone();
            jobs::keep(part);
            (Some(reach), (0..).take(cards.len()).map(Rank).collect())
        }
    };
    join(mpi, comm, reach, members, cards.first()?.number)
}

/// The engine of the ranks of `comm`, members of a cluster who share memory; `None`, for all of them, where they cannot
/// have one. Over a network it would take twice as long as MPI's own collectives.
pub(crate) fn in_cluster<A: Abi>(mpi: &'static Mpi<A>, comm: Comm<A>, company: &Company) -> Option<Engine> {
    // The same for all of them.
    if !clusters::share_memory(company.cluster_id()) {
        return None;
    }
    let members = company.members().to_vec();
    let reach = clusters::reach(company.cluster_id());
    let is_usable = reach.as_ref().is_some_and(|reach| reach.is_memory(&members));
    let number = if mpi.rank(comm) == 0 { i64::from(next_number()) } else { -1 };
    let mut numbers = [number, i64::from(!is_usable)];
    mpi.maxima(comm, &mut numbers).ok()?;
    match numbers {
        [number, 0] => join(mpi, comm, reach, members, number as u32),
        _ => None,
    }
}

const STAYING: &str = "MPI's own collectives are used for what files have to be agreed upon";

fn join<A: Abi>(
    mpi: &'static Mpi<A>,
    comm: Comm<A>,
    reach: Option<Reach>,
    members: Vec<Rank>,
    number: u32,
) -> Option<Engine> {
    progress::start(mpi);
    let joined = reach.ok_or("the job that it showed is gone".to_owned()).and_then(|reach| {
        let first = members.first().map_or(0, |rank| rank.0);
        let id = SegmentId::new(SPACES + first, number.wrapping_mul(Engine::SEGMENTS));
        // Some may still need MPI to go on here, to get as far.
        let joining = move || Engine::join(&reach, &members, id, Some(progress::advance::<A>));
        let joined = progress::advancing_while(joining).ok_or("there can be no thread")?;
        joined.map_err(|error| error.to_string())
    });
    let engine = agreed(mpi, comm, joined)?;
    tracing::info!("{} ranks agree on files by svmio's engine from now on", mpi.size(comm));
    Some(engine)
}

/// `mine`, if all ranks have theirs.
fn agreed<A: Abi, T>(mpi: &Mpi<A>, comm: Comm<A>, mine: Result<T, String>) -> Option<T> {
    if let Err(problem) = &mine {
        tracing::warn!("rank {}: {STAYING}: {problem}", mpi.rank(comm));
    }
    let failed = mpi.maximum(comm, c_int::from(mine.is_err())).ok()?;
    mine.ok().filter(|_| failed == 0)
}

fn next_number() -> u32 {
    // Relaxed: only different numbers matter.
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// What this process has to show, and the settings for a job of its own.
fn prepare() -> Result<(Settings, Card), String> {
    let mut settings = Settings::load().map_err(|error| error.to_string())?;
    settings.fabric = FabricChoice::Shm;
    let boot = BootId::current().map_err(|error| error.to_string())?;
    let card = Card {
        is_ready: true,
        machine: team::machine(boot).map_err(|error| error.to_string())?,
        node: team::own_node(),
        job: RandomState::new().hash_one(0),
        number: next_number(),
        jobs: jobs::latest(),
    };
    Ok((settings, card))
}

/// How many jobs a card tells of.
const JOBS: usize = 8;

/// What a rank shows to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Card {
    /// Whether it can take part at all.
    is_ready: bool,
    /// The same for processes that can share memory.
    machine: u64,
    /// Of the node's name.
    node: u64,
    /// What a new job will be known by, if this rank is the first.
    job: u64,
    /// The engine's number, if this rank is the first.
    number: u32,
    /// The jobs that it is in already, with its ranks there.
    jobs: [Option<(u64, u32)>; JOBS],
}

const WORDS: usize = 5 + 2 * JOBS;

impl Card {
    const UNREADY: Card =
        Card { is_ready: false, machine: 0, node: 0, job: 0, number: 0, jobs: [None; JOBS] };

    fn to_bytes(self) -> [u8; 8 * WORDS] {
        let mut words = [0; WORDS];
        words[..5].copy_from_slice(&[
            self.is_ready.into(),
            self.machine,
            self.node,
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
            machine: word(1),
            node: word(2),
            job: word(3),
            number: word(4) as u32,
            jobs: std::array::from_fn(|at| Some((word(5 + 2 * at), word(6 + 2 * at).checked_sub(1)? as u32))),
        }
    }

    fn rank_in(&self, job: u64) -> Option<Rank> {
        self.jobs.iter().flatten().find(|(id, _)| *id == job).map(|&(_, rank)| Rank(rank))
    }
}

/// What ranks do.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Decision {
    /// They stay with MPI's own collectives.
    Stay(&'static str),
    /// They use a job that all are in, where they have these ranks.
    Known { job: u64, members: Vec<Rank> },
    /// They form a job, known by this.
    Form { job: u64 },
}

fn decide(cards: &[Card]) -> Decision {
    let Some(first) = cards.first() else { return Decision::Stay("nobody is there") };
    if !cards.iter().all(|card| card.is_ready) {
        return Decision::Stay("a rank cannot take part, as it says itself");
    }
    if cards.iter().any(|card| card.machine != first.machine || card.node != first.node) {
        return Decision::Stay("they do not share memory");
    }
    let known = first.jobs.iter().flatten().find_map(|&(job, _)| {
        let members: Option<Vec<Rank>> = cards.iter().map(|card| card.rank_in(job)).collect();
        Some(Decision::Known { job, members: members? })
    });
    known.unwrap_or(Decision::Form { job: first.job })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(machine: u64, jobs: &[(u64, u32)]) -> Card {
        let mut card = Card { is_ready: true, machine, node: 5, job: 77, number: 4, ..Card::UNREADY };
        for (to, job) in card.jobs.iter_mut().zip(jobs) {
            *to = Some(*job);
        }
        card
    }

    #[test]
    fn cards_survive_the_wire() {
        let card = card(3, &[(9, 0), (8, 7)]);
        assert_eq!(Card::from_bytes(&card.to_bytes()), card);
        assert_eq!(Card::from_bytes(&Card::UNREADY.to_bytes()), Card::UNREADY);
    }

    #[test]
    fn the_latest_job_of_the_first_that_all_are_in_is_used() {
        let cards = [card(1, &[(5, 0), (6, 2)]), card(1, &[(6, 1)]), card(1, &[(7, 0), (6, 0), (5, 1)])];
        let members = vec![Rank(2), Rank(1), Rank(0)];
        assert_eq!(decide(&cards), Decision::Known { job: 6, members });
        assert_eq!(decide(&[cards[0], card(1, &[(7, 0)])]), Decision::Form { job: 77 });
    }

    #[test]
    fn where_one_cannot_take_part_all_stay_with_mpi() {
        let ready = card(1, &[]);
        for other in [card(2, &[]), Card { node: 6, ..ready }, Card::UNREADY] {
            assert!(matches!(decide(&[ready, other]), Decision::Stay(_)), "{other:?}");
        }
    }
}
