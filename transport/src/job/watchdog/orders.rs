//! Between the program's threads and the control thread: orders one way, the job's state the other.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::EventfdFlags;

use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::units::Rank;

/// What the program wants of the control thread.
#[derive(Debug, Clone)]
pub(crate) enum Order {
    /// Say that this process needs the others no more.
    Finish,
    /// Say that this process leaves, and why; then stop.
    Leave(String),
}

/// How far the control thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It watches.
    Watching,
    /// The job ends before all have finished.
    Ending,
    /// It has stopped.
    Stopped {
        /// Whether all have finished or are lost.
        is_over: bool,
    },
}

/// What both sides hold.
#[derive(Debug)]
pub(crate) struct Desk {
    orders: Mutex<Vec<Order>>,
    state: Mutex<State>,
    /// Who has not finished, where this process leads and its program has finished itself.
    unfinished: Mutex<Vec<Rank>>,
    changed: Condvar,
    bell: OwnedFd,
    fabric: OnceLock<Fabric>,
}

impl Desk {
    pub(super) fn new() -> Result<Self> {
        let bell = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|problem| Error::system("creating an eventfd", problem))?;
        Ok(Self {
            orders: Mutex::default(),
            state: Mutex::new(State::Watching),
            unfinished: Mutex::default(),
            changed: Condvar::new(),
            bell,
            fabric: OnceLock::new(),
        })
    }

    /// Gives an order.
    pub(crate) fn order(&self, order: Order) {
        lock(&self.orders).push(order);
        // It fails only when it was rung 2^64 times.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Waits until the state is one that `suits`, or `deadline` if there is one; returns it as it is then.
    pub(crate) fn wait(&self, deadline: Option<Instant>, suits: impl Fn(State) -> bool) -> State {
        let mut state = lock(&self.state);
        while !suits(*state) {
            let Some(deadline) = deadline else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *state
    }

    /// Who has not finished, as far as this process knows it: only the leader is told.
    pub(crate) fn unfinished(&self) -> Vec<Rank> {
        lock(&self.unfinished).clone()
    }

    pub(super) fn set_unfinished(&self, ranks: Vec<Rank>) {
        *lock(&self.unfinished) = ranks;
    }

    /// Tells which fabric has to be closed before the process is ended.
    pub(crate) fn set_fabric(&self, fabric: Fabric) {
        // It is set once, when the job has started.
        let _ = self.fabric.set(fabric);
    }

    pub(super) fn fabric(&self) -> Option<&Fabric> {
        self.fabric.get()
    }

    /// What rings when there are orders.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Takes all orders.
    pub(super) fn take(&self) -> Vec<Order> {
        // It fails only when it was not rung.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut *lock(&self.orders))
    }

    pub(super) fn set_state(&self, state: State) {
        *lock(&self.state) = state;
        self.changed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
