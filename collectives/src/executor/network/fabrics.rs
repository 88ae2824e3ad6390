//! What a process reaches the others of its job by: the job's fabric, and shared memory within its node.

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests;

use std::sync::Arc;

use svmio_transport::back_end::Wait;
use svmio_transport::shm::{self, ShmSettings};
use svmio_transport::{
    Atomics, Error as FabricError, Fabric, JobSecret, Membership, Rank, SegmentId, Subscription,
};

use crate::executor::error::{Error, Result};
use crate::executor::ground::{Ground, Place};
use crate::executor::joining;

/// What a process tells each other one of its node has at most so many bytes, with a length and a kind before, and a
/// flag behind.
const SLOT: usize = 1024;
const LENGTH: usize = size_of::<u64>();
const HEAD: usize = LENGTH + 1;

/// How often a process tells each other one something.
const ROUNDS: usize = 3;

/// What ends a slot: a flag, and a word behind it that tells who has left.
const TAIL: usize = 2 * size_of::<u64>();

/// The bytes between.
const ROOM: usize = SLOT - HEAD - TAIL;

/// The fabrics of one process of a job: the job's own, which reaches everybody, and one of shared memory among the
/// processes of its node, where the job's maps no memory. Both know the processes by their ranks in the job, and a loss
/// that the one knows of the other knows of too. Clones are the same fabrics.
#[derive(Debug, Clone)]
pub struct Fabrics {
    job: Fabric,
    near: Near,
}

/// By what a process reaches those of its node.
#[derive(Debug, Clone)]
enum Near {
    /// By the job's fabric, as it reaches all others.
    Job,
    /// By shared memory.
    Memory(Arc<Memory>),
    /// Those of all nodes have shared memory, but on this node there is nobody else.
    Nobody,
}

#[derive(Debug)]
struct Memory {
    fabric: Fabric,
    // Tells the fabric of the job's losses.
    _subscription: Subscription,
}

impl Fabrics {
    /// The job's fabric, for everybody.
    #[must_use]
    pub fn of_job(job: &Fabric) -> Self {
        Self { job: job.clone(), near: Near::Job }
    }

    /// The job's fabric, and shared memory within each node. All processes of the job call this with an `id` that
    /// nothing else uses. Where the job's fabric maps memory, it is shared memory already.
    ///
    /// A node's processes tell each other by the job's fabric where their memory is, and a secret that keeps others
    /// out; that it is the same user's processes that come, the kernel vouches for.
    ///
    /// # Errors
    /// The fabric's; where there is no shared memory.
    pub fn join(job: &Fabric, id: SegmentId) -> Result<Self> {
        if maps_memory(job) {
            return Ok(Self::of_job(job));
        }
        let membership = job.membership();
        let own = membership.node(job.rank());
        let neighbours: Vec<Rank> = membership.ranks().filter(|&rank| membership.node(rank) == own).collect();
        if neighbours.len() == 1 {
            return Ok(Self { job: job.clone(), near: Near::Nobody });
        }
        let memory = Memory::join(job, &neighbours, id)?;
        Ok(Self { job: job.clone(), near: Near::Memory(Arc::new(memory)) })
    }

    /// The job's fabric.
    #[must_use]
    pub fn job(&self) -> &Fabric {
        &self.job
    }

    /// The fabric by which this process has its node's memory mapped, if there is one.
    #[must_use]
    pub fn mapped(&self) -> Option<&Fabric> {
        match &self.near {
            Near::Job => maps_memory(&self.job).then_some(&self.job),
            Near::Memory(memory) => Some(&memory.fabric),
            Near::Nobody => None,
        }
    }

    /// Whether two processes reach each other by mapped memory.
    #[must_use]
    pub fn are_near(&self, one: Rank, other: Rank) -> bool {
        match self.near {
            Near::Job => maps_memory(&self.job),
            Near::Memory(_) | Near::Nobody => {
                let membership = self.job.membership();
                membership.node(one) == membership.node(other)
            }
        }
    }

    /// Whether words of `members` can be counted in for less than a round trip costs. All of them get the same answer.
    pub(in crate::executor) fn count(&self, members: &[Rank]) -> bool {
        match self.near {
            Near::Job => self.job.capabilities().atomics != Atomics::Message,
            Near::Memory(_) | Near::Nobody => members.windows(2).all(|pair| self.are_near(pair[0], pair[1])),
        }
    }

    /// Whether a process reaches this one by mapped memory.
    pub(in crate::executor) fn is_near(&self, rank: Rank) -> bool {
        self.are_near(self.job.rank(), rank)
    }
}

