//! Packets: how they get through the network, and what they do where they arrive.

use std::sync::Arc;
use std::time::Duration;

use crate::memory::{SharedMemory, UserMemory};
use crate::sim::engine::ChainId;
use crate::sim::memory;
use crate::sim::network::{Flight, Next};
use crate::sim::state::{Awaited, Effect, Event, State, Target};
use crate::units::{Interrupt, Rank, SegmentId, Time};

/// Bytes of a request, an acknowledgement or an interrupt.
pub(crate) const CONTROL_BYTES: u64 = 16;

/// Something on its way.
pub(crate) struct Packet {
    pub(crate) from: Rank,
    pub(crate) to: Rank,
    /// How many bytes pass the links.
    pub(crate) bytes: u64,
    /// How long the sender takes to bring them to the first link.
    pub(crate) injection: Duration,
    pub(crate) cargo: Cargo,
}

pub(crate) enum Cargo {
    Write(Write),
    Interrupt(Interrupt),
    /// A task's question, by number.
    Ask {
        task: usize,
        number: u64,
        question: Question,
    },
    /// And its answer.
    Reply {
        task: usize,
        number: u64,
        answer: Answer,
    },
    /// A part of a chain on its way to its target.
    Carry {
        chain: ChainId,
        target: Target,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// A part of a chain that is to be read at its target and to come back.
    Fetch {
        chain: ChainId,
        target: Target,
        offset: u64,
        length: u64,
        local: UserMemory,
    },
    /// And comes back.
    Fetched {
        chain: ChainId,
        local: UserMemory,
        bytes: Vec<u8>,
    },
}

/// A transaction of a remote write.
pub(crate) struct Write {
    pub(crate) target: Target,
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
    /// Its number among those of its pair.
    pub(crate) number: u64,
    pub(crate) arrives: bool,
    /// What chance and half-filled buffers add to its way.
    pub(crate) late_by: Duration,
}

/// What a task wants of another process's adapter.
pub(crate) enum Question {
    Connect(SegmentId),
    Inquire([u64; 2]),
    Read { target: Target, offset: u64, length: usize },
    FetchAdd { target: Target, offset: u64, amount: u64 },
    CompareSwap { target: Target, offset: u64, expected: u64, new: u64 },
}

pub(crate) enum Answer {
    Connected(Option<SharedMemory>),
    Bytes(Vec<u8>),
    Word(u64),
    Nothing,
}

impl State {
    /// Sends a packet at `time`, which is now or later.
    pub(crate) fn send(&mut self, time: Time, packet: Packet) {
        self.agenda.enter(time, Event::Depart(packet));
    }

    /// A packet enters the network now.
    pub(crate) fn depart(&mut self, packet: Packet) {
        if self.has_adapter(packet.from) {
            self.carry(packet);
        }
    }

    /// Brings a packet into the network now; returns when that begins.
    pub(crate) fn carry(&mut self, packet: Packet) -> Time {
        let (from, to) = (self.node(packet.from), self.node(packet.to));
        if from == to {
            let arrived = self.now.after(packet.injection + self.model.local.delay_ns.0);
            self.arrive_at(packet, arrived);
            return self.now;
        }
        let flight = self.network.send(from, to, packet.bytes, self.now, packet.injection);
        let departed = flight.departed();
        self.fly(packet, flight);
        departed
    }

    /// The first byte of a packet reaches another link now.
    pub(crate) fn go_on(&mut self, packet: Packet, mut flight: Flight) {
        self.network.go_on(&mut flight);
        self.fly(packet, flight);
    }

    fn fly(&mut self, packet: Packet, flight: Flight) {
        match flight.next() {
            Next::Reaches(time) => self.agenda.enter(time, Event::GoOn(packet, flight)),
            Next::Arrives(time) => self.arrive_at(packet, time),
        }
    }

