//! A member whose fabric fails once, wherever the tuning is at that time: nobody waits for it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use svmio_transport::back_end::{
    BackEnd, Backing, Connected, ConnectionId, Drain, MemoryKey, Piece, Provider, Remote, Sequence,
    SequenceMark, Service, Wait, Waited,
};
use svmio_transport::dma::{Completion, Transfer};
use svmio_transport::{
    Capabilities, Error as FabricError, Fabric, Interrupt, Membership, Rank, Result as FabricResult,
    SegmentId, SharedMemory, Time, UserMemory, shm,
};

use super::{Fabrics, RetuningSettings, TunedBarrier, Tuning};
use crate::algorithm::Algorithm;
use crate::executor::error::Error;
use crate::profile::SurveySettings;
use crate::schedule::Schedule;

/// Nobody waits so long for anybody who comes.
const LIMIT: Duration = Duration::from_secs(25);

const SIZE: u32 = 3;

/// At how many points.
const CASES: u64 = 16;

/// Whose fabric fails.
const FAILING: u32 = 1;

/// A back end that maps no memory, of which one write fails.
struct Failing {
    inner: Arc<dyn BackEnd>,
    capabilities: Capabilities,
    /// How many are made before that one.
    left: AtomicU64,
}

impl Failing {
    fn new(inner: Arc<dyn BackEnd>) -> Arc<Self> {
        let capabilities = Capabilities { direct_mapping: false, ..inner.capabilities().clone() };
        Arc::new(Self { inner, capabilities, left: AtomicU64::new(u64::MAX) })
    }

    fn check(&self) -> FabricResult<()> {
        if self.left.fetch_sub(1, Ordering::Relaxed) > 0 {
            return Ok(());
        }
        Err(FabricError::system("a write that is to fail".to_owned(), io::ErrorKind::Interrupted))
    }
}

