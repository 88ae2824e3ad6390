//! What a back end does: the contract between [`Fabric`](crate::Fabric) and shared memory, libfabric, simulation.
//!
//! Rules for all of them:
//!
//! * Nothing is connected until it is used. A call that involves a peer fails with that peer's
//!   [`Error::PeerLost`](crate::Error::PeerLost) soon after the [`Membership`] knows of the loss, waiting ones too.
//! * `wait_until`, `wait_interrupt`, `connect`, `inquire`, `read`, the atomics, `store_barrier`, `check_sequence`,
//!   `sleep` and `Service::join` may wait for others. `write`, `write_and_trigger`, `trigger` and `ring` wait for nobody's program,
//!   but may have to wait for room on the way to the peer, for the arrival of what is long, or, the first time, for a
//!   connection: over libfabric for `ofi.answer_seconds` at most, after which the peer is lost; in shared memory
//!   (`ring` and `trigger`) for the [`answer_limit`](Membership::answer_limit). The others return at once. Who calls
//!   one that waits holds no lock that a thread of the back end needs, or what it calls: a completion, a provider, a
//!   waker.
//! * No call spins for long: a waiter gives its core away when there are more processes than cores.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::callback;
use crate::capabilities::Capabilities;
use crate::dma::{Completion, Transfer};
use crate::error::Result;
use crate::membership::Membership;
use crate::memory::{SharedMemory, UserMemory};
use crate::units::{Interrupt, Rank, SegmentId, Time};

/// What a segment is made of.
#[derive(Debug, Clone)]
pub enum Backing {
    /// Fresh memory, zeroed. Its storage is reserved when the segment is created: shortage is an error then, not a
    /// signal later.
    Anonymous {
        /// Bytes.
        length: u64,
    },
    /// A part of a file, which is mapped shared. The file is at least that long and stays so.
    File {
        /// The file, open for reading and writing.
        file: Arc<File>,
        /// First byte; a multiple of the page size.
        offset: u64,
        /// Bytes.
        length: u64,
    },
}

/// A connection to a remote segment; back ends number them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId(pub u64);

/// What came of connecting.
#[derive(Debug, Clone)]
pub struct Connected {
    /// How the back end knows it.
    pub connection: ConnectionId,
    /// Bytes of the segment.
    pub length: u64,
    /// The segment in this process's address space, where the fabric maps directly.
    pub mapping: Option<SharedMemory>,
}

/// Registered user memory, as a peer needs it to write there: plain words, fit for a message. Processes of a job trust
/// each other: on shared memory a key is not checked against what is registered at the moment, so who keeps one beyond
/// the registration, or makes one up, writes into whatever the owner has there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemoryKey(pub [u64; 3]);

/// Remote memory that writes and transfers can go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Remote {
    /// Whose it is.
    pub owner: Rank,
    /// Which.
    pub place: Place,
}

/// Which memory of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// A connected segment.
    Segment(ConnectionId),
    /// User memory that the peer registered; its key came by message.
    Registered(MemoryKey),
}

/// A piece of a remote write.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// Where in the remote memory, in bytes.
    pub offset: u64,
    /// What goes there.
    pub bytes: &'a [u8],
}

/// How many failures of transfers to a peer were known at some moment; see [`BackEnd::check_sequence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SequenceMark(pub u64);

/// What a sequence check tells of the transfers since a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Sequence {
    /// All arrived.
    Intact,
    /// At least one may not have arrived: repeat them all, to the same places.
    Broken,
}

/// A wait for a condition on local memory.
pub struct Wait<'a> {
    /// When to give up.
    pub deadline: Option<Time>,
    /// An interrupt that the waiter handles itself as long as it waits: `ready` does its work too, so that a
    /// trigger need not wake the thread that waits for it.
    pub attends: Option<Interrupt>,
    /// The condition. It is called often, must be quick, must not wait, and is called at least once after
    /// everything that may have made it true.
    pub ready: &'a mut dyn FnMut() -> bool,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Waited {
    /// The condition holds.
    Ready,
    /// The deadline passed.
    TimedOut,
}

/// Tells when nothing of what a peer had begun to write comes any more into memory whose registration was
/// [revoked](BackEnd::revoke).
#[derive(Debug, Default)]
pub struct Drain(AtomicBool);