/// Whether stores and the processor's atomic operations reach other processes.
fn maps_memory(fabric: &Fabric) -> bool {
    let capabilities = fabric.capabilities();
    capabilities.direct_mapping && capabilities.atomics == Atomics::Processor
}

impl Memory {
    /// Shared memory among `neighbours`.
    fn join(job: &Fabric, neighbours: &[Rank], id: SegmentId) -> Result<Self> {
        let meeting = joining::attempt(&Fabrics::of_job(job), id, || Meeting::join(job, neighbours, id))?;
        Self::by_meeting(job, neighbours, &meeting).inspect_err(|error| meeting.leave(error))
    }

    fn by_meeting(job: &Fabric, neighbours: &[Rank], meeting: &Meeting) -> Result<Self> {
        // Each round tells what could not be had, too: then all give up together.
        let secret = meeting.exchange(Round::Secret, meeting.secret())?.swap_remove(0);
        let secret = std::str::from_utf8(&secret).ok().and_then(|text| text.parse::<JobSecret>().ok());
        let secret = secret.ok_or_else(|| meeting.misfit("told no secret"))?;
        let prepared = shm::prepare(&ShmSettings::default(), &secret);
        let address = prepared.as_ref().map(|prepared| prepared.address()).map_err(Clone::clone);
        let told = meeting.exchange(Round::Address, address.map_err(Error::from))?;
        let known = job.membership();
        let nodes = known.ranks().map(|rank| known.node(rank).to_owned()).collect();
        let membership = Arc::new(Membership::new(job.rank(), nodes));
        // Nobody ever reaches for those of other nodes here; this process's own address is a valid one.
        let mut addresses = vec![told[meeting.own].clone(); job.size() as usize];
        for (rank, address) in neighbours.iter().zip(told) {
            addresses[rank.index()] = address;
        }
        let joined = prepared.and_then(|prepared| prepared.join(Arc::clone(&membership), addresses));
        meeting.exchange(
            Round::Joined,
            joined.as_ref().map(|_| Vec::new()).map_err(|error| error.clone().into()),
        )?;
        let fabric = Fabric::new(joined?);
        let of_job = Arc::clone(known);
        let forward = move || forward(&of_job, &membership);
        let subscription = known.on_disturbance(forward.clone());
        // What was declared before anybody listened.
        forward();
        Ok(Self { fabric, _subscription: subscription })
    }
}

/// Declares in one membership what is declared in the other.
fn forward(from: &Membership, to: &Membership) {
    for rank in from.lost() {
        if let Err(error) = from.check(rank) {
            let reason = match error {
                FabricError::PeerLost { reason, .. } => reason,
                other => other.to_string(),
            };
            to.declare_lost(rank, reason);
        }
    }
    if let Err(error) = from.check_job() {
        to.declare_ending(error.to_string());
    }
}

/// What the processes of a node tell each other: in this order.
#[derive(Debug, Clone, Copy)]
enum Round {
    /// What keeps others out, by the first of them.
    Secret,
    /// Where each is to be found.
    Address,
    /// Nothing but that they can.
    Joined,
}

/// The processes of a node, telling each other something by the job's fabric.
struct Meeting {
    ground: Ground,
    job: Fabric,
    neighbours: Vec<Rank>,
    own: usize,
    id: SegmentId,
}

impl Meeting {
    fn join(job: &Fabric, neighbours: &[Rank], id: SegmentId) -> Result<Self> {
        // A slot from each for each round, behind the ground's own cache line.
        let length = (64 + ROUNDS * neighbours.len() * SLOT) as u64;
        let ground = Ground::join(&Fabrics::of_job(job), neighbours, id, length, |_| true)?;
        let own = ground.own();
        Ok(Self { ground, job: job.clone(), neighbours: neighbours.to_vec(), own, id })
    }

    /// The secret, by the first of them; the others have none to tell.
    fn secret(&self) -> Result<Vec<u8>> {
        if self.own > 0 {
            return Ok(Vec::new());
        }
        let secret = JobSecret::random();
        let secret = secret.map_err(|problem| FabricError::system("making a node's secret", problem))?;
        Ok(secret.to_hex().as_bytes().to_vec())
    }

