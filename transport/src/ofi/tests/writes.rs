//! What is written, and read back.

use std::sync::atomic::Ordering;
use std::thread;

use super::hanging::{quick, ranks_by};
use super::{PROVIDERS, SEGMENT, anonymous, connect, on_each, other, until};
use crate::back_end::{Piece, Sequence};
use crate::memory::UserMemory;
use crate::ofi::OfiSettings;
use crate::{Error, Fabric, Interrupt, Rank, SegmentId};

#[test]
fn writes_arrive_in_order_and_barriers_wait_for_them() {
    on_each(2, |fabric| {
        let own = fabric.create(SEGMENT, &anonymous(1 << 20)).unwrap();
        let remote = connect(&fabric, other(&fabric));
        assert_eq!(remote.len(), 1 << 20);
        for round in 1..=200_u64 {
            let mark = fabric.mark(other(&fabric));
            remote.write(4096, &[round as u8; 3000]).unwrap();
            remote.write(0, &round.to_ne_bytes()).unwrap();
            until(&fabric, || own.memory().word64(0).unwrap().load(Ordering::Acquire) >= round);
            let mut bytes = [0; 3000];
            own.memory().read(4096, &mut bytes).unwrap();
            // The other is at most one round ahead.
            assert!(bytes.iter().all(|byte| *byte >= round as u8 && *byte <= round as u8 + 1));
            assert_eq!(fabric.check_sequence(other(&fabric), mark).unwrap(), Sequence::Intact);
        }
        own
    });
}

#[test]
fn pieces_of_all_lengths_land_where_they_belong() {
    on_each(2, |fabric| {
        let own = fabric.create(SEGMENT, &anonymous(4 << 20)).unwrap();
        let remote = connect(&fabric, other(&fabric));
        // Short, divided among messages, and direct ones, one behind the other, each of its own value.
        let lengths = [1, 7, 8, 300, 8100, 9000, 40_000, 5, 1_200_000, 64, 33_000];
        let parts: Vec<Vec<u8>> = (1_u8..).zip(lengths).map(|(value, length)| vec![value; length]).collect();
        let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        remote.write_gathered(3, &slices).unwrap();
        fabric.store_barrier(other(&fabric)).unwrap();
        remote.write((4 << 20) - 8, &1_u64.to_ne_bytes()).unwrap();
        until(&fabric, || own.memory().word64((4 << 20) - 8).unwrap().load(Ordering::Acquire) == 1);
        let expected = parts.concat();
        let mut found = vec![0; expected.len()];
        own.memory().read(3, &mut found).unwrap();
        assert!(found == expected);
        // And back, by reading.
        let mut read = vec![0; expected.len()];
        remote.read(3, &mut read).unwrap();
        assert!(read == expected);
        own
    });
}

#[test]
fn overlapping_writes_of_all_lengths_take_effect_in_order() {
    on_each(2, |fabric| {
        const LENGTH: usize = 300_000;
        let own = fabric.create(SEGMENT, &anonymous(LENGTH as u64 + 8)).unwrap();
        let remote = connect(&fabric, other(&fabric));
        let mut random = fastrand::Rng::with_seed(u64::from(fabric.rank().0) + 1);
        let mut expected = vec![0; LENGTH];
        for value in 1..=255 {
            let longest = random.choice([16, 1000, 70_000, 200_000]).unwrap();
            let pieces: Vec<(usize, usize)> = (0..random.usize(1..4))
                .map(|_| (random.usize(..LENGTH - longest), random.usize(1..longest)))
                .collect();
            let bytes = vec![value; longest];
            let written: Vec<_> = pieces
                .iter()
                .map(|&(offset, length)| Piece { offset: offset as u64, bytes: &bytes[..length] })
                .collect();
            remote.write_scattered(&written).unwrap();
            for (offset, length) in pieces {
                expected[offset..offset + length].fill(value);
            }
        }
        // A process reads what it has written, without a barrier.
        let mut read = vec![0; LENGTH];
        remote.read(0, &mut read).unwrap();
        assert!(read == expected);
        own
    });
}

