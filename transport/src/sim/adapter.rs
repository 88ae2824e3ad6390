//! A simulated process's adapter.

use std::sync::Arc;
use std::time::Duration;

use crate::back_end::{
    self, BackEnd, Backing, Connected, ConnectionId, MemoryKey, Piece, Provider, Remote, Respondent,
    Sequence, SequenceMark, Service, Wait, Waited,
};
use crate::capabilities::Capabilities;
use crate::dma::{Completion, Transfer};
use crate::error::{Error, Result};
use crate::membership::{Membership, Subscription};
use crate::memory::{SharedMemory, UserMemory};
use crate::sim::memory;
use crate::sim::service::SimService;
use crate::sim::shared::Shared;
use crate::sim::state::{Awaited, Connection, Event};
use crate::sim::traffic::{Answer, CONTROL_BYTES, Cargo, Packet, Question};
use crate::sim::waits::ended;
use crate::units::{Interrupt, Rank, SegmentId, Time};

/// Copies up to so long don't wait for the clock.
const SHORT_COPY: Duration = Duration::from_micros(5);

/// One process's place in a world.
pub(crate) struct SimAdapter {
    pub(crate) shared: Arc<Shared>,
    pub(crate) rank: Rank,
    pub(crate) capabilities: Arc<Capabilities>,
    pub(crate) membership: Arc<Membership>,
    /// By which the world hears of what is declared there.
    pub(crate) _subscription: Subscription,
}

impl BackEnd for SimAdapter {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    fn now(&self) -> Time {
        let task = self.shared.task();
        self.shared.lock().time_of(task)
    }

    fn create(&self, id: SegmentId, backing: &Backing) -> Result<SharedMemory> {
        let length = memory::length_of(backing);
        let task = self.shared.task();
        {
            let mut state = self.shared.lock();
            let limit = state.model.setup.segment_memory;
            let cost = state.model.setup.create_ns.0;
            let process = state.rank(self.rank);
            if process.segments.contains_key(&id) {
                return Err(Error::SegmentExists { id });
            }
            if limit.is_some_and(|limit| process.segment_memory + length > limit) {
                let source = Arc::new(std::io::ErrorKind::OutOfMemory.into());
                return Err(Error::Memory { what: format!("segment {id}"), length, source });
            }
            process.segment_memory += length;
            state.charge(task, cost);
        }
        let mapped = memory::map(backing);
        let mut state = self.shared.lock();
        let process = state.rank(self.rank);
        match &mapped {
            Ok(memory) => drop(process.segments.insert(id, memory.clone())),
            Err(_) => process.segment_memory -= length,
        }
        mapped
    }

    fn memory_share(&self) -> Option<u64> {
        let mut state = self.shared.lock();
        let limit = state.model.setup.segment_memory?;
        Some(limit.saturating_sub(state.rank(self.rank).segment_memory))
    }

    fn remove(&self, id: SegmentId) {
        let mut state = self.shared.lock();
        let process = state.rank(self.rank);
        if let Some(memory) = process.segments.remove(&id) {
            process.segment_memory -= memory.len() as u64;
        }
    }

    fn set_provider(&self, space: u32, provider: Arc<dyn Provider>) {
        let former = self.shared.lock().rank(self.rank).providers.insert(space, provider);
        // Only here, where nobody holds the state: it may hold segments.
        drop(former);
    }

    fn remove_provider(&self, space: u32, provider: &Arc<dyn Provider>) {
        let mut state = self.shared.lock();
        let former = back_end::take_provider(&mut state.rank(self.rank).providers, space, provider);
        drop(state);
        // As above.
        drop(former);
    }

    fn set_respondent(&self, respondent: Arc<dyn Respondent>) {
        let former = self.shared.lock().rank(self.rank).respondent.replace(respondent);
        // As above.
        drop(former);
    }

    fn inquire(&self, peer: Rank, question: [u64; 2], limit: Duration) -> Result<Option<u64>> {
        match self.ask(peer, Question::Inquire(question), "inquiring of", Some(limit))? {
            Answer::Word(answer) => Ok(Some(answer)),
            _ => Ok(None),
        }
    }

    fn connect(&self, owner: Rank, id: SegmentId, limit: Duration) -> Result<Connected> {
        let doing = format!("connecting to segment {id} of");
        match self.ask(owner, Question::Connect(id), &doing, Some(limit))? {
            Answer::Connected(Some(memory)) => {
                let mut state = self.shared.lock();
                let connection = ConnectionId(state.number());
                let length = memory.len() as u64;
                let process = state.rank(self.rank);
                process.connections.insert(connection, Connection { owner, id, memory });
                process.peers.insert(owner);
                Ok(Connected { connection, length, mapping: None })
            }
            _ => Err(Error::UnknownSegment { owner, id }),
        }
    }

