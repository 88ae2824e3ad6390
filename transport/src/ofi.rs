//! The fabric over libfabric: whichever provider the machine has, TCP sockets everywhere.
//!
//! ```text
//!   back_end    the contract, carried out by the adapter
//!      │
//!   adapter     what its parts share; how threads wait: by polling the endpoint, then asleep
//!      ├── sending     messages: numbered per pair, queued where nobody can wait
//!      ├── receiving   messages carried out: writes, interrupts, connections, atomics
//!      ├── groups      transfers that the caller waits for: long writes, reads
//!      ├── chains      transfers that were handed over (DMA)
//!      ├── doubts      transfers that were cut off: by a peer that is dead, or that refused them
//!      ├── attendant   the thread that serves the endpoint when no waiter does
//!      └── exports     memory that peers reach      peers   what was sent to whom, and what arrived
//!      │
//!   endpoint    posting, completions, buffers      domain   registration      provider   which one, and its limits
//!      │
//!   sys         libfabric in C, loaded when it is first needed
//! ```
//!
//! **Writes.** Up to [`OfiSettings::longest_store`] bytes a write travels as messages, which the target's process
//! applies in order, the last word of each piece last. So writes become visible in the order in which they were
//! issued, a piece that fits a message arrives whole, many pieces cost one message, waiters are woken by the arrival,
//! and the sender may go on at once. Longer ones go straight into the target's memory by `fi_write`, after the
//! messages before them were applied, and the caller waits until they are delivered: the order stays, no byte is
//! copied here, and the wait is short beside the transfer. Whoever wants to go on meanwhile hands the transfer over.
//!
//! **Reliability.** libfabric's reliable datagrams arrive, or the connection is beyond repair. The numbers in the
//! messages make sure of it: after a missing one nothing more of that sender is applied. A peer of which the provider
//! reports a failure is declared lost; a transfer that the peer refuses (its memory is not exported any more) counts as
//! failed for the sequence check.
//!
//! **Strangers.** All messages carry a tag that is made from the job's secret; what does not is dropped. Keys of
//! registered memory are random. Neither is a defence against somebody who can read the network.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::back_end::{BackEnd, Prepared};
use crate::capabilities::{Atomics, Capabilities, Dma, WriteOrder};
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::membership::Membership;
use crate::secret::JobSecret;
use crate::units::Rank;

use self::adapter::{Adapter, Token};
use self::address::ProcessAddress;
use self::attendant::Attendant;
use self::back_end::Ofi;
use self::domain::Domain;
use self::endpoint::{Buffers, Endpoint};
use self::peers::Peer;
use self::provider::Offer;
pub use self::provider::PROVIDERS;

mod adapter;
mod address;
mod attendant;
mod back_end;
mod chains;
mod closing;
mod domain;
mod doubts;
mod endpoint;
mod exports;
mod groups;
mod peers;
mod provider;
mod questions;
mod receiving;
mod sending;
mod slots;
mod storage;
mod sys;
mod threads;
mod waiters;
#[doc(hidden)]
pub mod wire;

/// The section `ofi` of the settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OfiSettings {
    /// Which provider, as `fi_info` names it. Empty: an adapter's where there is one, else `net`, `tcp`,
    /// `tcp;ofi_rxm`, whichever comes first.
    pub provider: String,
    /// The address of this process to listen at, for providers over IP; peers must reach it. Empty: the one at which
    /// the start-up met the others, or else the provider's first.
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
    /// Buffers for messages that leave, made when they are needed.
    pub send_buffers: usize,
    /// The longest write, in bytes, that goes by messages; there, two copies cost less than the wait for delivery.
    pub longest_store: usize,
    /// Into parts of how many bytes longer transfers are divided. Messages to the same peer go between the parts, so
    /// these say how long one may be held up: 512 KiB take 4 ms at 1 Gbit/s.
    pub transfer_bytes: usize,
    /// How many parts of one chain are under way at once: enough to cover the way to the peer and back.
    pub transfers_in_flight: usize,
    /// After how many seconds without an answer, or without room for a message, a peer is given up. The watchdog
    /// should be quicker.
    pub answer_seconds: u32,
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
            answer_seconds: 30,
        }
    }
}

