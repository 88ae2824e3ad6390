//! What a process did on the fabric, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

macro_rules! counters {
    ($($(#[$meta:meta])* $name:ident),* $(,)?) => {
        /// The counters, as they are being counted.
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: Counter,)* }

        /// How often what was done since the fabric was opened.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
        pub struct Statistics { $($(#[$meta])* pub $name: u64,)* }

        impl Counters {
            pub(crate) fn read(&self) -> Statistics {
                Statistics { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters! {
    /// Remote writes, each of any number of pieces.
    writes,
    /// Bytes of remote writes.
    written_bytes,
    /// Remote reads.
    reads,
    /// Bytes of remote reads.
    read_bytes,
    /// Bytes of messages and packets that were stored straight into a peer's memory, where it is mapped here.
    stored_bytes,
    /// Chains handed over.
    posts,
    /// Bytes of all chains.
    posted_bytes,
    /// Store barriers that were not part of a check.
    store_barriers,
    /// Sequence checks.
    sequence_checks,
    /// Checks that found a transfer broken.
    broken_sequences,
    /// Writes that were repeated after such a check.
    repeated_writes,
    /// Interrupts triggered.
    interrupts,
    /// Atomic changes of remote words.
    atomics,
    /// Segments connected to.
    connections,
    /// Messages sent by the short protocol.
    short_messages,
    /// Messages sent by the eager protocol.
    eager_messages,
    /// Messages sent by the rendezvous protocol.
    rendezvous_messages,
}

impl Statistics {
    /// Messages sent, by whatever protocol.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.short_messages + self.eager_messages + self.rendezvous_messages
    }

    /// Bytes that this process has moved over the fabric, to peers or from them, by whatever way. Each byte is counted
    /// by the one process that moved it, so sums over processes count none twice. The words by which peers return
    /// credits through memory that both have mapped are left out.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.written_bytes + self.stored_bytes + self.posted_bytes + self.read_bytes
    }
}

/// One counter. It orders nothing: it is only ever read as a number.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
