//! Remote interrupts: counted, told to waiters and callbacks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use svmio_transport::back_end::Piece;
use svmio_transport::{Error, Interrupt, Rank, SegmentId};

use crate::face::limit;
use crate::face::participant::Participant;

const SPACE: u32 = 70;
/// The last one that there is.
const LAST: Interrupt = Interrupt(Interrupt::COUNT as u32 - 1);

/// Waits until an interrupt has been triggered `wanted` times in all.
fn take(participant: &Participant, interrupt: Interrupt, wanted: u64) {
    let fabric = participant.fabric();
    let mut taken = 0;
    while taken < wanted {
        let deadline = limit(fabric);
        let count = fabric.wait_interrupt(interrupt, Some(deadline)).expect("the fabric is open");
        assert!(count > 0 || fabric.now() < deadline, "interrupt {interrupt}: {taken} of {wanted}");
        taken += count;
    }
    assert_eq!(taken, wanted, "interrupt {interrupt} was triggered more often than it was");
}

/// Whether nothing is left of an interrupt.
fn is_quiet(participant: &Participant, interrupt: Interrupt) -> bool {
    participant.fabric().wait_interrupt(interrupt, Some(participant.fabric().now())).expect("open") == 0
}

/// Each trigger counts once, whoever triggers, and whether or not somebody waits.
pub(super) fn counts(participant: &Participant) {
    const TIMES: u64 = 200;
    let fabric = participant.fabric();
    let interrupts = [Interrupt(0), Interrupt(7), LAST];
    // Before anybody waits: they are kept.
    for peer in participant.others() {
        fabric.trigger(peer, interrupts[0]).expect("the peer is there");
    }
    participant.meet();
    take(participant, interrupts[0], u64::from(participant.size()) - 1);

    // All to all while they wait, two interrupts in turn.
    for _ in 0..TIMES {
        for peer in participant.others() {
            for interrupt in &interrupts[1..] {
                fabric.trigger(peer, *interrupt).expect("the peer is there");
            }
        }
    }
    for interrupt in &interrupts[1..] {
        take(participant, *interrupt, TIMES * (u64::from(participant.size()) - 1));
    }

    // Oneself.
    for _ in 0..3 {
        fabric.trigger(participant.rank(), interrupts[1]).expect("this process is there");
    }
    take(participant, interrupts[1], 3);
    participant.meet();
    assert!(interrupts.iter().all(|interrupt| is_quiet(participant, *interrupt)));
}

/// What was written before a trigger is seen by whoever it wakes.
pub(super) fn tell_of_writes(participant: &Participant) {
    const LENGTH: u64 = 3000;
    let (data, answer) = (Interrupt(1), Interrupt(2));
    let id = SegmentId::new(SPACE, 0);
    let segment = participant.create(id, LENGTH);
    let remote = participant.connect(participant.next(), id);
    participant.meet();

    let fabric = participant.fabric();
    for round in 1..=100u8 {
        let bytes = [round; LENGTH as usize];
        if participant.is_ordered() {
            remote.write(0, &bytes).expect("the peer is there");
        } else {
            participant.write(&remote, 0, &bytes);
        }
        fabric.trigger(remote.owner(), data).expect("the peer is there");
        take(participant, data, 1);
        let mut found = [0; LENGTH as usize];
        segment.memory().read(0, &mut found).expect("all of the segment");
        assert!(found == bytes, "round {round}: the interrupt came before the data");
        fabric.trigger(participant.previous(), answer).expect("the peer is there");
        take(participant, answer, 1);
    }
}

