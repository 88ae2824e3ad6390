//! What a fabric can do. Layers above adapt to these answers, never to a back end's name.

use serde::Serialize;

/// The answers of one process's adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// The back end, for people to read.
    pub back_end: String,
    /// What it runs on: a libfabric provider, a cost model; for people to read.
    pub provider: String,
    /// Whether a remote segment can be mapped, so that plain stores and loads reach it.
    pub direct_mapping: bool,
    /// The largest write, in bytes, that arrives whole if it lies within an aligned block of this size: its last
    /// word is never visible before its first. A power of two, at least 16.
    pub transaction_size: usize,
    /// The adapter's buffer that gathers stores, in bytes; writes that fill and end at a multiple of it leave at once.
    /// For information: nothing above the back ends cuts writes by it, as each write waits for a half-filled buffer at
    /// most once, at its end. Only simulated fabrics have one.
    pub stream_buffer: Option<usize>,
    /// The longest single write, read or DMA transfer, in bytes. Longer ones are divided by the caller.
    pub largest_transfer: u64,
    /// Whether transfers can be handed over, and who carries them out.
    pub dma: Dma,
    /// Whether memory of the user can be registered, so that remote writes and DMA go straight to it.
    pub registers_user_memory: bool,
    /// Whether what is exported or registered is pinned: an adapter writes past the page tables, to the pages that the
    /// memory had when it was exported, which a file that was made shorter since does not have any more, and of which
    /// the file system does not hear that they are written.
    pub pins_memory: bool,
    /// Whether a remote read is carried out without the owner's program.
    pub remote_read: bool,
    /// How remote words are changed atomically.
    pub atomics: Atomics,
    /// In which order writes to one process become visible there.
    pub ordering: WriteOrder,
    /// Whether every write to memory that its owner still exports arrives, or the owner is lost: then nobody needs a
    /// sequence check to be sure. One may cost a round trip all the same (it includes a store barrier), and tells of a
    /// write that the owner refused because it does not export the memory any more.
    pub is_reliable: bool,
}

/// Whether transfers can be handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dma {
    /// No: every byte is stored by the caller.
    None,
    /// By an engine of the adapter: the processors are free meanwhile.
    Adapter,
    /// By a thread of this process: it copies while the caller goes on, on another core or when this one is idle.
    Thread,
}

/// How remote words are changed atomically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Atomics {
    /// By the caller's processor on mapped memory, at the cost of a cache line's way.
    Processor,
    /// By a message to the owner's service thread, at the cost of a round trip.
    Message,
    /// By the adapter, at the cost of a round trip.
    Adapter,
}

/// In which order writes to one process become visible there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteOrder {
    /// In the order in which they were issued.
    Issued,
    /// In any order, until a store barrier.
    Any,
}