/// Writes up to this size that lie within an aligned block arrive whole. All that fit into a message do, but whoever
/// makes packets of this size wants them short.
const TRANSACTION_SIZE: usize = 256;

/// The longest message, in bytes, that every provider sends without a handshake, so that none overtakes it.
const LONGEST_IN_ORDER: usize = 8 << 10;

/// The longest transfer that one call takes; it is divided here.
const LARGEST_TRANSFER: u64 = 1 << 30;

impl OfiSettings {
    fn answer_limit(&self) -> Duration {
        Duration::from_secs(u64::from(self.answer_seconds))
    }

    /// The settings with numbers that work.
    ///
    /// # Errors
    /// `Setting`.
    fn check(&self) -> Result<()> {
        let wrong = |name: &str, problem: &str| {
            Err(Error::Setting { place: format!("ofi.{name}"), problem: problem.into() })
        };
        match self {
            Self { message_bytes: ..512, .. } => wrong("message_bytes", "give at least 512"),
            Self { message_bytes: 1_048_577.., .. } => wrong("message_bytes", "give at most 1048576"),
            Self { receive_buffers: 0, .. } => wrong("receive_buffers", "give at least 1"),
            Self { send_buffers: 0, .. } => wrong("send_buffers", "give at least 1"),
            Self { transfer_bytes: ..4096, .. } => wrong("transfer_bytes", "give at least 4096"),
            Self { transfers_in_flight: 0, .. } => wrong("transfers_in_flight", "give at least 1"),
            Self { answer_seconds: 0, .. } => wrong("answer_seconds", "give at least 1"),
            _ => Ok(()),
        }
    }
}

/// Opens an endpoint at an address of its own; the peers' addresses come with joining.
///
/// # Errors
/// `Setting` for numbers that make no sense; `Provider` where libfabric is missing or has nothing that suits.
pub fn prepare(settings: &OfiSettings, secret: &JobSecret) -> Result<Box<dyn Prepared>> {
    settings.check()?;
    let offer = Offer::choose(settings)?;
    let address = (offer.provider(), offer.address_format());
    let mut settings = settings.clone();
    settings.transfer_bytes = settings.transfer_bytes.min(offer.largest_message());
    let longest = if offer.completes_in_order() { usize::MAX } else { LONGEST_IN_ORDER };
    settings.message_bytes = settings.message_bytes.min(offer.largest_message()).min(longest);
    let buffers = Buffers {
        size: settings.message_bytes,
        receives: settings.receive_buffers,
        sends: settings.send_buffers,
        transfers: 256,
    };
    let endpoint = Domain::open(offer)
        .and_then(|domain| Endpoint::open(domain, buffers))
        .map_err(|error| at_address(error, &settings.address))?;
    let (provider, format) = address;
    let address = ProcessAddress { provider, format, name: endpoint.name()? };
    Ok(Box::new(Listening { settings, tag: tag(secret), endpoint, address }))
}

/// Names the address to which an endpoint could not be bound.
fn at_address(error: Error, address: &str) -> Error {
    match error {
        Error::Provider { doing, provider, problem } if !address.is_empty() => Error::Provider {
            doing: format!("{doing} at {address} (ofi.address; is it one of this machine?)"),
            provider,
            problem,
        },
        other => other,
    }
}

/// Ranks of one process, each with an adapter of its own, over the loopback interface.
///
/// # Errors
/// As for [`prepare`] and [`Prepared::join`].
#[doc(hidden)]
pub fn within_process(size: u32, provider: &str) -> Result<Vec<Fabric>> {
    let secret = JobSecret::random().map_err(|problem| Error::system("making a secret", problem))?;
    let settings =
        OfiSettings { provider: provider.into(), address: "127.0.0.1".into(), ..OfiSettings::default() };
    let prepared = (0..size).map(|_| prepare(&settings, &secret)).collect::<Result<Vec<_>>>()?;
    let addresses: Vec<_> = prepared.iter().map(|prepared| prepared.address()).collect();
    let join = |(rank, prepared): (u32, Box<dyn Prepared>)| {
        let nodes = vec!["here".to_owned(); size as usize];
        let membership = Arc::new(Membership::new(Rank(rank), nodes));
        prepared.join(membership, addresses.clone()).map(Fabric::new)
    };
    (0..size).zip(prepared).map(join).collect()
}