/// So it is where both are one call. Where writes get lost, or come late, the interrupt comes all the same.
pub(super) fn come_with_writes(participant: &Participant) {
    const LENGTHS: [usize; 4] = [0, 8, 3000, 100_000];
    let (data, answer) = (Interrupt(5), Interrupt(6));
    let id = SegmentId::new(SPACE, 1);
    let segment = participant.create(id, 200_000);
    let remote = participant.connect(participant.next(), id);
    participant.meet();

    let fabric = participant.fabric();
    for (round, length) in (1..=40u8).zip(LENGTHS.into_iter().cycle()) {
        let bytes = vec![round; length];
        // The second piece lies apart from the first, so that both have a header of their own.
        let pieces = [0, 100_000].map(|offset| Piece { offset, bytes: &bytes });
        remote.write_and_trigger(&pieces, data).expect("the peer is there");
        take(participant, data, 1);
        if participant.is_ordered() {
            for piece in &pieces {
                let mut found = vec![0; length];
                segment.memory().read(piece.offset, &mut found).expect("all of the segment");
                assert!(found == bytes, "round {round}: the interrupt came before the data");
            }
        }
        fabric.trigger(participant.previous(), answer).expect("the peer is there");
        take(participant, answer, 1);
    }
    let outside = [Piece { offset: 200_000, bytes: &[1] }];
    assert!(matches!(remote.write_and_trigger(&outside, data), Err(Error::OutOfBounds { .. })));
    // To oneself.
    let own = participant.connect(participant.rank(), id);
    own.write_and_trigger(&[], data).expect("this process is there");
    take(participant, data, 1);
    // Nothing is on its way any more when the segments end.
    fabric.store_barrier(remote.owner()).expect("the peer is there");
    participant.meet();
    assert!(is_quiet(participant, data) && is_quiet(participant, answer));
}

/// A callback is told of every trigger, also of those before it was set.
pub(super) fn callbacks(participant: &Participant) {
    const TIMES: u64 = 50;
    let interrupt = Interrupt(3);
    let fabric = participant.fabric();
    fabric.trigger(participant.next(), interrupt).expect("the peer is there");
    participant.meet();

    let total = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&total);
    let waker = Arc::downgrade(fabric.back_end());
    let callback = move |count| {
        // Release: pairs with the load below.
        counted.fetch_add(count, Ordering::Release);
        if let Some(back_end) = waker.upgrade() {
            back_end.wake();
        }
    };
    // It serves until the fabric is closed.
    let _service = fabric.on_interrupt(interrupt, callback).expect("a thread can be had");
    for _ in 0..TIMES {
        for peer in participant.others() {
            fabric.trigger(peer, interrupt).expect("the peer is there");
        }
    }
    let wanted = 1 + TIMES * (u64::from(participant.size()) - 1);
    // Acquire: pairs with the callback.
    participant.until("all callbacks", || total.load(Ordering::Acquire) >= wanted);
    participant.meet();
    assert_eq!(total.load(Ordering::Acquire), wanted);
}

/// A deadline ends the wait, not before it passes; a trigger ends it at once.
pub(super) fn deadlines(participant: &Participant) {
    let interrupt = Interrupt(4);
    let fabric = participant.fabric();
    for length in [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(30)] {
        let (begun, deadline) = (fabric.now(), fabric.now().after(length));
        // 0 also when something is declared in the membership, which nobody does here.
        assert_eq!(fabric.wait_interrupt(interrupt, Some(deadline)).expect("open"), 0);
        let took = fabric.now().since(begun);
        assert!(took >= length && took < length + Duration::from_secs(10), "{took:?} for {length:?}");
    }
    participant.meet();

    // Rank 0 sleeps for long when it is woken.
    if participant.rank() == Rank(0) {
        let begun = fabric.now();
        let deadline = begun.after(Duration::from_secs(50));
        assert_eq!(fabric.wait_interrupt(interrupt, Some(deadline)).expect("open"), 1);
        assert!(fabric.now().since(begun) < Duration::from_secs(40), "woken by the deadline");
    } else if participant.rank() == Rank(1) {
        fabric.back_end().sleep(Duration::from_millis(50));
        fabric.trigger(Rank(0), interrupt).expect("the peer is there");
    }
}
