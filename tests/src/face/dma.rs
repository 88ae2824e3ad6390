//! Transfers that are handed over: chains, many in flight, how their ends are learnt.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use svmio_transport::back_end::Remote;
use svmio_transport::dma::{Completion, Direction, Transfer};
use svmio_transport::{Dma, Error, Rank, Result, SegmentId, UserMemory};

use crate::face::LIMIT;
use crate::face::participant::Participant;
use crate::face::writes::first_difference;

const SPACE: u32 = 50;
const LENGTH: u64 = 256 << 10;

/// The bytes from `offset` on of a segment of this process, for a transfer.
fn span(memory: &svmio_transport::SharedMemory, offset: u64, length: u64) -> UserMemory {
    let start = memory.span(offset, length as usize).expect("within the segment");
    let start = std::ptr::NonNull::new(start).expect("a segment is somewhere");
    UserMemory { start, length: length as usize }
}

/// A transfer from local memory to a remote place.
pub(super) fn writing(local: UserMemory, remote: Remote, offset: u64) -> Transfer {
    Transfer { direction: Direction::Write, local, remote, offset }
}

/// Posts a chain.
///
/// # Safety
/// As for [`svmio_transport::Fabric::post`].
unsafe fn post(participant: &Participant, chain: &[Transfer]) -> Result<Arc<Completion>> {
    let done = Arc::new(Completion::new());
    // SAFETY: the caller's promise.
    unsafe { participant.fabric().post(chain.to_vec(), &done) }?;
    Ok(done)
}

/// Posts a chain and waits for its end; again, where the fabric is one that may lose it.
///
/// # Safety
/// The local memory of the chain must be valid and left alone until this returns.
pub(super) unsafe fn carry_out(participant: &Participant, chain: &[Transfer]) {
    let attempts = if participant.capabilities().is_reliable { 1 } else { 100 };
    let mut result = Ok(());
    for _ in 0..attempts {
        // SAFETY: this waits for the end.
        let done = unsafe { post(participant, chain) }.expect("it can be posted");
        result = participant.fabric().wait_for(&done);
        assert!(done.test().is_some(), "what was waited for has ended");
        if result.is_ok() {
            return;
        }
    }
    panic!("a chain fails: {result:?}");
}

/// Whether the fabric has DMA; where it has none, that posting is refused.
fn is_offered(participant: &Participant) -> bool {
    if participant.capabilities().dma != Dma::None {
        return true;
    }
    let id = SegmentId::new(SPACE, 99);
    let own = participant.create(id, 64);
    let remote = participant.connect(participant.rank(), id);
    let transfer = writing(span(own.memory(), 0, 8), remote.remote(), 8);
    // SAFETY: nothing is begun; and the segment lives until the end of this function.
    let refused = unsafe { post(participant, &[transfer]) };
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    false
}

/// Transfers of a chain are carried out in their order, and are visible when it has ended.
pub(super) fn chains(participant: &Participant) {
    if !is_offered(participant) {
        return;
    }
    let (source, target) = (SegmentId::new(SPACE, 0), SegmentId::new(SPACE, 1));
    let local = participant.create(source, LENGTH);
    let segment = participant.create(target, LENGTH);
    let remote = participant.connect(participant.next(), target);
    let mut expected = vec![0; LENGTH as usize];
    participant.meet();

    for round in 0..30 {
        // What this rank writes to the next, and what the one before writes to this.
        let plan = |writer: Rank| {
            let mut random = participant.random(writer);
            let bytes = random.bytes(LENGTH as usize);
            let chain = (0..1 + random.below(8)).map(|_| {
                let length = random.below(if round % 3 == 0 { LENGTH } else { 3000 });
                (random.below(LENGTH - length + 1), random.below(LENGTH - length + 1), length)
            });
            let chain: Vec<(u64, u64, u64)> = chain.collect();
            (bytes, chain)
        };
        let (bytes, chain) = plan(participant.rank());
        local.memory().write(0, &bytes).expect("all of the segment");
        let transfers: Vec<_> = chain
            .iter()
            .map(|(from, to, length)| writing(span(local.memory(), *from, *length), remote.remote(), *to))
            .collect();
        // SAFETY: the segment is left alone until the chain has ended.
        unsafe { carry_out(participant, &transfers) };
        let (bytes, chain) = plan(participant.previous());
        for (from, to, length) in chain {
            let (from, to, length) = (from as usize, to as usize, length as usize);
            expected[to..to + length].copy_from_slice(&bytes[from..from + length]);
        }
        participant.meet();

        let mut found = vec![0; LENGTH as usize];
        segment.memory().read(0, &mut found).expect("all of the segment");
        assert_eq!(first_difference(&found, &expected), None, "the first wrong byte after round {round}");
        participant.meet();
    }
}