    /// Has a packet arrive when the network has brought it there, or later. Of a pair, all come here in the order in which
    /// they were sent.
    fn arrive_at(&mut self, packet: Packet, mut arrived: Time) {
        if let Cargo::Write(write) = &packet.cargo {
            arrived = arrived.after(write.late_by);
        }
        let keeps_order = matches!(packet.cargo, Cargo::Write(_) | Cargo::Interrupt(_));
        if keeps_order && !self.model.abilities.reorders_writes && !self.faults.options().reorder() {
            let pair = self.pair(packet.from, packet.to);
            arrived = arrived.max(pair.last_arrival);
            pair.last_arrival = arrived;
        }
        self.agenda.enter(arrived, Event::Arrive(packet));
    }

    /// A packet is there.
    pub(crate) fn arrive(&mut self, packet: Packet) {
        let Packet { from, to, cargo, .. } = packet;
        if !self.has_adapter(to) {
            return;
        }
        match cargo {
            Cargo::Write(write) => self.arrive_write(from, to, write),
            Cargo::Interrupt(interrupt) => self.arrive_interrupt(to, interrupt),
            Cargo::Ask { task, number, question } => self.arrive_question(from, to, task, number, question),
            Cargo::Reply { task, number, answer } => {
                self.tasks[task].answer = Some((number, answer));
                self.wake(to, |awaited| matches!(awaited, Awaited::Answer { .. }));
            }
            Cargo::Carry { chain, target, offset, bytes } => {
                self.put(&target, offset, &bytes);
                self.stir(to);
                self.arrived_of(chain);
            }
            Cargo::Fetch { .. } => {}
            Cargo::Fetched { chain, local, bytes } => {
                if self.chains.contains_key(&chain) {
                    // SAFETY: the chain is not finished, and until then its local memory is valid and the engine's.
                    unsafe { memory::write_user(local, 0, &bytes) };
                }
                self.arrived_of(chain);
            }
        }
    }

    fn arrive_write(&mut self, from: Rank, to: Rank, write: Write) {
        if write.arrives {
            self.put(&write.target, write.offset, &write.bytes);
            self.stir(to);
        }
        let acknowledged = self.now.after(self.way_back(to, from));
        let pair = self.pair(from, to);
        pair.outstanding.remove(&write.number);
        pair.acknowledged = pair.acknowledged.max(acknowledged);
        if !write.arrives {
            pair.failures += 1;
        }
        self.wake(from, |awaited| *awaited == Awaited::Writes { peer: to });
    }

    fn arrive_interrupt(&mut self, to: Rank, interrupt: Interrupt) {
        let attended = Awaited::Condition { attends: Some(interrupt) };
        let is_attended = |task: &usize| self.tasks[*task].attends == Some(interrupt);
        if self.ranks[to.index()].tasks.iter().any(is_attended) {
            self.rank(to).generation += 1;
            self.wake(to, |awaited| *awaited == attended);
            return;
        }
        *self.rank(to).interrupts.entry(interrupt).or_default() += 1;
        let woken = self.now.after(self.model.interrupt.wake_ns.0);
        for index in 0..self.ranks[to.index()].tasks.len() {
            let task = self.ranks[to.index()].tasks[index];
            if self.tasks[task].waits.as_ref().is_some_and(|(what, _)| *what == Awaited::Interrupt(interrupt))
            {
                self.wake_at(task, woken);
            }
        }
    }

    fn arrive_question(&mut self, from: Rank, to: Rank, task: usize, number: u64, question: Question) {
        let (answer, delay) = match question {
            // That is for its program.
            Question::Connect(_) | Question::Inquire(_) if !self.runs(to) => return,
            Question::Connect(id) => {
                let process = &self.ranks[to.index()];
                if !process.segments.contains_key(&id)
                    && let Some(provider) = process.providers.get(&id.space)
                {
                    let provider = Arc::clone(provider);
                    self.effects.push(Effect::Provide { provider, asker: from, owner: to, task, number, id });
                    return;
                }
                self.answer_connect(from, to, task, number, id);
                return;
            }
            Question::Inquire(question) => {
                match self.ranks[to.index()].respondent.clone() {
                    Some(respondent) => {
                        let effect =
                            Effect::Respond { respondent, asker: from, owner: to, task, number, question };
                        self.effects.push(effect);
                    }
                    None => self.answer_inquiry(from, to, task, number, None),
                }
                return;
            }
            Question::Read { target, offset, length } => {
                let delay = self.model.read.delay_ns.0;
                (Answer::Bytes(self.get(&target, offset, length)), delay)
            }
            Question::FetchAdd { target, offset, amount } => (
                self.change(&target, offset, |old| Some(old.wrapping_add(amount))),
                self.model.atomic.delay_ns.0,
            ),
            Question::CompareSwap { target, offset, expected, new } => {
                let swap = |old| (old == expected).then_some(new);
                (self.change(&target, offset, swap), self.model.atomic.delay_ns.0)
            }
        };
        if matches!(answer, Answer::Word(_)) {
            self.stir(to);
        }
        self.reply(from, to, task, number, answer, delay);
    }

