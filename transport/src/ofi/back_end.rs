//! The contract, carried out by the adapter.

mod writing;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::adapter::{Adapter, Patience, Target, closed};
use super::attendant::Task;
use super::domain::Use;
use super::peers::Peer;
use super::questions::Answer;
use super::receiving::refused;
use super::storage;
use super::waiters::Raised;
use super::wire::{LONGEST_READ, Message};
use crate::back_end::{
    BackEnd, Backing, Connected, ConnectionId, Drain, MemoryKey, Piece, Provider, Remote, Respondent,
    Sequence, SequenceMark, Service, Wait, Waited,
};
use crate::capabilities::Capabilities;
use crate::computing;
use crate::copying::copy_bytes;
use crate::dma::{Completion, Transfer};
use crate::error::{Error, Result};
use crate::membership::{Membership, Subscription};
use crate::memory::{SharedMemory, UserMemory};
use crate::service_thread::spawn_service_thread;
use crate::units::{Interrupt, Rank, SegmentId, Time};

/// The back end; it closes the adapter when it is dropped.
pub(super) struct Ofi {
    adapter: Arc<Adapter>,
    _subscription: Subscription,
    is_closed: AtomicBool,
}

impl Ofi {
    /// The back end of `adapter`, which hears of what is declared in the membership from now on.
    pub(super) fn new(adapter: Arc<Adapter>) -> Self {
        // Weakly: the membership may outlive the adapter.
        let waker = Arc::downgrade(&adapter);
        let _subscription = adapter.membership.on_disturbance(move || {
            if let Some(adapter) = waker.upgrade() {
                adapter.disturb();
            }
        });
        // Something may have been declared before anybody listened.
        if !adapter.membership.lost().is_empty() || adapter.membership.check_job().is_err() {
            adapter.disturb();
        }
        Self { adapter, _subscription, is_closed: AtomicBool::new(false) }
    }
}

impl Drop for Ofi {
    fn drop(&mut self) {
        self.close();
    }
}

impl BackEnd for Ofi {
    fn capabilities(&self) -> &Capabilities {
        &self.adapter.capabilities
    }

    fn membership(&self) -> &Arc<Membership> {
        &self.adapter.membership
    }

    fn now(&self) -> Time {
        Time::default().after(self.adapter.origin.elapsed())
    }

    fn create(&self, id: SegmentId, backing: &Backing) -> Result<SharedMemory> {
        let adapter = &*self.adapter;
        if adapter.exports.has(id) {
            return Err(Error::SegmentExists { id });
        }
        let memory = storage::map(id, backing)?;
        let all = UserMemory {
            start: std::ptr::NonNull::new(memory.as_ptr()).ok_or_else(closed)?,
            length: memory.len().max(1),
        };
        // SAFETY: mapped, by at least one page; the table keeps the memory as long as the registration.
        let registration = adapter.with_endpoint(|endpoint| unsafe { endpoint.register(all, Use::Peers) })?;
        adapter.exports.add_segment(id, memory.clone(), registration)?;
        Ok(memory)
    }

    fn remove(&self, id: SegmentId) {
        let adapter = &*self.adapter;
        let Some((registration, memory, told)) = adapter.exports.remove_segment(id) else { return };
        if adapter.ends_transfers {
            // Before the memory.
            drop(registration);
        } else {
            adapter.drain_segment(registration, told, &memory);
        }
    }

    fn set_provider(&self, space: u32, provider: Arc<dyn Provider>) {
        self.adapter.exports.set_provider(space, provider);
    }

    fn remove_provider(&self, space: u32, provider: &Arc<dyn Provider>) {
        self.adapter.exports.remove_provider(space, provider);
    }

    fn set_respondent(&self, respondent: Arc<dyn Respondent>) {
        self.adapter.exports.set_respondent(respondent);
    }

    fn inquire(&self, peer: Rank, question: [u64; 2], limit: Duration) -> Result<Option<u64>> {
        self.adapter.inquire(self.adapter.peer(peer)?, question, limit)
    }

