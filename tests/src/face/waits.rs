//! Waiting for a condition: woken in time, and using no processor meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use svmio_transport::back_end::{Wait, Waited};
use svmio_transport::{Interrupt, SegmentId};

use crate::face::limit;
use crate::face::participant::Participant;

const SPACE: u32 = 80;

/// The processor time of this thread so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Waiters sleep; what they wait for comes after half a second.
pub(super) fn sleep(participant: &Participant) {
    const LENGTH: Duration = Duration::from_millis(500);
    const MOST: Duration = Duration::from_millis(10);
    let id = SegmentId::new(SPACE, 0);
    let segment = participant.create(id, 8);
    let next = participant.connect(participant.next(), id);
    let interrupt = Interrupt(10);
    let fabric = participant.fabric();
    participant.meet();

    // Rank 0 begins: each wakes the next, first by a write, then by an interrupt.
    let is_first = participant.rank().0 == 0;
    let begun = processor_time();
    if is_first {
        fabric.back_end().sleep(LENGTH);
    } else {
        participant.until_word(&segment, 0, 1);
    }
    let used = processor_time().saturating_sub(begun);
    assert!(used < MOST, "{used:?} of processor time to wait for a word for {LENGTH:?}");
    participant.tell(&next, 0, 1);
    participant.meet();

    let begun = processor_time();
    if is_first {
        fabric.back_end().sleep(LENGTH);
    } else {
        let count = fabric.wait_interrupt(interrupt, Some(limit(fabric))).expect("open");
        assert_eq!(count, 1);
    }
    let used = processor_time().saturating_sub(begun);
    assert!(used < MOST, "{used:?} of processor time to wait for an interrupt for {LENGTH:?}");
    fabric.trigger(next.owner(), interrupt).expect("the peer is there");
    if is_first {
        let count = fabric.wait_interrupt(interrupt, Some(limit(fabric))).expect("open");
        assert_eq!(count, 1);
    }
}

/// A deadline ends the wait, not before it passes; what holds already needs no wait.
pub(super) fn deadlines(participant: &Participant) {
    let fabric = participant.fabric();
    for length in [Duration::ZERO, Duration::from_micros(100), Duration::from_millis(30)] {
        let (begun, deadline) = (fabric.now(), fabric.now().after(length));
        let wait = Wait { deadline: Some(deadline), attends: None, ready: &mut || false };
        assert_eq!(fabric.wait_until(wait), Waited::TimedOut);
        let took = fabric.now().since(begun);
        assert!(took >= length && took < length + Duration::from_secs(10), "{took:?} for {length:?}");
    }
    for deadline in [None, Some(fabric.now())] {
        let wait = Wait { deadline, attends: None, ready: &mut || true };
        assert_eq!(fabric.wait_until(wait), Waited::Ready);
    }
}

/// A word goes round all ranks, with a ring at each; at times after so long that all sleep.
pub(super) fn rings(participant: &Participant) {
    let id = SegmentId::new(SPACE, 1);
    let segment = participant.create(id, 8);
    let next = participant.connect(participant.next(), id);
    let fabric = participant.fabric();
    participant.meet();

    let is_first = participant.rank().0 == 0;
    for round in 1..=500 {
        if !is_first {
            participant.until_word(&segment, 0, round);
        } else if round % 100 == 0 {
            fabric.back_end().sleep(Duration::from_millis(20));
        }
        if participant.is_ordered() {
            next.write(0, &round.to_ne_bytes()).expect("the peer is there");
            fabric.ring(next.owner()).expect("the peer is there");
        } else {
            participant.tell(&next, 0, round);
        }
        if is_first {
            participant.until_word(&segment, 0, round);
        }
    }
}

/// A waiter that attends an interrupt is woken by it, without a ring.
pub(super) fn attending(participant: &Participant) {
    let id = SegmentId::new(SPACE, 2);
    let segment = participant.create(id, 8);
    let next = participant.connect(participant.next(), id);
    let interrupt = Interrupt(11);
    let fabric = participant.fabric();
    participant.meet();

    let word = segment.memory().word64(0).expect("within the segment");
    for round in 1..=20 {
        if round % 10 == 0 {
            fabric.back_end().sleep(Duration::from_millis(5));
        }
        participant.write(&next, 0, &u64::to_ne_bytes(round));
        fabric.trigger(next.owner(), interrupt).expect("the peer is there");
        let wait = Wait {
            deadline: Some(limit(fabric)),
            attends: Some(interrupt),
            // Acquire: what was written before is to be seen.
            ready: &mut || word.load(Ordering::Acquire) >= round,
        };
        assert_eq!(fabric.wait_until(wait), Waited::Ready, "round {round}");
        participant.meet();
    }
}

/// A condition that a thread of the same process makes true.
pub(super) fn wakes(participant: &Participant) {
    let fabric = participant.fabric();
    for pause in [Duration::ZERO, Duration::from_millis(20)] {
        let word = Arc::new(AtomicU64::new(0));
        let (set, back_end) = (Arc::clone(&word), Arc::clone(fabric.back_end()));
        let body = move || {
            back_end.sleep(pause);
            // Release: pairs with the load below.
            set.store(1, Ordering::Release);
            back_end.wake();
        };
        let service = fabric.back_end().spawn("waker", Box::new(body)).expect("a thread can be had");
        // Acquire: pairs with the store above.
        participant.until("the other thread", || word.load(Ordering::Acquire) == 1);
        service.join();
    }
}