impl Drain {
    /// Whether nothing comes any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        // Acquire: pairs with `end`; whoever sees it sees all that has come.
        self.0.load(Ordering::Acquire)
    }

    /// Nothing comes any more.
    pub(crate) fn end(&self) {
        // Release: see `is_over`.
        self.0.store(true, Ordering::Release);
    }
}

/// Buffers for messages that come, from whomever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveBuffers {
    /// How many.
    pub number: usize,
    /// Bytes of each, and of the longest message.
    pub bytes: usize,
}

/// A back end that has its address and waits to learn the others'.
pub trait Prepared: Send {
    /// What the others need to reach this process: opaque bytes, to be exchanged.
    fn address(&self) -> Vec<u8>;

    /// The buffers for what all peers together send, where it has such: what it was opened with, which may be less than
    /// was asked for.
    fn receive_buffers(&self) -> Option<ReceiveBuffers> {
        None
    }

    /// Comes to life, with everybody's address in the order of ranks. Connects to nobody yet.
    ///
    /// # Errors
    /// `Wire` for an address that cannot be understood; `System`, `Provider`, `Memory` where resources lack.
    fn join(
        self: Box<Self>,
        membership: Arc<Membership>,
        addresses: Vec<Vec<u8>>,
    ) -> Result<Arc<dyn BackEnd>>;
}

/// Makes segments when they are first asked for. Called on a thread of the back end; it may call
/// [`BackEnd::create`], and must not wait for peers.
pub trait Provider: Send + Sync {
    /// `asker` wants to connect to `id`, which is not exported yet; it may ask again. Create it, or leave it; then the
    /// asker gets [`Error::UnknownSegment`](crate::Error::UnknownSegment).
    fn provide(&self, asker: Rank, id: SegmentId);
}

/// Has `provider` make a segment. Where it panics, the log says so, and the asker gets what was made until then.
pub(crate) fn provide(provider: &dyn Provider, asker: Rank, id: SegmentId) {
    if callback::panics(|| provider.provide(asker, id)) {
        tracing::error!(%asker, %id, "whoever makes this segment panicked");
    }
}

/// Takes `provider` out of those by space, if it is the one there. What is returned is to be dropped without a lock: it
/// may hold segments.
pub(crate) fn take_provider(
    providers: &mut HashMap<u32, Arc<dyn Provider>>,
    space: u32,
    provider: &Arc<dyn Provider>,
) -> Option<Arc<dyn Provider>> {
    let is_there = providers
        .get(&space)
        .is_some_and(|there| std::ptr::addr_eq(Arc::as_ptr(there), Arc::as_ptr(provider)));
    if is_there { providers.remove(&space) } else { None }
}

/// Answers what peers [inquire](BackEnd::inquire). Called on a thread of the back end; it must not wait.
pub trait Respondent: Send + Sync {
    /// The answer to `question`, which `asker` may have asked before.
    fn respond(&self, asker: Rank, question: [u64; 2]) -> u64;
}

/// Has `respondent` answer. Where it panics, the log says so, and there is no answer.
pub(crate) fn respond(respondent: &dyn Respondent, asker: Rank, question: [u64; 2]) -> Option<u64> {
    let mut answer = None;
    if callback::panics(|| answer = Some(respondent.respond(asker, question))) {
        tracing::error!(%asker, "whoever answers what it inquires panicked");
    }
    answer
}

/// A thread that serves beside the program.
pub trait Service: Send {
    /// Waits until it has ended.
    fn join(self: Box<Self>);
}

/// One process's adapter.
pub trait BackEnd: Send + Sync {
    /// What it can do.
    fn capabilities(&self) -> &Capabilities;

    /// The job.
    fn membership(&self) -> &Arc<Membership>;

    /// The fabric's time.
    fn now(&self) -> Time;

    /// Creates and exports a segment.
    ///
    /// # Errors
    /// `SegmentExists`; `Memory` where its storage cannot be had.
    fn create(&self, id: SegmentId, backing: &Backing) -> Result<SharedMemory>;

    /// How many bytes this process may take for segments, if it leaves the other processes of its node as much; none
    /// where nobody can tell. It asks the system, and takes a moment.
    fn memory_share(&self) -> Option<u64> {
        let membership = self.membership();
        let own = membership.node(membership.rank());
        let here = membership.ranks().filter(|rank| membership.node(*rank) == own).count();
        crate::shm::memory_share(u32::try_from(here).unwrap_or(u32::MAX))
    }

    /// Ends the export; peers that are connected keep what they have mapped, others find nothing. The memory stays as
    /// long as something that a peer has begun may still come there.
    fn remove(&self, id: SegmentId);

