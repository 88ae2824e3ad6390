//! What each rank does in the segments of all others, in a round of traffic: writes, a store barrier, an addition, a
//! read, and meanwhile a chain that was handed over.
//!
//! Each rank has a place of its own in every other's segment: two halves, of which one is written while the owner may
//! still look at the other, and a word to add to. The half at the owner's own place is what its chains are read from.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Arc;

use svmio_tests::Random;
use svmio_transport::back_end::{Backing, Piece};
use svmio_transport::dma::{Completion, Direction, Transfer};
use svmio_transport::{Dma, Error, Fabric, LocalSegment, Rank, RemoteSegment, Result, SegmentId, UserMemory};

use crate::pattern::{first_wrong, message};

const ID: SegmentId = SegmentId::new(90, 0);

/// Bytes of a half.
const HALF: u64 = 448 << 10;

/// Where in a half chains go; what is written ends before.
const CHAIN_AT: u64 = 128 << 10;

/// Bytes of the longest chain.
const LONGEST_CHAIN: u64 = 300 << 10;

/// What is wrong with an operation.
pub(crate) enum Wrong {
    /// It failed.
    Failed(Error),
    /// It gave what it should not.
    Gave(String),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The own segment, and the others'.
pub(crate) struct Segments {
    fabric: Fabric,
    seed: u64,
    own: LocalSegment,
    connected: BTreeMap<Rank, Connected>,
}

struct Connected {
    segment: RemoteSegment,
    /// How often this rank has added to its word there.
    added: u64,
}

/// What one rank writes into the segment of another in a round.
struct Plan {
    key: u64,
    /// Bytes that are written, in two pieces.
    written: usize,
    first: usize,
    /// Bytes of the chain.
    chain: u64,
}

impl Segments {
    /// Makes the own one. It is to be kept until all have finished.
    pub(crate) fn new(fabric: &Fabric, seed: u64) -> Segments {
        let length = u64::from(fabric.size()) * (2 * HALF + 8);
        let own = fabric.create(ID, &Backing::Anonymous { length }).expect("a segment can be created");
        Segments { fabric: fabric.clone(), seed, own, connected: BTreeMap::new() }
    }

    /// One round with all of `peers`; what came of it with each.
    pub(crate) fn round(&mut self, round: u64, peers: &[Rank]) -> Vec<(Rank, Result<(), Wrong>)> {
        let source = message(self.key(round, self.fabric.rank(), self.fabric.rank()), LONGEST_CHAIN as usize);
        let place = Self::place(self.fabric.rank(), round);
        self.own.memory().write(place + CHAIN_AT, &source).expect("within the segment");
        let chains: Vec<_> = peers.iter().map(|peer| (*peer, self.post(round, *peer))).collect();
        let mut told: Vec<_> = peers.iter().map(|peer| (*peer, self.write(round, *peer))).collect();
        for (peer, chain) in chains {
            let ended = chain.and_then(|done| done.map_or(Ok(()), |done| self.fabric.wait_for(&done)));
            told.push((peer, ended.map_err(Wrong::Failed)));
        }
        told
    }

    /// What is wrong with what `peer` has written here in this round, which has ended there.
    pub(crate) fn look(&self, round: u64, peer: Rank) -> Result<(), Wrong> {
        let plan = self.plan(round, peer, self.fabric.rank());
        let place = Self::place(peer, round);
        let mut written = vec![0; plan.written];
        self.own.memory().read(place, &mut written)?;
        if let Some(at) = first_wrong(plan.key, &written) {
            return Err(Wrong::Gave(format!("of {} bytes that it wrote, those at {at}", plan.written)));
        }
        if self.fabric.capabilities().dma == Dma::None {
            return Ok(());
        }
        let mut chain = vec![0; plan.chain as usize];
        self.own.memory().read(place + CHAIN_AT, &mut chain)?;
        let wrong = first_wrong(self.key(round, peer, peer), &chain);
        let told = |at| Err(Wrong::Gave(format!("of {} bytes of its chain, those at {at}", plan.chain)));
        wrong.map_or(Ok(()), told)
    }

