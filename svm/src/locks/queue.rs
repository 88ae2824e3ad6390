//! The queue of those who find the lock table full.
//!
//! Who comes draws a number and sleeps until an entry is free and it is its turn, as at a counter.
//! Nobody knows who has which number; so that a number whose owner has died holds nobody up, a
//! sleeper that finds room left untaken for a whole period skips all in front of it. If one of
//! those lives after all, it is admitted none the less: later than its turn, not never.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::LockError;
use super::layout::kill_point;
use super::sleep::{self, Deadline, Woken};

/// The queue, changed under the table's mutex only. Zeros are its initial value.
#[repr(C)]
pub(super) struct RoomQueue {
    /// Counts the calls; the word that all sleep on.
    calls: AtomicU32,
    /// The number that the next to come draws.
    next: AtomicU32,
    /// The number whose turn it is.
    serving: AtomicU32,
}

/// A number in the queue. They go round; what is meant is never more than half way off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn(u32);

impl Turn {
    fn is_after(self, other: Turn) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() > 0
    }

    /// Sleepers are called by the last digits of their number, rather than all at once.
    fn kind(self) -> NonZeroU32 {
        NonZeroU32::new(1 << (self.0 % u32::BITS)).unwrap_or(sleep::EVERYBODY)
    }
}

/// What somebody saw of the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    calls: u32,
    /// The number whose turn it was.
    pub(super) serving: Turn,
}

impl RoomQueue {
    /// Whether it is the turn of this number, or, without a number, nobody queues.
    pub(super) fn admits(&self, turn: Option<Turn>) -> bool {
        match turn {
            Some(turn) => !turn.is_after(self.serving()),
            None => !self.is_waited_in(),
        }
    }

    /// Notes that this number has taken an entry.
    pub(super) fn admitted(&self, turn: Option<Turn>) {
        if let Some(turn) = turn
            && !self.serving().is_after(turn)
        {
            self.serve(Turn(turn.0.wrapping_add(1)));
        }
    }

    /// Draws a number.
    pub(super) fn join(&self) -> Turn {
        let turn = Turn(self.next.load(Relaxed));
        kill_point();
        self.next.store(turn.0.wrapping_add(1), Relaxed);
        turn
    }

    /// Makes it the turn of this number.
    pub(super) fn skip_to(&self, turn: Turn) {
        if turn.is_after(self.serving()) {
            self.serve(turn);
        }
    }

    /// What there is to be seen, for [`RoomQueue::sleep`].
    pub(super) fn look(&self) -> Seen {
        Seen { calls: self.calls.load(Relaxed), serving: self.serving() }
    }

    /// Sleeps, without the mutex, until this number is called.
    pub(super) fn sleep(&self, seen: Seen, turn: Turn, deadline: Deadline) -> Result<Woken, LockError> {
        sleep::sleep(&self.calls, seen.calls, deadline, turn.kind())
    }

    /// Announces that an entry is free; who queues has then to be woken as returned, preferably
    /// without the mutex.
    pub(super) fn call(&self) -> Option<NonZeroU32> {
        self.is_waited_in().then(|| {
            self.count_call();
            self.serving().kind()
        })
    }

    /// Like [`RoomQueue::call`], for all at once.
    pub(super) fn call_all(&self) -> NonZeroU32 {
        self.count_call();
        sleep::EVERYBODY
    }

    /// Wakes those that were called.
    pub(super) fn wake(&self, kinds: NonZeroU32) {
        kill_point();
        sleep::wake(&self.calls, kinds);
    }

    /// Whether a number has been drawn whose turn has not been.
    fn is_waited_in(&self) -> bool {
        self.next.load(Relaxed) != self.serving().0
    }

    fn serving(&self) -> Turn {
        Turn(self.serving.load(Relaxed))
    }

    fn serve(&self, turn: Turn) {
        kill_point();
        self.serving.store(turn.0, Relaxed);
    }

    fn count_call(&self) {
        kill_point();
        let calls = self.calls.load(Relaxed);
        self.calls.store(calls.wrapping_add(1), Relaxed);
    }
}

#[cfg(test)]
impl RoomQueue {
    /// How many numbers have been drawn whose turn has not been.
    pub(super) fn length(&self) -> u32 {
        self.next.load(Relaxed).wrapping_sub(self.serving().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue_at(number: u32) -> RoomQueue {
        RoomQueue {
            calls: AtomicU32::new(number),
            next: AtomicU32::new(number),
            serving: AtomicU32::new(number),
        }
    }

    #[test]
    fn turns_come_in_order_also_where_the_numbers_go_round() {
        for start in [0, 7, u32::MAX - 2, u32::MAX] {
            let queue = queue_at(start);
            assert!(queue.admits(None));
            let turns: Vec<Turn> = (0..5).map(|_| queue.join()).collect();
            assert!(!queue.admits(None), "who comes now has to queue");
            for (at, turn) in turns.iter().enumerate() {
                assert!(turns[at + 1..].iter().all(|later| !queue.admits(Some(*later))));
                assert!(queue.admits(Some(*turn)));
                queue.admitted(Some(*turn));
            }
            assert!(queue.admits(None));
        }
    }

    #[test]
    fn who_was_skipped_is_admitted_late_and_changes_no_turn() {
        let queue = queue_at(u32::MAX);
        let turns: Vec<Turn> = (0..4).map(|_| queue.join()).collect();
        queue.skip_to(turns[2]);
        assert!(queue.admits(Some(turns[0])) && !queue.admits(Some(turns[3])));
        queue.admitted(Some(turns[0]));
        assert_eq!(queue.look().serving, turns[2]);
        queue.skip_to(turns[1]);
        assert_eq!(queue.look().serving, turns[2], "turns do not go backwards");
        queue.admitted(Some(turns[2]));
        assert!(queue.admits(Some(turns[3])));
    }

    #[test]
    fn a_call_is_for_the_one_whose_turn_it_is() {
        let queue = queue_at(30);
        assert_eq!(queue.call(), None);
        let turn = queue.join();
        let seen = queue.look();
        assert_eq!(queue.call(), Some(turn.kind()));
        let word_has_changed = queue.sleep(seen, turn, Deadline::one_period());
        assert_eq!(word_has_changed.ok(), Some(Woken::Changed));
    }
}
