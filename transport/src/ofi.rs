//! The fabric over libfabric: whichever provider the machine has, TCP sockets everywhere.
//!
//! ```text
//!   back_end    the contract, carried out by the adapter
//!      │
//!   adapter     what its parts share; how threads wait: by polling the endpoint, then asleep
//!      ├── sending     messages: numbered per pair, queued where nobody can wait
//!      ├── receiving   messages carried out: writes, short reads, interrupts, connections, atomics
//!      ├── groups      transfers that the caller waits for: long writes and reads
//!      ├── chains      transfers that were handed over (DMA)
//!      ├── sources     where writes begin
//!      ├── failures    what it says of a peer that an operation with it failed
//!      ├── doubts      transfers that were cut off: by a peer that is dead, or that refused them
//!      ├── unheard     messages of which a peer tells nothing: it is asked whether they have come
//!      ├── drains      what may still be coming into memory that is not for peers any more
//!      ├── attendant   the thread that serves the endpoint when no waiter does
//!      └── exports     memory that peers reach      peers   what was sent to whom, and what arrived
//!      │
//!   endpoint    posting, completions, buffers      domain   registration      provider   which one, and its limits
//!      │                                           keys     not looked for while they change
//!      │
//!   sys         libfabric in C, loaded when it is first needed
//! ```
//!
//! **Writes.** Up to [`OfiSettings::longest_store`] bytes, and always up to 256, a write travels as messages, which
//! the target's process applies in order, the last word of each piece last. So writes become visible in the order in
//! which they were issued, a piece that fits a message arrives whole, many pieces cost one message, waiters are woken
//! by the arrival (not by that of one long piece: [`wire::is_silent_write`]), and the sender may go on at once. Longer
//! ones go straight into the target's memory by `fi_write`, after the messages before them were applied, and the
//! caller waits until they are delivered: the order stays, no byte is copied here, and the wait is short beside the
//! transfer. Whoever wants to go on meanwhile hands the transfer over.
//!
//! **Reliability.** libfabric's reliable datagrams arrive, or the connection is beyond repair. The numbers in the
//! messages make sure of it: after a missing one nothing more of that sender is applied, and it is declared lost, as is
//! a peer of which the provider reports that it cannot be reached. Where a transfer fails without such a reason, or a
//! connection was closed and no message with a number is missing, the peer is asked whether it is there. Where a peer
//! tells nothing of what it was sent, it is asked, so that a gap shows also where nothing follows it. A transfer that
//! the peer refuses (its memory is not exported any more) counts as failed for the sequence check. What the provider does
//! not take for a reason of this process's waits, leaves from other memory, or fails alone. How long a message may be is
//! exchanged with the addresses.
//!
//! **Strangers.** All messages carry a tag that is made from the job's secret; what does not is dropped. Keys of
//! registered memory are random. Neither is a defence against somebody who can read the network.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::back_end::{BackEnd, Prepared, ReceiveBuffers};
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
use self::drains::Drains;
use self::endpoint::{Buffers, Endpoint};
use self::peers::Peer;
use self::probes::Anchor;
use self::provider::Offer;
pub use self::provider::PROVIDERS;
pub use self::settings::OfiSettings;

mod adapter;
mod address;
mod attendant;
mod back_end;
mod chains;
mod closing;
mod countdown;
mod domain;
mod doubts;
mod drains;
mod endpoint;
mod exports;
mod failures;
mod faults;
mod groups;
mod keys;
mod peers;
mod probes;
mod provider;
mod questions;
mod receiving;
mod sending;
mod settings;
mod slots;
mod sources;
mod storage;
mod sys;
mod unheard;
mod waiters;
#[doc(hidden)]
pub mod wire;
mod withdrawn;

/// Writes up to this size that lie within an aligned block arrive whole. All that fit into a message do, but whoever
/// makes packets of this size wants them short.
const TRANSACTION_SIZE: usize = 256;

/// The fewest bytes that a message may have: there is room for each kind of them, and for a piece of a write.
const MESSAGE_BYTES_AT_LEAST: u32 = 512;

const _: () = assert!(wire::HEADER + 8 + wire::LONGEST_READ <= MESSAGE_BYTES_AT_LEAST as usize);

/// The longest message, in bytes, that every provider sends without a handshake, so that none overtakes it.
const LONGEST_IN_ORDER: usize = 8 << 10;

/// The longest transfer that one call takes; it is divided here.
const LARGEST_TRANSFER: u64 = 1 << 30;

/// Opens an endpoint at an address of its own; the peers' addresses come with joining.
///
/// # Errors
/// `Setting` for numbers that make no sense; `Provider` where libfabric is missing or has nothing that suits.
pub fn prepare(settings: &OfiSettings, secret: &JobSecret) -> Result<Box<dyn Prepared>> {
    Ok(Box::new(listen(settings, secret, None)?))
}

