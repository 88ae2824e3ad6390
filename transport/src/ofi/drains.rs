//! What may still be coming into memory that is not for peers any more.
//!
//! A receive fails, and its memory is to be the program's again; a segment is dropped. The peer that was to write there
//! need not be dead: it was taken for dead because it stood still, or the job ends, or its messenger only. Providers of
//! sockets look a key up once, when a write begins to arrive, and put the rest of it where it belongs, whatever became
//! of the registration. So memory is given back in this order:
//!
//! 1. The registration ends. What begins to arrive from now on is refused.
//! 2. A *probe* goes to the peer: a write of eight zero bytes into its *anchor*, memory that every process keeps for
//!    this, until it is acknowledged. There is one connection with a peer at a time, for both directions, and what the
//!    peer's end of it sends comes one after the other. So the acknowledgement comes behind the rest of what had begun
//!    to arrive; and where the probe fails, the connection is closed, and nothing comes by it. Where the provider takes
//!    no probe for [`UNCONNECTED`], it is taken to have no connection, by which nothing could come; the providers of
//!    sockets that were tried take one whenever they have a connection, however much waits there. What this end had
//!    begun to send of a segment that the peer reads is on its way before the probe, too.
//! 3. The probe has ended: the receive fails, the segment is unmapped.
//!
//! This needs no answer of the peer's program, only of its provider; it does not matter whom the peer takes for lost.
//! It costs nothing where all goes well, and one probe for each who knows a segment that is dropped. There is one probe
//! to a peer at a time: what is given back meanwhile waits for the next one, all of it together.
//!
//! **Who does not answer** is dead, with its machine, or stands still, and may go on later. A segment is kept until it
//! does, or the fabric is closed. A receive cannot wait for ever. The watchdog declares the peer lost, or it is lost
//! after the time that any answer may take. A lost one has `ofi.silence` to answer: then the memory is given back, and
//! the log tells of it. Should such a peer go on, the rest of its write may still come there until it finds itself
//! lost.

use std::collections::HashSet;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::adapter::{Adapter, Token, closed};
use super::domain::{Registration, Use};
use super::endpoint::{Endpoint, Part, Posted};
use crate::back_end::Drain;
use crate::dma::Direction;
use crate::error::Result;
use crate::mapping::{self, Pages};
use crate::memory::{SharedMemory, UserMemory};
use crate::units::Rank;

/// How long is tried to make a connection. With a peer that lives it takes some ms, on a busy machine more; nobody but
/// who deals with a dead peer waits for it.
const UNCONNECTED: Duration = Duration::from_secs(1);

/// The most that counts of the time between two looks: longer ones mean that this process stood still itself.
const STEP: Duration = Duration::from_millis(100);

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
pub(super) struct Probe(Vec<Arc<Drain>>);

impl Probe {
    /// It was acknowledged, or has failed.
    pub(super) fn end(&self) {
        self.0.iter().for_each(|drain| drain.end());
    }
}

/// All memory into which something may still be coming.
///
/// The numbers beside the list only say whether it is worth a look, so they are stored and loaded relaxed: they change
/// where the list is held, and the attendant, which looks, is woken after something was added.
#[derive(Default)]
pub(super) struct Drains {
    open: Mutex<All>,
    /// How many there are.
    count: AtomicUsize,
    /// Whether it is to be looked often at some.
    are_urgent: AtomicBool,
}

#[derive(Default)]
struct All {
    open: Vec<Open>,
    /// The endpoint is closed: nothing comes any more.
    are_over: bool,
}

/// What one peer had begun to write into one place.
struct Open {
    drain: Arc<Drain>,
    peer: Rank,
    is_posted: bool,
    /// For how long the provider has taken no probe.
    refused: Duration,
    waited: Duration,
    looked: Instant,
    /// Memory of ours into which it may come; nobody waits for that.
    segment: Option<SharedMemory>,
}

impl Drains {
    /// Whether it is to be looked often at some: somebody waits, or a probe is to go out.
    pub(super) fn are_urgent(&self) -> bool {
        self.are_urgent.load(Ordering::Relaxed)
    }

    fn all(&self) -> MutexGuard<'_, All> {
        // A panic elsewhere leaves the list whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Adapter {
    /// Tells when nothing more comes of what `peer` had begun to write into memory whose registration has just ended.
    /// A `segment` is kept until then.
    pub(super) fn drain(&self, peer: Rank, segment: Option<SharedMemory>) -> Arc<Drain> {
        let drain = Arc::new(Drain::default());
        let mut all = self.drains.all();
        if peer == self.rank() || all.are_over {
            drain.end();
            return drain;
        }
        all.open.push(Open {
            drain: Arc::clone(&drain),
            peer,
            is_posted: false,
            refused: Duration::ZERO,
            waited: Duration::ZERO,
            looked: Instant::now(),
            segment,
        });
        self.drains.count.store(all.open.len(), Ordering::Relaxed);
        self.drains.are_urgent.store(true, Ordering::Relaxed);
        drop(all);
        // Which posts the probe: whoever drops a segment waits for nothing.
        self.wake_attendant();
        drain
    }

