//! Writes that come late: kept until they are due, or until a store barrier fetches them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::back_end::{BackEnd, Piece, Remote, Service, Wait};
use crate::error::Result;
use crate::units::{Rank, Time};

/// A write that is still to come.
#[derive(Debug)]
pub(super) struct LateWrite {
    pub(super) remote: Remote,
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

/// All that are still to come, and a service that delivers them when they are due.
pub(super) struct LateWrites {
    inner: Arc<dyn BackEnd>,
    state: Mutex<State>,
    /// For each peer, how many are taken from the queue and not yet delivered.
    under_way: Vec<AtomicU64>,
    is_closed: AtomicBool,
}

#[derive(Default)]
struct State {
    queue: Vec<(Time, LateWrite)>,
    service: Option<Box<dyn Service>>,
    has_service: bool,
}

impl LateWrites {
    /// None yet, in a job of `size`.
    pub(super) fn new(inner: Arc<dyn BackEnd>, size: u32) -> Arc<Self> {
        Arc::new(Self {
            inner,
            state: Mutex::default(),
            under_way: (0..size).map(|_| AtomicU64::new(0)).collect(),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Keeps `write` until it is due.
    ///
    /// # Errors
    /// `System` where there is no thread for the service.
    pub(super) fn put_off(self: &Arc<Self>, write: LateWrite, due: Time) -> Result<()> {
        let is_first = {
            let mut state = self.state();
            state.queue.push((due, write));
            !std::mem::replace(&mut state.has_service, true)
        };
        if is_first {
            let late = Arc::clone(self);
            let service = self.inner.spawn("late-writes", Box::new(move || late.deliver_when_due()))?;
            self.state().service = Some(service);
        }
        // It may be due before the one that the service waits for.
        self.inner.wake();
        Ok(())
    }

    /// Delivers now, the last one first, all that `which` says.
    pub(super) fn deliver_all(&self, which: impl Fn(&LateWrite) -> bool) {
        while let Some(write) = self.take(|(_, write)| which(write)) {
            self.deliver(&write);
        }
    }

    /// Waits until nothing that was taken from the queue by others is on its way to `peer`.
    pub(super) fn wait_for_deliveries(&self, peer: Rank) {
        let Some(under_way) = self.under_way.get(peer.index()) else {
            return;
        };
        // Acquire: pairs with the Release in `deliver`.
        let mut ready = || under_way.load(Ordering::Acquire) == 0;
        // Without a deadline: a delivery does not wait.
        let _ = self.inner.wait_until(Wait { deadline: None, attends: None, ready: &mut ready });
    }

    /// Ends the service. What is still to come never comes.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let service = {
            let mut state = self.state();
            state.queue.clear();
            state.service.take()
        };
        self.inner.wake();
        if let Some(service) = service {
            service.join();
        }
    }

    fn deliver_when_due(&self) {
        while !self.is_closed.load(Ordering::Acquire) {
            let now = self.inner.now();
            if let Some(write) = self.take(|(due, _)| *due <= now) {
                self.deliver(&write);
                continue;
            }
            let next = self.next_due();
            let mut ready = || self.is_closed.load(Ordering::Acquire) || self.next_due() != next;
            // Whether it was woken or the next is due: it looks again.
            let _ = self.inner.wait_until(Wait { deadline: next, attends: None, ready: &mut ready });
        }
    }

    fn next_due(&self) -> Option<Time> {
        self.state().queue.iter().map(|(due, _)| *due).min()
    }

    /// Takes one from the queue; from then on it counts as under way.
    fn take(&self, which: impl Fn(&(Time, LateWrite)) -> bool) -> Option<LateWrite> {
        let mut state = self.state();
        let at = state.queue.iter().rposition(which)?;
        let (_, write) = state.queue.swap_remove(at);
        if let Some(under_way) = self.under_way.get(write.remote.owner.index()) {
            // Within the lock: who finds it no longer in the queue finds it here.
            under_way.fetch_add(1, Ordering::Relaxed);
        }
        Some(write)
    }

    fn deliver(&self, write: &LateWrite) {
        let LateWrite { remote, offset, bytes } = write;
        // That its peer is lost, or its connection gone, the program learns by its own calls; nobody asked for this.
        let is_there = self.inner.write(remote, &[Piece { offset: *offset, bytes }]);
        if let Some(under_way) = self.under_way.get(remote.owner.index()) {
            under_way.fetch_sub(1, Ordering::Release);
        }
        if is_there.is_ok() {
            // The bell that the program rang is over; whoever sleeps there has to look again.
            let _ = self.inner.ring(remote.owner);
        }
        self.inner.wake();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