/// The same in a process that others have met at `met_at`: at that address, where the provider's are such addresses,
/// and the settings name neither an address nor an interface, which is chosen for an address of its own.
///
/// # Errors
/// As for [`prepare`].
pub fn prepare_at(settings: &OfiSettings, secret: &JobSecret, met_at: IpAddr) -> Result<Box<dyn Prepared>> {
    Ok(Box::new(listen(settings, secret, Some(met_at))?))
}

fn listen(settings: &OfiSettings, secret: &JobSecret, met_at: Option<IpAddr>) -> Result<Listening> {
    settings.check().map_err(|misfit| misfit.at(format!("ofi.{}", misfit.key)))?;
    let (offer, at) = Offer::choose(settings, met_at)?;
    let domain = Domain::open(offer).map_err(|error| at_address(error, &at))?;
    listen_in(domain, &at, settings, secret)
}

/// Listens in `domain`, whose offer was found at the address `at`.
fn listen_in(domain: Arc<Domain>, at: &str, settings: &OfiSettings, secret: &JobSecret) -> Result<Listening> {
    let offer = domain.offer();
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
    let endpoint =
        Endpoint::open(domain, buffers, settings.wait_objects).map_err(|error| at_address(error, at))?;
    let (provider, format) = address;
    // They are at most 1 MiB.
    let message_bytes = u32::try_from(settings.message_bytes).unwrap_or(u32::MAX);
    let anchor = Anchor::new(&endpoint)?;
    let (key, base) = anchor.place();
    let name = endpoint.name()?;
    let address = ProcessAddress { provider, format, message_bytes, anchor: key, anchor_base: base, name };
    Ok(Listening { settings, tag: tag(secret), anchor, endpoint, address })
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
    // Before the endpoint: dropped before it.
    anchor: Anchor,
    endpoint: Endpoint<Token>,
    address: ProcessAddress,
}

impl Prepared for Listening {
    fn address(&self) -> Vec<u8> {
        self.address.encode()
    }

    fn receive_buffers(&self) -> Option<ReceiveBuffers> {
        Some(self.endpoint.receive_buffers())
    }

    fn join(
        self: Box<Self>,
        membership: Arc<Membership>,
        addresses: Vec<Vec<u8>>,
    ) -> Result<Arc<dyn BackEnd>> {
        Ok(Arc::new(Ofi::new(self.attend(&membership, &addresses)?)))
    }
}

impl Listening {
    /// The adapter, served by its attendant.
    fn attend(self, membership: &Arc<Membership>, addresses: &[Vec<u8>]) -> Result<Arc<Adapter>> {
        if addresses.len() != membership.size() as usize {
            let problem = format!("{} addresses for {} processes", addresses.len(), membership.size());
            return Err(Error::StartUp { problem });
        }
        let peers = membership
            .ranks()
            .zip(addresses)
            .map(|(rank, address)| self.peer(membership, rank, address))
            .collect::<Result<Vec<_>>>()?;
        let capabilities = self.capabilities();
        let offer = self.endpoint.domain().offer();
        let (orders_writes_below, ends_transfers) =
            (offer.orders_writes_below(), offer.ends_transfers_with_registrations());
        let asks_to_stop = !offer.registers(sys::FI_MR_PROV_KEY);
        let adapter = Arc::new(Adapter {
            settings: self.settings,
            capabilities,
            membership: Arc::clone(membership),
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
            drains: Drains::default(),
            anchor: self.anchor,
            scratch: Default::default(),
            attendant: Attendant::new()?,
            orders_writes_below,
            ends_transfers,
            asks_to_stop,
            is_over: Default::default(),
            is_disturbed: Default::default(),
            strangers: Default::default(),
            waiting_answers: Default::default(),
            wanting_room: Default::default(),
            origin: Instant::now(),
        });
        Attendant::start(&adapter)?;
        Ok(adapter)
    }

    /// A peer, from the address that it gave.
    fn peer(&self, membership: &Membership, rank: Rank, address: &[u8]) -> Result<Peer> {
        let address = ProcessAddress::decode(address)
            .map_err(|problem| Error::wire(membership, rank, format!("as its address: {problem}")))?;
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
        if address.message_bytes < MESSAGE_BYTES_AT_LEAST {
            let problem = format!("messages of {} bytes, which is too few", address.message_bytes);
            return Err(Error::wire(membership, rank, problem));
        }
        let message_bytes = self.settings.message_bytes.min(address.message_bytes as usize);
        Ok(Peer::new(rank, address.name, message_bytes, (address.anchor, address.anchor_base)))
    }

    fn capabilities(&self) -> Capabilities {
        let offer = self.endpoint.domain().offer();
        Capabilities {
            back_end: "ofi".into(),
            provider: self.address.provider.clone(),
            direct_mapping: false,
            transaction_size: TRANSACTION_SIZE,
            stream_buffer: None,
            largest_transfer: LARGEST_TRANSFER,
            dma: if offer.has_adapter() { Dma::Adapter } else { Dma::Thread },
            registers_user_memory: true,
            pins_memory: offer.registers(sys::FI_MR_ALLOCATED),
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
