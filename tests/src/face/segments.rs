//! Segments: under which ids, on demand, of files, mapped.

use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use svmio_transport::back_end::{Backing, Provider};
use svmio_transport::{Error, Fabric, LocalSegment, Rank, Result, SegmentId};

use crate::face::participant::{Participant, connect_to};

const SPACE: u32 = 10;

/// Connecting to one peer connects to that peer, and nothing does before. The segment is to be kept until all have
/// come so far.
#[must_use]
pub(super) fn nothing_is_connected_before_it_is_used(fabric: &Fabric) -> LocalSegment {
    let (own, size) = (fabric.rank().0, fabric.size());
    let (next, previous) = (Rank((own + 1) % size), Rank((own + size - 1) % size));
    // The one before may have come first: for some fabrics that is a connection both ways.
    let before = fabric.connected_peers();
    assert!(before.iter().all(|peer| *peer == previous), "connected before anything was used: {before:?}");
    let id = SegmentId::new(SPACE, 0);
    let segment = fabric.create(id, &Backing::Anonymous { length: 64 }).expect("a segment can be created");
    let before = fabric.connected_peers();
    assert!(before.iter().all(|peer| *peer == previous), "connected by creating a segment: {before:?}");
    let remote = connect_to(fabric, next, id);
    assert_eq!((remote.owner(), remote.id(), remote.len()), (next, id, 64));
    let peers = fabric.connected_peers();
    assert!(peers.contains(&next), "connected to {next}, says {peers:?}");
    assert!(
        peers.iter().all(|peer| [next, previous, fabric.rank()].contains(peer)),
        "connected to {next} only, says {peers:?}"
    );
    segment
}

/// Ids that are unknown, in use, and free again.
pub(super) fn ids(participant: &Participant) {
    let fabric = participant.fabric();
    let id = SegmentId::new(SPACE, 100);
    let next = participant.next();
    assert!(
        matches!(fabric.connect(next, id), Err(Error::UnknownSegment { owner, id: named }) if owner == next && named == id)
    );
    participant.meet();

    let create = |length| fabric.create(id, &Backing::Anonymous { length }).expect("the id is free");
    let segment = create(4096);
    assert_eq!((segment.id(), segment.memory().len()), (id, 4096));
    let mut bytes = vec![1; 4096];
    segment.memory().read(0, &mut bytes).expect("within the segment");
    assert!(bytes.iter().all(|byte| *byte == 0), "fresh memory is zeroed");
    // Whoever is ahead writes into it from here on.
    participant.meet();

    let again = fabric.create(id, &Backing::Anonymous { length: 64 });
    assert!(matches!(again, Err(Error::SegmentExists { id: named }) if named == id), "{again:?}");
    let other_space = participant.create(SegmentId::new(SPACE + 1, 100), 128);
    assert_eq!(other_space.memory().len(), 128);
    let remote = participant.connect(next, id);
    assert_eq!(remote.len(), 4096);
    participant.write(&remote, 5, b"before");
    participant.meet();

    segment.memory().read(5, &mut bytes[..6]).expect("within the segment");
    assert_eq!(&bytes[..6], b"before");
    // Several connections to one segment are independent of each other.
    let second = participant.connect(next, id);
    drop(remote);
    participant.write(&second, 105, b"second");
    participant.meet();

    segment.memory().read(105, &mut bytes[..6]).expect("within the segment");
    assert_eq!(&bytes[..6], b"second");
    participant.meet();

    drop(segment);
    participant.meet();

    assert!(matches!(fabric.connect(next, id), Err(Error::UnknownSegment { .. })));
    // What is written by an old connection may be refused or get lost; there is nothing more to expect of it.
    let is_over = |result: Result<()>| assert!(!matches!(result, Err(Error::PeerLost { .. })), "{result:?}");
    is_over(second.write(0, &[7; 16]));
    is_over(fabric.check_sequence(next, fabric.mark(next)).map(|_| ()));
    participant.meet();

    let segment = create(8192);
    let remote = participant.connect(next, id);
    assert_eq!(remote.len(), 8192, "the new segment under the old id");
    is_over(second.write(0, &[7; 16]));
    is_over(fabric.check_sequence(next, fabric.mark(next)).map(|_| ()));
    drop(second);
    participant.write(&remote, 8000, b"after");
    participant.meet();

    segment.memory().read(8000, &mut bytes[..5]).expect("within the segment");
    assert_eq!(&bytes[..5], b"after");
    segment.memory().read(0, &mut bytes[..16]).expect("within the segment");
    assert_eq!(bytes[..16], [0; 16], "an old connection leads to the new segment");
}

