//! What is refused for its rank, and what is counted.

use svmio_transport::back_end::{Place, Remote};
use svmio_transport::dma::Completion;
use svmio_transport::{Error, Interrupt, Rank, Result, SegmentId};

use crate::face::participant::Participant;

const SPACE: u32 = 100;

/// Each call that names a rank refuses one that does not exist, by naming it.
pub(super) fn no_such_rank(participant: &Participant) {
    fn check<T: std::fmt::Debug>(call: &str, missing: Rank, size: u32, result: Result<T>) {
        let named = matches!(&result, Err(Error::NoSuchRank { rank, size: told }) if (*rank, *told) == (missing, size));
        assert!(named, "{call}: {result:?}");
    }
    let fabric = participant.fabric();
    let size = participant.size();
    let id = SegmentId::new(SPACE, 0);
    let _segment = participant.create(id, 64);
    let own = participant.connect(participant.rank(), id);
    let Place::Segment(connection) = own.remote().place else { panic!("a segment's place is a segment") };
    for missing in [Rank(size), Rank(u32::MAX)] {
        let remote = Remote { owner: missing, place: Place::Segment(connection) };
        check("connect", missing, size, fabric.connect(missing, id));
        check("write", missing, size, fabric.write(&remote, &[]));
        check("store_barrier", missing, size, fabric.store_barrier(missing));
        check("read", missing, size, fabric.read(&remote, 0, &mut [0; 8]));
        check("fetch_add", missing, size, fabric.fetch_add(&remote, 0, 1));
        check("compare_swap", missing, size, fabric.compare_swap(&remote, 0, 0, 1));
        check("trigger", missing, size, fabric.trigger(missing, Interrupt(0)));
        check("ring", missing, size, fabric.ring(missing));
        check("inquire", missing, size, fabric.back_end().inquire(missing, [0; 2], super::LIMIT));
        check(
            "check_sequence",
            missing,
            size,
            fabric.check_sequence(missing, fabric.mark(participant.rank())),
        );
        check("write_checked", missing, size, fabric.write_checked(missing, || Ok(())));
        let mut local = [0; 8];
        let local = svmio_transport::UserMemory::of_mut(&mut local);
        let chain = vec![super::dma::writing(local, remote, 0)];
        // SAFETY: it is refused.
        check("post", missing, size, unsafe { fabric.post(chain, &Completion::new().into()) });
    }
}

/// What a process does is counted.
pub(super) fn statistics(participant: &Participant) {
    let fabric = participant.fabric();
    let id = SegmentId::new(SPACE, 1);
    let _segment = participant.create(id, 128);
    let _ = participant.connect(participant.next(), id);
    participant.meet();

    let before = fabric.statistics();
    let next = fabric.connect(participant.next(), id).expect("it is there");
    next.write(0, &[1; 10]).expect("the peer is there");
    next.write_gathered(0, &[&[1; 5], &[2; 6]]).expect("the peer is there");
    fabric.store_barrier(next.owner()).expect("the peer is there");
    let mark = fabric.mark(next.owner());
    let _ = fabric.check_sequence(next.owner(), mark).expect("the peer is there");
    next.fetch_add(64, 1).expect("the peer is there");
    fabric.trigger(next.owner(), Interrupt(12)).expect("the peer is there");
    let _ = next.read(0, &mut [0; 7]);
    let after = fabric.clone().statistics();
    assert_eq!(after.connections - before.connections, 1);
    assert_eq!((after.writes - before.writes, after.written_bytes - before.written_bytes), (2, 21));
    assert_eq!(after.store_barriers - before.store_barriers, 1);
    assert_eq!(after.sequence_checks - before.sequence_checks, 1);
    assert_eq!((after.atomics - before.atomics, after.interrupts - before.interrupts), (1, 1));
    assert_eq!((after.reads - before.reads, after.read_bytes - before.read_bytes), (1, 7));
    assert_eq!(after.posts, before.posts);
    participant.meet();
    fabric.wait_interrupt(Interrupt(12), None).expect("it has come");
}