    /// What each of them has, in a round, if all have something.
    ///
    /// # Errors
    /// This one's, or [`Error::NotJoined`]; the fabric's.
    fn exchange(&self, round: Round, own: Result<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let mut own = own.and_then(|own| match own.len() <= ROOM {
            true => Ok(own),
            false => Err(self.misfit(&format!("an address of {} bytes", own.len()))),
        });
        let others = || (0..self.neighbours.len()).filter(|&place| place != self.own);
        // All of them, whatever comes of one: who is told nothing waits.
        for place in others() {
            let told = self.tell(place, round, &own);
            own = own.and_then(|own| told.map(|()| own));
        }
        // Of all of them, whatever one tells: nobody writes here any more when this one gives up.
        let told: Vec<_> = others().map(|place| self.told_by(place, round)).collect();
        let mut all = told.into_iter().collect::<Result<Vec<_>>>();
        if let (Ok(all), Ok(own)) = (&mut all, &own) {
            all.insert(self.own, own.clone());
        }
        own.and(all)
    }

    fn tell(&self, place: usize, round: Round, own: &Result<Vec<u8>>) -> Result<()> {
        let mut payload = [0; SLOT - TAIL];
        let reason = own.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let (is_had, bytes) = match own {
            Ok(bytes) => (1, bytes.as_slice()),
            Err(_) => (0, &reason.as_bytes()[..reason.len().min(ROOM)]),
        };
        payload[..LENGTH].copy_from_slice(&(bytes.len() as u64).to_ne_bytes());
        payload[LENGTH] = is_had;
        payload[HEAD..][..bytes.len()].copy_from_slice(bytes);
        self.ground.send(&payload, Place { member: place, offset: self.flag(self.own, round) }, 1)
    }

    /// What another one told in a round.
    fn told_by(&self, place: usize, round: Round) -> Result<Vec<u8>> {
        let flag = Place { member: place, offset: self.flag(place, round) };
        self.await_word(flag)?;
        let mut payload = [0; SLOT - TAIL];
        self.ground.read_own(place, flag.offset - payload.len() as u64, &mut payload)?;
        let (head, bytes) = payload.split_at(HEAD);
        let length = u64::from_ne_bytes(std::array::from_fn(|at| head[at]));
        let told = usize::try_from(length).ok().and_then(|length| bytes.get(..length));
        let told = told.ok_or_else(|| self.misfit("an address without an end"))?;
        if head[LENGTH] == 1 {
            return Ok(told.to_vec());
        }
        let reason = String::from_utf8_lossy(told).into_owned();
        Err(Error::NotJoined { id: self.id, rank: self.neighbours[place], reason })
    }

    /// Returns when another one has told something.
    ///
    /// # Errors
    /// [`Error::NotJoined`] where it has left without; the fabric's: `TimedOut` where it was not heard of within the
    /// time limit of joining.
    fn await_word(&self, flag: Place) -> Result<()> {
        let has_told = || self.ground.word(flag) > 0;
        let refusal = || self.ground.refusal(flag);
        let check = || self.neighbours.iter().try_for_each(|&rank| self.job.membership().check(rank));
        let limit = joining::limit(&self.job);
        let deadline = Some(self.job.now().after(limit));
        let mut ready = || has_told() || refusal().is_some() || check().is_err();
        let _ = self.job.wait_until(Wait { deadline, attends: None, ready: &mut ready });
        // Who has told something and left since has told it.
        if has_told() {
            return Ok(());
        }
        if let Some(left) = refusal() {
            let rank = self.neighbours[left.min(self.neighbours.len() - 1)];
            let reason = "it has left those of its node".to_owned();
            return Err(Error::NotJoined { id: self.id, rank, reason });
        }
        check()?;
        Err(joining::timed_out(&self.job, self.neighbours[flag.member], self.id, limit))
    }

    /// Has nobody wait for this one, which gives up with `error`: others may be a round further, or could not be told.
    fn leave(&self, error: &Error) {
        let behind = match error {
            Error::NotJoined { rank, .. } => self.neighbours.iter().position(|neighbour| neighbour == rank),
            error => error.who_leaves(self.own),
        };
        let Some(behind) = behind else { return };
        let others = (0..self.neighbours.len()).filter(|&place| place != self.own);
        let flags = others.flat_map(|member| {
            let rounds = [Round::Secret, Round::Address, Round::Joined];
            rounds.map(|round| Place { member, offset: self.flag(self.own, round) })
        });
        self.ground.refuse(flags, behind);
    }

    fn flag(&self, from: usize, round: Round) -> u64 {
        (64 + (ROUNDS * from + round as usize + 1) * SLOT - TAIL) as u64
    }

    fn misfit(&self, problem: &str) -> Error {
        Error::Members { id: self.id, problem: problem.to_owned() }
    }
}
