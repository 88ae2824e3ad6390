//! Store barriers and sequence checks: what may be relied on after them.

use svmio_transport::SegmentId;
use svmio_transport::back_end::Sequence;

use crate::face::participant::Participant;

const SPACE: u32 = 30;
const BLOCK: u64 = 1024;

/// Data, a store barrier, a flag: who sees the flag sees the data. Where the order is kept or a check is needed,
/// the same with nothing between, or with a check.
pub(super) fn store_barriers(participant: &Participant) {
    let rounds = 300;
    let id = SegmentId::new(SPACE, 0);
    // Data of the rank before, its flag, and the answer of the rank behind.
    let (flag, answer) = (BLOCK, BLOCK + 8);
    let segment = participant.create(id, BLOCK + 16);
    let next = participant.connect(participant.next(), id);
    let previous = participant.connect(participant.previous(), id);
    participant.meet();

    let fabric = participant.fabric();
    for round in 1..=rounds {
        let data = [round as u8; BLOCK as usize];
        if participant.capabilities().is_reliable {
            next.write(0, &data).expect("the peer is there");
            if !participant.is_ordered() || round % 2 == 0 {
                fabric.store_barrier(next.owner()).expect("the peer is there");
            }
            next.write(flag, &u64::to_ne_bytes(round)).expect("the peer is there");
            fabric.ring(next.owner()).expect("the peer is there");
        } else {
            participant.write(&next, 0, &data);
            participant.tell(&next, flag, round);
        }
        participant.until_word(&segment, flag, round);
        let mut found = [0; BLOCK as usize];
        segment.memory().read(0, &mut found).expect("within the segment");
        assert!(found == data, "round {round}: the flag came before its data");
        participant.tell(&previous, answer, round);
        participant.until_word(&segment, answer, round);
    }
}

/// Intact means that all of a sequence is there; where every write arrives, nothing else is ever told.
pub(super) fn checks(participant: &Participant) {
    let id = SegmentId::new(SPACE, 1);
    let segment = participant.create(id, BLOCK);
    let remote = participant.connect(participant.next(), id);
    participant.meet();

    let fabric = participant.fabric();
    let before = fabric.statistics();
    let mut broken = 0;
    for round in 0..200u64 {
        let attempts = (0..1000).find(|_| {
            let mark = fabric.mark(remote.owner());
            // Eight writes, each to its own place, in an order of its own.
            for write in 0..8 {
                let place = (write * 5 + round) % 8 * BLOCK / 8;
                let bytes = [(round * 8 + write) as u8; BLOCK as usize / 8];
                remote.write(place, &bytes).expect("the peer is there");
            }
            let sequence = fabric.check_sequence(remote.owner(), mark).expect("the peer is there");
            broken += u64::from(sequence == Sequence::Broken);
            sequence == Sequence::Intact
        });
        assert!(attempts.is_some(), "1000 repetitions, none of them intact");
        participant.meet();

        for write in 0..8u64 {
            let mut found = [0; BLOCK as usize / 8];
            segment
                .memory()
                .read((write * 5 + round) % 8 * BLOCK / 8, &mut found)
                .expect("within the segment");
            let expected = (round * 8 + write) as u8;
            assert!(
                found.iter().all(|byte| *byte == expected),
                "round {round}: not all of an intact sequence is there"
            );
        }
        participant.meet();
    }
    assert!(
        broken == 0 || !participant.capabilities().is_reliable,
        "{broken} broken sequences on a reliable fabric"
    );
    let after = fabric.statistics();
    assert!(after.broken_sequences - before.broken_sequences >= broken, "broken sequences are counted");
}
