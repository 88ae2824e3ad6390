//! How messages are sent: sizes, numbers of buffers, protocols.

use serde::{Deserialize, Serialize};

use crate::settings::Misfit;
use crate::settings::misfit::within;

/// How a message goes.
///
/// `Short` and `Eager` are wishes: a message that does not fit goes by the next protocol up. The four kinds of
/// rendezvous are orders: where the fabric cannot do it, the send fails with
/// [`Error::Unsupported`](crate::Error::Unsupported). An empty message is always a short one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// By size, by what both sides' fabrics can do, and by whether the sender waits for the end.
    #[default]
    Automatic,
    /// Within control packets.
    Short,
    /// Into a buffer of the receiver that is kept ready for it.
    Eager,
    /// After the receiver asked for it, stored by the sender's processor into buffers of the receiver. It goes on
    /// only while both programs are in calls of the messenger.
    RendezvousStores,
    /// The same by DMA from a buffer of the sender: three copies, and both processors are free in between.
    RendezvousStaged,
    /// The same by DMA with a buffer on one side only: the sender's where the receiver can register user memory,
    /// else the receiver's.
    RendezvousHalfStaged,
    /// From user memory to user memory. Where that is the work of processors, both sides share it: whoever is in a
    /// call of the messenger copies, and a sender that computes is not disturbed.
    RendezvousDirect,
}

/// Numbers and sizes of buffers, and what decides between protocols. What a process receives with is its own
/// decision; senders learn it when they connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MessageSettings {
    /// How messages go whose call does not say it.
    pub mode: Mode,
    /// Bytes of the longest short packet, rounded up to the fabric's transaction size. Up to about half a kilobyte,
    /// filling parts of 64 bytes costs less than the detour over an eager buffer.
    pub short_packet: u32,
    /// Bytes of the ring of short packets that a peer writes into, rounded up to a power of two parts, and to two
    /// packets. 16 KiB are 256 messages of 8 bytes, and with the ring of the other direction just fit a first-level
    /// cache.
    pub ring: u32,
    /// Bytes of an eager buffer: up to this size a message waits at the receiver and not at the sender. Where the
    /// program waits for the end of its send, a copy of 64 KiB costs less than the control packets, the interrupt and
    /// the system calls of a rendezvous.
    pub eager_buffer: u32,
    /// How many eager buffers each peer gets. Where messages and credit take a while, as over a network, shorter
    /// messages share a buffer, so that more of them can be under way, and there is up to one buffer more.
    pub eager_buffers: u32,
    /// From this many bytes on a message goes by rendezvous even if it would fit an eager buffer, where the program
    /// does not wait for it: then it costs the program neither of the two copies.
    pub rendezvous_threshold: u32,
    /// Bytes of a staging buffer, in which the parts of a rendezvous message arrive where they cannot go to user
    /// memory at once: small enough to stay in cache between the two copies, large enough for DMA to pay.
    pub staging_buffer: u32,
    /// How many staging buffers each peer gets; two or more let the copies overlap.
    pub staging_buffers: u32,
    /// Bytes that one side of a shared transfer claims at a time, at most: about 80 µs of copying, so that neither
    /// waits long for the other at the end.
    pub chunk: u32,
    /// Bytes that all buffers of this process may take together. Each peer has an equal part, so that there is room
    /// for the last one, too; what does not fit into it, or into this process's part of what the system has available
    /// as the messenger is opened, is halved until it fits.
    pub memory_cap: u64,
    /// Whether messages go on while the program computes: by a thread that sleeps until a peer's interrupt.
    pub asynchronous: bool,
}

impl Default for MessageSettings {
    fn default() -> Self {
        Self {
            mode: Mode::Automatic,
            short_packet: 640,
            ring: 16 << 10,
            eager_buffer: 64 << 10,
            eager_buffers: 4,
            rendezvous_threshold: 16 << 10,
            staging_buffer: 128 << 10,
            staging_buffers: 4,
            chunk: 1 << 20,
            memory_cap: 1 << 30,
            asynchronous: true,
        }
    }
}

impl MessageSettings {
    /// Whether the numbers work.
    ///
    /// # Errors
    /// Which one does not, and which would.
    pub fn check(&self) -> Result<(), Misfit> {
        // What is longer than a short packet can be has better ways to go.
        within("short_packet", self.short_packet, 16..=64 << 10, "bytes")?;
        within("ring", self.ring, 64..=256 << 20, "bytes")?;
        within("eager_buffer", self.eager_buffer, 1..=1 << 30, "bytes")?;
        within("eager_buffers", self.eager_buffers, 1..=1 << 16, "buffers")?;
        within("staging_buffer", self.staging_buffer, 64..=1 << 30, "bytes")?;
        within("staging_buffers", self.staging_buffers, 1..=1 << 16, "buffers")?;
        within("chunk", self.chunk, 4096..=1 << 30, "bytes")?;
        // What is enough depends on the size of the job. More than the largest address there cannot be.
        within("memory_cap", self.memory_cap, 4096..=1 << 47, "bytes")
    }
}
