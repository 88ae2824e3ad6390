//! What files over several nodes cost: requests, bytes on the wire, pages.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use svmio_transport::{Rank, Statistics as FabricStatistics};

use crate::accounting::Cost;
use crate::cache;
use crate::error::Result;

use super::Cluster;
use super::wire::{KINDS, Request};

/// What one process asked of other nodes' agents, and what its fabric did for that, since it joined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterStatistics {
    /// How often each kind of request was sent; kinds that were not are left out.
    pub requests: BTreeMap<&'static str, u64>,
    /// What the fabric did, for requests, answers and pages of this process and, in a leader, of its agent.
    pub fabric: FabricStatistics,
    /// What this process wrote straight.
    pub straight: StraightStatistics,
    /// What the page cache did for all processes of the node.
    pub cache: CacheStatistics,
    /// Pages that this process read from their homes by itself, without a request.
    pub native_pages: u64,
}

/// What went into other nodes' segments by the fabric's remote writes, past the page cache and without a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StraightStatistics {
    /// How many writes.
    pub writes: u64,
    /// How many bytes they had.
    pub bytes: u64,
    /// From how many bytes on a write goes straight where its home has storage for it, as measured so far.
    pub from: u64,
}

/// What the page cache of a node did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Reads that were answered from it.
    pub hits: u64,
    /// Pages that were fetched.
    pub misses: u64,
    /// Pages that were dropped to make room.
    pub evictions: u64,
    /// Pages whose dirty bytes were brought home.
    pub write_backs: u64,
}

impl ClusterStatistics {
    /// How many requests were sent.
    pub fn requests(&self) -> u64 {
        self.requests.values().sum()
    }
}

impl Cluster {
    /// What the files of the cluster have cost this process so far.
    pub fn statistics(&self) -> ClusterStatistics {
        ClusterStatistics {
            requests: self.context.client.asked().read(),
            fabric: self.context.fabric.statistics(),
            straight: self.long_writes.statistics(),
            cache: self.cache.statistics().into(),
            native_pages: self.native_reads.pages(),
        }
    }

    /// Has rank 0 note what files have cost this process.
    pub(crate) fn note_cost(&self, cost: Cost) -> Result<()> {
        self.ask_master(&Request::Note { cost }).map(|_| ())
    }

    /// What processes have had noted here; of use on rank 0.
    pub(crate) fn noted_costs(&self) -> BTreeMap<Rank, Cost> {
        self.agent.as_ref().map(|agent| agent.costs()).unwrap_or_default()
    }
}

impl From<cache::Statistics> for CacheStatistics {
    fn from(from: cache::Statistics) -> CacheStatistics {
        let cache::Statistics { hits, misses, evictions, write_backs } = from;
        CacheStatistics { hits, misses, evictions, write_backs }
    }
}

impl fmt::Display for ClusterStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<_> = self.requests.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let (fabric, cache) = (&self.fabric, &self.cache);
        write!(
            f,
            "{} messages and {} bytes over the fabric ({} written, {} stored, {} by DMA, {} read), {} interrupts; \
             {} requests to other nodes ({}); {} writes of {} bytes straight to other nodes (measured: from {} bytes on); \
             cache of the node: {} hits, {} pages fetched, {} evicted, {} brought home; {} pages read without a request",
            fabric.messages(),
            fabric.bytes(),
            fabric.written_bytes,
            fabric.stored_bytes,
            fabric.posted_bytes,
            fabric.read_bytes,
            fabric.interrupts,
            self.requests(),
            if kinds.is_empty() { "none".into() } else { kinds.join(", ") },
            self.straight.writes,
            self.straight.bytes,
            self.straight.from,
            cache.hits,
            cache.misses,
            cache.evictions,
            cache.write_backs,
            self.native_pages
        )
    }
}

/// Counts requests by kind.
pub(super) struct Requests([AtomicU64; KINDS.len()]);

impl Default for Requests {
    fn default() -> Requests {
        Requests([const { AtomicU64::new(0) }; KINDS.len()])
    }
}

impl Requests {
    pub(super) fn add(&self, request: &Request) {
        // Relaxed: nothing follows from a count.
        self.0[request.kind()].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> BTreeMap<&'static str, u64> {
        let counts = KINDS.iter().zip(&self.0).map(|(kind, count)| (*kind, count.load(Ordering::Relaxed)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}