    fn write(&mut self, round: u64, peer: Rank) -> Result<(), Wrong> {
        let place = Self::place(self.fabric.rank(), round);
        let word = self.word(self.fabric.rank());
        let plan = self.plan(round, self.fabric.rank(), peer);
        let bytes = message(plan.key, plan.written);
        let reads = self.fabric.capabilities().remote_read;
        let fabric = self.fabric.clone();
        let Connected { segment, added } = self.connect(peer)?;

        let (first, second) = bytes.split_at(plan.first);
        let behind = Piece { offset: place + plan.first as u64, bytes: second };
        segment.write_scattered(&[Piece { offset: place, bytes: first }, behind])?;
        fabric.store_barrier(peer)?;
        let was = segment.fetch_add(word, 1)?;
        if was != *added {
            return Err(Wrong::Gave(format!("{was} as what was added to its word {added} times")));
        }
        *added += 1;
        if reads {
            let mut found = vec![0; bytes.len()];
            segment.read(place, &mut found)?;
            if let Some(at) = first_wrong(plan.key, &found) {
                return Err(Wrong::Gave(format!("of {} bytes that were read, those at {at}", found.len())));
            }
        }
        Ok(())
    }

    /// Hands a chain of two transfers over, where the fabric takes any.
    fn post(&mut self, round: u64, peer: Rank) -> Result<Option<Arc<Completion>>> {
        if self.fabric.capabilities().dma == Dma::None {
            return Ok(None);
        }
        let place = Self::place(self.fabric.rank(), round) + CHAIN_AT;
        let length = self.plan(round, self.fabric.rank(), peer).chain;
        let remote = self.connect(peer)?.segment.remote();
        let memory = self.own.memory();
        let transfer = |from: u64, length: u64| {
            let start = NonNull::new(memory.span(place + from, length as usize)?);
            let local = UserMemory { start: start.expect("a segment is somewhere"), length: length as usize };
            Ok::<_, Error>(Transfer { direction: Direction::Write, local, remote, offset: place + from })
        };
        let chain = vec![transfer(0, length / 2)?, transfer(length / 2, length - length / 2)?];
        let done = Arc::new(Completion::new());
        // SAFETY: the segment is kept until all have finished, and its source left alone until the chain has ended or
        // the job has.
        unsafe { self.fabric.post(chain, &done) }?;
        Ok(Some(done))
    }

    fn connect(&mut self, peer: Rank) -> Result<&mut Connected> {
        if !self.connected.contains_key(&peer) {
            let segment = loop {
                match self.fabric.connect(peer, ID) {
                    // It has joined, and is about to make it.
                    Err(Error::UnknownSegment { .. }) => std::thread::yield_now(),
                    connected => break connected?,
                }
            };
            self.connected.insert(peer, Connected { segment, added: 0 });
        }
        Ok(self.connected.get_mut(&peer).expect("it was just put there"))
    }

    /// Where the half of this round begins that `writer` writes.
    fn place(writer: Rank, round: u64) -> u64 {
        HALF * (2 * u64::from(writer.0) + round % 2)
    }

    /// Where the word is that `writer` adds to.
    fn word(&self, writer: Rank) -> u64 {
        2 * HALF * u64::from(self.fabric.size()) + 8 * u64::from(writer.0)
    }

    fn plan(&self, round: u64, from: Rank, to: Rank) -> Plan {
        let mut random = Random::new(self.key(round, from, to));
        // By one message, by several, or by transfers.
        let most = [256, 8 << 10, 60 << 10, CHAIN_AT][random.below(4) as usize];
        let written = 2 + random.below(most - 2) as usize;
        let first = random.below(written as u64) as usize;
        let most = [1000, 60 << 10, LONGEST_CHAIN][random.below(3) as usize];
        Plan { key: random.below(u64::MAX), written, first, chain: 2 + random.below(most - 2) }
    }

    /// What all that is of one rank for another in a round is made from; for itself, what its chains are read from.
    fn key(&self, round: u64, from: Rank, to: Rank) -> u64 {
        self.seed << 40 ^ round << 16 ^ u64::from(from.0) << 8 ^ u64::from(to.0)
    }
}
