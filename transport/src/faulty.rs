//! Any back end, with writes that are dropped, come late, or come twice: what adapters do whose links are disturbed.
//!
//! What is promised stays: within an aligned block of the transaction size a write arrives whole or not at all, once
//! a store barrier or a sequence check has returned nothing earlier is on its way, and a check since before a dropped
//! write finds the sequence broken. Everything else that a reliable, ordered fabric would promise is taken away, so
//! protocols show whether they rely on more. A posted chain goes well, or moves a part of its bytes and ends with an
//! error that says so, as when an adapter gives up in mid-transfer. Interrupts,
//! atomics and reads are left as they are.
//!
//! Or with nothing wrong, but with memory as adapters have it that write past the page tables: what is exported is said
//! to be pinned, and only so much of it can be.
//!
//! What comes of each write and each chain follows from the seed and from their order to one peer; when a late write
//! comes, from the clock.

mod late;
mod plan;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use plan::{FaultCounts, FaultPlan};

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::back_end::{
    BackEnd, Backing, Connected, ConnectionId, Drain, MemoryKey, Piece, Place, Provider, Remote, Respondent,
    Sequence, SequenceMark, Service, Wait, Waited,
};
use crate::capabilities::{Capabilities, WriteOrder};
use crate::dma::{Completion, Transfer};
use crate::error::{Error, Result};
use crate::membership::Membership;
use crate::memory::{SharedMemory, UserMemory};
use crate::units::{Interrupt, Rank, SegmentId, Time};

use late::{LateWrite, LateWrites};
use plan::{Chance, Fate};

/// A back end whose writes go wrong by plan. Dropping it leaves out what is still late.
pub struct Faulty {
    inner: Arc<dyn BackEnd>,
    capabilities: Capabilities,
    transaction: u64,
    chance: Chance,
    late: Arc<LateWrites>,
    /// Bytes of the longest segment that is exported.
    lockable: u64,
}

impl Faulty {
    /// `inner`, with what `plan` says.
    #[must_use]
    pub fn new(inner: Arc<dyn BackEnd>, plan: FaultPlan) -> Arc<Self> {
        let healthy = inner.capabilities();
        let capabilities = Capabilities {
            provider: format!("{} with faults", healthy.provider),
            direct_mapping: false,
            ordering: WriteOrder::Any,
            is_reliable: false,
            ..healthy.clone()
        };
        Arc::new(Self::with(inner, plan, capabilities, u64::MAX))
    }

    /// `inner` without faults, that pins what is exported, as its capabilities say, of which a process may lock
    /// `lockable` bytes: no longer segment is exported.
    #[must_use]
    pub fn pinning(inner: Arc<dyn BackEnd>, lockable: u64) -> Arc<Self> {
        let healthy = inner.capabilities();
        let capabilities = Capabilities {
            provider: format!("{} with pinned memory", healthy.provider),
            direct_mapping: false,
            pins_memory: true,
            ..healthy.clone()
        };
        Arc::new(Self::with(inner, FaultPlan::default(), capabilities, lockable))
    }

    fn with(inner: Arc<dyn BackEnd>, plan: FaultPlan, capabilities: Capabilities, lockable: u64) -> Self {
        let size = inner.membership().size();
        Self {
            transaction: capabilities.transaction_size as u64,
            capabilities,
            chance: Chance::new(plan, size),
            late: LateWrites::new(Arc::clone(&inner), size),
            lockable,
            inner,
        }
    }

    /// What went wrong so far.
    #[must_use]
    pub fn counts(&self) -> FaultCounts {
        self.chance.counts()
    }

    /// Carries out one fragment of a write, as fate will have it.
    fn write_fragment(&self, remote: &Remote, fragment: Piece<'_>) -> Result<()> {
        let late = |late_by| {
            let bytes = fragment.bytes.to_vec();
            let write = LateWrite { remote: *remote, offset: fragment.offset, bytes };
            self.late.put_off(write, self.inner.now().after(late_by))
        };
        match self.chance.fate(remote.owner) {
            Fate::Arrives => self.inner.write(remote, &[fragment]),
            Fate::IsDropped => Ok(()),
            Fate::IsLate(late_by) => late(late_by),
            Fate::ArrivesTwice(late_by) => {
                self.inner.write(remote, &[fragment])?;
                late(late_by)
            }
        }
    }
}

