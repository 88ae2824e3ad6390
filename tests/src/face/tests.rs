//! The suite finds what it looks for: fabrics with one defect each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use svmio_transport::back_end::{
    BackEnd, Backing, Connected, ConnectionId, Drain, MemoryKey, Piece, Provider, Remote, Respondent,
    Sequence, SequenceMark, Service, Wait, Waited,
};
use svmio_transport::dma::{Completion, Transfer};
use svmio_transport::shm::{self, ShmSettings};
use svmio_transport::{
    Capabilities, Interrupt, JobSecret, Membership, Rank, Result, SegmentId, SharedMemory, Time, UserMemory,
};

use crate::{face, is_full_run, ranks};

/// What a fabric does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    /// Claims to be reliable and drops a longer write now and then.
    DropsWrites,
    /// Writes the last word of a block first.
    TearsBlocks,
    /// Writes the pieces of a write from the last to the first.
    ReordersPieces,
    /// Adds by reading and writing.
    AddsNotAtomically,
    /// Triggers twice now and then.
    RepeatsInterrupts,
    /// Tells the end of a chain when it begins.
    EndsEarly,
    /// Asks again and again whether an interrupt has come.
    Spins,
    /// Connects to all peers as soon as one is connected.
    IsEager,
    /// Takes any word as that which was expected.
    SwapsAlways,
    /// Ends a wait before its deadline.
    IsImpatient,
    /// Lets longer transfers go beyond the end without an error.
    HidesErrors,
}

const ALL: [Defect; 11] = [
    Defect::DropsWrites,
    Defect::TearsBlocks,
    Defect::ReordersPieces,
    Defect::AddsNotAtomically,
    Defect::RepeatsInterrupts,
    Defect::EndsEarly,
    Defect::Spins,
    Defect::IsEager,
    Defect::SwapsAlways,
    Defect::IsImpatient,
    Defect::HidesErrors,
];

/// A fabric with a defect.
struct Crooked {
    inner: Arc<dyn BackEnd>,
    defect: Defect,
    calls: AtomicU64,
}

impl Crooked {
    /// Whether it is time to do `defect`, every `period`th time.
    fn does(&self, defect: Defect, period: u64) -> bool {
        // Relaxed: only a count.
        self.defect == defect && self.calls.fetch_add(1, Ordering::Relaxed) % period == period - 1
    }
}

