//! Sleeping on a word of shared memory, and waking who sleeps there.

use std::num::NonZeroU32;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::LockError;

/// How long a sleeper sleeps before it looks for the dead.
pub(super) const PERIOD: Duration = Duration::from_millis(100);

/// Sleepers of every kind.
pub(super) const EVERYBODY: NonZeroU32 = NonZeroU32::MAX;

/// The flags of a futex between processes: none, in particular not `PRIVATE`.
const SHARED: Flags = Flags::empty();

/// Time since the node started, the same in all its processes.
pub(super) fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// When a sleep ends at the latest. A point in time rather than a span, so that a thread that
/// signals interrupt again and again gets there, too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(Timespec);

impl Deadline {
    /// One [`PERIOD`] from now.
    pub(super) fn one_period() -> Self {
        let at = now() + PERIOD;
        Deadline(Timespec { tv_sec: at.as_secs().cast_signed(), tv_nsec: at.subsec_nanos().into() })
    }
}

/// The yields of one waiter before it goes to sleep.
#[derive(Debug, Default)]
pub(super) struct Yields {
    taken: u32,
    /// When the first was taken.
    since: Duration,
}

impl Yields {
    /// How often a waiter offers its core to others before it goes to sleep. A lock is mostly held for
    /// the time of a `memcpy`, and being woken takes longer than that.
    const MOST: u32 = 32;

    /// For how long at most. Where others compute, each yield lasts a slice of each of them: the waiter would be much
    /// later than if it was woken, and late to look for the dead.
    const LONGEST: Duration = Duration::from_millis(1);

    /// Takes one more, at the time `now`, if there is one left.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        if self.taken == 0 {
            self.since = now;
        }
        let left = self.taken < Self::MOST && now.saturating_sub(self.since) < Self::LONGEST;
        self.taken += u32::from(left);
        left
    }
}

/// Why a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// Somebody called, or the word had changed, or a signal came: look again.
    Changed,
    /// The deadline has passed.
    DeadlinePassed,
}

/// Sleeps while `word` has the value `expected`, until a [`wake`] for one of `kinds`.
pub(super) fn sleep(
    word: &AtomicU32,
    expected: u32,
    deadline: Deadline,
    kinds: NonZeroU32,
) -> Result<Woken, LockError> {
    match futex::wait_bitset(word, SHARED, expected, Some(&deadline.0), kinds) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Ok(Woken::Changed),
        Err(Errno::TIMEDOUT) => Ok(Woken::DeadlinePassed),
        Err(error) => Err(LockError::Sleep(error.into())),
    }
}

/// Wakes all who sleep on `word` and are of one of `kinds`.
pub(super) fn wake(word: &AtomicU32, kinds: NonZeroU32) {
    let all = i32::MAX.unsigned_abs();
    let outcome = futex::wake_bitset(word, SHARED, all, kinds);
    // It fails for an address that is not mapped or not aligned only, and `word` is a reference.
    debug_assert!(outcome.is_ok(), "waking sleepers: {outcome:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yields_are_some_and_end_when_they_last_long() {
        let mut yields = Yields::default();
        let start = now();
        assert!((0..Yields::MOST).all(|_| yields.take(start)) && !yields.take(start));
        // Others took the core for a slice of time.
        let mut yields = Yields::default();
        assert!(yields.take(start));
        assert!(!yields.take(start + Yields::LONGEST));
    }
}