/// `piece` cut at one aligned multiple of `transaction` within it, that `cut` chooses out of so many: what lies within
/// one block stays whole.
fn fragments<'a>(
    piece: &Piece<'a>,
    transaction: u64,
    cut: impl FnOnce(u64) -> u64,
) -> impl Iterator<Item = Piece<'a>> {
    let Piece { offset, bytes } = *piece;
    let first_boundary = (offset / transaction + 1).saturating_mul(transaction);
    let end = offset.saturating_add(bytes.len() as u64);
    let boundaries = end.saturating_sub(first_boundary).div_ceil(transaction);
    let length = match boundaries {
        0 => bytes.len(),
        // Less than the piece's length, so it fits.
        some => (first_boundary - offset + cut(some) * transaction) as usize,
    };
    let (front, back) = bytes.split_at(length);
    [Piece { offset, bytes: front }, Piece { offset: offset + length as u64, bytes: back }]
        .into_iter()
        .filter(|fragment| !fragment.bytes.is_empty())
}

/// A chain that moves the first `length` bytes of `chain`, and is refused where that would be: behind what it moves,
/// the ends of all transfers are touched.
fn beginning(chain: Vec<Transfer>, length: u64) -> Vec<Transfer> {
    let mut left = length;
    let (mut moves, mut touches) = (Vec::new(), Vec::new());
    for transfer in chain {
        let whole = transfer.local.length;
        let end = transfer.offset.saturating_add(whole as u64);
        touches.push(Transfer { local: transfer.local.part(whole, 0), offset: end, ..transfer.clone() });
        // No more than a length of memory.
        let taken = left.min(whole as u64) as usize;
        left -= taken as u64;
        if taken > 0 {
            moves.push(Transfer { local: transfer.local.part(0, taken), ..transfer });
        }
    }
    moves.extend(touches);
    moves
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.late.close();
    }
}

// What is not passed on would be done by the defaults, and pass for the back end's.
#[deny(clippy::missing_trait_methods)]
impl BackEnd for Faulty {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn membership(&self) -> &Arc<Membership> {
        self.inner.membership()
    }

    fn now(&self) -> Time {
        self.inner.now()
    }

    fn create(&self, id: SegmentId, backing: &Backing) -> Result<SharedMemory> {
        let (Backing::Anonymous { length } | Backing::File { length, .. }) = backing;
        if *length > self.lockable {
            return Err(Error::Memory {
                what: format!("locking segment {id}, as planned"),
                length: *length,
                source: Arc::new(io::Error::from(io::ErrorKind::OutOfMemory)),
            });
        }
        self.inner.create(id, backing)
    }

    fn memory_share(&self) -> Option<u64> {
        self.inner.memory_share()
    }

    fn remove(&self, id: SegmentId) {
        self.inner.remove(id);
    }

    fn set_provider(&self, space: u32, provider: Arc<dyn Provider>) {
        self.inner.set_provider(space, provider);
    }

    fn remove_provider(&self, space: u32, provider: &Arc<dyn Provider>) {
        self.inner.remove_provider(space, provider);
    }

    fn set_respondent(&self, respondent: Arc<dyn Respondent>) {
        self.inner.set_respondent(respondent);
    }

    fn inquire(&self, peer: Rank, question: [u64; 2], limit: Duration) -> Result<Option<u64>> {
        self.inner.inquire(peer, question, limit)
    }

    fn connect(&self, owner: Rank, id: SegmentId, limit: Duration) -> Result<Connected> {
        Ok(Connected { mapping: None, ..self.inner.connect(owner, id, limit)? })
    }

    fn disconnect(&self, connection: ConnectionId) {
        // What is on its way arrives all the same.
        self.late.deliver_all(|write| write.remote.place == Place::Segment(connection));
        self.inner.disconnect(connection);
    }

    unsafe fn register(&self, memory: UserMemory) -> Result<MemoryKey> {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { self.inner.register(memory) }
    }

    fn unregister(&self, key: MemoryKey) {
        self.inner.unregister(key);
    }

    fn revoke(&self, key: MemoryKey, writer: Rank) -> Option<Arc<Drain>> {
        self.inner.revoke(key, writer)
    }

