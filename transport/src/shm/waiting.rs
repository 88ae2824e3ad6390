//! How long a waiter polls, when it gives its core away, and when it sleeps.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::back_end::{Wait, Waited};
use crate::units::Time;

use super::bell::{Attendance, Remaining};
use super::control::Control;
use super::settings::ShmSettings;

/// How often a waiter polls between two looks at the clock, which cost about 25 ns each.
const POLLS: u32 = 32;

/// The time that this back end keeps: the machine's monotonic clock, the same in all its processes.
pub(super) fn now() -> Time {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Time(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// How long it still is until `deadline`.
pub(super) fn remaining(deadline: Option<Time>) -> Remaining {
    let Some(deadline) = deadline else {
        return Remaining::Forever;
    };
    match deadline.since(now()) {
        Duration::ZERO => Remaining::Nothing,
        duration => Remaining::Time(duration),
    }
}

/// The waiters of one process.
#[derive(Debug)]
pub(super) struct Waiters {
    /// How many may poll in this process before there are more of them than cores, if every other process of
    /// the job has one; 0 where there are more processes than cores anyway.
    places: usize,
    /// How many poll now.
    polling: AtomicUsize,
    settings: ShmSettings,
}

/// How long a waiter does what, from the beginning of its wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Patience {
    /// Polls without giving the core away.
    spinning: Duration,
    /// Polls, and gives the core away after each time.
    yielding: Duration,
}

impl Waiters {
    /// Those of one of `processes` on `cores`.
    pub(super) fn new(settings: ShmSettings, processes: usize, cores: usize) -> Self {
        let places = (cores + 1).saturating_sub(processes);
        Self { places, polling: AtomicUsize::new(0), settings }
    }

    /// Waits for `wait`, in the process whose control segment is `control`. What is true at once returns at once.
    #[inline]
    pub(super) fn wait_until(&self, control: &Control, wait: Wait<'_>) -> Waited {
        if (wait.ready)() {
            return Waited::Ready;
        }
        self.wait_longer(control, wait)
    }

    fn wait_longer(&self, control: &Control, wait: Wait<'_>) -> Waited {
        let Wait { deadline, attends, ready } = wait;
        // An interrupt that does not exist is never triggered.
        let attendance = attends.and_then(|interrupt| control.line(interrupt).ok().map(|line| line.attend()));
        let mut look = || {
            attendance.as_ref().map(Attendance::take_note);
            ready()
        };
        match self.poll(deadline, &mut look) {
            Polled::Ready => return Waited::Ready,
            Polled::TimedOut => {}
            Polled::InVain => {
                let woken = control.bell.sleep(|| remaining(deadline), || look().then_some(()));
                if woken.is_some() {
                    return Waited::Ready;
                }
            }
        }
        // What came just before the deadline still counts.
        if look() { Waited::Ready } else { Waited::TimedOut }
    }

    fn poll(&self, deadline: Option<Time>, look: &mut impl FnMut() -> bool) -> Polled {
        let place = Place::take(&self.polling);
        let patience = self.patience(place.number);
        let began = Instant::now();
        let is_over = || remaining(deadline) == Remaining::Nothing;
        if !patience.spinning.is_zero() {
            loop {
                for _ in 0..POLLS {
                    if look() {
                        return Polled::Ready;
                    }
                    std::hint::spin_loop();
                }
                if is_over() {
                    return Polled::TimedOut;
                }
                if began.elapsed() >= patience.spinning {
                    break;
                }
            }
        }
        loop {
            if look() {
                return Polled::Ready;
            }
            if is_over() {
                return Polled::TimedOut;
            }
            if began.elapsed() >= patience.yielding {
                return Polled::InVain;
            }
            std::thread::yield_now();
        }
    }

    /// The patience of the `number`th who polls in this process.
    fn patience(&self, number: usize) -> Patience {
        let settings = &self.settings;
        let microseconds = |count: u32| Duration::from_micros(count.into());
        if number <= self.places {
            Patience {
                spinning: microseconds(settings.spin_microseconds),
                yielding: microseconds(settings.yield_microseconds),
            }
        } else {
            Patience { spinning: Duration::ZERO, yielding: microseconds(settings.crowded_yield_microseconds) }
        }
    }
}

/// How polling ended.
enum Polled {
    Ready,
    TimedOut,
    /// It is time to sleep.
    InVain,
}

/// One who polls, counted as long as the value lives.
struct Place<'a> {
    polling: &'a AtomicUsize,
    number: usize,
}

impl<'a> Place<'a> {
    fn take(polling: &'a AtomicUsize) -> Self {
        // Relaxed: only a number.
        let number = polling.fetch_add(1, Ordering::Relaxed) + 1;
        Self { polling, number }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.polling.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::Waiters;
    use crate::shm::ShmSettings;

    #[test]
    fn who_has_a_core_spins_and_who_has_none_does_not() {
        let spins = |processes, cores, number| {
            !Waiters::new(ShmSettings::default(), processes, cores).patience(number).spinning.is_zero()
        };
        assert!(spins(2, 2, 1));
        assert!(!spins(2, 2, 2));
        assert!(!spins(3, 2, 1));
        assert!(!spins(64, 2, 1));
        assert!(spins(2, 4, 3));
        assert!(!spins(2, 4, 4));
    }
}