/// A transaction is to arrive whole, as only messages do.
#[test]
fn what_may_be_a_transaction_goes_by_message_whatever_the_longest_store() {
    for (provider, longest_store) in PROVIDERS.into_iter().flat_map(|name| [(name, 0), (name, 256)]) {
        let [(zero, adapter), (one, _)] = ranks_by(&OfiSettings { longest_store, ..quick(provider, 20) });
        let whole = zero.capabilities().transaction_size;
        let segment = one.create(SEGMENT, &anonymous(4096)).unwrap();
        let remote = zero.connect(Rank(1), SEGMENT).unwrap();
        let messages = |write: &dyn Fn() -> crate::Result<()>| {
            let before = adapter.peers[1].outgoing().sent;
            write().unwrap();
            adapter.peers[1].outgoing().sent - before
        };
        assert_eq!(messages(&|| remote.write(0, &vec![1; whole])), 1, "{provider}, {longest_store}");
        let piece = [Piece { offset: 0, bytes: &vec![2; whole] }];
        let with_interrupt = messages(&|| remote.write_and_trigger(&piece, Interrupt(1)));
        assert_eq!(with_interrupt, 1, "{provider}, {longest_store}");
        // Two of them in one message, or in one each.
        let pieces = [0, 512].map(|offset| Piece { offset, bytes: piece[0].bytes });
        assert!(messages(&|| remote.write_scattered(&pieces)) > 0, "{provider}, {longest_store}");
        assert_eq!(messages(&|| remote.write(0, &vec![3; whole + 1])), 0, "{provider}, {longest_store}");
        drop((remote, segment));
        [zero, one].iter().for_each(Fabric::close);
    }
}

#[test]
fn memory_of_the_user_is_written_by_its_key() {
    on_each(2, |fabric| {
        let own = fabric.create(SEGMENT, &anonymous(64)).unwrap();
        let remote = connect(&fabric, other(&fabric));
        let mut memory = vec![0_u64; 20_000];
        let user = UserMemory { start: std::ptr::NonNull::from(&mut memory[0]).cast(), length: 160_000 };
        // SAFETY: the memory lives longer than the registration, and is left to the peer.
        let registration = unsafe { fabric.register(user) }.unwrap();
        let key = registration.key();
        let words: Vec<u8> = key.0.iter().flat_map(|word| word.to_ne_bytes()).collect();
        remote.write(0, &words).unwrap();
        remote.write(24, &1_u64.to_ne_bytes()).unwrap();
        let word = |offset| own.memory().word64(offset).unwrap().load(Ordering::Acquire);
        until(&fabric, || word(24) == 1);
        let place = crate::back_end::Place::Registered(crate::back_end::MemoryKey([0, 8, 16].map(word)));
        let there = crate::back_end::Remote { owner: other(&fabric), place };
        let bytes = vec![9; 100_000];
        let pieces = [Piece { offset: 1, bytes: &[5; 100] }, Piece { offset: 200, bytes: &bytes }];
        fabric.write(&there, &pieces).unwrap();
        fabric.store_barrier(other(&fabric)).unwrap();
        remote.write(32, &1_u64.to_ne_bytes()).unwrap();
        until(&fabric, || word(32) == 1);
        drop(registration);
        let bytes: Vec<u8> = memory.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert!(bytes[1..101].iter().all(|byte| *byte == 5));
        assert!(bytes[200..100_200].iter().all(|byte| *byte == 9));
        assert!(bytes[101..200].iter().chain(&bytes[100_200..]).all(|byte| *byte == 0));
        let beyond = fabric.write(&there, &[Piece { offset: 160_000, bytes: &[0] }]);
        assert!(matches!(beyond, Err(Error::OutOfBounds { .. })));
        own
    });
}