/// A chain that goes to two peers by turns: each is told by a ring, even if it sleeps and nobody else calls it.
pub(super) fn two_peers(participant: &Participant) {
    const PARTS: u64 = 4;
    const PART: u64 = LENGTH / PARTS;
    if !is_offered(participant) {
        return;
    }
    let (source, target) = (SegmentId::new(SPACE, 11), SegmentId::new(SPACE, 12));
    let local = participant.create(source, LENGTH + 8);
    // The bytes, a word behind them, two by which the writer is told that they came, and one that lets all go on.
    let (flag, thanks, go) = (LENGTH, [LENGTH + 8, LENGTH + 16], LENGTH + 24);
    let segment = participant.create(target, LENGTH + 32);
    let remotes: Vec<_> =
        participant.fabric().membership().ranks().map(|rank| participant.connect(rank, target)).collect();
    participant.meet();

    for writer in participant.fabric().membership().ranks() {
        let turn = u64::from(writer.0) + 1;
        // In a job of two, the second one is the writer itself.
        let peers = [1, 2].map(|after| Rank((writer.0 + after) % participant.size()));
        let bytes = participant.random(writer).bytes(LENGTH as usize);
        let check = || {
            let mut found = vec![0; LENGTH as usize];
            segment.memory().read(0, &mut found).expect("within the segment");
            assert_eq!(first_difference(&found, &bytes), None, "the first wrong byte from rank {writer}");
        };
        if participant.rank() == writer {
            local.memory().write(0, &bytes).expect("within the segment");
            local.memory().write(flag, &turn.to_ne_bytes()).expect("within the segment");
            let write = |offset, length, peer: Rank| {
                writing(span(local.memory(), offset, length), remotes[peer.index()].remote(), offset)
            };
            let parts = (0..PARTS).flat_map(|part| peers.map(|peer| write(part * PART, PART, peer)));
            let chain: Vec<_> = parts.chain(peers.map(|peer| write(flag, 8, peer))).collect();
            // SAFETY: the segment is left alone until the chain has ended.
            unsafe { carry_out(participant, &chain) };
            peers.iter().for_each(|peer| participant.fabric().ring(*peer).expect("a peer can be rung"));
            for (peer, thanks) in peers.into_iter().zip(thanks) {
                if peer == writer {
                    check();
                } else {
                    participant.until_word(&segment, thanks, turn);
                }
            }
            participant.others().for_each(|rank| participant.tell(&remotes[rank.index()], go, turn));
        } else {
            if let Some(place) = peers.iter().position(|peer| *peer == participant.rank()) {
                let begun = participant.fabric().now();
                participant.until_word(&segment, flag, turn);
                // Whoever is not called looks again when its time is over, and finds what has been there since long.
                let took = participant.fabric().now().since(begun);
                assert!(took < LIMIT / 2, "rank {} is not called by rank {writer}", participant.rank());
                check();
                participant.tell(&remotes[writer.index()], thanks[place], turn);
            }
            participant.until_word(&segment, go, turn);
        }
        participant.meet();
    }
}