    fn write(&self, remote: &Remote, pieces: &[Piece<'_>]) -> Result<()> {
        self.membership().check(remote.owner)?;
        // What is out of bounds is refused as a whole, before anything is written or put off.
        let nothing = pieces
            .iter()
            .map(|piece| Piece { offset: piece.offset.saturating_add(piece.bytes.len() as u64), bytes: &[] });
        self.inner.write(remote, &nothing.collect::<Vec<_>>())?;
        for piece in pieces {
            for fragment in fragments(piece, self.transaction, |count| self.chance.cut(remote.owner, count)) {
                self.write_fragment(remote, fragment)?;
            }
        }
        Ok(())
    }

    fn mark(&self, peer: Rank) -> SequenceMark {
        // Both only ever grow, so the sum tells whether either did.
        SequenceMark(self.inner.mark(peer).0 + self.chance.dropped(peer))
    }

    fn store_barrier(&self, peer: Rank) -> Result<()> {
        self.late.deliver_all(|write| write.remote.owner == peer);
        self.late.wait_for_deliveries(peer);
        self.inner.store_barrier(peer)
    }

    fn check_sequence(&self, peer: Rank, mark: SequenceMark) -> Result<Sequence> {
        self.store_barrier(peer)?;
        // Orders the counters after the transfers that they count, whoever made them.
        std::sync::atomic::fence(Ordering::SeqCst);
        Ok(if self.mark(peer) == mark { Sequence::Intact } else { Sequence::Broken })
    }

    fn read(&self, remote: &Remote, offset: u64, into: &mut [u8]) -> Result<()> {
        self.inner.read(remote, offset, into)
    }

    fn fetch_add(&self, remote: &Remote, offset: u64, amount: u64) -> Result<u64> {
        self.inner.fetch_add(remote, offset, amount)
    }

    fn compare_swap(&self, remote: &Remote, offset: u64, expected: u64, new: u64) -> Result<u64> {
        self.inner.compare_swap(remote, offset, expected, new)
    }

    unsafe fn post(&self, chain: Vec<Transfer>, done: Arc<Completion>) -> Result<()> {
        let length = chain.iter().map(|transfer| transfer.local.length as u64).sum();
        let peer = chain.first().map(|transfer| transfer.remote.owner);
        let Some((peer, moved)) = peer.and_then(|peer| Some((peer, self.chance.chain_fate(peer, length)?)))
        else {
            // SAFETY: the caller's promise is the one asked for.
            return unsafe { self.inner.post(chain, done) };
        };
        let failed = Error::system(
            format!("DMA to rank {peer}, {moved} of {length} bytes of it, as planned"),
            io::Error::from(io::ErrorKind::Interrupted),
        );
        let done = Completion::calling(move |result| done.finish(result.and(Err(failed))));
        // SAFETY: the caller's promise is for more memory, until `done` has ended, which is not before this one has.
        unsafe { self.inner.post(beginning(chain, moved), Arc::new(done)) }
    }

    fn ring(&self, peer: Rank) -> Result<()> {
        self.inner.ring(peer)
    }

    fn trigger(&self, peer: Rank, interrupt: Interrupt) -> Result<()> {
        self.inner.trigger(peer, interrupt)
    }

    fn write_and_trigger(&self, remote: &Remote, pieces: &[Piece<'_>], interrupt: Interrupt) -> Result<()> {
        // Apart: the write may be dropped or late, the interrupt comes.
        self.write(remote, pieces)?;
        self.trigger(remote.owner, interrupt)
    }

    fn wait_interrupt(&self, interrupt: Interrupt, deadline: Option<Time>) -> Result<u64> {
        self.inner.wait_interrupt(interrupt, deadline)
    }

    fn wait_until(&self, wait: Wait<'_>) -> Waited {
        self.inner.wait_until(wait)
    }

    fn wake(&self) {
        self.inner.wake();
    }

    unsafe fn copy(&self, from: *const u8, to: *mut u8, length: usize) {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { self.inner.copy(from, to, length) };
    }

    fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration);
    }

    fn compute(&self, duration: Duration) {
        self.inner.compute(duration);
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Service>> {
        self.inner.spawn(name, body)
    }

    fn has_ended(&self, peer: Rank) -> bool {
        self.inner.has_ended(peer)
    }

    fn rouse(&self, peer: Rank) {
        self.inner.rouse(peer);
    }

    fn connected_peers(&self) -> Vec<Rank> {
        self.inner.connected_peers()
    }

    fn close(&self) {
        self.late.close();
        self.inner.close();
    }
}
