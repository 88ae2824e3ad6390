//! What a process's adapter and its threads share, and what they do with it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::back_end::{Place, Remote};
use crate::capabilities::{Atomics, Capabilities, Dma, WriteOrder};
use crate::dma::Direction;
use crate::error::{Error, Result};
use crate::membership::{Membership, Subscription};
use crate::memory::{SharedMemory, UserMemory};
use crate::secret::JobSecret;
use crate::units::{Interrupt, Rank};

use super::answer::{Door, Owner};
use super::ask::{Question, Reply};
use super::control::{Control, ControlSegment};
use super::engine::Engine;
use super::exports::Exports;
use super::peer::Peer;
use super::reach::{Connections, Reach, Registered, Target};
use super::settings::ShmSettings;
use super::storage::Storage;
use super::threads::{self, Thread};
use super::waiting::Waiters;
use super::wire::{Address, Answer, Greeting, Wanted};

/// A cache line: what arrives whole.
const LINE: usize = 64;

/// What a back end is made of.
pub(super) struct Parts {
    pub(super) settings: ShmSettings,
    pub(super) secret: JobSecret,
    pub(super) membership: Arc<Membership>,
    pub(super) addresses: Vec<Address>,
    pub(super) door: Door,
    pub(super) control: Storage,
    pub(super) cores: usize,
    pub(super) copies_between_processes: bool,
}

/// What the adapter and its threads share.
pub(super) struct Process {
    pub(super) capabilities: Capabilities,
    pub(super) membership: Arc<Membership>,
    secret: JobSecret,
    door: Door,
    control_storage: Arc<Storage>,
    pub(super) control: ControlSegment,
    pub(super) peers: Vec<Peer>,
    pub(super) exports: Exports,
    pub(super) connections: Connections,
    pub(super) waiters: Waiters,
    pub(super) engine: Engine<Step>,
    answering: OnceLock<Thread>,
    subscription: OnceLock<Subscription>,
    is_closed: AtomicBool,
    /// How often something was declared in the membership.
    disturbances: AtomicU64,
    /// Up to which of them each interrupt's waiters were told.
    pub(super) told: [AtomicU64; Interrupt::COUNT],
}

/// One transfer of a chain, with its connection looked up: the chain goes on when the program disconnects.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) direction: Direction,
    pub(super) local: UserMemory,
    pub(super) owner: Rank,
    pub(super) target: Target,
    pub(super) offset: u64,
}

impl Process {
    /// Brings it to life.
    ///
    /// # Errors
    /// `Memory`; `System` where no thread can be had.
    pub(super) fn start(parts: Parts) -> Result<Arc<Self>> {
        let Parts { settings, secret, membership, addresses, door, control, cores, .. } = parts;
        let rank = membership.rank();
        let waiters = Waiters::new(settings, addresses.len(), cores);
        let mapped = ControlSegment::map(&control, &membership, rank)?;
        let peers: Vec<Peer> =
            membership.ranks().zip(addresses).map(|(rank, address)| Peer::new(rank, address)).collect();
        peers[rank.index()].keep_control(mapped.clone());
        let process = Arc::new(Self {
            capabilities: capabilities(parts.copies_between_processes),
            membership,
            secret,
            door,
            control_storage: Arc::new(control),
            control: mapped,
            peers,
            exports: Exports::default(),
            connections: Connections::default(),
            waiters,
            engine: Engine::new(),
            answering: OnceLock::new(),
            subscription: OnceLock::new(),
            is_closed: AtomicBool::new(false),
            disturbances: AtomicU64::new(0),
            told: std::array::from_fn(|_| AtomicU64::new(0)),
        });
        let weak = Arc::downgrade(&process);
        let subscription = process.membership.on_disturbance(move || {
            if let Some(process) = weak.upgrade() {
                // Release: whoever sees the number sees what was declared.
                process.disturbances.fetch_add(1, Ordering::Release);
                process.control.get().disturb();
            }
        });
        // Set once only: here.
        let _ = process.subscription.set(subscription);
        let answering = {
            let process = Arc::clone(&process);
            threads::start("answer", move || process.door.serve(&*process))?
        };
        // Set once only: here.
        let _ = process.answering.set(answering);
        Ok(process)
    }

    pub(super) fn peer(&self, rank: Rank) -> Result<&Peer> {
        self.peers.get(rank.index()).ok_or_else(|| Error::NoSuchRank { rank, size: self.membership.size() })
    }

    pub(super) fn ask(&self, owner: Rank, wanted: Wanted, limit: Duration) -> Result<Reply> {
        let address = self.peer(owner)?.address();
        let greeting = Greeting::new(&self.secret, self.membership.rank(), wanted);
        Question { membership: &self.membership, owner, address, greeting, limit }.ask()
    }