    /// Goes on with all of them.
    pub(super) fn advance_drains(&self, now: Instant) {
        if self.drains.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let (mut silent, mut ended) = (Vec::new(), Vec::new());
        // Closed meanwhile, they are ended by whoever closes.
        let _ = self.with_endpoint(|endpoint| {
            let mut all = self.drains.all();
            self.send_probes(endpoint, &mut all.open, now);
            all.open.iter().for_each(|open| self.look_after(open, &mut silent));
            ended.extend(all.open.extract_if(.., |open| open.drain.is_over()));
            let probed: HashSet<Rank> =
                all.open.iter().filter(|open| open.is_posted).map(|open| open.peer).collect();
            let is_urgent = |open: &Open| open.segment.is_none() || !probed.contains(&open.peer);
            self.drains.count.store(all.open.len(), Ordering::Relaxed);
            self.drains.are_urgent.store(all.open.iter().any(is_urgent), Ordering::Relaxed);
            Ok(())
        });
        if !ended.is_empty() {
            self.waiters.look_again();
        }
        // Without the locks: unmapping takes its time, and who is told may drop segments, or the fabric.
        drop(ended);
        for peer in silent {
            let limit = self.settings.answer_limit();
            self.membership.declare_lost(peer, format!("it acknowledged nothing for {limit:?}"));
        }
    }

    /// Ends all of them: the endpoint is closed, and the provider has let go of everything.
    pub(super) fn end_drains(&self) {
        let open = {
            let mut all = self.drains.all();
            all.are_over = true;
            std::mem::take(&mut all.open)
        };
        self.drains.count.store(0, Ordering::Relaxed);
        self.drains.are_urgent.store(false, Ordering::Relaxed);
        open.iter().for_each(|open| open.drain.end());
    }

    /// Probes those peers to which no probe is under way, each for all that waits for it.
    fn send_probes(&self, endpoint: &Endpoint<Token>, all: &mut [Open], now: Instant) {
        let mut busy: HashSet<Rank> =
            all.iter().filter(|open| open.is_posted && !open.drain.is_over()).map(|open| open.peer).collect();
        for index in 0..all.len() {
            let passed = now.saturating_duration_since(all[index].looked).min(STEP);
            all[index].waited += passed;
            all[index].looked = now;
            let peer = all[index].peer;
            if all[index].is_posted || !busy.insert(peer) {
                continue;
            }
            let theirs = |open: &&mut Open| open.peer == peer && !open.is_posted;
            let drains = all.iter().filter(|open| open.peer == peer && !open.is_posted);
            let probe = Probe(drains.map(|open| Arc::clone(&open.drain)).collect());
            if self.probe(endpoint, peer, probe) {
                all.iter_mut().filter(theirs).for_each(|open| open.is_posted = true);
                continue;
            }
            for open in all.iter_mut().filter(theirs) {
                open.refused += passed;
                if open.refused >= UNCONNECTED {
                    tracing::debug!(%peer, "memory is given back: there is no connection with its peer");
                    open.drain.end();
                }
            }
        }
    }

    /// Does not wait longer for one than it may take; adds its peer to those who are `silent` for too long.
    fn look_after(&self, open: &Open, silent: &mut Vec<Rank>) {
        if open.segment.is_some() || open.drain.is_over() {
            return;
        }
        if self.membership.check(open.peer).is_ok() {
            if open.waited >= self.settings.answer_limit() && !silent.contains(&open.peer) {
                silent.push(open.peer);
            }
        } else if open.waited >= self.settings.silence {
            tracing::warn!(
                peer = %open.peer,
                "a message's memory is given back though its sender, which is lost, does not say that it has stopped \
                 writing; if it stood still and goes on, something may still come there"
            );
            open.drain.end();
        }
    }

    /// Posts a probe; returns whether the provider took it.
    fn probe(&self, endpoint: &Endpoint<Token>, peer: Rank, probe: Probe) -> bool {
        let Some(peer) = self.peers.get(peer.index()) else { return false };
        let Some(descriptor) = self.anchor.registration().as_ref().map(Registration::descriptor) else {
            return false;
        };
        let (key, address) = peer.anchor;
        let part = Part { direction: Direction::Write, local: self.anchor.memory, descriptor, key, address };
        let token = Token::Probe(peer.rank, Arc::new(probe));
        let mut outgoing = peer.outgoing();
        let known = outgoing.address;
        let Ok(address) = known.map_or_else(|| endpoint.insert(&peer.name), Ok) else { return false };
        // SAFETY: the anchor stays until the endpoint is closed, and always is zero.
        let posted = unsafe { endpoint.transfer_anyway(address, &part, token) };
        if outgoing.is_given_up {
            // Nothing else goes there any more. The provider knows the connection by the peer's name.
            endpoint.remove(address);
        } else {
            outgoing.address = Some(address);
        }
        matches!(posted, Ok(Posted::Yes))
    }
}