/// Many chains to all peers at once, waited for from the last to the first.
pub(super) fn many_in_flight(participant: &Participant) {
    const CHAINS: u64 = 64;
    const PART: u64 = 2000;
    if !is_offered(participant) {
        return;
    }
    let (source, target) = (SegmentId::new(SPACE, 2), SegmentId::new(SPACE, 3));
    let local = participant.create(source, CHAINS * PART);
    let region = CHAINS * PART;
    let segment = participant.create(target, region * u64::from(participant.size()));
    let remotes: Vec<_> = participant.others().map(|peer| participant.connect(peer, target)).collect();
    let bytes = |writer| participant.random(writer).bytes(region as usize);
    local.memory().write(0, &bytes(participant.rank())).expect("all of the segment");
    let all: Vec<_> = participant.others().map(|peer| (peer, bytes(peer))).collect();
    participant.meet();

    let mut pending = Vec::new();
    for number in 0..CHAINS {
        for remote in &remotes {
            let place = region * u64::from(participant.rank().0) + number * PART;
            let chain: Vec<_> = [0, PART / 2]
                .map(|at| {
                    let local = span(local.memory(), number * PART + at, PART / 2);
                    writing(local, remote.remote(), place + at)
                })
                .into();
            // SAFETY: the segment is left alone until all have ended, below.
            let done = unsafe { post(participant, &chain) }.expect("it can be posted");
            pending.push((done, chain));
        }
    }
    while let Some((done, chain)) = pending.pop() {
        let result = participant.fabric().wait_for(&done);
        if result.is_err() && !participant.capabilities().is_reliable {
            // SAFETY: as above.
            unsafe { carry_out(participant, &chain) };
        } else {
            result.expect("each chain arrives");
        }
    }
    participant.meet();

    for (writer, expected) in all {
        let mut found = vec![0; region as usize];
        segment.memory().read(region * u64::from(writer.0), &mut found).expect("within the segment");
        assert!(found == expected, "from rank {writer}");
    }
}

