//! Processes that compute where ranks wait: who is given a turn there has the core for milliseconds.

use std::time::{Duration, Instant};

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Thieves {
    /// How often turns were long, of late.
    score: u32,
    /// Until when no turn is given, and for how long that was decided.
    shunned: Option<(Instant, Duration)>,
}

/// A turn so long is no rank's that waits, too.
pub(super) const LONG_TURN: Duration = Duration::from_micros(500);

/// What a long turn adds to the score, a wait without one takes one off; and from which score on no turns are given.
/// One long turn among many short ones is a rank's that had something to compute.
const LONG_TURN_SCORE: u32 = 8;
const SHUNNING_SCORE: u32 = 20;

/// For how long no turns are given: at first, and at most.
const SHUNNING: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(1600)];

impl Thieves {
    /// Whether turns are to be given at `now`.
    pub(super) fn are_shunned(&self, now: Instant) -> bool {
        self.shunned.is_some_and(|(until, _)| now < until)
    }

    /// Whether one may be there.
    pub(super) fn are_suspected(&self) -> bool {
        self.score > 0 || self.shunned.is_some()
    }

    /// A wait is over in which the longest turn was so long.
    pub(super) fn notice(&mut self, longest: Duration, now: Instant) {
        if longest < LONG_TURN {
            self.score = self.score.saturating_sub(1);
            if self.score == 0 && self.shunned.is_some_and(|(until, length)| now >= until + length) {
                self.shunned = None;
            }
            return;
        }
        self.score += LONG_TURN_SCORE;
        if self.score >= SHUNNING_SCORE {
            let [first, most] = SHUNNING;
            // Again soon after the last time: they are still there.
            let length = match self.shunned {
                Some((until, length)) if now < until + length => (2 * length).min(most),
                _ => first,
            };
            self.shunned = Some((now + length, length));
            // One more long turn is enough when it has been tried again.
            self.score = SHUNNING_SCORE - LONG_TURN_SCORE;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::{Duration, Instant};

    use super::{LONG_TURN, SHUNNING, Thieves};

    #[test]
    fn who_takes_long_again_and_again_gets_no_more_turns_and_ever_longer() {
        let (mut thieves, mut now) = (Thieves::default(), Instant::now());
        for _ in 0..2 {
            thieves.notice(LONG_TURN, now);
            assert!(!thieves.are_shunned(now));
        }
        let [mut length, most] = SHUNNING;
        for _ in 0..8 {
            thieves.notice(LONG_TURN, now);
            assert!(thieves.are_shunned(now + length - Duration::from_millis(1)));
            now += length;
            assert!(!thieves.are_shunned(now));
            length = (2 * length).min(most);
        }
    }

    #[test]
    fn who_has_gone_is_suspected_no_more() {
        let (mut thieves, mut now) = (Thieves::default(), Instant::now());
        for _ in 0..3 {
            thieves.notice(LONG_TURN, now);
        }
        now += 2 * SHUNNING[0];
        thieves.notice(LONG_TURN, now);
        assert!(thieves.are_shunned(now));
        now += 4 * SHUNNING[0];
        for _ in 0..11 {
            thieves.notice(Duration::ZERO, now);
            assert!(thieves.are_suspected());
        }
        thieves.notice(Duration::ZERO, now);
        assert!(!thieves.are_suspected());
    }

    #[test]
    fn a_long_turn_now_and_then_is_forgiven() {
        let (mut thieves, now) = (Thieves::default(), Instant::now());
        for _ in 0..100 {
            thieves.notice(LONG_TURN, now);
            for _ in 0..10 {
                thieves.notice(Duration::from_micros(10), now);
            }
            assert!(!thieves.are_shunned(now));
        }
    }
}
