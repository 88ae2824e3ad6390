//! One process's adapter: what all its parts share, and how its threads wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use super::OfiSettings;
use super::attendant::{Attendant, Driving};
use super::chains::{Chain, Chains, Passage};
use super::doubts::Doubts;
use super::drains::Drains;
use super::endpoint::{Endpoint, Posted};
use super::exports::{Description, Exports};
use super::groups::{Group, Scratch};
use super::peers::Peer;
use super::probes::{Anchor, Probe};
use super::questions::Questions;
use super::sys::library;
use super::waiters::{Interrupts, Waiters};
use crate::back_end::{ConnectionId, MemoryKey, Place, Remote};
use crate::capabilities::Capabilities;
use crate::error::{Error, Result};
use crate::membership::Membership;
use crate::stopwatch::{STEP, Stopwatch};
use crate::units::{Rank, Time};

/// How long a waiter polls before it sleeps. A round trip over a fast network takes some ten µs; what takes longer is
/// worth the two wake-ups that sleeping costs.
const PATIENCE: Duration = Duration::from_micros(80);

/// What all parts of an adapter share.
pub(super) struct Adapter {
    pub(super) settings: OfiSettings,
    pub(super) capabilities: Capabilities,
    pub(super) membership: Arc<Membership>,
    /// What every message of the job carries.
    pub(super) tag: u64,
    /// Nothing once the adapter is closed.
    pub(super) endpoint: RwLock<Option<Endpoint<Token>>>,
    pub(super) peers: Vec<Peer>,
    pub(super) exports: Exports,
    pub(super) connections: Connections,
    pub(super) questions: Questions,
    pub(super) waiters: Waiters,
    pub(super) interrupts: Interrupts,
    pub(super) chains: Chains,
    pub(super) doubts: Doubts,
    pub(super) drains: Drains,
    /// Kept until the endpoint is closed: peers may be writing to it.
    pub(super) anchor: Anchor,
    pub(super) scratch: Mutex<Vec<Scratch>>,
    pub(super) attendant: Attendant,
    /// Writes to one peer that are shorter than so many bytes, all of them, do not overtake each other.
    pub(super) orders_writes_below: usize,
    /// Whether the end of a registration ends what is under way to it.
    pub(super) ends_transfers: bool,
    /// Whether peers are asked to stop before a registration ends: where no key comes twice.
    pub(super) asks_to_stop: bool,
    /// Whether the end has come: nothing is held by the provider any more, and all chains have ended.
    pub(super) is_over: AtomicBool,
    /// Whether something was declared in the membership that the attendant has not dealt with.
    pub(super) is_disturbed: AtomicBool,
    /// Messages that were not of this job.
    pub(super) strangers: AtomicU64,
    /// Answers that could not leave yet, of all peers.
    pub(super) waiting_answers: AtomicU64,
    /// How many threads wait for room in the provider's queues.
    pub(super) wanting_room: AtomicU32,
    pub(super) origin: Instant,
}

/// What comes back with the completion of an operation.
pub(super) enum Token {
    /// A message to this peer; one that is numbered must not be missing.
    Message { to: Rank, is_numbered: bool },
    /// A message to this peer of which nothing has to be known: where it is lost, it is sent again.
    Repeated(Rank),
    /// A part of a transfer that somebody waits for.
    Part(Arc<Group>),
    /// A part of a chain that was handed over, from or to this peer, with the buffer of ours through which it may go.
    Posted(Arc<Chain>, Rank, Option<Passage>),
    /// A probe of this peer: what is waited for is over when it is, however it ends.
    Probe(Rank, Arc<Probe>),
}

impl Token {
    /// With whom the operation deals.
    pub(super) fn peer(&self) -> Rank {
        match self {
            Self::Message { to: rank, .. } | Self::Repeated(rank) => *rank,
            Self::Part(group) => group.peer,
            Self::Posted(_, rank, _) | Self::Probe(rank, _) => *rank,
        }
    }
}

/// Remote memory, resolved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) owner: Rank,
    pub(super) memory: Description,
}

impl Adapter {
    /// This process.
    pub(super) fn rank(&self) -> Rank {
        self.membership.rank()
    }

