//! Transfers that are handed over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{PROVIDERS, SEGMENT, anonymous, connect, connect_to, on_each, other, until};
use crate::back_end::Sequence;
use crate::dma::{Completion, Direction, Transfer};
use crate::memory::UserMemory;
use crate::ofi::within_process;
use crate::{Error, Rank, SegmentId};

#[test]
fn chains_go_on_while_nobody_waits() {
    on_each(2, |fabric| {
        let length = 3 << 20;
        let own = fabric.create(SEGMENT, &anonymous(length + 8)).unwrap();
        let remote = connect(&fabric, other(&fabric));
        let value = fabric.rank().0 as u8 + 1;
        let bytes = vec![value; length as usize];
        let flag = 1_u64.to_ne_bytes();
        let transfer = |bytes: &[u8], offset| Transfer {
            direction: Direction::Write,
            local: UserMemory::of(bytes),
            remote: remote.remote(),
            offset,
        };
        let (ended, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let copy = (Arc::clone(&ended), Arc::clone(&count));
        let done = Arc::new(Completion::calling(move |result| {
            result.unwrap();
            copy.1.fetch_add(1, Ordering::SeqCst);
            copy.0.store(true, Ordering::SeqCst);
        }));
        // SAFETY: the bytes live until the chain has ended.
        unsafe { fabric.post(vec![transfer(&bytes, 0), transfer(&flag, length)], &done) }.unwrap();
        let began = Instant::now();
        while !ended.load(Ordering::SeqCst) {
            assert!(began.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(1));
        }
        fabric.wait_for(&done).unwrap();
        fabric.ring(other(&fabric)).unwrap();
        until(&fabric, || own.memory().word64(length).unwrap().load(Ordering::Acquire) == 1);
        let mut found = vec![0; length as usize];
        own.memory().read(0, &mut found).unwrap();
        assert!(found.iter().all(|byte| *byte == 3 - value));
        assert_eq!(count.load(Ordering::SeqCst), 1);

        // Back, into memory of ours, and within this process.
        let mut back = vec![0; length as usize];
        let done = Arc::new(Completion::new());
        let chain = vec![Transfer {
            direction: Direction::Read,
            local: UserMemory::of_mut(&mut back),
            remote: remote.remote(),
            offset: 0,
        }];
        // SAFETY: as above.
        unsafe { fabric.post(chain, &done) }.unwrap();
        fabric.wait_for(&done).unwrap();
        assert!(back == bytes);
        let private = fabric.create(SegmentId::new(7, 2), &anonymous(length)).unwrap();
        let mine = fabric.connect(fabric.rank(), SegmentId::new(7, 2)).unwrap();
        let done = Arc::new(Completion::new());
        let chain = vec![Transfer {
            direction: Direction::Write,
            local: UserMemory::of(&back),
            remote: mine.remote(),
            offset: 0,
        }];
        // SAFETY: as above.
        unsafe { fabric.post(chain, &done) }.unwrap();
        fabric.wait_for(&done).unwrap();
        private.memory().read(0, &mut found).unwrap();
        assert!(found == bytes);
        own
    });
}

/// Closes while chains are under way; whether it met the last of them before it had ended by itself.
fn close_over_chains(provider: &str) -> bool {
    let fabrics = within_process(2, provider).unwrap();
    let [zero, one] = &fabrics[..] else { unreachable!() };
    let length = 64 << 20;
    let segment = one.create(SEGMENT, &anonymous(length)).unwrap();
    let remote = zero.connect(Rank(1), SEGMENT).unwrap();
    let bytes = vec![1; length as usize];
    let begun: Vec<_> = (0..8)
        .map(|_| {
            let done = Arc::new(Completion::new());
            let local = UserMemory::of(&bytes);
            let chain =
                vec![Transfer { direction: Direction::Write, local, remote: remote.remote(), offset: 0 }];
            // SAFETY: the bytes live until the fabrics are closed, and this test waits for the end.
            unsafe { zero.post(chain, &done) }.unwrap();
            done
        })
        .collect();
    let is_met = thread::scope(|scope| {
        let wait = |done| {
            let result = zero.wait_for(done);
            assert!(done.test().is_some(), "a chain goes on after {result:?}");
            result
        };
        let waiting = begun.iter().map(|done| scope.spawn(move || wait(done)));
        let waiting: Vec<_> = waiting.collect();
        zero.close();
        let results: Vec<_> = waiting.into_iter().map(|thread| thread.join().unwrap()).collect();
        match results.last() {
            Some(Ok(())) => false,
            Some(Err(Error::Ending { .. })) => true,
            _ => panic!("{results:?}"),
        }
    });
    // One that nobody knows will never end.
    let never = zero.wait_for(&Completion::new());
    assert!(matches!(never, Err(Error::Ending { .. })), "{never:?}");
    drop(segment);
    is_met
}

#[test]
fn chains_have_ended_when_closing_ends_waits_for_them() {
    for provider in PROVIDERS {
        // This thread may be held up before it closes, and all have ended by then.
        assert!((0..10).any(|_| close_over_chains(provider)), "{provider}");
    }
}

#[test]
fn a_refused_part_is_charged_to_the_peer_that_refused_it() {
    on_each(3, |fabric| {
        let flags = SegmentId::new(7, 2);
        let own = fabric.create(flags, &anonymous(64)).unwrap();
        let word = |offset| own.memory().word64(offset).unwrap().load(Ordering::Acquire);
        let segment = fabric.create(SEGMENT, &anonymous(4096)).unwrap();
        if fabric.rank() != Rank(0) {
            until(&fabric, || word(0) == 1);
            if fabric.rank() == Rank(1) {
                drop(segment);
                connect_to(&fabric, Rank(0), flags).write(0, &1_u64.to_ne_bytes()).unwrap();
                until(&fabric, || word(8) == 1);
                return (own, None);
            }
            until(&fabric, || word(8) == 1);
            return (own, Some(segment));
        }
        let peers = [Rank(1), Rank(2)];
        let remotes = peers.map(|peer| connect_to(&fabric, peer, SEGMENT));
        let flags = peers.map(|peer| connect_to(&fabric, peer, flags));
        flags.iter().for_each(|flag| flag.write(0, &1_u64.to_ne_bytes()).unwrap());
        until(&fabric, || word(0) == 1);
        let marks = peers.map(|peer| fabric.mark(peer));
        let bytes = [1; 4096];
        let chain = remotes.iter().map(|remote| Transfer {
            direction: Direction::Write,
            local: UserMemory::of(&bytes),
            remote: remote.remote(),
            offset: 0,
        });
        let done = Arc::new(Completion::new());
        // SAFETY: the bytes live until the chain has ended.
        unsafe { fabric.post(chain.collect(), &done) }.unwrap();
        fabric.wait_for(&done).unwrap_err();
        assert_eq!(fabric.check_sequence(Rank(1), marks[0]).unwrap(), Sequence::Broken);
        assert_eq!(fabric.check_sequence(Rank(2), marks[1]).unwrap(), Sequence::Intact);
        flags.iter().for_each(|flag| flag.write(8, &1_u64.to_ne_bytes()).unwrap());
        (own, Some(segment))
    });
}
