//! Remote words that are changed atomically.

use std::collections::BTreeSet;
use std::time::Duration;

use svmio_transport::back_end::Remote;
use svmio_transport::{Error, Rank, SegmentId};

use crate::face::participant::Participant;

const SPACE: u32 = 90;

/// All add to the same words, each rank's own among them: no addition is lost, and no two saw the same sum.
pub(super) fn fetch_and_add(participant: &Participant) {
    const TIMES: u64 = 200;
    let id = SegmentId::new(SPACE, 0);
    let size = u64::from(participant.size());
    // A word to add to, and a place per rank for what it saw.
    let segment = participant.create(id, 8 + 8 * size * TIMES);
    let ranks: Vec<_> = participant.fabric().membership().ranks().collect();
    let remotes: Vec<_> = ranks.iter().map(|rank| participant.connect(*rank, id)).collect();
    participant.meet();

    let mut seen = vec![Vec::new(); remotes.len()];
    for _ in 0..TIMES {
        for (remote, seen) in remotes.iter().zip(&mut seen) {
            let before = remote.fetch_add(0, 1).expect("the peer is there");
            seen.extend(before.to_ne_bytes());
        }
    }
    for (remote, seen) in remotes.iter().zip(&seen) {
        participant.write(remote, 8 + 8 * TIMES * u64::from(participant.rank().0), seen);
    }
    participant.meet();

    let mut words = vec![0; segment.memory().len()];
    segment.memory().read(0, &mut words).expect("all of the segment");
    let mut words =
        words.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
    assert_eq!(words.next(), Some(TIMES * size), "the sum");
    let seen: BTreeSet<_> = words.collect();
    assert_eq!(seen, (0..TIMES * size).collect(), "each sum was seen by one rank");
    // Sums wrap around.
    let own = &remotes[participant.rank().index()];
    participant.meet();
    own.fetch_add(0, (TIMES * size).wrapping_neg()).expect("this process is there");
    assert_eq!(own.fetch_add(0, u64::MAX).expect("this process is there"), 0);
    assert_eq!(own.fetch_add(0, 1).expect("this process is there"), u64::MAX);
    assert_eq!(own.fetch_add(0, 0).expect("this process is there"), 0);
}

/// A lock in the last rank's memory, held by all in turn to change words that are not changed atomically.
pub(super) fn locks(participant: &Participant) {
    const TIMES: u64 = 40;
    let id = SegmentId::new(SPACE, 1);
    let owner = Rank(participant.size() - 1);
    let segment = participant.create(id, 24);
    let remote = participant.connect(owner, id);
    let fabric = participant.fabric();
    let own = u64::from(participant.rank().0) + 1;
    participant.meet();

    for _ in 0..TIMES {
        let mut pause = Duration::from_micros(1);
        while remote.compare_swap(0, 0, own).expect("the owner is there") != 0 {
            fabric.back_end().sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(2));
        }
        let value = remote.fetch_add(8, 0).expect("the owner is there");
        let second = remote.fetch_add(16, 0).expect("the owner is there");
        assert_eq!(value, second, "two held the lock at a time");
        participant.write(&remote, 8, &(value + 1).to_ne_bytes());
        participant.write(&remote, 16, &(value + 1).to_ne_bytes());
        assert_eq!(remote.compare_swap(0, own, 0).expect("the owner is there"), own, "it was this rank's");
    }
    participant.meet();

    if participant.rank() == owner {
        let mut value = [0; 8];
        segment.memory().read(8, &mut value).expect("within the segment");
        assert_eq!(u64::from_ne_bytes(value), TIMES * u64::from(participant.size()));
        // What does not fit is left as it is.
        assert_eq!(remote.compare_swap(0, 5, 6).expect("this process is there"), 0);
        assert_eq!(remote.compare_swap(0, 0, 0).expect("this process is there"), 0);
    }
}

/// Words that are beyond the end, or not at a multiple of 8.
pub(super) fn refusals(participant: &Participant) {
    let id = SegmentId::new(SPACE, 2);
    let _segment = participant.create(id, 64);
    let next = participant.connect(participant.next(), id);
    participant.meet();

    for offset in [1, 4, 55] {
        let refused = next.fetch_add(offset, 1);
        assert!(matches!(refused, Err(Error::Misaligned { offset: at }) if at == offset), "{refused:?}");
        let refused = next.compare_swap(offset, 0, 1);
        assert!(matches!(refused, Err(Error::Misaligned { offset: at }) if at == offset), "{refused:?}");
    }
    for offset in [64, 1 << 40, u64::MAX - 7] {
        let refused = next.fetch_add(offset, 1);
        assert!(matches!(refused, Err(Error::OutOfBounds { .. })), "{refused:?}");
        let refused = next.compare_swap(offset, 0, 1);
        assert!(matches!(refused, Err(Error::OutOfBounds { .. })), "{refused:?}");
        // The same without the segment's own look at its bounds.
        let Remote { owner, place } = next.remote();
        let refused = participant.fabric().fetch_add(&Remote { owner, place }, offset, 1);
        assert!(refused.is_err(), "a word at {offset} of 64 bytes");
    }
    assert_eq!(next.fetch_add(56, 0).expect("the last word is within"), 0);
}
