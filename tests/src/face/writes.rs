//! Remote writes: contiguous, gathered, scattered, compared with an array that is written the same way.

use std::ops::Range;

use svmio_transport::back_end::Piece;
use svmio_transport::{Error, Rank, RemoteSegment, SegmentId};

use crate::face::participant::Participant;
use crate::random::Random;

const SPACE: u32 = 20;

/// Bytes that each rank may write to in each other's segment.
const REGION: u64 = 64 << 10;

/// How a write is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Contiguous,
    Gathered,
    Scattered,
}

/// A write of one or more pieces: where in the region, and what.
#[derive(Debug)]
struct Write {
    kind: Kind,
    pieces: Vec<(u64, Vec<u8>)>,
}

impl Write {
    /// A random write within `range`; pieces of a scattered one overlap only where `may_overlap`.
    fn random(random: &mut Random, range: Range<u64>, may_overlap: bool) -> Write {
        let length = range.end - range.start;
        let kind = [Kind::Contiguous, Kind::Gathered, Kind::Scattered][random.below(3) as usize];
        let count = if kind == Kind::Contiguous { 1 } else { random.below(6) };
        let mut pieces = Vec::new();
        let mut from = range.start;
        for piece in 0..count {
            let (offset, most) = if kind == Kind::Gathered || !may_overlap {
                (from, (range.end - from) / (count - piece))
            } else {
                let offset = range.start + random.below(length + 1);
                (offset, range.end - offset)
            };
            // Mostly short ones, as in messages; now and then a long one.
            let most = if random.below(4) > 0 { most.min(200) } else { most };
            let length = random.below(most + 1);
            let bytes = random.bytes(length as usize);
            from = offset + bytes.len() as u64;
            pieces.push((offset, bytes));
        }
        Write { kind, pieces }
    }