    /// A peer.
    ///
    /// # Errors
    /// `NoSuchRank`, `PeerLost`, `Ending`.
    pub(super) fn peer(&self, rank: Rank) -> Result<&Peer> {
        self.membership.check(rank)?;
        self.peers.get(rank.index()).ok_or(Error::NoSuchRank { rank, size: self.membership.size() })
    }

    /// Lets `work` use the endpoint.
    ///
    /// # Errors
    /// `Ending` once the adapter is closed; what `work` says.
    pub(super) fn with_endpoint<R>(&self, work: impl FnOnce(&Endpoint<Token>) -> Result<R>) -> Result<R> {
        let endpoint = self.endpoint.read().unwrap_or_else(PoisonError::into_inner);
        work(endpoint.as_ref().ok_or_else(closed)?)
    }

    /// Which memory is meant, and that `length` bytes from `offset` are within.
    ///
    /// # Errors
    /// `OutOfBounds`.
    pub(super) fn resolve(&self, remote: &Remote, offset: u64, length: usize) -> Result<Target> {
        let memory = match remote.place {
            Place::Segment(connection) => self.connections.find(remote.owner, connection)?,
            Place::Registered(MemoryKey([key, base, length])) => Description { key, base, length },
        };
        if offset.checked_add(length as u64).is_none_or(|end| end > memory.length) {
            return Err(Error::OutOfBounds {
                what: format!("memory of rank {}", remote.owner),
                offset,
                length: length as u64,
                size: memory.length,
            });
        }
        Ok(Target { owner: remote.owner, memory })
    }

    /// The fabric's time as the system's.
    pub(super) fn instant(&self, time: Time) -> Instant {
        // Beyond what the system counts there is no deadline worth the name.
        let far = Duration::from_secs(1 << 32);
        self.origin + Duration::from_nanos(time.0).min(far)
    }

    /// Waits until `look` finds something, a while by polling, then asleep. The time that this process stands still
    /// does not count.
    ///
    /// # Errors
    /// `PeerLost`; `Ending`; `TimedOut`.
    pub(super) fn wait_for<R>(
        &self,
        peer: Rank,
        doing: &str,
        limit: Duration,
        mut look: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        let began = Instant::now();
        let driving = self.attendant.drive();
        let mut patience = Patience::new(began);
        let mut stopwatch = Stopwatch::new(began);
        loop {
            let seen = self.waiters.seen();
            if let Some(found) = look() {
                return Ok(found);
            }
            if peer != self.rank() {
                self.membership.check(peer)?;
            }
            let now = Instant::now();
            let left = limit.saturating_sub(stopwatch.look(now));
            if left.is_zero() {
                // What has come by now is only to be read.
                self.process()?;
                return look().ok_or_else(|| Error::timed_out(&self.membership, doing, peer, limit));
            }
            self.pause(&driving, &mut patience, seen, Some(now + left.min(STEP)))?;
        }
    }

    /// Tries to post something until the provider takes it.
    ///
    /// # Errors
    /// As for [`wait_for`](Self::wait_for); `PeerLost` where there is no room for very long; `Provider` where this
    /// process lacks something for as long, or the provider finds it unfit, whatever the peer.
    pub(super) fn insist(&self, peer: Rank, attempt: impl FnMut() -> Result<Posted>) -> Result<()> {
        match self.insist_if_fit(peer, attempt)? {
            Posted::Unfit(code) => Err(self.unfit(peer, code)),
            _ => Ok(()),
        }
    }

