//! The engines of DMA: one per node, which carries one chain after the other.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::dma::{Completion, Direction, Transfer};
use crate::error::{Error, Result};
use crate::sim::memory;
use crate::sim::model::DmaEngine;
use crate::sim::network::Node;
use crate::sim::state::{Effect, Event, State, Target};
use crate::sim::traffic::{CONTROL_BYTES, Cargo, Packet};
use crate::units::{Rank, Time};

/// A posted chain, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChainId(pub(crate) u64);

/// A node's engine.
#[derive(Default)]
pub(crate) struct Engine {
    queue: VecDeque<ChainId>,
    runs: bool,
}

/// A posted chain.
pub(crate) struct Chain {
    pub(crate) rank: Rank,
    pub(crate) peers: BTreeSet<Rank>,
    done: Arc<Completion>,
    transfers: VecDeque<(Transfer, Target)>,
    /// Bytes of the first transfer that are issued.
    issued: u64,
    /// Parts that are on their way.
    outstanding: u32,
}

impl State {
    /// Takes a chain over at `time`.
    pub(crate) fn post(
        &mut self,
        rank: Rank,
        transfers: Vec<Transfer>,
        done: Arc<Completion>,
        time: Time,
    ) -> Result<()> {
        let mut resolved = VecDeque::with_capacity(transfers.len());
        for transfer in transfers {
            let length = transfer.local.length as u64;
            let target = self.resolve(rank, &transfer.remote, transfer.offset, length)?;
            if !self.model.abilities.registers_user_memory && !self.is_exported(rank, &transfer) {
                let what = "DMA from or to memory outside of segments";
                return Err(Error::Unsupported { back_end: format!("sim ({})", self.model.name), what });
            }
            self.ranks[rank.index()].report.dma_bytes += length;
            resolved.push_back((transfer, target));
        }
        let peers = resolved.iter().map(|(transfer, _)| transfer.remote.owner).collect();
        let id = ChainId(self.number());
        self.chains.insert(id, Chain { rank, peers, done, transfers: resolved, issued: 0, outstanding: 0 });
        self.agenda.enter(time, Event::Posted(id));
        Ok(())
    }

    fn is_exported(&self, rank: Rank, transfer: &Transfer) -> bool {
        let start = transfer.local.start.as_ptr() as usize;
        let end = start + transfer.local.length;
        self.ranks[rank.index()].segments.values().any(|segment| {
            let first = segment.as_ptr() as usize;
            first <= start && end <= first + segment.len()
        })
    }

    /// A chain reaches its engine.
    pub(crate) fn posted(&mut self, id: ChainId) {
        let Some(chain) = self.chains.get(&id) else { return };
        let node = self.node(chain.rank);
        self.engines[node.index()].queue.push_back(id);
        if !std::mem::replace(&mut self.engines[node.index()].runs, true) {
            self.begin_chain(node, self.now);
        }
    }

    fn begin_chain(&mut self, node: Node, time: Time) {
        let Some(costs) = self.model.dma else { return };
        self.agenda.enter(time.after(costs.start_ns.0), Event::Engine(node));
    }

    /// An engine carries the next part of its first chain.
    pub(crate) fn run_engine(&mut self, node: Node) {
        let (Some(costs), Some(&id)) = (self.model.dma, self.engines[node.index()].queue.front()) else {
            return;
        };
        let mut next = self.now;
        if self.chains.get(&id).is_some_and(|chain| !chain.transfers.is_empty()) {
            next = self.carry_part(id, costs);
        }
        let Some(chain) = self.chains.get(&id) else {
            self.end_turn(node, next);
            return;
        };
        if !chain.transfers.is_empty() {
            self.agenda.enter(next, Event::Engine(node));
            return;
        }
        if chain.outstanding == 0 {
            self.agenda.enter(self.now.after(costs.completion_ns.0), Event::Completed(id));
        }
        self.end_turn(node, next);
    }

