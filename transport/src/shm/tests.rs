//! The back end through the fabric's face: each rank a thread of this process, or a process of its own.

mod connecting;
mod engine;
mod processes;
mod waking;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;

use super::within_process;
use crate::back_end::{Backing, Piece, Wait, Waited};
use crate::error::Error;
use crate::fabric::Fabric;
use crate::units::{Rank, SegmentId};

const SEGMENT: SegmentId = SegmentId::new(1, 2);

fn pair() -> (Fabric, Fabric) {
    let mut fabrics = within_process(2).into_iter();
    (fabrics.next().unwrap(), fabrics.next().unwrap())
}

fn anonymous(length: u64) -> Backing {
    Backing::Anonymous { length }
}

/// Waits without a limit of its own.
fn wait_for(fabric: &Fabric, mut ready: impl FnMut() -> bool) {
    assert_eq!(fabric.wait_until(Wait { deadline: None, attends: None, ready: &mut ready }), Waited::Ready);
}

#[test]
fn what_is_written_and_rung_is_waited_for() {
    let (one, other) = pair();
    let segment = other.create(SEGMENT, &anonymous(4096)).unwrap();
    let waiter = std::thread::spawn(move || {
        let flag = segment.memory().word64(64).unwrap();
        wait_for(&other, || flag.load(Ordering::Acquire) == 7);
        let mut bytes = [0; 5];
        segment.memory().read(0, &mut bytes).unwrap();
        bytes
    });
    let remote = one.connect(Rank(1), SEGMENT).unwrap();
    assert_eq!(remote.len(), 4096);
    let pieces = [Piece { offset: 0, bytes: b"hello" }, Piece { offset: 64, bytes: &7_u64.to_ne_bytes() }];
    remote.write_scattered(&pieces).unwrap();
    one.ring(Rank(1)).unwrap();
    assert_eq!(&waiter.join().unwrap(), b"hello");
    assert_eq!(one.connected_peers(), [Rank(1)]);
}

/// Many rounds to and fro, with more waiters than cores, so that they spin, yield and sleep.
#[test]
fn no_round_is_lost_among_more_processes_than_cores() {
    const ROUNDS: u64 = 300;
    let fabrics = within_process(5);
    let segments: Vec<_> =
        fabrics.iter().map(|fabric| fabric.create(SEGMENT, &anonymous(64)).unwrap()).collect();
    std::thread::scope(|scope| {
        for (rank, (fabric, segment)) in fabrics.iter().zip(&segments).enumerate() {
            scope.spawn(move || {
                let next = Rank((rank as u32 + 1) % 5);
                let remote = fabric.connect(next, SEGMENT).unwrap();
                let token = segment.memory().word64(0).unwrap();
                for round in 1..=ROUNDS {
                    let pass = || {
                        remote.write(0, &round.to_ne_bytes()).unwrap();
                        fabric.ring(next).unwrap();
                    };
                    if rank == 0 {
                        pass();
                    }
                    wait_for(fabric, || token.load(Ordering::Acquire) == round);
                    if rank != 0 {
                        pass();
                    }
                }
            });
        }
    });
}

#[test]
fn an_access_beyond_the_end_is_refused_before_anything_is_written() {
    let (one, other) = pair();
    let segment = other.create(SEGMENT, &anonymous(100)).unwrap();
    let remote = one.connect(Rank(1), SEGMENT).unwrap();
    let pieces = [Piece { offset: 0, bytes: b"x" }, Piece { offset: 99, bytes: b"yz" }];
    assert!(matches!(remote.write_scattered(&pieces), Err(Error::OutOfBounds { size: 100, .. })));
    // The back end itself keeps the bounds, too.
    let below = one.back_end().write(&remote.remote(), &pieces);
    assert!(matches!(below, Err(Error::OutOfBounds { .. })));
    let mut bytes = [1; 100];
    segment.memory().read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 100]);
    assert!(remote.fetch_add(96, 1).is_err());
    assert!(remote.read(100, &mut [0]).is_err());
}

#[test]
fn remote_words_change_atomically() {
    const TIMES: u64 = 20_000;
    let fabrics = within_process(3);
    let segment = fabrics[0].create(SEGMENT, &anonymous(16)).unwrap();
    std::thread::scope(|scope| {
        for fabric in &fabrics {
            scope.spawn(move || {
                let remote = fabric.connect(Rank(0), SEGMENT).unwrap();
                for _ in 0..TIMES {
                    remote.fetch_add(0, 2).unwrap();
                    let mut was = remote.fetch_add(8, 0).unwrap();
                    loop {
                        match remote.compare_swap(8, was, was + 3).unwrap() {
                            found if found == was => break,
                            found => was = found,
                        }
                    }
                }
            });
        }
    });
    let word = |offset| segment.memory().word64(offset).unwrap().load(Ordering::Relaxed);
    assert_eq!((word(0), word(8)), (3 * TIMES * 2, 3 * TIMES * 3));
}

#[test]
fn a_part_of_a_file_is_a_segment() {
    let (one, other) = pair();
    let file = tempfile::tempfile().unwrap();
    file.set_len(3 * 4096).unwrap();
    let file = Arc::new(file);
    let backing = Backing::File { file: Arc::clone(&file), offset: 4096, length: 4100 };
    let _segment = other.create(SEGMENT, &backing).unwrap();
    let remote = one.connect(Rank(1), SEGMENT).unwrap();
    assert_eq!(remote.len(), 4100);
    remote.write(4092, b"the end.").unwrap();
    let mut bytes = [0; 8];
    std::os::unix::fs::FileExt::read_exact_at(&*file, &mut bytes, 4096 + 4092).unwrap();
    assert_eq!(&bytes, b"the end.");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Any writes of any pieces leave what they would leave in a plain array.
    #[test]
    fn writes_are_as_to_an_array(
        writes in prop::collection::vec(
            prop::collection::vec((0..5000_u64, prop::collection::vec(any::<u8>(), 0..300)), 1..5), 1..20),
    ) {
        const LENGTH: usize = 5300;
        let (one, other) = pair();
        let segment = other.create(SEGMENT, &anonymous(LENGTH as u64)).unwrap();
        let remote = one.connect(Rank(1), SEGMENT).unwrap();
        let mut expected = vec![0; LENGTH];
        for pieces in &writes {
            for (offset, bytes) in pieces {
                expected[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            let pieces: Vec<_> =
                pieces.iter().map(|(offset, bytes)| Piece { offset: *offset, bytes }).collect();
            remote.write_scattered(&pieces).unwrap();
        }
        one.store_barrier(Rank(1)).unwrap();
        let mut found = vec![1; LENGTH];
        segment.memory().read(0, &mut found).unwrap();
        prop_assert_eq!(&found, &expected);
        remote.read(0, &mut found).unwrap();
        prop_assert_eq!(&found, &expected);
    }
}