    /// Tries to post something until the provider takes it, or finds it unfit; which of the two.
    ///
    /// # Errors
    /// As for [`insist`](Self::insist).
    pub(super) fn insist_if_fit(
        &self,
        peer: Rank,
        mut attempt: impl FnMut() -> Result<Posted>,
    ) -> Result<Posted> {
        let posted = attempt()?;
        if matches!(posted, Posted::Yes | Posted::Unfit(_)) {
            return Ok(posted);
        }
        // A connection that comes up is no event that would wake a sleeper, so nobody sleeps for long here.
        const LONGEST_NAP: Duration = Duration::from_millis(1);
        let began = Instant::now();
        let limit = self.settings.answer_limit();
        let _wanting = Wanting::room(&self.wanting_room);
        let driving = self.attendant.drive();
        let mut patience = Patience::new(began);
        // Apart: what was lacking here is no fault of the peer's.
        let (mut waiting, mut lacking) = (Stopwatch::new(began), Stopwatch::new(began));
        loop {
            let seen = self.waiters.seen();
            let posted = attempt()?;
            if matches!(posted, Posted::Yes | Posted::Unfit(_)) {
                return Ok(posted);
            }
            self.membership.check(peer)?;
            let (now, is_busy) = (Instant::now(), posted == Posted::Busy);
            let (waited, lacked) = (waiting.look_if(now, is_busy), lacking.look_if(now, !is_busy));
            match posted {
                Posted::Short(code) if lacked >= limit => return Err(self.short(peer, code)),
                Posted::Busy if waited >= limit => {
                    self.membership.declare_lost(peer, format!("its connection took nothing for {limit:?}"));
                    self.membership.check(peer)?;
                }
                _ => {}
            }
            self.pause(&driving, &mut patience, seen, Some(Instant::now() + LONGEST_NAP))?;
        }
    }

    /// The error of whoever lacks what it takes to reach a peer.
    pub(super) fn short(&self, peer: Rank, code: i32) -> Error {
        let provider = self.capabilities.provider.clone();
        let problem = std::io::Error::from_raw_os_error(code).to_string();
        Error::Provider { doing: format!("reaching rank {peer}"), provider, problem }
    }

    /// The error of whoever posted what the provider finds unfit, with this code.
    pub(super) fn unfit(&self, peer: Rank, code: i32) -> Error {
        let problem =
            library().map_or_else(|error| error.to_string(), |library| library.describe(code as isize));
        let provider = self.capabilities.provider.clone();
        Error::Provider {
            doing: format!("posting what goes to or comes from rank {peer}"),
            provider,
            problem,
        }
    }

    /// Lets a waiter wait a little: by polling, or asleep until something happens after `seen`.
    ///
    /// # Errors
    /// `Ending` once the adapter is closed.
    pub(super) fn pause(
        &self,
        driving: &Driving<'_>,
        patience: &mut Patience,
        seen: u64,
        deadline: Option<Instant>,
    ) -> Result<()> {
        if self.process()?.is_some_and(|count| count > 0) {
            patience.renew();
            return Ok(());
        }
        if patience.is_left() {
            // Where every process has a core, this returns at once; else it lets those run who are waited for.
            thread::yield_now();
            return Ok(());
        }
        let resting = driving.rest();
        // All sleepers are woken by whatever happens, so most of them have to sleep again: without polling.
        self.waiters.sleep(seen, deadline);
        drop(resting);
        Ok(())
    }
}

/// The error of whoever comes after the end.
pub(super) fn closed() -> Error {
    Error::Ending { reason: "the fabric is closed".into() }
}

/// How long a waiter goes on polling.
pub(super) struct Patience(Instant);

impl Patience {
    /// It begins now.
    pub(super) fn new(now: Instant) -> Self {
        Self(now + PATIENCE)
    }

    fn renew(&mut self) {
        self.0 = Instant::now() + PATIENCE;
    }

    fn is_left(&self) -> bool {
        Instant::now() < self.0
    }
}

/// A thread that waits for room.
struct Wanting<'a>(&'a AtomicU32);

impl<'a> Wanting<'a> {
    fn room(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Wanting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The segments that this process is connected to.
#[derive(Default)]
pub(super) struct Connections {
    next: AtomicU64,
    all: RwLock<HashMap<u64, (Rank, Description)>>,
}

impl Connections {
    /// Takes a new one down.
    pub(super) fn add(&self, owner: Rank, memory: Description) -> ConnectionId {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.all.write().unwrap_or_else(PoisonError::into_inner).insert(id, (owner, memory));
        ConnectionId(id)
    }

    /// Forgets one.
    pub(super) fn remove(&self, id: ConnectionId) {
        self.all.write().unwrap_or_else(PoisonError::into_inner).remove(&id.0);
    }

    fn find(&self, owner: Rank, id: ConnectionId) -> Result<Description> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        match all.get(&id.0) {
            Some((found, memory)) if *found == owner => Ok(*memory),
            // As if it had no bytes: it has been disconnected.
            _ => Ok(Description { key: 0, base: 0, length: 0 }),
        }
    }
}