    fn connect(&self, owner: Rank, id: SegmentId, limit: Duration) -> Result<Connected> {
        let adapter = &*self.adapter;
        let peer = adapter.peer(owner)?;
        let answer = if owner == adapter.rank() {
            let question = adapter.questions.ask(owner);
            adapter.leave(Task::Provide { asker: owner, ticket: question.ticket, id });
            let doing = format!("connecting to segment {id} of");
            adapter.wait_for(owner, &doing, limit, || question.answer.get().cloned())?
        } else {
            adapter.ask_for_segment(peer, id, limit)?
        };
        let Answer::Segment(memory) = answer else { return Err(Error::UnknownSegment { owner, id }) };
        peer.is_connected.store(true, Ordering::Relaxed);
        let connection = adapter.connections.add(owner, memory);
        Ok(Connected { connection, length: memory.length, mapping: None })
    }

    fn disconnect(&self, connection: ConnectionId) {
        self.adapter.connections.remove(connection);
    }

    unsafe fn register(&self, memory: UserMemory) -> Result<MemoryKey> {
        self.adapter.with_endpoint(|endpoint| {
            // SAFETY: the caller's promise; the registration ends when the caller says so.
            unsafe { Ok(self.adapter.exports.add_memory(memory, endpoint.register(memory, Use::Peers)?)) }
        })
    }

    fn unregister(&self, key: MemoryKey) {
        drop(self.adapter.exports.remove_memory(key));
    }

    fn revoke(&self, key: MemoryKey, writer: Rank) -> Option<Arc<Drain>> {
        let adapter = &*self.adapter;
        if adapter.ends_transfers {
            return None;
        }
        let drain = match adapter.exports.remove_memory(key) {
            Some(registration) => adapter.drain(registration, writer),
            // Whoever closes the fabric ends all registrations; until the endpoint is closed, something may still come.
            None => adapter.drain_ended(writer),
        };
        Some(drain)
    }