/// Makes segments with even numbers, as long as their number says, and notes who asked.
struct Even {
    fabric: Fabric,
    made: Mutex<Vec<(Rank, LocalSegment)>>,
}

impl Provider for Even {
    fn provide(&self, asker: Rank, id: SegmentId) {
        if id.number.is_multiple_of(2) {
            let backing = Backing::Anonymous { length: u64::from(id.number) };
            // Two may ask for one id at a time: then the second finds it made.
            if let Ok(segment) = self.fabric.create(id, &backing) {
                self.made.lock().expect("nobody panics with it").push((asker, segment));
            }
        }
    }
}

/// Makes nothing.
struct Nothing;

impl Provider for Nothing {
    fn provide(&self, _: Rank, _: SegmentId) {}
}

/// A provider makes what is asked for first, and leaves what it does not know, until it is removed.
pub(super) fn on_demand(participant: &Participant) {
    let fabric = participant.fabric();
    let even = Arc::new(Even { fabric: fabric.clone(), made: Mutex::default() });
    let (provider, nobodys): (Arc<dyn Provider>, Arc<dyn Provider>) =
        (Arc::clone(&even) as _, Arc::new(Nothing));
    fabric.set_provider(SPACE + 2, Arc::clone(&provider));
    fabric.remove_provider(SPACE + 2, &nobodys);
    participant.meet();

    let own = participant.rank().0;
    let mut connections = Vec::new();
    for peer in participant.others() {
        let length = 64 + 16 * own;
        let remote = fabric.connect(peer, SegmentId::new(SPACE + 2, length)).expect("it is made on demand");
        assert_eq!(remote.len(), u64::from(length));
        participant.write(&remote, u64::from(length) - 4, &own.to_ne_bytes());
        connections.push(remote);
        let unknown = fabric.connect(peer, SegmentId::new(SPACE + 2, 65));
        assert!(matches!(unknown, Err(Error::UnknownSegment { .. })), "{unknown:?}");
        let elsewhere = fabric.connect(peer, SegmentId::new(SPACE + 3, 64));
        assert!(matches!(elsewhere, Err(Error::UnknownSegment { .. })), "{elsewhere:?}");
        // One for all of them, asked for by all at about the same time.
        let shared = fabric.connect(peer, SegmentId::new(SPACE + 2, 4096)).expect("made by now");
        assert_eq!(shared.len(), 4096);
    }
    participant.meet();

    let mut made = even.made.lock().expect("nobody panics with it");
    for (asker, segment) in made.iter().filter(|(_, segment)| segment.id().number != 4096) {
        assert_eq!(segment.id().number, 64 + 16 * asker.0, "asked for by rank {asker}");
        let mut written = [0; 4];
        segment.memory().read(u64::from(segment.id().number) - 4, &mut written).expect("within the segment");
        assert_eq!(u32::from_ne_bytes(written), asker.0);
    }
    assert_eq!(made.len() as u32, participant.size(), "one per other rank, and one for all");
    let gone = std::mem::take(&mut *made);
    drop(made);
    drop(connections);
    participant.meet();
    drop(gone);
    fabric.remove_provider(SPACE + 2, &provider);
    participant.meet();
    for peer in participant.others() {
        let gone = fabric.connect(peer, SegmentId::new(SPACE + 2, 64 + 16 * own));
        assert!(matches!(gone, Err(Error::UnknownSegment { .. })), "{gone:?}");
    }
    participant.meet();
}