#[test]
fn a_write_to_what_was_removed_breaks_the_sequence() {
    on_each(2, |fabric| {
        let flags = SegmentId::new(7, 2);
        let own = fabric.create(flags, &anonymous(64)).unwrap();
        let word = |offset| own.memory().word64(offset).unwrap().load(Ordering::Acquire);
        if fabric.rank() == Rank(0) {
            let segment = fabric.create(SEGMENT, &anonymous(1 << 20)).unwrap();
            until(&fabric, || word(0) == 1);
            drop(segment);
            fabric.connect(Rank(1), flags).unwrap().write(0, &1_u64.to_ne_bytes()).unwrap();
            until(&fabric, || word(0) == 2);
        } else {
            let remote = connect(&fabric, Rank(0));
            let there = fabric.connect(Rank(0), flags).unwrap();
            let mark = fabric.mark(Rank(0));
            remote.write(0, &[1; 100]).unwrap();
            assert_eq!(fabric.check_sequence(Rank(0), mark).unwrap(), Sequence::Intact);
            there.write(0, &1_u64.to_ne_bytes()).unwrap();
            until(&fabric, || word(0) == 1);
            remote.write(0, &[1; 100]).unwrap();
            assert_eq!(fabric.check_sequence(Rank(0), mark).unwrap(), Sequence::Broken);
            let given_up = fabric.write_checked(Rank(0), || remote.write(0, &[1; 100]));
            assert!(matches!(given_up, Err(Error::Unreachable { .. })), "{given_up:?}");
            // One that goes straight there: TCP providers close the connection over it.
            let mark = fabric.mark(Rank(0));
            let refused = remote.write(0, &[1; 200_000]);
            assert!(matches!(refused, Err(Error::OutOfBounds { .. })), "{refused:?}");
            assert_eq!(fabric.check_sequence(Rank(0), mark).unwrap(), Sequence::Broken);
            assert!(remote.read(0, &mut [0; 8]).is_err());
            // What is there is still reached.
            there.write(0, &2_u64.to_ne_bytes()).unwrap();
        }
    });
}

#[test]
fn words_are_changed_by_all_without_loss() {
    on_each(4, |fabric| {
        let own = fabric.create(SEGMENT, &anonymous(64)).unwrap();
        let remote = connect(&fabric, Rank(0));
        for _ in 0..100 {
            remote.fetch_add(8, 1).unwrap();
            loop {
                let was = remote.compare_swap(16, 0, 1).unwrap();
                if was == 0 {
                    break;
                }
            }
            // Under the lock, a sum that is not atomic.
            let mut sum = [0; 8];
            remote.read(24, &mut sum).unwrap();
            remote.write(24, &(u64::from_ne_bytes(sum) + 1).to_ne_bytes()).unwrap();
            remote.write(16, &0_u64.to_ne_bytes()).unwrap();
        }
        if fabric.rank() == Rank(0) {
            let word = |offset| own.memory().word64(offset).unwrap().load(Ordering::SeqCst);
            until(&fabric, || word(8) == 400 && word(24) == 400);
        } else {
            fabric.store_barrier(Rank(0)).unwrap();
        }
        assert!(matches!(remote.fetch_add(64, 1), Err(Error::OutOfBounds { .. })));
        assert!(matches!(remote.fetch_add(4, 1), Err(Error::Misaligned { .. })));
        own
    });
}

#[test]
fn many_threads_share_an_adapter() {
    on_each(2, |fabric| {
        let own = fabric.create(SEGMENT, &anonymous(1 << 20)).unwrap();
        let remote = connect(&fabric, other(&fabric));
        thread::scope(|scope| {
            for number in 0..4_u64 {
                let (fabric, remote, own) = (&fabric, &remote, &own);
                scope.spawn(move || {
                    // Each pair of threads, one in either process, plays ping-pong with growing messages.
                    let place = 4096 + number * 200_000;
                    for round in 1..=40_u64 {
                        let length = 1 + (round * 3001) as usize;
                        remote.write(place, &vec![round as u8; length]).unwrap();
                        remote.write(number * 8, &round.to_ne_bytes()).unwrap();
                        let flag = own.memory().word64(number * 8).unwrap();
                        until(fabric, || flag.load(Ordering::Acquire) >= round);
                        let mut bytes = vec![0; length];
                        own.memory().read(place, &mut bytes).unwrap();
                        assert!(bytes.iter().all(|byte| *byte >= round as u8 && *byte <= round as u8 + 1));
                        remote.fetch_add(1024, 1).unwrap();
                    }
                });
            }
        });
        let count = own.memory().word64(1024).unwrap();
        until(&fabric, || count.load(Ordering::SeqCst) == 160);
        own
    });
}