#[deny(clippy::missing_trait_methods)]
impl BackEnd for Failing {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
    fn membership(&self) -> &Arc<Membership> {
        self.inner.membership()
    }
    fn now(&self) -> Time {
        self.inner.now()
    }
    fn create(&self, id: SegmentId, backing: &Backing) -> FabricResult<SharedMemory> {
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
    fn connect(&self, owner: Rank, id: SegmentId, limit: Duration) -> FabricResult<Connected> {
        Ok(Connected { mapping: None, ..self.inner.connect(owner, id, limit)? })
    }
    fn disconnect(&self, connection: ConnectionId) {
        self.inner.disconnect(connection);
    }
    unsafe fn register(&self, memory: UserMemory) -> FabricResult<MemoryKey> {
        // SAFETY: the caller's promise is the one asked for; so below.
        unsafe { self.inner.register(memory) }
    }
    fn unregister(&self, key: MemoryKey) {
        self.inner.unregister(key);
    }
    fn revoke(&self, key: MemoryKey, writer: Rank) -> Option<Arc<Drain>> {
        self.inner.revoke(key, writer)
    }
    fn write(&self, remote: &Remote, pieces: &[Piece<'_>]) -> FabricResult<()> {
        self.check()?;
        self.inner.write(remote, pieces)
    }
    fn mark(&self, peer: Rank) -> SequenceMark {
        self.inner.mark(peer)
    }
    fn store_barrier(&self, peer: Rank) -> FabricResult<()> {
        self.inner.store_barrier(peer)
    }
    fn check_sequence(&self, peer: Rank, mark: SequenceMark) -> FabricResult<Sequence> {
        self.inner.check_sequence(peer, mark)
    }
    fn read(&self, remote: &Remote, offset: u64, into: &mut [u8]) -> FabricResult<()> {
        self.inner.read(remote, offset, into)
    }
    fn fetch_add(&self, remote: &Remote, offset: u64, amount: u64) -> FabricResult<u64> {
        self.inner.fetch_add(remote, offset, amount)
    }
    fn compare_swap(&self, remote: &Remote, offset: u64, expected: u64, new: u64) -> FabricResult<u64> {
        self.inner.compare_swap(remote, offset, expected, new)
    }
    unsafe fn post(&self, chain: Vec<Transfer>, done: Arc<Completion>) -> FabricResult<()> {
        // SAFETY: see above.
        unsafe { self.inner.post(chain, done) }
    }
    fn ring(&self, peer: Rank) -> FabricResult<()> {
        self.inner.ring(peer)
    }
    fn trigger(&self, peer: Rank, interrupt: Interrupt) -> FabricResult<()> {
        self.inner.trigger(peer, interrupt)
    }
    fn write_and_trigger(
        &self,
        remote: &Remote,
        pieces: &[Piece<'_>],
        interrupt: Interrupt,
    ) -> FabricResult<()> {
        self.inner.write_and_trigger(remote, pieces, interrupt)
    }
    fn wait_interrupt(&self, interrupt: Interrupt, deadline: Option<Time>) -> FabricResult<u64> {
        self.inner.wait_interrupt(interrupt, deadline)
    }
    fn wait_until(&self, wait: Wait<'_>) -> Waited {
        self.inner.wait_until(wait)
    }
    fn wake(&self) {
        self.inner.wake();
    }
    unsafe fn copy(&self, from: *const u8, to: *mut u8, length: usize) {
        // SAFETY: see above.
        unsafe { self.inner.copy(from, to, length) };
    }
    fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration);
    }
    fn compute(&self, duration: Duration) {
        self.inner.compute(duration);
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> FabricResult<Box<dyn Service>> {
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
        self.inner.close();
    }
}

/// The linear barrier, again and again: others are tried.
fn poor() -> Schedule {
    let steps = "linear".parse::<Algorithm>().unwrap().schedule(SIZE).unwrap().descriptions();
    Schedule::new(SIZE, (0..2).flat_map(|_| steps.clone())).unwrap()
}

/// What each member comes to, in the order of ranks, in tuning again once, and in waiting then, where one of them has a
/// write fail after so many; and how many that one has made in tuning.
fn tuned_again(writes: u64) -> (Vec<Result<(), Error>>, u64) {
    // As little as there is of each: every signal takes a turn of each of two members.
    let survey = SurveySettings {
        largest_message: 8,
        longest_burst: 2,
        repetitions: 1,
        ..RetuningSettings::default().survey
    };
    let settings = RetuningSettings {
        survey,
        burst: 1,
        window: 1,
        factor: 1e9,
        candidates: 1,
        ..RetuningSettings::default()
    };
    let tuning = Tuning { schedule: poor(), predicted: 1000.0, settings };
    let (sender, ended) = mpsc::channel();
    for fabric in shm::within_process(SIZE) {
        let (sender, tuning) = (sender.clone(), tuning.clone());
        thread::spawn(move || {
            let back_end = Failing::new(Arc::clone(fabric.back_end()));
            let fabric = Fabric::new(Arc::clone(&back_end) as Arc<dyn BackEnd>);
            let members: Vec<Rank> = (0..SIZE).map(Rank).collect();
            let first = SegmentId::new(82, 0);
            let mut barrier = TunedBarrier::join(&Fabrics::of_job(&fabric), &members, first, tuning).unwrap();
            barrier.wait().unwrap();
            let own = fabric.rank().0;
            if own == FAILING {
                back_end.left.store(writes, Ordering::Relaxed);
            }
            let tuned = barrier.retune();
            let made = writes.wrapping_sub(back_end.left.load(Ordering::Relaxed));
            // Who had all that it needed from the one that failed, hears of it in a later call.
            let tuned = tuned.and_then(|_| (0..20).try_for_each(|_| barrier.wait()));
            // Nobody's memory goes before all have ended.
            sender.send((own, tuned, made, barrier)).unwrap();
        });
    }
    let come =
        |_| ended.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("one waits for ever, after {writes} writes"));
    let mut all: Vec<_> = (0..SIZE).map(come).collect();
    all.sort_by_key(|(rank, ..)| *rank);
    let made = all[FAILING as usize].2;
    (all.into_iter().map(|(_, tuned, ..)| tuned).collect(), made)
}

#[test]
fn who_fails_wherever_it_is_has_nobody_wait() {
    let (all, made) = tuned_again(u64::MAX);
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    let mut failures = 0;
    for writes in (0..made).step_by((made / CASES).max(1) as usize) {
        let (all, _) = tuned_again(writes);
        // Who could not join something is told to all, who go on without.
        if all[FAILING as usize].is_ok() {
            assert!(all.iter().all(Result::is_ok), "after {writes} writes: {all:?}");
            continue;
        }
        failures += 1;
        for tuned in
            all.iter().enumerate().filter(|(rank, _)| *rank != FAILING as usize).map(|(_, tuned)| tuned)
        {
            let is_told = matches!(tuned, Err(Error::Refused { member, .. }) if *member == FAILING as usize);
            assert!(is_told, "after {writes} writes: {all:?}");
        }
    }
    assert!(failures >= CASES / 2, "{failures} of {made}");
}
