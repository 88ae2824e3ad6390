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

/// At how many points of the whole way.
const CASES: u64 = 4;

/// At how many of its beginning, one after the other: who is a step ahead does something else there.
const FIRST: u64 = 8;

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

/// Takes another schedule's barrier into use, by tuning or without.
type Change = fn(&mut TunedBarrier) -> Result<bool, Error>;

/// Which member's fabric fails, and after how many writes.
#[derive(Clone, Copy)]
struct Failure {
    member: u32,
    writes: u64,
}

/// What each member comes to, in the order of ranks, in a change, and in waiting then, where one of them has a write fail;
/// and how many that one has made in the change.
fn changed(change: Change, failure: Failure) -> (Vec<Result<(), Error>>, u64) {
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
            if own == failure.member {
                back_end.left.store(failure.writes, Ordering::Relaxed);
            }
            let changed = change(&mut barrier);
            let made = failure.writes.wrapping_sub(back_end.left.load(Ordering::Relaxed));
            // Who had all that it needed from the one that failed, hears of it in a later call.
            let waited = changed.and_then(|_| (0..20).try_for_each(|_| barrier.wait()));
            // Nobody's memory goes before all have ended.
            sender.send((own, waited, made, barrier)).unwrap();
        });
    }
    let Failure { member, writes } = failure;
    let come = |_| {
        let come = ended.recv_timeout(LIMIT);
        come.unwrap_or_else(|_| panic!("one waits for ever, after {writes} writes of member {member}"))
    };
    let mut all: Vec<_> = (0..SIZE).map(come).collect();
    all.sort_by_key(|(rank, ..)| *rank);
    let made = all[member as usize].2;
    (all.into_iter().map(|(_, waited, ..)| waited).collect(), made)
}

/// Has each member fail in turn, at many points.
fn nobody_waits(change: Change) {
    for member in 0..SIZE {
        let (all, made) = changed(change, Failure { member, writes: u64::MAX });
        assert!(all.iter().all(Result::is_ok), "{all:?}");
        let mut failures = 0;
        let later = (FIRST..made).step_by((made / CASES).max(1) as usize);
        for writes in (0..made.min(FIRST)).chain(later) {
            let (all, _) = changed(change, Failure { member, writes });
            // Who could not join something is told to all, who go on without.
            if all[member as usize].is_ok() {
                assert!(all.iter().all(Result::is_ok), "member {member}, after {writes} writes: {all:?}");
                continue;
            }
            failures += 1;
            for waited in all.iter().enumerate().filter(|(rank, _)| *rank != member as usize) {
                let is_told =
                    matches!(waited.1, Err(Error::Refused { member: told, .. }) if *told == member as usize);
                assert!(is_told, "member {member}, after {writes} writes: {all:?}");
            }
        }
        assert!(failures > 0, "member {member}: none of {made}");
    }
}

#[test]
fn who_fails_wherever_it_is_in_tuning_has_nobody_wait() {
    nobody_waits(TunedBarrier::retune);
}

#[test]
fn who_fails_in_changing_schedules_has_nobody_wait() {
    nobody_waits(|barrier| {
        let other = "dissemination".parse::<Algorithm>().unwrap().schedule(SIZE).unwrap();
        barrier.switch(&other, 1000.0)
    });
}