    fn disconnect(&self, connection: ConnectionId) {
        self.shared.lock().rank(self.rank).connections.remove(&connection);
    }

    unsafe fn register(&self, memory: UserMemory) -> Result<MemoryKey> {
        let task = self.shared.task();
        let mut state = self.shared.lock();
        if !state.model.abilities.registers_user_memory {
            let back_end = format!("sim ({})", state.model.name);
            return Err(Error::Unsupported { back_end, what: "registration of user memory" });
        }
        let cost = state.model.setup.register_ns.0;
        state.charge(task, cost);
        let key = state.number();
        state.rank(self.rank).registrations.insert(key, memory);
        Ok(MemoryKey([key, memory.length as u64, 0]))
    }

    fn unregister(&self, MemoryKey([key, ..]): MemoryKey) {
        self.shared.lock().rank(self.rank).registrations.remove(&key);
    }

    fn write(&self, remote: &Remote, pieces: &[Piece<'_>]) -> Result<()> {
        self.membership.check(remote.owner)?;
        let task = self.shared.task();
        self.shared.lock().write(self.rank, task, remote, pieces)
    }

    fn mark(&self, peer: Rank) -> SequenceMark {
        SequenceMark(self.shared.lock().pair(self.rank, peer).failures)
    }

    fn store_barrier(&self, peer: Rank) -> Result<()> {
        let least = self.shared.lock().model.check.barrier_ns.0;
        self.await_writes(peer, if self.is_near(peer) { Duration::ZERO } else { least })
    }

    fn check_sequence(&self, peer: Rank, mark: SequenceMark) -> Result<Sequence> {
        let (costs, is_settled) = {
            let mut state = self.shared.lock();
            let pair = state.pair(self.rank, peer);
            let is_settled = pair.settled == pair.issued;
            (state.model.check, is_settled)
        };
        if is_settled {
            self.membership.check(peer)?;
            self.shared.charge(costs.fast_check_ns.0);
            self.shared.lock().rank(self.rank).report.checks += 1;
        } else {
            self.await_writes(peer, if self.is_near(peer) { Duration::ZERO } else { costs.check_ns.0 })?;
        }
        Ok(if self.mark(peer) == mark { Sequence::Intact } else { Sequence::Broken })
    }

    fn read(&self, remote: &Remote, offset: u64, into: &mut [u8]) -> Result<()> {
        let target = self.shared.lock().resolve(self.rank, remote, offset, into.len() as u64)?;
        let begun = self.shared.settle();
        let question = Question::Read { target, offset, length: into.len() };
        if let Answer::Bytes(bytes) = self.ask(remote.owner, question, "reading from", None)? {
            into.copy_from_slice(&bytes);
        }
        let mut state = self.shared.lock();
        let stood = state.now.since(begun);
        state.rank(self.rank).report.processor += stood;
        Ok(())
    }

    fn fetch_add(&self, remote: &Remote, offset: u64, amount: u64) -> Result<u64> {
        let target = self.word(remote, offset)?;
        self.change(remote.owner, Question::FetchAdd { target, offset, amount })
    }

    fn compare_swap(&self, remote: &Remote, offset: u64, expected: u64, new: u64) -> Result<u64> {
        let target = self.word(remote, offset)?;
        self.change(remote.owner, Question::CompareSwap { target, offset, expected, new })
    }

    unsafe fn post(&self, chain: Vec<Transfer>, done: Arc<Completion>) -> Result<()> {
        for transfer in &chain {
            self.membership.check(transfer.remote.owner)?;
        }
        let task = self.shared.task();
        let mut state = self.shared.lock();
        let Some(costs) = state.model.dma else {
            return Err(Error::Unsupported { back_end: format!("sim ({})", state.model.name), what: "DMA" });
        };
        let issued = state.time_of(task).after(costs.post_ns.0);
        state.post(self.rank, chain, done, issued)?;
        state.charge(task, costs.post_ns.0);
        Ok(())
    }

    fn ring(&self, peer: Rank) -> Result<()> {
        // Arriving bytes wake by themselves.
        self.membership.check(peer)
    }

    fn trigger(&self, peer: Rank, interrupt: Interrupt) -> Result<()> {
        if peer != self.rank {
            self.membership.check(peer)?;
        }
        if interrupt.0 as usize >= Interrupt::COUNT {
            return Err(Error::Unsupported { back_end: "sim".into(), what: "interrupt of so high a number" });
        }
        let task = self.shared.task();
        let mut state = self.shared.lock();
        let cost = state.model.interrupt.trigger_ns.0;
        state.charge(task, cost);
        let time = state.begin_issue(self.rank, peer, task);
        state.pair(self.rank, peer).last_issue = time;
        state.rank(self.rank).report.triggered += 1;
        let cargo = Cargo::Interrupt(interrupt);
        let packet =
            Packet { from: self.rank, to: peer, bytes: CONTROL_BYTES, injection: Duration::ZERO, cargo };
        state.send(time, packet);
        Ok(())
    }

    fn wait_interrupt(&self, interrupt: Interrupt, deadline: Option<Time>) -> Result<u64> {
        self.shared.settle();
        let disturbances = self.shared.lock().rank(self.rank).disturbances;
        loop {
            {
                let mut state = self.shared.lock();
                let (now, is_over) = (state.now, state.is_over);
                let process = state.rank(self.rank);
                if let Some(count) = process.interrupts.remove(&interrupt) {
                    return Ok(count);
                }
                if process.is_closed || is_over {
                    return Err(Error::Ending { reason: "the fabric is closed".into() });
                }
                if process.disturbances != disturbances || deadline.is_some_and(|deadline| now >= deadline) {
                    return Ok(0);
                }
            }
            self.shared.park(Awaited::Interrupt(interrupt), deadline);
        }
    }

    fn wait_until(&self, wait: Wait<'_>) -> Waited {
        let Wait { deadline, attends, ready } = wait;
        let poll = self.shared.lock().model.local.poll_ns.0;
        let attend = |attends| {
            if let Some(task) = self.shared.task() {
                self.shared.lock().tasks[task].attends = attends;
            }
        };
        loop {
            // From here on until `ready` holds, interrupts come to this waiter.
            attend(attends);
            let now = self.shared.settle();
            let seen = self.shared.lock().rank(self.rank).generation;
            self.shared.charge(poll);
            if ready() {
                attend(None);
                return Waited::Ready;
            }
            self.shared.settle();
            {
                let mut state = self.shared.lock();
                if state.rank(self.rank).generation != seen {
                    continue;
                }
                if state.is_over || deadline.is_some_and(|deadline| now >= deadline) {
                    drop(state);
                    attend(None);
                    return Waited::TimedOut;
                }
            }
            self.shared.park(Awaited::Condition { attends }, deadline);
        }
    }

    fn wake(&self) {
        let task = self.shared.task();
        let mut state = self.shared.lock();
        let time = state.time_of(task);
        if time > state.now {
            state.agenda.enter(time, Event::Stir(self.rank));
        } else {
            state.stir(self.rank);
        }
    }

    unsafe fn copy(&self, from: *const u8, to: *mut u8, length: usize) {
        // SAFETY: the caller promises what this function demands.
        unsafe { std::ptr::copy_nonoverlapping(from, to, length) };
        let time = self.shared.lock().model.copy_time(length as u64);
        self.shared.charge(time);
        if time > SHORT_COPY {
            // What others of this process see of it afterwards must not come before its end.
            self.shared.settle();
        }
    }

    fn sleep(&self, duration: Duration) {
        let now = self.shared.settle();
        self.shared.sleep_until(now.after(duration));
    }

    fn compute(&self, duration: Duration) {
        self.shared.charge(duration);
        self.shared.settle();
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Service>> {
        let running = self.shared.task();
        let mut state = self.shared.lock();
        if state.is_over || !state.runs(self.rank) {
            return Err(ended());
        }
        let time = state.time_of(running);
        let task = state.begin(self.rank, name, time);
        state.newborn.insert(task, body);
        Ok(Box::new(SimService { shared: Arc::clone(&self.shared), task }))
    }

    fn connected_peers(&self) -> Vec<Rank> {
        self.shared.lock().rank(self.rank).peers.iter().copied().collect()
    }

    fn close(&self) {
        let effects = {
            let mut state = self.shared.lock();
            state.close(self.rank);
            std::mem::take(&mut state.effects)
        };
        self.shared.carry_out(effects);
        // Whoever waits in a call learns it there.
        self.membership.declare_ending("the fabric was closed");
        let (segments, providers) = {
            let mut state = self.shared.lock();
            let process = state.rank(self.rank);
            process.segment_memory = 0;
            (std::mem::take(&mut process.segments), std::mem::take(&mut process.providers))
        };
        // Only here, where nobody holds the state: providers may hold segments.
        drop((segments, providers));
    }
}
