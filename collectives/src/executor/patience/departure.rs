//! Leaving the core that a waiter shares with those it waits for, where there is one for each. The scheduler leaves them
//! together where somebody computes on every other core: a core that two have is as good as another for it. But ranks
//! that signal each other get on only while both run, and do so faster for a part of the time, by a tenth of a
//! microsecond, than by turns all the time, of two or three each.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// When a waiter leaves.
#[derive(Debug, Default)]
pub(super) struct Departure {
    /// When it is time, once it is seen that there is reason to.
    due: Option<Instant>,
    /// The last one, and how long it was to be the last one.
    last: Option<(Instant, Duration)>,
}

/// How long a waiter stays at least after it has seen reason to leave, and how many of such times at most. Two who see
/// it at the same time must not change places: the first one has left before the second wants to, who sees that then.
const STEP: Duration = Duration::from_micros(500);
const STEPS: u64 = 8;

/// How long a waiter stays where it went, at first, and at most: a departure costs a tenth of a millisecond.
const STAY: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(320)];

impl Departure {
    /// Whether to leave at `now`, when companions are here.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let due = *self.due.get_or_insert_with(|| {
            let rested = self.last.map_or(now, |(last, stay)| now.max(last + stay));
            rested + STEP * (1 + RandomState::new().hash_one(()) % STEPS) as u32
        });
        if now < due {
            return false;
        }
        let [first, most] = STAY;
        let stay = match self.last {
            // Soon again: it was of no use for long.
            Some((last, stay)) if now < last + 4 * stay => (2 * stay).min(most),
            _ => first,
        };
        self.last = Some((now, stay));
        self.due = None;
        true
    }

    /// No companions are here.
    pub(super) fn call_off(&mut self) {
        self.due = None;
    }
}

/// Goes on on the next core on which this thread may run; it may still run on all of them afterwards.
pub(super) fn leave_core() {
    // Where nobody tells, or it is not allowed, the scheduler's choice has to do.
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let here = sched_getcpu();
    let cores = || (0..CpuSet::MAX_CPU).filter(|&core| core != here && allowed.is_set(core));
    let Some(next) = cores().find(|&core| core > here).or_else(|| cores().next()) else { return };
    let mut only = CpuSet::new();
    only.set(next);
    if sched_setaffinity(None, &only).is_ok() {
        // It was allowed a moment ago. If a set of the whole process's has changed meanwhile, the kernel keeps to that.
        let _ = sched_setaffinity(None, &allowed);
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::thread::{sched_getaffinity, sched_getcpu};

    use super::{Departure, STAY, STEP, STEPS, leave_core};

    /// When it leaves next, from then on.
    fn next(departure: &mut Departure, from: Instant) -> Instant {
        let step = Duration::from_micros(50);
        (0..).map(|at| from + step * at).find(|&now| departure.is_due(now)).unwrap()
    }

    #[test]
    fn who_has_to_leave_again_and_again_stays_ever_longer() {
        let (mut departure, mut now) = (Departure::default(), Instant::now());
        let longest = 2 * STEP * STEPS as u32;
        let [first, most] = STAY;
        let left = next(&mut departure, now);
        assert!(left >= now + STEP && left <= now + longest);
        now = left;
        let mut stay = first;
        for _ in 0..8 {
            let left = next(&mut departure, now);
            assert!(left > now + stay && left < now + stay + longest, "{:?} after {stay:?}", left - now);
            stay = (2 * stay).min(most);
            now = left;
        }
        // After a long time of peace, all is as at first.
        now = next(&mut departure, now + 8 * most);
        let left = next(&mut departure, now);
        assert!(left < now + first + longest);
    }

    #[test]
    fn who_has_no_companions_any_more_stays() {
        let (mut departure, now) = (Departure::default(), Instant::now());
        assert!(!departure.is_due(now));
        departure.call_off();
        assert!(!departure.is_due(now + 2 * STEP * STEPS as u32));
    }

    #[test]
    fn who_has_left_may_still_run_everywhere() {
        let allowed = sched_getaffinity(None).unwrap();
        for _ in 0..allowed.count() {
            leave_core();
            assert!(allowed.is_set(sched_getcpu()));
            assert_eq!(sched_getaffinity(None).unwrap(), allowed);
        }
    }
}