/// A segment that is a part of a file: what peers write is in the file, and only there.
pub(super) fn of_files(participant: &Participant) {
    const PAGE: u64 = 4096;
    let file = Arc::new(tempfile::tempfile().expect("a temporary file can be made"));
    let around = vec![0x5a; 4 * PAGE as usize];
    file.write_all_at(&around, 0).expect("the file can be written");
    let backing = Backing::File { file: Arc::clone(&file), offset: PAGE, length: 2 * PAGE };
    let id = SegmentId::new(SPACE, 200);
    let segment = participant.fabric().create(id, &backing).expect("a part of a file can be exported");
    let mut byte = [0];
    segment.memory().read(2 * PAGE - 1, &mut byte).expect("within the segment");
    assert_eq!(byte, [0x5a], "the segment is what the file holds");
    // Whoever is ahead writes into it from here on.
    participant.meet();

    let remote = participant.connect(participant.next(), id);
    assert_eq!(remote.len(), 2 * PAGE);
    let text = format!("from rank {}", participant.rank());
    for offset in [0, PAGE - 3, 2 * PAGE - text.len() as u64] {
        participant.write(&remote, offset, text.as_bytes());
    }
    participant.meet();

    let expected_text = format!("from rank {}", participant.previous());
    let mut expected = around;
    for offset in [0, PAGE - 3, 2 * PAGE - expected_text.len() as u64] {
        let at = (PAGE + offset) as usize;
        expected[at..at + expected_text.len()].copy_from_slice(expected_text.as_bytes());
    }
    let mut found = vec![0; expected.len()];
    file.read_exact_at(&mut found, 0).expect("the file can be read");
    assert!(found == expected, "the file holds what was written to it and around it what it held");
    // The other way: what the owner's program writes to the file is in the segment.
    file.write_all_at(b"by the owner", PAGE + 100).expect("the file can be written");
    let mut bytes = [0; 12];
    segment.memory().read(100, &mut bytes).expect("within the segment");
    assert_eq!(&bytes, b"by the owner");
}

/// Mapped segments are the same memory; fabrics that do not map say so.
pub(super) fn direct_mapping(participant: &Participant) {
    let id = SegmentId::new(SPACE, 300);
    let segment = participant.create(id, 4096);
    let remote = participant.connect(participant.next(), id);
    let maps = participant.capabilities().direct_mapping;
    assert!(maps || remote.mapping().is_none(), "a mapping on a fabric that does not map");
    participant.meet();

    if let Some(mapping) = remote.mapping() {
        assert_eq!(mapping.len() as u64, remote.len());
        let word = mapping.word64(1000).expect("within the mapping");
        // Release, and Acquire below: what is stored by one process is seen by the other, in order.
        word.store(u64::from(participant.rank().0) + 1, Ordering::Release);
        participant.fabric().ring(participant.next()).expect("a peer can be rung");
        participant.until_word(&segment, 1000, 1);
        let mut found = [0; 8];
        segment.memory().read(1000, &mut found).expect("within the segment");
        assert_eq!(u64::from_ne_bytes(found), u64::from(participant.previous().0) + 1);
        segment.memory().write(2000, b"seen").expect("within the segment");
        participant.meet();
        let mut seen = [0; 4];
        mapping.read(2000, &mut seen).expect("within the mapping");
        assert_eq!(&seen, b"seen");
    } else {
        participant.meet();
    }
}

/// More than there is cannot be had, and is an error when it is asked for.
pub(super) fn shortage(participant: &Participant) {
    let id = SegmentId::new(SPACE, 400);
    let asked = Backing::Anonymous { length: 1 << 50 };
    let refused = participant.fabric().create(id, &asked);
    assert!(matches!(refused, Err(Error::Memory { length, .. }) if length == 1 << 50), "{refused:?}");
    assert_eq!(participant.create(id, 64).memory().len(), 64, "the id is free after that");
}
