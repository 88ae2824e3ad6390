//! The numbers of this back end.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::settings::misfit::{at_least, within};
use crate::settings::{Misfit, duration};

/// The section `ofi` of the settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OfiSettings {
    /// Which provider, as `fi_info` names it. Empty: an adapter's where there is one, else `net`, `tcp`,
    /// `tcp;ofi_rxm`, whichever comes first.
    pub provider: String,
    /// The address of this process to listen at, for providers over IP; peers must reach it. Where no provider is
    /// named, an adapter over IP is taken only if it has this address. Empty: the one at which the start-up met the
    /// others (beside rank 0: at which other machines met rank 0), or else the provider's first, as an adapter's always
    /// is: its addresses are not those of the start-up's network.
    pub address: String,
    /// The network interface (libfabric's domain) to use. Empty: any.
    pub interface: String,
    /// Bytes of a message, from 512 on; 8 KiB at most where the provider may let a short message overtake a long one
    /// (`ofi_rxm` above 16 KiB). What fits into one costs one operation: over sockets on one machine 32 KiB in one
    /// message take 14 µs, in four 47.
    pub message_bytes: usize,
    /// Buffers for messages that come; fewer where memory is short. Enough that a burst finds room until this
    /// process's turn on the processor comes: 32 × 64 KiB take 17 ms at 1 Gbit/s.
    pub receive_buffers: usize,
    /// Buffers for messages that leave, each of `message_bytes`, made when they are needed and kept. A peer gets as
    /// many of them as it leaves to others, and always a sixteenth, so that one that hangs holds up nobody else. Once
    /// peers have twice as many as this together, each gets one: a burst to 1000 peers takes 66 MiB.
    pub send_buffers: usize,
    /// The longest write, in bytes, that goes by messages; there, two copies cost less than the wait for delivery. Those
    /// of up to 256 bytes do in any case: they are to arrive whole.
    pub longest_store: usize,
    /// Into parts of how many bytes longer transfers are divided. Messages to the same peer go between the parts, so
    /// these say how long one may be held up: 512 KiB take 4 ms at 1 Gbit/s.
    pub transfer_bytes: usize,
    /// How many parts of one chain are under way at once: enough to cover the way to the peer and back.
    pub transfers_in_flight: usize,
    /// Whether a thread that waits sleeps by what the provider has for that, as all of sockets have (libfabric's wait
    /// objects). Otherwise, and where a provider has nothing, it looks whether something has come: after 20 µs, and the
    /// longer nothing comes the less often, soon each millisecond.
    pub wait_objects: bool,
    /// After how many seconds without an answer, or without room for a message, a peer is given up. The watchdog
    /// should be quicker.
    pub answer_seconds: u32,
    /// How long a receive that was under way from a lost peer waits for the word of that peer's machine that nothing
    /// more comes. After that the memory is the program's again, and the log says so: what stood still and goes on may
    /// still write there. Some times as long as networks need to repeat what went missing.
    #[serde(with = "duration")]
    pub silence: Duration,
}

impl Default for OfiSettings {
    fn default() -> Self {
        Self {
            provider: String::new(),
            address: String::new(),
            interface: String::new(),
            // A write of `longest_store` bytes and what goes with it.
            message_bytes: (64 << 10) + 512,
            receive_buffers: 32,
            send_buffers: 32,
            longest_store: 64 << 10,
            transfer_bytes: 512 << 10,
            transfers_in_flight: 4,
            wait_objects: true,
            answer_seconds: 30,
            silence: Duration::from_secs(2),
        }
    }
}

impl OfiSettings {
    /// After how long without an answer a peer is given up.
    pub(crate) fn answer_limit(&self) -> Duration {
        Duration::from_secs(u64::from(self.answer_seconds))
    }

    /// Whether the numbers work.
    ///
    /// # Errors
    /// Which one does not, and which would.
    pub fn check(&self) -> Result<(), Misfit> {
        // What a machine or a network could hold, and what sums of it can be reckoned with.
        within("message_bytes", self.message_bytes, 512..=1 << 20, "bytes")?;
        within("receive_buffers", self.receive_buffers, 1..=1 << 14, "buffers")?;
        within("send_buffers", self.send_buffers, 1..=1 << 14, "buffers")?;
        within("longest_store", self.longest_store, 0..=1 << 30, "bytes")?;
        within("transfer_bytes", self.transfer_bytes, 4096..=1 << 30, "bytes")?;
        within("transfers_in_flight", self.transfers_in_flight, 1..=1 << 14, "parts")?;
        within("answer_seconds", self.answer_seconds, 1..=24 * 3600, "seconds")?;
        at_least("silence", self.silence, Duration::ZERO)
    }
}
