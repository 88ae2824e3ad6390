//! The back end itself: the contract, put together from this module's parts.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use crate::back_end::{
    BackEnd, Backing, Connected, ConnectionId, MemoryKey, Piece, Provider, Remote, Respondent, Sequence,
    SequenceMark, Service, Wait, Waited,
};
use crate::capabilities::Capabilities;
use crate::computing;
use crate::dma::{Completion, Direction, Transfer};
use crate::error::{Error, Result};
use crate::membership::Membership;
use crate::memory::{SharedMemory, UserMemory};
use crate::units::{Interrupt, Rank, SegmentId, Time};

use super::ask::Reply;
use super::copying;
use super::peer::Peer;
use super::process::{Parts, Process, Step};
use super::process_memory;
use super::reach::Registered;
use super::threads;
use super::waiting;
use super::wire::Wanted;

/// A process's adapter. Dropping it closes it.
pub(super) struct Adapter(Arc<Process>);

impl Adapter {
    /// Brings it to life.
    ///
    /// # Errors
    /// `Memory`; `System` where no thread can be had.
    pub(super) fn start(parts: Parts) -> Result<Arc<Self>> {
        Ok(Arc::new(Self(Process::start(parts)?)))
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl BackEnd for Adapter {
    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    fn membership(&self) -> &Arc<Membership> {
        &self.0.membership
    }

    fn now(&self) -> Time {
        waiting::now()
    }

    fn create(&self, id: SegmentId, backing: &Backing) -> Result<SharedMemory> {
        self.0.exports.create(id, backing)
    }

    fn remove(&self, id: SegmentId) {
        self.0.exports.remove(id);
    }

    fn set_provider(&self, space: u32, provider: Arc<dyn Provider>) {
        self.0.exports.set_provider(space, provider);
    }

    fn remove_provider(&self, space: u32, provider: &Arc<dyn Provider>) {
        self.0.exports.remove_provider(space, provider);
    }

    fn set_respondent(&self, respondent: Arc<dyn Respondent>) {
        self.0.exports.set_respondent(respondent);
    }

    fn inquire(&self, peer: Rank, question: [u64; 2], limit: Duration) -> Result<Option<u64>> {
        match self.0.ask(peer, Wanted::Answer(question), limit)? {
            Reply::Said(answer) => Ok(Some(answer)),
            Reply::Here(_) | Reply::Nothing => Ok(None),
        }
    }

    fn connect(&self, owner: Rank, id: SegmentId, limit: Duration) -> Result<Connected> {
        let process = &self.0;
        process.membership.check(owner)?;
        let memory = if owner == process.membership.rank() {
            process.exports.find(owner, id).map(|export| export.memory)
        } else {
            // Whoever writes there will ring.
            process.control_of(owner, limit)?;
            let storage = process.ask_for_memory(owner, Wanted::Segment(id), limit)?;
            storage.map(|storage| storage.map(&format!("segment {id} of rank {owner}"))).transpose()?
        };
        let memory = memory.ok_or(Error::UnknownSegment { owner, id })?;
        let connection = process.connections.insert(memory.clone());
        Ok(Connected { connection, length: memory.len() as u64, mapping: Some(memory) })
    }

    fn disconnect(&self, connection: ConnectionId) {
        self.0.connections.remove(connection);
    }

    unsafe fn register(&self, memory: UserMemory) -> Result<MemoryKey> {
        if !self.0.capabilities.registers_user_memory {
            let what =
                "registration of user memory: the kernel or the settings forbid copies between processes";
            return Err(Error::Unsupported { back_end: "shm".into(), what });
        }
        let cookie = process_memory::own_cookie()
            .map_err(|error| Error::system("asking for random numbers", error))?;
        Ok(Registered::new(memory, cookie).key())
    }

    fn unregister(&self, _key: MemoryKey) {
        // The kernel knows of no registration, and no transfer is under way.
    }

    fn write(&self, remote: &Remote, pieces: &[Piece<'_>]) -> Result<()> {
        let target = self.0.target(remote)?;
        self.0.reach(remote.owner, &target)?.write(pieces)
    }

    fn mark(&self, _peer: Rank) -> SequenceMark {
        // Every write arrives.
        SequenceMark(0)
    }

    fn store_barrier(&self, peer: Rank) -> Result<()> {
        // What was stored before is visible to all before anything that follows.
        fence(Ordering::SeqCst);
        self.0.membership.check(peer)
    }

    fn check_sequence(&self, peer: Rank, _mark: SequenceMark) -> Result<Sequence> {
        self.store_barrier(peer)?;
        Ok(Sequence::Intact)
    }

    fn read(&self, remote: &Remote, offset: u64, into: &mut [u8]) -> Result<()> {
        let target = self.0.target(remote)?;
        let local = UserMemory::of_mut(into);
        // SAFETY: `local` is `into`, exclusively ours.
        unsafe { self.0.reach(remote.owner, &target)?.copy(Direction::Read, local, offset) }
    }

    fn fetch_add(&self, remote: &Remote, offset: u64, amount: u64) -> Result<u64> {
        // SeqCst: locks and barriers are built of it.
        Ok(self.0.segment_of(remote)?.word64(offset)?.fetch_add(amount, Ordering::SeqCst))
    }

    fn compare_swap(&self, remote: &Remote, offset: u64, expected: u64, new: u64) -> Result<u64> {
        let memory = self.0.segment_of(remote)?;
        // SeqCst: as above. What was there is the answer, whether it was as expected or not.
        let was = memory.word64(offset)?.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst);
        Ok(was.unwrap_or_else(|was| was))
    }

    unsafe fn post(&self, chain: Vec<Transfer>, done: Arc<Completion>) -> Result<()> {
        let process = &self.0;
        let step = |transfer: Transfer| {
            let Transfer { direction, local, remote, offset } = transfer;
            let target = process.target(&remote)?;
            process.reach(remote.owner, &target)?.check(offset, local.length)?;
            Ok(Step { direction, local, owner: remote.owner, target, offset })
        };
        let chain = chain.into_iter().map(step).collect::<Result<Vec<_>>>()?;
        let worker = Arc::clone(process);
        let body = move || {
            worker.engine.run(|step| worker.carry_out(step), || worker.control.get().bell.ring());
        };
        process.engine.post(chain, done, body)
    }

    #[inline]
    fn ring(&self, peer: Rank) -> Result<()> {
        self.0.control_of(peer, self.0.membership.answer_limit())?.bell.ring();
        Ok(())
    }

    fn trigger(&self, peer: Rank, interrupt: Interrupt) -> Result<()> {
        if peer == self.0.membership.rank() {
            return self.0.control.get().trigger(interrupt);
        }
        self.0.control_of(peer, self.0.membership.answer_limit())?.trigger(interrupt)
    }

    fn wait_interrupt(&self, interrupt: Interrupt, deadline: Option<Time>) -> Result<u64> {
        let process = &self.0;
        let line = process.control.get().line(interrupt)?;
        let told = &process.told[interrupt.0 as usize];
        // Relaxed: only a number. Of those since the last wait as well: who alone waits for this interrupt, and looks at
        // the membership before, misses none. One of several may: what comes before its wait another is told of.
        let known = told.load(Ordering::Relaxed);
        let look = |count| if count > 0 { Some(Ok(count)) } else { process.reason_to_end(told, known) };
        line.sleep(|| waiting::remaining(deadline), look).unwrap_or(Ok(0))
    }

    fn wait_until(&self, wait: Wait<'_>) -> Waited {
        self.0.waiters.wait_until(self.0.control.get(), wait)
    }

    fn wake(&self) {
        self.0.control.get().bell.ring();
    }

    unsafe fn copy(&self, from: *const u8, to: *mut u8, length: usize) {
        // SAFETY: the caller's promise.
        unsafe { copying::copy(from, to, length) };
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn compute(&self, duration: Duration) {
        computing::compute(duration);
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Service>> {
        Ok(Box::new(threads::start(name, body)?))
    }

    fn has_ended(&self, peer: Rank) -> bool {
        self.0.peer(peer).is_ok_and(Peer::has_ended)
    }

    fn rouse(&self, peer: Rank) {
        if let Ok(entry) = self.0.peer(peer) {
            entry.rouse();
        }
    }

    fn connected_peers(&self) -> Vec<Rank> {
        let own = self.0.membership.rank();
        let is_connected = |rank: &Rank| *rank != own && self.0.peers[rank.index()].control().is_some();
        self.0.membership.ranks().filter(is_connected).collect()
    }

    fn close(&self) {
        self.0.close();
    }
}