// What is not passed on would be done by the defaults, and pass for the fabric's.
#[deny(clippy::missing_trait_methods)]
impl BackEnd for Crooked {
    fn write(&self, remote: &Remote, pieces: &[Piece<'_>]) -> Result<()> {
        let length: usize = pieces.iter().map(|piece| piece.bytes.len()).sum();
        if length > 8 && self.does(Defect::DropsWrites, 20) {
            return Ok(());
        }
        if self.defect == Defect::ReordersPieces {
            let reversed: Vec<_> = pieces.iter().rev().copied().collect();
            return self.inner.write(remote, &reversed);
        }
        if let [piece] = pieces
            && length > 8
            && self.does(Defect::TearsBlocks, 1)
        {
            let (first, last) = piece.bytes.split_at(length - 8);
            let last = Piece { offset: piece.offset + first.len() as u64, bytes: last };
            self.inner.write(remote, &[last])?;
            std::thread::yield_now();
            return self.inner.write(remote, &[Piece { offset: piece.offset, bytes: first }]);
        }
        self.inner.write(remote, pieces)
    }

    fn fetch_add(&self, remote: &Remote, offset: u64, amount: u64) -> Result<u64> {
        if self.defect != Defect::AddsNotAtomically {
            return self.inner.fetch_add(remote, offset, amount);
        }
        let before = self.inner.fetch_add(remote, offset, 0)?;
        std::thread::yield_now();
        let after = before.wrapping_add(amount).to_ne_bytes();
        self.inner.write(remote, &[Piece { offset, bytes: &after }])?;
        Ok(before)
    }

    fn compare_swap(&self, remote: &Remote, offset: u64, expected: u64, new: u64) -> Result<u64> {
        if self.does(Defect::SwapsAlways, 3) {
            let before = self.inner.fetch_add(remote, offset, 0)?;
            self.inner.compare_swap(remote, offset, before, new)?;
            return Ok(expected);
        }
        self.inner.compare_swap(remote, offset, expected, new)
    }

    fn trigger(&self, peer: Rank, interrupt: Interrupt) -> Result<()> {
        if self.does(Defect::RepeatsInterrupts, 10) {
            self.inner.trigger(peer, interrupt)?;
        }
        self.inner.trigger(peer, interrupt)
    }

    fn write_and_trigger(&self, remote: &Remote, pieces: &[Piece<'_>], interrupt: Interrupt) -> Result<()> {
        if self.defect == Defect::None {
            return self.inner.write_and_trigger(remote, pieces, interrupt);
        }
        self.write(remote, pieces)?;
        self.trigger(remote.owner, interrupt)
    }

    unsafe fn post(&self, chain: Vec<Transfer>, done: Arc<Completion>) -> Result<()> {
        if self.defect == Defect::EndsEarly {
            // SAFETY: the caller's promise holds until `done` is finished, below.
            let chain = chain.into_iter().map(|transfer| unsafe { of_its_own(transfer) }).collect();
            done.finish(Ok(()));
            self.inner.wake();
            // SAFETY: the defect is that nobody waits; the local memory is never given back.
            return unsafe { self.inner.post(chain, Arc::new(Completion::new())) };
        }
        if self.defect == Defect::HidesErrors {
            let told = Arc::clone(&done);
            let hiding = Arc::new(Completion::calling(move |_| told.finish(Ok(()))));
            // SAFETY: the caller's promise; `done` ends with the chain.
            if unsafe { self.inner.post(chain, hiding) }.is_err() {
                done.finish(Ok(()));
            }
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { self.inner.post(chain, done) }
    }

    fn wait_interrupt(&self, interrupt: Interrupt, deadline: Option<Time>) -> Result<u64> {
        if self.defect != Defect::Spins {
            return self.inner.wait_interrupt(interrupt, deadline);
        }
        loop {
            let count = self.inner.wait_interrupt(interrupt, Some(self.now()))?;
            let is_over = deadline.is_some_and(|deadline| self.now() >= deadline);
            if count > 0 || is_over || !self.membership().lost().is_empty() {
                return Ok(count);
            }
        }
    }

    fn wait_until(&self, mut wait: Wait<'_>) -> Waited {
        if self.defect == Defect::IsImpatient {
            wait.deadline = wait
                .deadline
                .map(|deadline| Time(deadline.0 - deadline.since(self.now()).as_nanos() as u64 / 4));
        }
        self.inner.wait_until(wait)
    }

    fn connected_peers(&self) -> Vec<Rank> {
        if self.defect == Defect::IsEager && !self.inner.connected_peers().is_empty() {
            return self.membership().ranks().collect();
        }
        self.inner.connected_peers()
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn membership(&self) -> &Arc<Membership> {
        self.inner.membership()
    }

    fn now(&self) -> Time {
        self.inner.now()
    }

    fn create(&self, id: SegmentId, backing: &Backing) -> Result<SharedMemory> {
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
        self.inner.connect(owner, id, limit)
    }

    fn disconnect(&self, connection: ConnectionId) {
        self.inner.disconnect(connection);
    }

    unsafe fn register(&self, memory: UserMemory) -> Result<MemoryKey> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.register(memory) }
    }

    fn unregister(&self, key: MemoryKey) {
        self.inner.unregister(key);
    }

    fn revoke(&self, key: MemoryKey, writer: Rank) -> Option<Arc<Drain>> {
        self.inner.revoke(key, writer)
    }

    fn mark(&self, peer: Rank) -> SequenceMark {
        self.inner.mark(peer)
    }

    fn store_barrier(&self, peer: Rank) -> Result<()> {
        self.inner.store_barrier(peer)
    }

    fn check_sequence(&self, peer: Rank, mark: SequenceMark) -> Result<Sequence> {
        self.inner.check_sequence(peer, mark)
    }

    fn read(&self, remote: &Remote, offset: u64, into: &mut [u8]) -> Result<()> {
        self.inner.read(remote, offset, into)
    }

    fn ring(&self, peer: Rank) -> Result<()> {
        self.inner.ring(peer)
    }

    fn wake(&self) {
        self.inner.wake();
    }

    unsafe fn copy(&self, from: *const u8, to: *mut u8, length: usize) {
        // SAFETY: the caller's promise.
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

    fn close(&self) {
        self.inner.close();
    }
}

/// `transfer` from or to a copy of its local memory that is never given back: it may be carried out at any time.
///
/// # Safety
/// The local memory must be valid.
unsafe fn of_its_own(mut transfer: Transfer) -> Transfer {
    let UserMemory { start, length } = transfer.local;
    // SAFETY: the caller's promise.
    let copy = unsafe { std::slice::from_raw_parts(start.as_ptr(), length) }.to_vec();
    transfer.local = UserMemory::of_mut(Vec::leak(copy));
    transfer
}

fn judge(defect: Defect) -> Result<(), String> {
    let secret = JobSecret::random().unwrap();
    let prepare = |_| shm::prepare(&ShmSettings::default(), &secret).unwrap();
    let wrap = |inner| Arc::new(Crooked { inner, defect, calls: AtomicU64::new(0) }) as Arc<dyn BackEnd>;
    let run = || {
        // Four, so that not all are neighbours.
        ranks::in_threads(4, prepare, wrap, |rank| {
            drop(face::run(&rank.fabric, || rank.gather()));
            face::end(&rank.fabric, || rank.gather());
        });
    };
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}

#[test]
fn a_sound_fabric_passes_and_each_defect_is_found() {
    assert_eq!(judge(Defect::None), Ok(()));
    // Each takes seconds.
    let tried = if is_full_run() { &ALL[..] } else { &ALL[..4] };
    for &defect in tried {
        let found = judge(defect);
        println!("{defect:?}: {found:?}");
        assert!(found.is_err(), "the suite does not see that the fabric {defect:?}");
    }
}