    /// Who makes segments of `space` on demand.
    fn set_provider(&self, space: u32, provider: Arc<dyn Provider>);

    /// Nobody does any more, if that is `provider` until now.
    fn remove_provider(&self, space: u32, provider: &Arc<dyn Provider>);

    /// Who answers what peers inquire, from now on.
    fn set_respondent(&self, respondent: Arc<dyn Respondent>);

    /// What the [`Respondent`] of `peer`, which is not this process, answers to `question`; nothing where it has none.
    /// The question may come more than once, and also after it was given up here.
    ///
    /// # Errors
    /// `PeerLost`, also where the peer is found to be gone; `TimedOut` after `limit`.
    fn inquire(&self, peer: Rank, question: [u64; 2], limit: Duration) -> Result<Option<u64>>;

    /// Connects to a segment of `owner`, which may be this process itself.
    ///
    /// # Errors
    /// `UnknownSegment`; `PeerLost`; `TimedOut` after `limit`.
    fn connect(&self, owner: Rank, id: SegmentId, limit: Duration) -> Result<Connected>;

    /// Forgets a connection.
    fn disconnect(&self, connection: ConnectionId);

    /// Makes user memory reachable for peers until it is unregistered.
    ///
    /// # Safety
    /// The memory must stay valid, and be left to the peers, until `unregister` returns, or what `revoke` answers is
    /// over; or as long as any peer may use the key, where peers map segments of this process.
    ///
    /// # Errors
    /// `Unsupported`; `System` or `Provider` where it is refused.
    unsafe fn register(&self, memory: UserMemory) -> Result<MemoryKey>;

    /// Ends a registration. No transfer to it may be under way.
    fn unregister(&self, key: MemoryKey);

    /// Ends a registration to which `writer` may be writing at this moment, as soon as that can be. What it has begun
    /// by then may still come until the answer says so; that does not take for ever, whatever the writer does. `None`
    /// where nothing comes once [`unregister`](Self::unregister) has returned: then that is still to be called, else
    /// not any more.
    fn revoke(&self, key: MemoryKey, writer: Rank) -> Option<Arc<Drain>> {
        let _ = (key, writer);
        None
    }

