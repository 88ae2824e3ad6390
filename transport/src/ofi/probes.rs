//! Writes that only show that all before them have arrived.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::adapter::{Adapter, Token, closed};
use super::domain::{Registration, Use};
use super::endpoint::{Endpoint, Part};
use crate::back_end::Drain;
use crate::dma::Direction;
use crate::error::Result;
use crate::mapping::{self, Pages};
use crate::memory::{SharedMemory, UserMemory};
use crate::units::Rank;

/// Bytes of an anchor.
const BYTES: usize = 8;

/// Memory of this process that peers write zeros into, and from which it writes zeros into theirs.
pub(super) struct Anchor {
    /// None once it is withdrawn.
    registration: Mutex<Option<Registration>>,
    place: (u64, u64),
    memory: UserMemory,
    _keep: SharedMemory,
}

impl Anchor {
    /// A new one. It must be withdrawn before `endpoint` is closed, and stay until it is.
    ///
    /// # Errors
    /// `Memory`, `Provider`.
    pub(super) fn new(endpoint: &Endpoint<Token>) -> Result<Self> {
        let keep = mapping::anonymous("the anchor of a fabric", BYTES as u64, Pages::Touched)?;
        let start = NonNull::new(keep.as_ptr()).ok_or_else(closed)?;
        let memory = UserMemory { start, length: BYTES };
        // SAFETY: mapped as long as it is kept, which is longer than the registration; nobody else uses it.
        let registration = unsafe { endpoint.register(memory, Use::Peers) }?;
        let place = (registration.key(), registration.base(memory.start));
        Ok(Self { registration: Mutex::new(Some(registration)), place, memory, _keep: keep })
    }

    /// Its key, and where it begins, as its registration counts.
    pub(super) fn place(&self) -> (u64, u64) {
        self.place
    }

    /// Ends its registration: providers close no endpoint that has any.
    pub(super) fn withdraw(&self) {
        drop(self.registration().take());
    }

    fn registration(&self) -> MutexGuard<'_, Option<Registration>> {
        self.registration.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write to a peer's anchor, and all that waits for its end.
pub(super) struct Probe {
    drains: Vec<Arc<Drain>>,
    has_failed: AtomicBool,
}

impl Probe {
    /// One for all of these.
    pub(super) fn new(drains: Vec<Arc<Drain>>) -> Self {
        Self { drains, has_failed: AtomicBool::new(false) }
    }

    /// It was acknowledged, or its connection has been closed, and read to its end.
    pub(super) fn end(&self) {
        self.drains.iter().for_each(|drain| drain.end());
    }

    /// It could not be sent. What came before that by the same connection may still be read.
    pub(super) fn fail(&self) {
        // Relaxed: it only says that another one is to be sent.
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Whether it could not be sent.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }
}

impl Adapter {
    /// Posts a probe; returns whether the provider took it.
    pub(super) fn probe(&self, endpoint: &Endpoint<Token>, peer: Rank, probe: &Arc<Probe>) -> bool {
        let Some(peer) = self.peers.get(peer.index()) else { return false };
        let Some(descriptor) = self.anchor.registration().as_ref().map(Registration::descriptor) else {
            return false;
        };
        let (key, address) = peer.anchor;
        let part = Part { direction: Direction::Write, local: self.anchor.memory, descriptor, key, address };
        let token = Token::Probe(peer.rank, Arc::clone(probe));
        self.post_anyway(endpoint, peer, &mut peer.outgoing(), |address| {
            // SAFETY: the anchor stays until the endpoint is closed, and always is zero.
            unsafe { endpoint.transfer_anyway(address, &part, token) }
        })
    }
}