    fn to_array(&self, array: &mut [u8]) {
        for (offset, bytes) in &self.pieces {
            let at = *offset as usize;
            array[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    fn to_remote(&self, remote: &RemoteSegment, region: u64) -> svmio_transport::Result<()> {
        let Some((first, bytes)) = self.pieces.first() else { return remote.write_scattered(&[]) };
        match self.kind {
            Kind::Contiguous => remote.write(region + first, bytes),
            Kind::Gathered => {
                let parts: Vec<&[u8]> = self.pieces.iter().map(|(_, bytes)| bytes.as_slice()).collect();
                remote.write_gathered(region + first, &parts)
            }
            Kind::Scattered => {
                let pieces = self.pieces.iter();
                let pieces: Vec<_> =
                    pieces.map(|(offset, bytes)| Piece { offset: region + offset, bytes }).collect();
                remote.write_scattered(&pieces)
            }
        }
    }
}

/// The writes of one sequence: overlapping where the fabric keeps their order, else each in a part of its own.
fn sequence(random: &mut Random, may_overlap: bool) -> Vec<Write> {
    let count = 1 + random.below(12);
    let part = |write: u64| {
        if may_overlap { 0..REGION } else { write * REGION / count..(write + 1) * REGION / count }
    };
    (0..count).map(|write| Write::random(random, part(write), may_overlap)).collect()
}

/// Every rank writes to every other at random; each knows what the others write to it.
pub(super) fn against_an_oracle(participant: &Participant) {
    let id = SegmentId::new(SPACE, 0);
    let length = REGION * u64::from(participant.size());
    let segment = participant.create(id, length);
    let remotes: Vec<_> = participant.others().map(|peer| participant.connect(peer, id)).collect();
    let mut expected = vec![0; length as usize];
    let mut found = vec![0; length as usize];
    let may_overlap = participant.is_ordered();
    let region = |writer: Rank| REGION * u64::from(writer.0);
    let seeded = |writer: Rank, reader: Rank| {
        let mut random = participant.random(writer);
        for _ in 0..reader.0 {
            random.below(2);
        }
        random
    };
    participant.meet();

    for _ in 0..12 {
        for remote in &remotes {
            let writes = sequence(&mut seeded(participant.rank(), remote.owner()), may_overlap);
            let transfers =
                || writes.iter().try_for_each(|write| write.to_remote(remote, region(participant.rank())));
            participant.fabric().write_checked(remote.owner(), transfers).expect("the peers are there");
        }
        for writer in participant.others() {
            let at = region(writer) as usize;
            let array = &mut expected[at..at + REGION as usize];
            let writes = sequence(&mut seeded(writer, participant.rank()), may_overlap);
            writes.iter().for_each(|write| write.to_array(array));
        }
        participant.meet();

        segment.memory().read(0, &mut found).expect("all of the segment");
        if let Some(at) = first_difference(&found, &expected) {
            let (writer, at) = (at as u64 / REGION, at as u64 % REGION);
            panic!("rank {writer}'s writes to rank {}: the byte at {at} is wrong", participant.rank());
        }
        participant.meet();
    }
}

/// Writes of megabytes, as the fabric allows, at odd places.
pub(super) fn large(participant: &Participant) {
    // Where transactions get lost, a write of very many of them never arrives whole.
    let most = if participant.capabilities().is_reliable { 3 << 20 } else { 64 << 10 };
    let longest = participant.capabilities().largest_transfer.min(most);
    let id = SegmentId::new(SPACE, 1);
    let segment = participant.create(id, longest + 100);
    let remote = participant.connect(participant.next(), id);
    participant.meet();

    for (offset, length) in [(0, longest), (100, longest), (33, longest / 2 + 1)] {
        let bytes = |writer| participant.random(writer).bytes(length as usize);
        participant.write(&remote, offset, &bytes(participant.rank()));
        let expected = bytes(participant.previous());
        participant.meet();

        let mut found = vec![0; length as usize];
        segment.memory().read(offset, &mut found).expect("within the segment");
        assert!(found == expected, "{length} bytes at {offset} from rank {}", participant.previous());
        participant.meet();
    }
}

/// A process can connect to its own segment and write to it as to any other.
pub(super) fn to_oneself(participant: &Participant) {
    let id = SegmentId::new(SPACE, 2);
    let segment = participant.create(id, REGION);
    let remote = participant.connect(participant.rank(), id);
    let mut random = participant.random(participant.rank());
    let mut expected = vec![0; REGION as usize];
    for _ in 0..20 {
        let write = Write::random(&mut random, 0..REGION, participant.is_ordered());
        write.to_array(&mut expected);
        participant
            .fabric()
            .write_checked(participant.rank(), || write.to_remote(&remote, 0))
            .expect("this process is there");
    }
    let mut found = vec![0; REGION as usize];
    segment.memory().read(0, &mut found).expect("all of the segment");
    assert!(found == expected);
}

/// Nothing is written where a write, or one piece of it, is beyond the end.
pub(super) fn bounds(participant: &Participant) {
    const LENGTH: u64 = 1000;
    let id = SegmentId::new(SPACE, 3);
    let segment = participant.create(id, LENGTH);
    let remote = participant.connect(participant.next(), id);
    participant.meet();

    let is_refused = |result: svmio_transport::Result<()>, offset: u64, length: u64| {
        let named = matches!(&result, Err(Error::OutOfBounds { offset: at, length: bytes, size, .. })
            if (*at, *bytes, *size) == (offset, length, LENGTH));
        assert!(named, "{length} bytes to {offset} of {LENGTH}: {result:?}");
    };
    for (offset, length) in [(LENGTH, 1), (LENGTH - 1, 2), (0, LENGTH + 1), (u64::MAX, 1), (u64::MAX - 8, 16)]
    {
        is_refused(remote.write(offset, &vec![1; length as usize]), offset, length);
    }
    is_refused(remote.write_gathered(0, &[&[1; 999], &[1; 2]]), 999, 2);
    let within = Piece { offset: 0, bytes: &[1; 8] };
    let beyond = Piece { offset: LENGTH - 7, bytes: &[1; 8] };
    is_refused(remote.write_scattered(&[within, beyond]), LENGTH - 7, 8);
    // The very end is within.
    participant.write(&remote, LENGTH, &[]);
    participant.write(&remote, LENGTH - 1, &[2]);
    participant.meet();

    let mut found = vec![0; LENGTH as usize];
    segment.memory().read(0, &mut found).expect("all of the segment");
    assert!(found[..LENGTH as usize - 1].iter().all(|byte| *byte == 0), "a refused write arrived");
    assert_eq!(found[LENGTH as usize - 1], 2);
}

/// The first place where two arrays of one length differ.
pub(super) fn first_difference(found: &[u8], expected: &[u8]) -> Option<usize> {
    // Compared as a whole first: that is quick also where the compiler does not optimise.
    if found == expected {
        None
    } else {
        found.iter().zip(expected).position(|(found, expected)| found != expected)
    }
}