    fn write(&self, remote: &Remote, pieces: &[Piece<'_>]) -> Result<()> {
        self.adapter.write(remote, pieces)
    }

    fn write_and_trigger(&self, remote: &Remote, pieces: &[Piece<'_>], interrupt: Interrupt) -> Result<()> {
        self.adapter.write_and_trigger(remote, pieces, interrupt)
    }

    fn mark(&self, peer: Rank) -> SequenceMark {
        SequenceMark(self.adapter.peers.get(peer.index()).map_or(0, Peer::failures))
    }

    fn store_barrier(&self, peer: Rank) -> Result<()> {
        let known = self.adapter.peer(peer)?;
        if peer == self.adapter.rank() { Ok(()) } else { self.adapter.settle(known) }
    }

    fn check_sequence(&self, peer: Rank, mark: SequenceMark) -> Result<Sequence> {
        self.store_barrier(peer)?;
        Ok(if self.mark(peer) == mark { Sequence::Intact } else { Sequence::Broken })
    }

    fn read(&self, remote: &Remote, offset: u64, into: &mut [u8]) -> Result<()> {
        let adapter = &*self.adapter;
        let target = adapter.resolve(remote, offset, into.len())?;
        let peer = adapter.peer(remote.owner)?;
        if remote.owner != adapter.rank() {
            return if into.len() <= LONGEST_READ {
                adapter.read_by_message(peer, &target, offset, into)
            } else {
                adapter.read_directly(peer, &target, offset, into)
            };
        }
        let read =
            adapter.exports.with(target.memory.key, |memory| memory.read(target.memory.place(offset), into));
        here(read, remote.owner, offset, into.len())
    }

    fn fetch_add(&self, remote: &Remote, offset: u64, amount: u64) -> Result<u64> {
        let adapter = &*self.adapter;
        let Target { owner, memory } = adapter.resolve(remote, offset, 8)?;
        let (key, place) = (memory.key, memory.place(offset));
        if owner == adapter.rank() {
            let was = adapter.change(key, place, |word| word.fetch_add(amount, Ordering::SeqCst));
            adapter.waiters.look_again();
            return was.ok_or_else(|| refused(owner, offset, 8));
        }
        adapter.ask_for_word(owner, offset, |ticket| Message::Add { ticket, key, place, amount })
    }

    fn compare_swap(&self, remote: &Remote, offset: u64, expected: u64, new: u64) -> Result<u64> {
        let adapter = &*self.adapter;
        let Target { owner, memory } = adapter.resolve(remote, offset, 8)?;
        let (key, place) = (memory.key, memory.place(offset));
        if owner == adapter.rank() {
            let was = adapter.compare_swap_here(key, place, expected, new);
            adapter.waiters.look_again();
            return was.ok_or_else(|| refused(owner, offset, 8));
        }
        adapter.ask_for_word(owner, offset, |ticket| Message::Swap { ticket, key, place, expected, new })
    }

    unsafe fn post(&self, chain: Vec<Transfer>, done: Arc<Completion>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.adapter.post_chain(chain, done) }
    }

    fn ring(&self, peer: Rank) -> Result<()> {
        let adapter = &*self.adapter;
        let known = adapter.peer(peer)?;
        if peer == adapter.rank() {
            adapter.waiters.look_again();
        } else if known.has_landed.swap(false, Ordering::AcqRel) {
            // Messages wake by arriving; transfers arrive without the peer's processor.
            adapter.tell(known, &Message::Ring)?;
        }
        Ok(())
    }

    fn trigger(&self, peer: Rank, interrupt: Interrupt) -> Result<()> {
        self.adapter.trigger(peer, interrupt)
    }

    fn wait_interrupt(&self, interrupt: Interrupt, deadline: Option<Time>) -> Result<u64> {
        let adapter = &*self.adapter;
        let _relying = adapter.attendant.rely();
        match adapter.interrupts.wait(interrupt, deadline.map(|time| adapter.instant(time))) {
            Raised::Times(count) => Ok(count),
            Raised::Not => Ok(0),
            Raised::Closed => Err(closed()),
        }
    }

    fn wait_until(&self, wait: Wait<'_>) -> Waited {
        self.adapter.wait_until(wait)
    }

    fn wake(&self) {
        self.adapter.waiters.look_again();
    }

    unsafe fn copy(&self, from: *const u8, to: *mut u8, length: usize) {
        // SAFETY: the caller's promise.
        unsafe { copy_bytes(from, to, length) };
    }

    fn sleep(&self, duration: Duration) {
        thread::sleep(duration);
    }

    fn compute(&self, duration: Duration) {
        computing::compute(duration);
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Service>> {
        Ok(Box::new(Thread(spawn_service_thread(name, body)?)))
    }

    fn connected_peers(&self) -> Vec<Rank> {
        let is_connected = |peer: &&Peer| peer.is_connected.load(Ordering::Relaxed);
        self.adapter.peers.iter().filter(is_connected).map(|peer| peer.rank).collect()
    }

    fn close(&self) {
        if !self.is_closed.swap(true, Ordering::AcqRel) {
            self.adapter.close();
        }
    }
}

struct Thread(JoinHandle<()>);

impl Service for Thread {
    fn join(self: Box<Self>) {
        // A panic there has been reported by then; there is nothing to add.
        let _ = self.0.join();
    }
}

/// What came of reaching for memory of this process.
fn here(done: Option<bool>, owner: Rank, offset: u64, length: usize) -> Result<()> {
    if done == Some(true) { Ok(()) } else { Err(refused(owner, offset, length as u64)) }
}

impl Adapter {
    fn wait_until(&self, wait: Wait<'_>) -> Waited {
        let Wait { deadline, attends, ready } = wait;
        let deadline = deadline.map(|time| self.instant(time));
        if let Some(interrupt) = attends {
            self.interrupts.attend(interrupt);
        }
        let mut look = || {
            // Taken before looking: what comes later is left to the next look, or to whoever waits for it.
            if let Some(interrupt) = attends {
                self.interrupts.take(interrupt);
            }
            ready()
        };
        let waited = self.look_until(deadline, &mut look);
        if let Some(interrupt) = attends {
            self.interrupts.leave(interrupt);
        }
        waited
    }

    fn look_until(&self, deadline: Option<Instant>, ready: &mut dyn FnMut() -> bool) -> Waited {
        if ready() {
            return Waited::Ready;
        }
        let driving = self.attendant.drive();
        let mut patience = Patience::new(Instant::now());
        loop {
            let seen = self.waiters.seen();
            if ready() {
                return Waited::Ready;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Waited::TimedOut;
            }
            if self.pause(&driving, &mut patience, seen, deadline).is_err() {
                // Closed, nothing will come any more, as soon as all chains have ended.
                if self.is_over.load(Ordering::Acquire) {
                    return if ready() { Waited::Ready } else { Waited::TimedOut };
                }
                self.waiters.sleep(seen, deadline);
            }
        }
    }

    /// Something was declared in the membership: all who wait look again.
    pub(super) fn disturb(&self) {
        self.is_disturbed.store(true, Ordering::Release);
        self.interrupts.disturb();
        self.waiters.look_again();
        self.wake_attendant();
    }
}