    /// Memory of `owner`, if there is such a thing.
    pub(super) fn ask_for_memory(
        &self,
        owner: Rank,
        wanted: Wanted,
        limit: Duration,
    ) -> Result<Option<Storage>> {
        match self.ask(owner, wanted, limit)? {
            Reply::Here(storage) => Ok(Some(storage)),
            Reply::Said(_) | Reply::Nothing => Ok(None),
        }
    }

    /// The control segment of `peer`; it is connected at the first time.
    #[inline]
    pub(super) fn control_of(&self, peer: Rank, limit: Duration) -> Result<&Control> {
        self.membership.check(peer)?;
        let entry = self.peer(peer)?;
        if let Some(control) = entry.control() {
            return Ok(control.get());
        }
        self.connect_control(peer, entry, limit)
    }

    #[cold]
    pub(super) fn connect_control<'a>(
        &self,
        rank: Rank,
        peer: &'a Peer,
        limit: Duration,
    ) -> Result<&'a Control> {
        let Some(storage) = self.ask_for_memory(rank, Wanted::Control, limit)? else {
            return Err(Error::wire(&self.membership, rank, "it denies its control segment"));
        };
        Ok(peer.keep_control(ControlSegment::map(&storage, &self.membership, rank)?).get())
    }

    pub(super) fn target(&self, remote: &Remote) -> Result<Target> {
        match remote.place {
            Place::Segment(connection) => Ok(Target::Mapped(self.connections.get(connection)?)),
            Place::Registered(key) => {
                let peer = self.peer(remote.owner)?;
                Ok(Target::Private(Registered::of_key(key, &self.membership, remote.owner, peer)?))
            }
        }
    }

    pub(super) fn reach<'a>(&'a self, owner: Rank, target: &'a Target) -> Result<Reach<'a>> {
        self.membership.check(owner)?;
        Ok(Reach { membership: &self.membership, owner, peer: self.peer(owner)?, target })
    }

    /// The word of a mapped segment that an atomic change concerns.
    pub(super) fn segment_of(&self, remote: &Remote) -> Result<SharedMemory> {
        self.membership.check(remote.owner)?;
        match self.target(remote)? {
            Target::Mapped(memory) => Ok(memory),
            Target::Private(_) => {
                Err(Error::Unsupported { back_end: "shm".into(), what: "atomics on registered memory" })
            }
        }
    }

    pub(super) fn carry_out(&self, step: &Step) -> Result<()> {
        let reach = self.reach(step.owner, &step.target)?;
        // SAFETY: whoever posted it promised that the local memory stays valid, and left alone, until the end.
        unsafe { reach.copy(step.direction, step.local, step.offset) }
    }

    /// Where a wait for an interrupt has another reason to end than the interrupt. When it began, `known` disturbances
    /// were told of; all who wait for one interrupt are told of those that come meanwhile.
    pub(super) fn reason_to_end(&self, told: &AtomicU64, known: u64) -> Option<Result<u64>> {
        // Acquire: pairs with the swap in `close`, and with the increment at a disturbance.
        if self.is_closed.load(Ordering::Acquire) {
            return Some(Err(Error::Ending { reason: "the fabric was closed".into() }));
        }
        let disturbances = self.disturbances.load(Ordering::Acquire);
        if disturbances != known {
            // Relaxed: only a number.
            told.store(disturbances, Ordering::Relaxed);
            return Some(Ok(0));
        }
        None
    }

    pub(super) fn close(&self) {
        // AcqRel: one of many who close goes on; waiters that are woken below see it.
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        // Whoever waits in a call learns it there.
        self.membership.declare_ending("the fabric was closed");
        self.door.close();
        self.control.get().disturb();
        self.engine.close();
        if let Some(answering) = self.answering.get() {
            answering.join();
        }
        self.exports.clear();
    }
}

impl Owner for Process {
    fn secret(&self) -> &JobSecret {
        &self.secret
    }

    fn size(&self) -> u32 {
        self.membership.size()
    }

    fn answer(&self, asker: Rank, wanted: Wanted) -> (Answer, Option<Arc<Storage>>) {
        let storage = match wanted {
            Wanted::Control => Some(Arc::clone(&self.control_storage)),
            Wanted::Segment(id) => self.exports.find(asker, id).map(|export| export.storage),
            Wanted::Answer(question) => {
                return (self.exports.respond(asker, question).map_or(Answer::Unknown, Answer::Said), None);
            }
        };
        let here =
            |storage: &Arc<Storage>| Answer::Here { offset: storage.offset(), length: storage.length() };
        (storage.as_ref().map_or(Answer::Unknown, here), storage)
    }
}

fn capabilities(copies_between_processes: bool) -> Capabilities {
    Capabilities {
        back_end: "shm".into(),
        provider: "shared memory".into(),
        direct_mapping: true,
        transaction_size: LINE,
        stream_buffer: None,
        largest_transfer: isize::MAX as u64,
        dma: Dma::Thread,
        registers_user_memory: copies_between_processes,
        pins_memory: false,
        remote_read: true,
        atomics: Atomics::Processor,
        ordering: WriteOrder::Issued,
        is_reliable: true,
    }
}
