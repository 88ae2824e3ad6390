//! Versions of segments in memory that other nodes read.
//!
//! Each file has a table of [words](crate::cluster::version_word), exported once somebody asks for it: a row per
//! segment, in it for each node the segment's version as that node sees it. What processes of this node changed and
//! nobody has asked about yet is not in it; a page that was fetched meanwhile is dropped by the next who asks.

use std::sync::atomic::{AtomicU32, Ordering};

use svmio_transport::back_end::Backing;
use svmio_transport::{Fabric, LocalSegment, SegmentId, SharedMemory};

use crate::cluster::NodeIndex;
use crate::cluster::version_word::{self, Words};
use crate::cluster::wire::VERSIONS_SPACE;

const WORD: u64 = 8;

/// Bytes of a table: rows for 2048 segments on four nodes. Segments for which there is no row are asked for.
const BYTES: u64 = 64 << 10;

/// The table of one file.
pub(super) struct Table {
    exported: LocalSegment,
    nodes: u32,
    rows: u32,
    taken: u32,
}

/// A segment's place in it.
#[derive(Debug, Clone)]
pub(super) struct Row<M = SharedMemory> {
    memory: M,
    /// Of the exported tables.
    table: u32,
    start: u64,
    nodes: u32,
}

impl Table {
    pub(super) fn export(fabric: &Fabric, nodes: usize) -> svmio_transport::Result<Table> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nodes = nodes.max(1) as u32;
        let rows = (BYTES / (WORD * u64::from(nodes))).max(1) as u32;
        let length = WORD * u64::from(nodes) * u64::from(rows);
        // Relaxed: only uniqueness counts.
        let id = SegmentId::new(VERSIONS_SPACE, NEXT.fetch_add(1, Ordering::Relaxed));
        let exported = fabric.create(id, &Backing::Anonymous { length })?;
        Ok(Table { exported, nodes, rows, taken: 0 })
    }

    /// A row that nobody has yet; `None` where there is none left.
    pub(super) fn take_row(&mut self) -> Option<Row> {
        let start = u64::from(self.taken) * u64::from(self.nodes) * WORD;
        (self.taken < self.rows).then(|| {
            self.taken += 1;
            Row::new(self.exported.memory().clone(), self.exported.id().number, start, self.nodes)
        })
    }
}

impl<M: Words> Row<M> {
    /// Words for `nodes` from `start` on, bytes, in the memory of `table`.
    pub(super) fn new(memory: M, table: u32, start: u64, nodes: u32) -> Row<M> {
        Row { memory, table, start, nodes }
    }

    /// Tells each node the version as it sees it.
    pub(super) fn tell(&self, seen_by: impl Fn(NodeIndex) -> u64) {
        for node in (0..self.nodes).map(NodeIndex) {
            if let Err(error) = version_word::tell(&self.memory, self.word_of(node).1, seen_by(node)) {
                // An older one stays there, by which too much is fetched, and nothing kept that is old.
                tracing::warn!("a version cannot be told: {error}");
            }
        }
    }

    /// In which of the exported tables a node's word is, and where in it, bytes.
    pub(super) fn word_of(&self, node: NodeIndex) -> (u32, u64) {
        (self.table, self.start + WORD * u64::from(node.0))
    }
}