    /// Remote write: all pieces, in order. The bytes may be changed once it returns; they are visible at the peer
    /// after a store barrier, or before where the fabric orders writes.
    ///
    /// # Errors
    /// `PeerLost`; `OutOfBounds` where that is known here.
    fn write(&self, remote: &Remote, pieces: &[Piece<'_>]) -> Result<()>;

    /// How many failed transfers to `peer` are known.
    fn mark(&self, peer: Rank) -> SequenceMark;

    /// Returns when no earlier write of this process to `peer` is on its way any more: each has arrived or failed.
    ///
    /// # Errors
    /// `PeerLost`.
    fn store_barrier(&self, peer: Rank) -> Result<()>;

    /// Whether all writes to `peer` since `mark` have arrived; includes a store barrier. Another thread's failure
    /// since `mark` counts as well: repeating does no harm.
    ///
    /// # Errors
    /// `PeerLost`.
    fn check_sequence(&self, peer: Rank, mark: SequenceMark) -> Result<Sequence>;

    /// Reads remote memory.
    ///
    /// # Errors
    /// `Unsupported` where the capabilities say so; `PeerLost`; `OutOfBounds`.
    fn read(&self, remote: &Remote, offset: u64, into: &mut [u8]) -> Result<()>;

    /// Adds to the eight-byte word at `offset` (a multiple of 8) and returns what it was.
    ///
    /// # Errors
    /// `PeerLost`; `Misaligned`; `OutOfBounds`.
    fn fetch_add(&self, remote: &Remote, offset: u64, amount: u64) -> Result<u64>;

    /// Sets the eight-byte word at `offset` (a multiple of 8) to `new` if it is `expected`; returns what it was.
    ///
    /// # Errors
    /// `PeerLost`; `Misaligned`; `OutOfBounds`.
    fn compare_swap(&self, remote: &Remote, offset: u64, expected: u64, new: u64) -> Result<u64>;

    /// Hands a chain of transfers over: they are carried out in order, and `done` is finished after the last one
    /// has arrived, or with the first error. When it has been finished successfully, the bytes are visible.
    ///
    /// # Safety
    /// The local memory of every transfer must stay valid, and for writes unchanged, until `done` is finished.
    ///
    /// # Errors
    /// `Unsupported` where there is no DMA. An error here means that nothing was begun and `done` is not finished.
    unsafe fn post(&self, chain: Vec<Transfer>, done: Arc<Completion>) -> Result<()>;

    /// Tells `peer`'s waiters that its memory was written. Costs next to nothing where nobody sleeps there, and
    /// nothing where arrival tells by itself.
    ///
    /// # Errors
    /// `PeerLost`; `TimedOut` where the peer does not let itself be connected to.
    fn ring(&self, peer: Rank) -> Result<()>;

    /// Triggers an interrupt of `peer`. One of this process itself can be triggered as long as it is not closed. Writes
    /// issued before are visible to whoever the interrupt wakes, except on fabrics that order nothing: there, a store
    /// barrier comes first.
    ///
    /// # Errors
    /// `PeerLost`; `TimedOut` where the peer does not let itself be connected to.
    fn trigger(&self, peer: Rank, interrupt: Interrupt) -> Result<()>;

    /// [`write`](Self::write), then [`trigger`](Self::trigger) of the memory's owner: one message where both fit into
    /// one. Whatever becomes of a write that was begun, the interrupt is triggered; on fabrics that order nothing,
    /// perhaps before the bytes are visible.
    ///
    /// # Errors
    /// Those of both; after one of the write, nothing is triggered.
    fn write_and_trigger(&self, remote: &Remote, pieces: &[Piece<'_>], interrupt: Interrupt) -> Result<()> {
        self.write(remote, pieces)?;
        self.trigger(remote.owner, interrupt)
    }

    /// Sleeps, using no processor, until the interrupt has been triggered; returns how often since the last time,
    /// 0 when the deadline passed or something was declared in the membership. Where several threads wait for one
    /// interrupt, each needs a deadline: of what is declared just before its wait only one may be told.
    ///
    /// # Errors
    /// `Ending`, once the back end is closed.
    fn wait_interrupt(&self, interrupt: Interrupt, deadline: Option<Time>) -> Result<u64>;

    /// Waits for a condition. Returns `Ready` only when it holds.
    ///
    /// Without a deadline it returns only then, except once the back end is closed: `close` declares that in the
    /// membership, which has all conditions looked at again, and from then on, as soon as all posted chains are
    /// finished, a wait may end with `TimedOut` at once. A condition that may never come true looks at the membership;
    /// whoever needs the condition itself asks again, or takes `TimedOut` for the end.
    fn wait_until(&self, wait: Wait<'_>) -> Waited;

    /// Has all waiters of this process look again.
    fn wake(&self);

    /// Copies within this process. Where time is virtual, it passes.
    ///
    /// # Safety
    /// As for `std::ptr::copy_nonoverlapping`.
    unsafe fn copy(&self, from: *const u8, to: *mut u8, length: usize);

    /// Lets time pass without using a processor.
    fn sleep(&self, duration: Duration);

    /// Uses the processor for so long, as a computation of the program would.
    fn compute(&self, duration: Duration);

    /// Runs `body` beside the program: on a thread of its own, with all signals blocked.
    ///
    /// # Errors
    /// `System` where no thread can be had.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Service>>;

    /// Whether nothing that `peer` has begun can change memory of this process any more, not only until it goes on: its
    /// process has ended. Asked of peers that map this process's segments, by whoever holds memory back because of
    /// them.
    fn has_ended(&self, peer: Rank) -> bool {
        let _ = peer;
        false
    }

    /// Has `peer` go on if it stands still, where that is in this process's power; for one that is lost, and that
    /// somebody has to wait for until it [has ended](Self::has_ended) or told that it writes nothing more.
    fn rouse(&self, peer: Rank) {
        let _ = peer;
    }

    /// Which peers this process has connected to.
    fn connected_peers(&self) -> Vec<Rank>;

    /// Ends all: declares in the membership that the fabric was closed, so that calls of other threads end with
    /// [`Error::Ending`](crate::Error::Ending); finishes all chains; threads stop, segments vanish, waits for
    /// interrupts end. What was written before arrives, where its peer lives and takes it: whoever must know makes a
    /// store barrier. Called twice, it does nothing more.
    fn close(&self);
}

impl fmt::Debug for dyn BackEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capabilities = self.capabilities();
        write!(formatter, "BackEnd({}, {})", capabilities.back_end, capabilities.provider)
    }
}