/// An endpoint that nobody knows yet.
struct Listening {
    settings: OfiSettings,
    tag: u64,
    endpoint: Endpoint<Token>,
    address: ProcessAddress,
}

impl Prepared for Listening {
    fn address(&self) -> Vec<u8> {
        self.address.encode()
    }

    fn join(
        self: Box<Self>,
        membership: Arc<Membership>,
        addresses: Vec<Vec<u8>>,
    ) -> Result<Arc<dyn BackEnd>> {
        if addresses.len() != membership.size() as usize {
            let problem = format!("{} addresses for {} processes", addresses.len(), membership.size());
            return Err(Error::StartUp { problem });
        }
        let peers = membership
            .ranks()
            .zip(&addresses)
            .map(|(rank, address)| self.peer(&membership, rank, address))
            .collect::<Result<Vec<_>>>()?;
        let capabilities = self.capabilities();
        let orders_writes = self.endpoint.domain().offer().orders_writes();
        let adapter = Arc::new(Adapter {
            settings: self.settings,
            capabilities,
            membership: Arc::clone(&membership),
            tag: self.tag,
            endpoint: Some(self.endpoint).into(),
            peers,
            exports: Default::default(),
            connections: Default::default(),
            questions: Default::default(),
            waiters: Default::default(),
            interrupts: Default::default(),
            chains: Default::default(),
            doubts: Default::default(),
            scratch: Default::default(),
            attendant: Attendant::new()?,
            orders_writes,
            is_disturbed: Default::default(),
            strangers: Default::default(),
            waiting_answers: Default::default(),
            origin: Instant::now(),
        });
        Attendant::start(&adapter)?;
        // Weakly: the membership may outlive the adapter.
        let waker = Arc::downgrade(&adapter);
        membership.on_disturbance(move || {
            if let Some(adapter) = waker.upgrade() {
                adapter.disturb();
            }
        });
        // Something may have been declared before anybody listened.
        if !membership.lost().is_empty() || membership.check_job().is_err() {
            adapter.disturb();
        }
        Ok(Arc::new(Ofi::new(adapter)))
    }
}

impl Listening {
    /// A peer, from the address that it gave.
    fn peer(&self, membership: &Membership, rank: Rank, address: &[u8]) -> Result<Peer> {
        let address = ProcessAddress::decode(address)
            .map_err(|problem| Error::Wire { from: rank, problem: format!("as its address: {problem}") })?;
        let own = &self.address;
        if (&address.provider, address.format) != (&own.provider, own.format)
            || address.name.len() != own.name.len()
        {
            let problem = format!(
                "rank {rank} on node {} is on a network of provider {}, rank {} on one of {}; \
                 set ofi.provider to one that all nodes have",
                membership.node(rank),
                address.provider,
                membership.rank(),
                own.provider,
            );
            return Err(Error::StartUp { problem });
        }
        Ok(Peer::new(rank, address.name))
    }

    fn capabilities(&self) -> Capabilities {
        let has_adapter = self.endpoint.domain().offer().has_adapter();
        Capabilities {
            back_end: "ofi".into(),
            provider: self.address.provider.clone(),
            direct_mapping: false,
            transaction_size: TRANSACTION_SIZE,
            stream_buffer: None,
            largest_transfer: LARGEST_TRANSFER,
            dma: if has_adapter { Dma::Adapter } else { Dma::Thread },
            registers_user_memory: true,
            remote_read: true,
            atomics: Atomics::Message,
            ordering: WriteOrder::Issued,
            is_reliable: true,
        }
    }
}

/// What all messages of a job carry: known to whoever has the secret, and telling nothing of it.
fn tag(secret: &JobSecret) -> u64 {
    // A key of any length is one.
    let Ok(mut keyed) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return 0 };
    keyed.update(b"svmio ofi messages");
    let digest = keyed.finalize().into_bytes();
    digest.iter().take(8).fold(0, |tag, byte| tag << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests;