    fn end_turn(&mut self, node: Node, time: Time) {
        let engine = &mut self.engines[node.index()];
        engine.queue.pop_front();
        engine.runs = !engine.queue.is_empty();
        if engine.runs {
            self.begin_chain(node, time);
        }
    }

    /// Issues the next part of a chain; returns when the engine can issue another.
    fn carry_part(&mut self, id: ChainId, costs: DmaEngine) -> Time {
        let quantum = self.network.quantum();
        let Some(chain) = self.chains.get_mut(&id) else { return self.now };
        let Some((transfer, target)) = chain.transfers.front() else { return self.now };
        let (rank, peer, target) = (chain.rank, transfer.remote.owner, target.clone());
        let length = quantum.min(transfer.local.length as u64 - chain.issued);
        let local = transfer.local.part(chain.issued as usize, length as usize);
        let offset = transfer.offset + chain.issued;
        let direction = transfer.direction;
        chain.issued += length;
        chain.outstanding += 1;
        let is_last = chain.issued == transfer.local.length as u64;
        if is_last {
            chain.transfers.pop_front();
            chain.issued = 0;
        }
        let has_more = !chain.transfers.is_empty();

        let injection = costs.bandwidth_mib_per_s.time_for(length);
        let begun = match direction {
            Direction::Write => {
                // SAFETY: the chain is not finished, and until then its local memory is valid and unchanged.
                let bytes = unsafe { memory::read_user(local, 0, local.length) };
                let cargo = Cargo::Carry { chain: id, target, offset, bytes };
                self.carry(Packet { from: rank, to: peer, bytes: length, injection, cargo })
            }
            Direction::Read => {
                let way = self.way_back(rank, peer) + self.model.read.delay_ns.0;
                let cargo = Cargo::Fetch { chain: id, target, offset, length, local };
                let packet = Packet { from: peer, to: rank, bytes: length, injection, cargo };
                self.agenda.enter(self.now.after(way), Event::Fetch(packet));
                self.now
            }
        };
        let pause = if is_last && has_more { costs.chained_ns.0 } else { Duration::ZERO };
        begun.after(injection + pause)
    }

    /// A part is read where it is, and set on its way to who wants it.
    pub(crate) fn fetch(&mut self, packet: Packet) {
        let Cargo::Fetch { chain, target, offset, length, local } = packet.cargo else { return };
        if self.has_adapter(packet.from) && self.chains.contains_key(&chain) {
            let bytes = self.get(&target, offset, length as usize);
            self.carry(Packet {
                bytes: packet.bytes.max(CONTROL_BYTES),
                cargo: Cargo::Fetched { chain, local, bytes },
                ..packet
            });
        }
    }

    /// A part of a chain has arrived.
    pub(crate) fn arrived_of(&mut self, id: ChainId) {
        let Some(chain) = self.chains.get_mut(&id) else { return };
        chain.outstanding -= 1;
        if chain.outstanding == 0
            && chain.transfers.is_empty()
            && let Some(costs) = self.model.dma
        {
            self.agenda.enter(self.now.after(costs.completion_ns.0), Event::Completed(id));
        }
    }

    /// A chain's end is known to who posted it.
    pub(crate) fn completed(&mut self, id: ChainId) {
        if let Some(chain) = self.chains.remove(&id) {
            self.effects.push(Effect::Finish(chain.rank, chain.done, Ok(())));
        }
    }

    /// Ends with an error those chains that match.
    pub(crate) fn end_chains(&mut self, matches: impl Fn(&Chain) -> bool, error: impl Fn() -> Error) {
        let (chains, effects) = (&mut self.chains, &mut self.effects);
        chains.retain(|_, chain| {
            let ends = matches(chain);
            if ends {
                effects.push(Effect::Finish(chain.rank, Arc::clone(&chain.done), Err(error())));
            }
            !ends
        });
    }
}