    /// Answers who wants to connect, with what is exported now.
    pub(crate) fn answer_connect(&mut self, from: Rank, to: Rank, task: usize, number: u64, id: SegmentId) {
        let answer = Answer::Connected(self.ranks[to.index()].segments.get(&id).cloned());
        let delay = self.model.setup.connect_ns.0;
        self.reply(from, to, task, number, answer, delay);
    }

    /// Answers who inquires.
    pub(crate) fn answer_inquiry(
        &mut self,
        from: Rank,
        to: Rank,
        task: usize,
        number: u64,
        answer: Option<u64>,
    ) {
        let delay = self.model.setup.connect_ns.0;
        self.reply(from, to, task, number, answer.map_or(Answer::Nothing, Answer::Word), delay);
    }

    /// Sends the answer back to the asker.
    fn reply(&mut self, asker: Rank, owner: Rank, task: usize, number: u64, answer: Answer, delay: Duration) {
        let (bytes, injection) = match &answer {
            Answer::Bytes(bytes) => {
                let length = bytes.len() as u64;
                (length.max(CONTROL_BYTES), self.model.read.bandwidth_mib_per_s.time_for(length))
            }
            _ => (CONTROL_BYTES, Duration::ZERO),
        };
        let cargo = Cargo::Reply { task, number, answer };
        self.send(self.now.after(delay), Packet { from: owner, to: asker, bytes, injection, cargo });
    }

    /// How long an acknowledgement takes.
    pub(crate) fn way_back(&self, from: Rank, to: Rank) -> Duration {
        let (from, to) = (self.node(from), self.node(to));
        if from == to {
            self.model.local.delay_ns.0
        } else {
            self.network.undisturbed(from, to, CONTROL_BYTES)
        }
    }

    /// Stores `bytes`. The range was checked when the transfer was issued; registered memory that is no more gets
    /// nothing.
    pub(crate) fn put(&self, target: &Target, offset: u64, bytes: &[u8]) {
        match target {
            Target::Segment(memory) => {
                let written = memory.write(offset, bytes);
                debug_assert!(written.is_ok(), "checked before: {written:?}");
            }
            Target::Registered { owner, key } => {
                if let Some(&memory) = self.ranks[owner.index()].registrations.get(key) {
                    // SAFETY: the memory is registered at this moment, so its owner keeps it valid and leaves it to
                    // the peers.
                    unsafe { memory::write_user(memory, offset as usize, bytes) };
                }
            }
        }
    }

    /// Loads bytes; zeros where registered memory is no more.
    pub(crate) fn get(&self, target: &Target, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        match target {
            Target::Segment(memory) => {
                let read = memory.read(offset, &mut bytes);
                debug_assert!(read.is_ok(), "checked before: {read:?}");
            }
            Target::Registered { owner, key } => {
                if let Some(&memory) = self.ranks[owner.index()].registrations.get(key) {
                    // SAFETY: as in `put`.
                    bytes = unsafe { memory::read_user(memory, offset as usize, length) };
                    bytes.resize(length, 0);
                }
            }
        }
        bytes
    }

    /// Changes a word; nothing happens between, as there is one event after the other.
    fn change(&self, target: &Target, offset: u64, new: impl FnOnce(u64) -> Option<u64>) -> Answer {
        let mut word = [0; 8];
        word.copy_from_slice(&self.get(target, offset, 8));
        let old = u64::from_ne_bytes(word);
        if let Some(new) = new(old) {
            self.put(target, offset, &new.to_ne_bytes());
        }
        Answer::Word(old)
    }
}
