//! Leaving the core that a waiter shares with those it waits for, where there is one for each. The scheduler leaves them
//! together where somebody computes on every other core: a core that two have is as good as another for it. But ranks
//! that signal each other get on only while both run, and do so faster for a part of the time, by a tenth of a
//! microsecond, than by turns all the time, of two or three each.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use rustix::thread::sched_getcpu;

use crate::executor::pinning::Cores;

/// When a waiter leaves.
#[derive(Debug, Default)]
pub(super) struct Departure {
    /// When it is time, once it is seen that there is reason to.
    due: Option<Instant>,
    /// The last one, and how long it was to be the last one.
    last: Option<(Instant, Duration)>,
}

/// How long a waiter stays at least after it has seen reason to leave, and how many of such times at most. Two who see
/// it at the same time must not change places: when the second one wants to, polling shows that the first has left.
const STEP: Duration = Duration::from_micros(500);
const STEPS: u64 = 8;

/// For how long it is time then: who has not waited meanwhile knows nothing of now.
const FRESH: Duration = Duration::from_millis(10);

/// How long a waiter stays where it went, at first, and at most: a departure costs a tenth of a millisecond.
const STAY: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(320)];

impl Departure {
    /// Whether it is time to leave at `now`, when companions are here.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        if self.due.is_some_and(|due| now > due + FRESH) {
            self.due = None;
        }
        let due = *self.due.get_or_insert_with(|| {
            let rested = self.last.map_or(now, |(last, stay)| now.max(last + stay));
            rested + STEP * (1 + random() % STEPS) as u32
        });
        now >= due
    }

    /// The waiter leaves at `now`.
    pub(super) fn notice(&mut self, now: Instant) {
        let [first, most] = STAY;
        let stay = match self.last {
            // Soon again: it was of no use for long.
            Some((last, stay)) if now < last + 4 * stay => (2 * stay).min(most),
            _ => first,
        };
        self.last = Some((now, stay));
        self.due = None;
    }

    /// No companions are here.
    pub(super) fn call_off(&mut self) {
        self.due = None;
    }
}

/// Goes on on another core on which this thread may run, if there is one; it may still run on all of them afterwards.
/// Tells whether it did.
pub(super) fn leave_core() -> bool {
    let cores = Cores::of_thread();
    let Some(other) = other_core(cores.numbers(), sched_getcpu(), random()) else { return false };
    let _pinned = cores.keep_on(other);
    sched_getcpu() == other
}

/// A core that is not this one: by the number `random`, so that several who leave do not go to the same one.
fn other_core(cores: &[usize], here: usize, random: u64) -> Option<usize> {
    let others = || cores.iter().copied().filter(|&core| core != here);
    let count = others().count() as u64;
    others().nth(random.checked_rem(count)? as usize)
}

fn random() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::thread::sched_getaffinity;

    use super::{Departure, FRESH, STAY, STEP, STEPS, leave_core, other_core};

    const LONGEST: Duration = STEP.saturating_mul(STEPS as u32 + 1);

    /// When it leaves next, from then on.
    fn next(departure: &mut Departure, from: Instant) -> Instant {
        let step = Duration::from_micros(50);
        let due = (0..).map(|at| from + step * at).find(|&now| departure.is_due(now)).unwrap();
        departure.notice(due);
        due
    }

    #[test]
    fn who_has_to_leave_again_and_again_stays_ever_longer() {
        let (mut departure, mut now) = (Departure::default(), Instant::now());
        let [first, most] = STAY;
        let left = next(&mut departure, now);
        assert!(left >= now + STEP && left < now + LONGEST);
        now = left;
        let mut stay = first;
        for _ in 0..8 {
            let left = next(&mut departure, now);
            assert!(left > now + stay && left < now + stay + LONGEST, "{:?} after {stay:?}", left - now);
            stay = (2 * stay).min(most);
            now = left;
        }
        // After a long time of peace, all is as at first.
        now = next(&mut departure, now + 8 * most);
        let left = next(&mut departure, now);
        assert!(left < now + first + LONGEST);
    }

    #[test]
    fn who_has_no_companions_any_more_or_has_not_waited_since_stays() {
        let (mut departure, now) = (Departure::default(), Instant::now());
        assert!(!departure.is_due(now));
        departure.call_off();
        let later = now + LONGEST;
        assert!(!departure.is_due(later));
        assert!(!departure.is_due(later + LONGEST + FRESH));
    }

    #[test]
    fn others_are_all_that_are_allowed_but_this_one() {
        assert_eq!(other_core(&[], 0, 7), None);
        assert_eq!(other_core(&[3], 3, 7), None);
        for (here, others) in [(3, [5, 70]), (5, [3, 70]), (70, [3, 5])] {
            for random in 0..4 {
                assert_eq!(other_core(&[3, 5, 70], here, random), Some(others[random as usize % 2]));
            }
        }
    }

    #[test]
    fn who_has_left_may_still_run_everywhere() {
        let allowed = sched_getaffinity(None).unwrap();
        assert_eq!(leave_core(), allowed.count() > 1);
        assert_eq!(sched_getaffinity(None).unwrap(), allowed);
    }
}
