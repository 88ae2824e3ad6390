//! The fabric's face: what layers above hold in hand.

use std::sync::Arc;
use std::time::Duration;

use crate::back_end::{
    BackEnd, Backing, Connected, Piece, Place, Provider, Remote, Sequence, SequenceMark, Service, Wait,
    Waited,
};
use crate::callback;
use crate::capabilities::Capabilities;
use crate::dma::{Completion, Transfer};
use crate::error::{Error, Result};
use crate::membership::Membership;
use crate::memory::UserMemory;
use crate::ports::{Doorkeeper, Notice, Ports};
use crate::segment::{LocalSegment, Registration, RemoteSegment};
use crate::statistics::{Counters, Statistics};
use crate::units::{Interrupt, Rank, SegmentId, Time};

/// How often a broken transfer is repeated before the peer counts as unreachable.
const ATTEMPTS: u32 = 32;

/// How long is waited for one who is told of the end of a messenger to take note of it.
const NOTICE_LIMIT: Duration = Duration::from_secs(1);

/// The same for all of them together.
const NOTICES_LIMIT: Duration = Duration::from_secs(10);

/// One process's place on the fabric. Clones are the same place.
#[derive(Clone)]
pub struct Fabric {
    back_end: Arc<dyn BackEnd>,
    counters: Arc<Counters>,
    ports: Arc<Ports>,
}

impl Fabric {
    /// The face of `back_end`.
    #[must_use]
    pub fn new(back_end: Arc<dyn BackEnd>) -> Self {
        let ports = Arc::new(Ports::default());
        back_end.set_respondent(Doorkeeper::of(&ports));
        Self { back_end, counters: Arc::default(), ports }
    }

