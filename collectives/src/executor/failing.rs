//! A back end of which one write fails, for tests of what comes of that.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use svmio_transport::back_end::{
    BackEnd, Backing, Connected, ConnectionId, Drain, MemoryKey, Piece, Provider, Remote, Respondent,
    Sequence, SequenceMark, Service, Wait, Waited,
};
use svmio_transport::dma::{Completion, Transfer};
use svmio_transport::{
    Capabilities, Error as FabricError, Interrupt, Membership, Rank, Result as FabricResult, SegmentId,
    SharedMemory, Time, UserMemory,
};

/// A back end that maps no memory, of which one write fails.
pub(super) struct Failing {
    inner: Arc<dyn BackEnd>,
    capabilities: Capabilities,
    /// How many are made before that one.
    left: AtomicU64,
}

impl Failing {
    /// One of which none fails yet.
    pub(super) fn new(inner: Arc<dyn BackEnd>) -> Arc<Self> {
        let capabilities = Capabilities { direct_mapping: false, ..inner.capabilities().clone() };
        Arc::new(Self { inner, capabilities, left: AtomicU64::new(u64::MAX) })
    }

    /// Has one write fail after so many.
    pub(super) fn fail_after(&self, writes: u64) {
        self.left.store(writes, Ordering::Relaxed);
    }

    /// How many were made since it was said after how many one is to fail.
    pub(super) fn made_of(&self, writes: u64) -> u64 {
        writes.wrapping_sub(self.left.load(Ordering::Relaxed))
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
    fn remove_provider(&self, space: u32, provider: &Arc<dyn Provider>) {
        self.inner.remove_provider(space, provider);
    }
    fn set_respondent(&self, respondent: Arc<dyn Respondent>) {
        self.inner.set_respondent(respondent);
    }
    fn inquire(&self, peer: Rank, question: [u64; 2], limit: Duration) -> FabricResult<Option<u64>> {
        self.inner.inquire(peer, question, limit)
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