/// An end can be tested, waited for, and told by a callback; each once.
pub(super) fn ends(participant: &Participant) {
    if !is_offered(participant) {
        return;
    }
    let (source, target) = (SegmentId::new(SPACE, 4), SegmentId::new(SPACE, 5));
    let local = participant.create(source, LENGTH);
    let _segment = participant.create(target, LENGTH);
    let remote = participant.connect(participant.next(), target);
    let (ended, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    participant.meet();

    const TIMES: u64 = 20;
    let mut pending = Vec::new();
    for number in 0..TIMES {
        let (ended, failed) = (Arc::clone(&ended), Arc::clone(&failed));
        let done = Arc::new(Completion::calling(move |result| {
            // Release: pairs with the load below.
            failed.fetch_add(u64::from(result.is_err()), Ordering::Release);
            ended.fetch_add(1, Ordering::Release);
        }));
        let length = if number % 2 == 0 { LENGTH } else { 8 };
        let chain = vec![writing(span(local.memory(), 0, length), remote.remote(), 0)];
        // SAFETY: the segment is left alone until all have ended, below.
        unsafe { participant.fabric().post(chain, &done) }.expect("it can be posted");
        pending.push(done);
    }
    // Acquire: pairs with the callback.
    participant.until("all callbacks", || ended.load(Ordering::Acquire) == TIMES);
    for done in &pending {
        participant.until("an end by testing", || done.test().is_some());
        let (tested, waited) = (done.test(), participant.fabric().wait_for(done));
        assert_eq!(tested.map(|result| result.is_ok()), Some(waited.is_ok()), "the end is told in one way");
    }
    assert_eq!(ended.load(Ordering::Acquire), TIMES, "each callback is called once");
    let is_reliable = participant.capabilities().is_reliable;
    assert!(!is_reliable || failed.load(Ordering::Acquire) == 0, "a transfer failed");
    // A chain of nothing has ended when it is posted, or soon after.
    // SAFETY: there is no memory.
    let nothing = unsafe { post(participant, &[]) }.expect("it can be posted");
    participant.until("the end of nothing", || nothing.test().is_some());
}

/// Transfers from a peer's memory, where the fabric reads.
pub(super) fn reads(participant: &Participant) {
    if !is_offered(participant) {
        return;
    }
    let (source, target) = (SegmentId::new(SPACE, 6), SegmentId::new(SPACE, 7));
    let segment = participant.create(source, LENGTH);
    let local = participant.create(target, LENGTH);
    let remote = participant.connect(participant.next(), source);
    let bytes = |owner| participant.random(owner).bytes(LENGTH as usize);
    segment.memory().write(0, &bytes(participant.rank())).expect("all of the segment");
    let expected = bytes(participant.next());
    participant.meet();

    let reading = |offset: u64, length: u64| Transfer {
        direction: Direction::Read,
        local: span(local.memory(), offset, length),
        remote: remote.remote(),
        offset,
    };
    if participant.capabilities().remote_read {
        let cut = 12_345;
        // SAFETY: the segment is left alone until the chain has ended.
        unsafe { carry_out(participant, &[reading(0, cut), reading(cut, LENGTH - cut)]) };
        let mut found = vec![0; LENGTH as usize];
        local.memory().read(0, &mut found).expect("all of the segment");
        assert!(found == expected, "read from rank {}", participant.next());
    } else {
        // SAFETY: the segment is left alone until it has ended.
        let refused = unsafe { post(participant, &[reading(0, 8)]) };
        let refused = refused.and_then(|done| participant.fabric().wait_for(&done));
        assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    }
}

/// Transfers beyond the end fail, at once or when they are carried out, and harm nothing.
pub(super) fn bounds(participant: &Participant) {
    if !is_offered(participant) {
        return;
    }
    let (source, target) = (SegmentId::new(SPACE, 8), SegmentId::new(SPACE, 9));
    let local = participant.create(source, 8192);
    let segment = participant.create(target, 4096);
    let remote = participant.connect(participant.next(), target);
    local.memory().write(0, &[7; 8192]).expect("all of the segment");
    participant.meet();

    for (offset, length) in [(4096 - 7, 8), (4096, 1), (u64::MAX - 7, 8), (0, 4097)] {
        let transfer = writing(span(local.memory(), 0, length), remote.remote(), offset);
        // SAFETY: the segment is left alone until it has ended.
        let refused = unsafe { post(participant, &[transfer]) };
        let refused = refused.and_then(|done| participant.fabric().wait_for(&done));
        assert!(refused.is_err(), "{length} bytes to {offset} of 4096");
    }
    // The next transfer is none the worse for it.
    let transfer = writing(span(local.memory(), 0, 96), remote.remote(), 4000);
    // SAFETY: the segment is left alone until it has ended.
    unsafe { carry_out(participant, &[transfer]) };
    participant.meet();

    let mut found = [0; 96];
    segment.memory().read(4000, &mut found).expect("within the segment");
    assert_eq!(found, [7; 96]);
}

/// Plain reads, where the fabric reads.
pub(super) fn remote_reads(participant: &Participant) {
    let id = SegmentId::new(SPACE, 10);
    let segment = participant.create(id, LENGTH);
    let remote = participant.connect(participant.next(), id);
    let bytes = |owner| participant.random(owner).bytes(LENGTH as usize);
    segment.memory().write(0, &bytes(participant.rank())).expect("all of the segment");
    let expected = bytes(participant.next());
    participant.meet();

    let mut into = vec![0; 8];
    if !participant.capabilities().remote_read {
        let refused = remote.read(0, &mut into);
        assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
        return;
    }
    let mut random = participant.random(participant.rank());
    let mut lengths = vec![0, 1, 7, 8, 256, 257, 4096, LENGTH];
    lengths.extend((0..30).map(|_| random.below(5000)));
    for length in lengths {
        let offset = random.below(LENGTH - length + 1);
        into.resize(length as usize, 0);
        remote.read(offset, &mut into).expect("within the segment");
        assert!(into == expected[offset as usize..][..length as usize], "{length} bytes at {offset}");
    }
    let beyond = remote.read(LENGTH - 3, &mut [0; 4]);
    assert!(matches!(beyond, Err(Error::OutOfBounds { .. })), "{beyond:?}");
    // What was written by this process is read by it.
    participant.meet();
    participant.write(&remote, 100, b"read again");
    let mut again = [0; 10];
    remote.read(100, &mut again).expect("within the segment");
    assert_eq!(&again, b"read again");
}