    /// This process.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.membership().rank()
    }

    /// How many processes the job has.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.membership().size()
    }

    /// Who takes part, and who is lost.
    #[must_use]
    pub fn membership(&self) -> &Arc<Membership> {
        self.back_end.membership()
    }

    /// What this adapter can do.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        self.back_end.capabilities()
    }

    /// The fabric's time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.back_end.now()
    }

    /// What was done so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.counters.read()
    }

    /// Which peers this process has connected to.
    #[must_use]
    pub fn connected_peers(&self) -> Vec<Rank> {
        self.back_end.connected_peers()
    }

    /// Creates a segment of `backing` and exports it under `id` until the value is dropped.
    ///
    /// # Errors
    /// [`Error::SegmentExists`]; [`Error::Memory`] where its storage cannot be had.
    pub fn create(&self, id: SegmentId, backing: &Backing) -> Result<LocalSegment> {
        let memory = self.back_end.create(id, backing)?;
        Ok(LocalSegment::new(&self.back_end, id, memory))
    }

    /// Has `provider` make segments of `space` when a peer first asks for them.
    pub fn set_provider(&self, space: u32, provider: Arc<dyn Provider>) {
        self.back_end.set_provider(space, provider);
    }

    /// Has nobody make segments of `space` any more, if `provider` does until now.
    pub fn remove_provider(&self, space: u32, provider: &Arc<dyn Provider>) {
        self.back_end.remove_provider(space, provider);
    }

    /// Connects to segment `id` of `owner`.
    ///
    /// # Errors
    /// [`Error::UnknownSegment`], [`Error::PeerLost`], [`Error::TimedOut`] after the
    /// [limit for answers](Membership::answer_limit).
    pub fn connect(&self, owner: Rank, id: SegmentId) -> Result<RemoteSegment> {
        self.membership().check(owner)?;
        let limit = self.membership().answer_limit();
        let Connected { connection, length, mapping } = self.back_end.connect(owner, id, limit)?;
        self.counters.connections.add(1);
        let remote = Remote { owner, place: Place::Segment(connection) };
        Ok(RemoteSegment::new(self, id, remote, length, mapping))
    }

    /// Makes user memory reachable for peers, until the value is dropped. When it is dropped, no peer may be at a write
    /// there: where one may be, it is [revoked](Registration::revoke) before.
    ///
    /// # Safety
    /// The memory must stay valid, and be left to the peers, until the value is dropped, or what revoking it answers is
    /// over; or as long as any peer may use the key, where peers map segments of this process.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the fabric registers no user memory; what the system says where it refuses.
    pub unsafe fn register(&self, memory: UserMemory) -> Result<Registration> {
        // SAFETY: the caller's promise is the one asked for.
        let key = unsafe { self.back_end.register(memory) }?;
        Ok(Registration::new(&self.back_end, key))
    }

    /// Remote write of all `pieces`, in order.
    ///
    /// # Errors
    /// [`Error::PeerLost`]; [`Error::OutOfBounds`].
    pub fn write(&self, remote: &Remote, pieces: &[Piece<'_>]) -> Result<()> {
        self.count_write(remote, pieces)?;
        self.back_end.write(remote, pieces)
    }

    fn count_write(&self, remote: &Remote, pieces: &[Piece<'_>]) -> Result<()> {
        self.membership().check(remote.owner)?;
        self.counters.writes.add(1);
        self.counters.written_bytes.add(pieces.iter().map(|piece| piece.bytes.len() as u64).sum());
        Ok(())
    }

    /// Carries out `transfers`, which writes to `peer`, until a sequence check finds them intact.
    ///
    /// # Errors
    /// What `transfers` returns; [`Error::Unreachable`] after 32 attempts; [`Error::PeerLost`].
    pub fn write_checked(&self, peer: Rank, mut transfers: impl FnMut() -> Result<()>) -> Result<()> {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                self.counters.repeated_writes.add(1);
            }
            let mark = self.mark(peer);
            transfers()?;
            if self.check_sequence(peer, mark)? == Sequence::Intact {
                return Ok(());
            }
        }
        let node = self.membership().node(peer).into();
        Err(Error::Unreachable { peer, node, attempts: ATTEMPTS })
    }

    /// Begins a sequence of transfers to `peer`.
    #[must_use]
    pub fn mark(&self, peer: Rank) -> SequenceMark {
        self.back_end.mark(peer)
    }

    /// Whether all writes to `peer` since `mark` have arrived.
    ///
    /// # Errors
    /// [`Error::PeerLost`].
    pub fn check_sequence(&self, peer: Rank, mark: SequenceMark) -> Result<Sequence> {
        self.membership().check(peer)?;
        self.counters.sequence_checks.add(1);
        let sequence = self.back_end.check_sequence(peer, mark)?;
        if sequence == Sequence::Broken {
            self.counters.broken_sequences.add(1);
        }
        Ok(sequence)
    }

    /// Returns when no earlier write to `peer` is on its way any more.
    ///
    /// # Errors
    /// [`Error::PeerLost`].
    pub fn store_barrier(&self, peer: Rank) -> Result<()> {
        self.membership().check(peer)?;
        self.counters.store_barriers.add(1);
        self.back_end.store_barrier(peer)
    }

    /// Reads remote memory.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the capabilities say so; [`Error::PeerLost`]; [`Error::OutOfBounds`].
    pub fn read(&self, remote: &Remote, offset: u64, into: &mut [u8]) -> Result<()> {
        self.membership().check(remote.owner)?;
        self.counters.reads.add(1);
        self.counters.read_bytes.add(into.len() as u64);
        self.back_end.read(remote, offset, into)
    }

    /// Adds to a remote word of eight bytes and returns what it was.
    ///
    /// # Errors
    /// [`Error::PeerLost`]; [`Error::Misaligned`]; [`Error::OutOfBounds`].
    pub fn fetch_add(&self, remote: &Remote, offset: u64, amount: u64) -> Result<u64> {
        self.check_atomic(remote, offset)?;
        self.back_end.fetch_add(remote, offset, amount)
    }

    /// Sets a remote word of eight bytes to `new` if it is `expected`; returns what it was.
    ///
    /// # Errors
    /// [`Error::PeerLost`]; [`Error::Misaligned`]; [`Error::OutOfBounds`].
    pub fn compare_swap(&self, remote: &Remote, offset: u64, expected: u64, new: u64) -> Result<u64> {
        self.check_atomic(remote, offset)?;
        self.back_end.compare_swap(remote, offset, expected, new)
    }

    fn check_atomic(&self, remote: &Remote, offset: u64) -> Result<()> {
        self.membership().check(remote.owner)?;
        if !offset.is_multiple_of(8) {
            return Err(Error::Misaligned { offset });
        }
        self.counters.atomics.add(1);
        Ok(())
    }

    /// Hands a chain of transfers over.
    ///
    /// # Safety
    /// The local memory of every transfer must stay valid, and for writes unchanged, until `done` is finished.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where there is no DMA; [`Error::PeerLost`]. Then `done` is never finished.
    pub unsafe fn post(&self, chain: Vec<Transfer>, done: &Arc<Completion>) -> Result<()> {
        for transfer in &chain {
            self.membership().check(transfer.remote.owner)?;
        }
        self.counters.posts.add(1);
        self.counters.posted_bytes.add(chain.iter().map(|transfer| transfer.local.length as u64).sum());
        // SAFETY: the caller's promise is the one asked for.
        unsafe { self.back_end.post(chain, Arc::clone(done)) }
    }

    /// Waits until a posted chain has ended, and returns its result.
    ///
    /// # Errors
    /// The chain's; [`Error::Ending`] where the fabric was closed and the chain will not end any more, or is just about
    /// to: only then, `done` may still be open.
    pub fn wait_for(&self, done: &Completion) -> Result<()> {
        let mut result = None;
        let mut ready = || {
            result = done.test();
            result.is_some()
        };
        // Without a deadline: a chain to a lost peer is ended by the back end.
        let _ = self.back_end.wait_until(Wait { deadline: None, attends: None, ready: &mut ready });
        // Without a deadline, a wait ends otherwise only where the back end was closed.
        let cut_off = || Error::Ending { reason: "the fabric was closed before a transfer had ended".into() };
        result.unwrap_or_else(|| Err(cut_off()))
    }

    /// Tells `peer`'s waiters that its memory was written.
    ///
    /// # Errors
    /// [`Error::PeerLost`].
    pub fn ring(&self, peer: Rank) -> Result<()> {
        self.back_end.ring(peer)
    }

    /// Triggers an interrupt of `peer`. One of this process itself can be triggered even when the job is ending, so
    /// that its own threads can always be called.
    ///
    /// # Errors
    /// [`Error::PeerLost`].
    pub fn trigger(&self, peer: Rank, interrupt: Interrupt) -> Result<()> {
        if peer != self.rank() {
            self.membership().check(peer)?;
        }
        self.counters.interrupts.add(1);
        self.back_end.trigger(peer, interrupt)
    }

    /// Remote write of all `pieces`, in order, then a trigger of an interrupt of the memory's owner: one message where
    /// both fit into one.
    ///
    /// # Errors
    /// [`Error::PeerLost`]; [`Error::OutOfBounds`]. Then, nothing is triggered.
    pub fn write_and_trigger(
        &self,
        remote: &Remote,
        pieces: &[Piece<'_>],
        interrupt: Interrupt,
    ) -> Result<()> {
        self.count_write(remote, pieces)?;
        self.counters.interrupts.add(1);
        self.back_end.write_and_trigger(remote, pieces, interrupt)
    }

    /// Sleeps until the interrupt has been triggered; returns how often since the last time, 0 when the deadline
    /// passed or the membership changed. Where several threads wait for one interrupt, one of them takes its triggers,
    /// and of a change just before its wait a thread may not be told: give each a deadline, and look again after it.
    ///
    /// # Errors
    /// [`Error::Ending`], once the fabric is closed.
    pub fn wait_interrupt(&self, interrupt: Interrupt, deadline: Option<Time>) -> Result<u64> {
        self.back_end.wait_interrupt(interrupt, deadline)
    }

    /// Has `callback` called, with how often since the last time, whenever the interrupt is triggered, on a thread
    /// of its own, until the fabric is closed. Where it panics, the log says so, and it is called the next time all the
    /// same.
    ///
    /// # Errors
    /// Where no thread can be had.
    pub fn on_interrupt(
        &self,
        interrupt: Interrupt,
        mut callback: impl FnMut(u64) + Send + 'static,
    ) -> Result<Box<dyn Service>> {
        let back_end = Arc::clone(&self.back_end);
        let body = move || {
            while let Ok(count) = back_end.wait_interrupt(interrupt, None) {
                if count > 0 && callback::panics(|| callback(count)) {
                    tracing::error!(rank = %back_end.membership().rank(), %interrupt, "what it calls panicked");
                }
            }
        };
        self.back_end.spawn(&format!("interrupt-{interrupt}"), Box::new(body))
    }

    /// Waits for a condition on local memory.
    pub fn wait_until(&self, wait: Wait<'_>) -> Waited {
        self.back_end.wait_until(wait)
    }

    /// The back end itself, for protocols that need more than the face.
    #[must_use]
    pub fn back_end(&self) -> &Arc<dyn BackEnd> {
        &self.back_end
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Which ports are open.
    pub(crate) fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Tells those of `peers` who are there.
    pub(crate) fn notify(&self, notice: Notice, peers: Vec<Rank>) {
        let give_up = self.now().after(NOTICES_LIMIT);
        for peer in peers {
            let left = give_up.since(self.now());
            if self.membership().check(peer).is_ok()
                && let Err(error) = self.back_end.inquire(peer, notice.encode(), left.min(NOTICE_LIMIT))
            {
                // One that stands still finds it when it goes on, unless this process has ended before it left.
                tracing::debug!(rank = %self.rank(), %peer, ?notice, %error, "it may not have heard");
            }
        }
    }

    /// Ends all: calls in other threads end with [`Error::Ending`], segments vanish, threads stop. Called twice, it
    /// does nothing more.
    pub fn close(&self) {
        for (notice, waiting) in self.ports.close_all() {
            self.notify(notice, waiting);
        }
        self.back_end.close();
    }
}

impl std::fmt::Debug for Fabric {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Fabric")
            .field("back_end", &self.back_end)
            .field("rank", &self.rank())
            .finish()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
