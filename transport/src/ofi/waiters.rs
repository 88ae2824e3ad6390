//! Who waits in this process, and how they are woken.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::units::Interrupt;

/// Those who wait for a condition on local memory.
#[derive(Default)]
pub(super) struct Waiters {
    events: AtomicU64,
    sleepers: AtomicU32,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Waiters {
    /// What has happened so far. Taken before a condition is looked at, it tells [`sleep`](Self::sleep) whether
    /// anything happened since.
    pub(super) fn seen(&self) -> u64 {
        self.events.load(Ordering::SeqCst)
    }

    /// Has all look again.
    pub(super) fn look_again(&self) {
        // SeqCst, here and in `sleep`: of storing the event and asking for sleepers on this side, and becoming a
        // sleeper and asking for events on that, one comes first for everybody; so no sleeper is missed.
        self.events.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.changed.notify_all();
        }
    }

    /// Sleeps until something happens after `seen`, or until `deadline`.
    pub(super) fn sleep(&self, seen: u64, deadline: Option<Instant>) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while self.events.load(Ordering::SeqCst) == seen {
            guard = match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => break,
                Some(left) => {
                    self.changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        drop(guard);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// This process's interrupts.
pub(super) struct Interrupts {
    lines: [Line; Interrupt::COUNT],
    lock: Mutex<()>,
    disturbances: AtomicU64,
    is_closed: AtomicBool,
}

#[derive(Default)]
struct Line {
    /// Triggers that nobody has taken yet.
    pending: AtomicU64,
    /// How many waiters handle it themselves for now.
    attendants: AtomicU32,
    /// How many disturbances those who waited for it know of.
    disturbances: AtomicU64,
    raised: Condvar,
}

/// How a wait for an interrupt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Raised {
    /// It was triggered so often.
    Times(u64),
    /// It was not, but the deadline passed or the membership changed.
    Not,
    /// There will be no more.
    Closed,
}

impl Default for Interrupts {
    fn default() -> Self {
        Self {
            lines: std::array::from_fn(|_| Line::default()),
            lock: Mutex::default(),
            disturbances: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        }
    }
}

impl Interrupts {
    /// Triggers one. A number that does not exist is nobody's.
    pub(super) fn raise(&self, interrupt: Interrupt) {
        let Some(line) = self.lines.get(interrupt.0 as usize) else { return };
        // SeqCst, here and in `leave`: either this sees that nobody attends any more, or the leaving attendant sees
        // what is pending.
        line.pending.fetch_add(1, Ordering::SeqCst);
        if line.attendants.load(Ordering::SeqCst) == 0 {
            self.notify(line);
        }
    }

    /// Takes what is pending.
    pub(super) fn take(&self, interrupt: Interrupt) -> u64 {
        self.lines.get(interrupt.0 as usize).map_or(0, |line| line.pending.swap(0, Ordering::SeqCst))
    }

    /// From now on the caller handles it, until it calls [`leave`](Self::leave).
    pub(super) fn attend(&self, interrupt: Interrupt) {
        if let Some(line) = self.lines.get(interrupt.0 as usize) {
            line.attendants.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The caller handles it no longer; what it left over wakes whoever waits.
    pub(super) fn leave(&self, interrupt: Interrupt) {
        if let Some(line) = self.lines.get(interrupt.0 as usize) {
            line.attendants.fetch_sub(1, Ordering::SeqCst);
            if line.pending.load(Ordering::SeqCst) > 0 {
                self.notify(line);
            }
        }
    }

    /// Sleeps until it has been triggered.
    pub(super) fn wait(&self, interrupt: Interrupt, deadline: Option<Instant>) -> Raised {
        let Some(line) = self.lines.get(interrupt.0 as usize) else { return Raised::Not };
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // Of those since the last wait as well: who alone waits for this interrupt, and looks at the membership before,
        // misses none. One of several may: what comes before its wait another is told of.
        let known = line.disturbances.load(Ordering::SeqCst);
        loop {
            let count = line.pending.swap(0, Ordering::SeqCst);
            if count > 0 {
                return Raised::Times(count);
            }
            if self.is_closed.load(Ordering::SeqCst) {
                return Raised::Closed;
            }
            let disturbances = self.disturbances.load(Ordering::SeqCst);
            if disturbances != known {
                line.disturbances.store(disturbances, Ordering::SeqCst);
                return Raised::Not;
            }
            guard = match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => line.raised.wait(guard).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => return Raised::Not,
                Some(left) => line.raised.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// Has all who wait return: something was declared in the membership.
    pub(super) fn disturb(&self) {
        self.disturbances.fetch_add(1, Ordering::SeqCst);
        self.lines.iter().for_each(|line| self.notify(line));
    }

    /// Has all who wait return for good.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.lines.iter().for_each(|line| self.notify(line));
    }

    fn notify(&self, line: &Line) {
        // Under the lock, a waiter has either not looked yet or is already asleep.
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        line.raised.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::Instant;

    use super::{Interrupts, Raised, Waiters};
    use crate::units::Interrupt;

    #[test]
    fn no_event_is_missed_between_looking_and_sleeping() {
        let waiters = Arc::new(Waiters::default());
        let count = Arc::new(AtomicU64::new(0));
        let other = (Arc::clone(&waiters), Arc::clone(&count));
        let thread = thread::spawn(move || {
            for expected in 1..=2000 {
                loop {
                    let seen = other.0.seen();
                    if other.1.load(Ordering::SeqCst) >= expected {
                        break;
                    }
                    other.0.sleep(seen, None);
                }
            }
        });
        for _ in 0..2000 {
            count.fetch_add(1, Ordering::SeqCst);
            waiters.look_again();
        }
        thread.join().unwrap();
    }

    #[test]
    fn an_attended_interrupt_is_left_to_its_attendant() {
        let interrupts = Interrupts::default();
        let line = Interrupt(5);
        interrupts.attend(line);
        interrupts.raise(line);
        assert_eq!(interrupts.take(line), 1);
        interrupts.raise(line);
        interrupts.leave(line);
        assert_eq!(interrupts.wait(line, None), Raised::Times(1));
        assert_eq!(interrupts.wait(line, Some(Instant::now())), Raised::Not);
        interrupts.disturb();
        assert_eq!(interrupts.wait(line, None), Raised::Not);
        interrupts.close();
        assert_eq!(interrupts.wait(line, None), Raised::Closed);
    }
}
