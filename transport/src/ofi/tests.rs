//! The adapter over the loopback interface, several ranks in this process.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use super::{OfiSettings, prepare, within_process};
use crate::back_end::{Backing, Piece, Provider, Sequence, Wait, Waited};
use crate::dma::{Completion, Direction, Transfer};
use crate::memory::UserMemory;
use crate::{Error, Fabric, Interrupt, JobSecret, Membership, Rank, SegmentId};

const PROVIDERS: [&str; 2] = ["net", "tcp;ofi_rxm"];
const SEGMENT: SegmentId = SegmentId::new(7, 1);

/// Runs `body` as every rank of a job, over each provider. What it returns is kept until all have come to their end:
/// segments, above all.
fn on_each<Kept>(size: u32, body: impl Fn(Fabric) -> Kept + Send + Sync) {
    for provider in PROVIDERS {
        let fabrics = within_process(size, provider).unwrap();
        let all_done = Barrier::new(size as usize);
        thread::scope(|scope| {
            for fabric in fabrics {
                let (body, all_done) = (&body, &all_done);
                scope.spawn(move || {
                    // Whoever fails still comes to the end, or the others would wait for it there.
                    let outcome = catch_unwind(AssertUnwindSafe(|| body(fabric.clone())));
                    all_done.wait();
                    fabric.close();
                    drop(outcome.unwrap_or_else(|failure| resume_unwind(failure)));
                });
            }
        });
    }
}

fn anonymous(length: u64) -> Backing {
    Backing::Anonymous { length }
}

fn until(fabric: &Fabric, mut ready: impl FnMut() -> bool) {
    let deadline = Some(fabric.now().after(Duration::from_secs(20)));
    assert_eq!(fabric.wait_until(Wait { deadline, attends: None, ready: &mut ready }), Waited::Ready);
}

/// Connects as soon as the owner has made the segment.
fn connect(fabric: &Fabric, owner: Rank) -> crate::RemoteSegment {
    loop {
        match fabric.connect(owner, SEGMENT) {
            Ok(segment) => return segment,
            Err(Error::UnknownSegment { .. }) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn other(fabric: &Fabric) -> Rank {
    Rank(1 - fabric.rank().0)
}

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

#[test]
fn closing_ends_waits() {
    let fabrics = within_process(1, "net").unwrap();
    let fabric = &fabrics[0];
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut never = || false;
            fabric.wait_until(Wait { deadline: None, attends: Some(Interrupt(2)), ready: &mut never })
        });
        let sleeping = scope.spawn(|| fabric.wait_interrupt(Interrupt(1), None));
        fabric.close();
        assert_eq!(waiting.join().unwrap(), Waited::TimedOut);
        assert!(matches!(sleeping.join().unwrap(), Err(Error::Ending { .. })));
    });
    assert!(matches!(fabric.create(SEGMENT, &anonymous(8)), Err(Error::Ending { .. })));
}

#[test]
fn interrupts_wake_and_are_counted() {
    on_each(2, |fabric| {
        let line = Interrupt(3);
        if fabric.rank() == Rank(0) {
            for _ in 0..5 {
                fabric.trigger(Rank(1), line).unwrap();
            }
            let mut count = 0;
            while count < 5 {
                count += fabric.wait_interrupt(line, None).unwrap();
            }
        } else {
            let total = Arc::new(AtomicU64::new(0));
            let copy = (Arc::clone(&total), fabric.clone());
            let service = fabric
                .on_interrupt(line, move |count| {
                    for _ in 0..count {
                        copy.1.trigger(Rank(0), line).unwrap();
                    }
                    copy.0.fetch_add(count, Ordering::SeqCst);
                    copy.1.back_end().wake();
                })
                .unwrap();
            until(&fabric, || total.load(Ordering::SeqCst) == 5);
            // Held, the callback would keep the fabric; it ends with it.
            thread::spawn(move || service.join());
        }
        let before = fabric.now();
        let deadline = Some(before.after(Duration::from_millis(5)));
        assert_eq!(fabric.wait_interrupt(Interrupt(9), deadline).unwrap(), 0);
        assert!(fabric.now().since(before) >= Duration::from_millis(5));
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
fn segments_are_provided_when_asked_for_and_missed_when_removed() {
    struct Maker(Fabric, std::sync::Mutex<Vec<crate::LocalSegment>>);
    impl Provider for Maker {
        fn provide(&self, asker: Rank, id: SegmentId) {
            if id.number != asker.0 {
                return;
            }
            let segment = self.0.create(id, &anonymous(4096)).unwrap();
            segment.memory().write(0, &[asker.0 as u8; 8]).unwrap();
            self.1.lock().unwrap().push(segment);
        }
    }
    on_each(3, |fabric| {
        let maker = Arc::new(Maker(fabric.clone(), Default::default()));
        fabric.set_provider(40, maker.clone());
        // Until all have one.
        let own = fabric.create(SEGMENT, &anonymous(8)).unwrap();
        for owner in fabric.membership().ranks() {
            connect(&fabric, owner).fetch_add(0, 1).unwrap();
        }
        until(&fabric, || own.memory().word64(0).unwrap().load(Ordering::SeqCst) >= 3);
        for owner in fabric.membership().ranks() {
            let mine = fabric.connect(owner, SegmentId::new(40, fabric.rank().0)).unwrap();
            let mut bytes = [0; 8];
            mine.read(0, &mut bytes).unwrap();
            assert_eq!(bytes, [fabric.rank().0 as u8; 8]);
            let missing = fabric.connect(owner, SegmentId::new(40, 99));
            assert!(matches!(missing, Err(Error::UnknownSegment { .. })), "{missing:?}");
        }
        assert_eq!(fabric.connected_peers().len(), 3);
        assert!(matches!(fabric.create(SEGMENT, &anonymous(8)), Err(Error::SegmentExists { .. })));
        for owner in fabric.membership().ranks() {
            connect(&fabric, owner).fetch_add(0, 1).unwrap();
        }
        until(&fabric, || own.memory().word64(0).unwrap().load(Ordering::SeqCst) >= 6);
        // Else they hold each other.
        maker.1.lock().unwrap().clear();
        fabric.set_provider(40, Arc::new(Nobody));
        own
    });

    struct Nobody;
    impl Provider for Nobody {
        fn provide(&self, _: Rank, _: SegmentId) {}
    }
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
            remote.write(0, &[1; 200_000]).unwrap();
            assert_eq!(fabric.check_sequence(Rank(0), mark).unwrap(), Sequence::Broken);
            assert!(remote.read(0, &mut [0; 8]).is_err());
            // What is there is still reached.
            there.write(0, &2_u64.to_ne_bytes()).unwrap();
        }
    });
}

#[test]
fn waits_for_a_lost_peer_end_with_its_name() {
    for provider in PROVIDERS {
        let mut fabrics = within_process(2, provider).unwrap();
        let (one, zero) = (fabrics.pop().unwrap(), fabrics.pop().unwrap());
        let segment = one.create(SEGMENT, &anonymous(1 << 20)).unwrap();
        let remote = zero.connect(Rank(1), SEGMENT).unwrap();
        remote.write(0, &[1; 8]).unwrap();
        zero.store_barrier(Rank(1)).unwrap();
        drop(segment);
        one.close();
        let declared = Instant::now();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| zero.connect(Rank(1), SEGMENT));
            let sleeping = scope.spawn(|| zero.wait_interrupt(Interrupt(1), None));
            zero.membership().declare_lost(Rank(1), "it was told to go");
            let error = waiting.join().unwrap().unwrap_err();
            assert_eq!(error.lost_peer(), Some(Rank(1)), "{error}");
            assert!(error.to_string().contains("told to go") || error.to_string().contains("connection"));
            assert_eq!(sleeping.join().unwrap().unwrap(), 0);
        });
        assert!(declared.elapsed() < Duration::from_secs(2));
        assert!(matches!(remote.write(0, &[1; 8]), Err(Error::PeerLost { .. })));
        let began = Instant::now();
        zero.close();
        zero.close();
        assert!(began.elapsed() < Duration::from_secs(2));
        assert!(matches!(zero.wait_interrupt(Interrupt(1), None), Err(Error::Ending { .. })));
    }
}

#[test]
fn an_address_of_another_machine_is_named() {
    // Of the documentation's range, which no machine has.
    let settings = OfiSettings { address: "203.0.113.7".into(), ..OfiSettings::default() };
    let problem = prepare(&settings, &JobSecret::random().unwrap()).err().unwrap().to_string();
    assert!(problem.contains("203.0.113.7"), "{problem}");
}

#[test]
fn whoever_has_another_secret_is_not_heard() {
    let prepare = |secret: &JobSecret| {
        let settings = OfiSettings { address: "127.0.0.1".into(), ..OfiSettings::default() };
        prepare(&settings, secret).unwrap()
    };
    let (ours, theirs) = (JobSecret::random().unwrap(), JobSecret::random().unwrap());
    let prepared = [prepare(&ours), prepare(&theirs)];
    let addresses = prepared.each_ref().map(|prepared| prepared.address()).to_vec();
    let mut rank = 0..;
    let [one, stranger] = prepared.map(|prepared| {
        let membership = Membership::new(Rank(rank.next().unwrap()), vec!["here".into(); 2]);
        Fabric::new(prepared.join(Arc::new(membership), addresses.clone()).unwrap())
    });
    let segment = one.create(SEGMENT, &anonymous(64)).unwrap();
    let asked = stranger.back_end().connect(Rank(0), SEGMENT, Duration::from_millis(300));
    assert!(matches!(asked, Err(Error::TimedOut { .. })), "{asked:?}");
    stranger.trigger(Rank(0), Interrupt(1)).unwrap();
    let deadline = Some(one.now().after(Duration::from_millis(100)));
    assert_eq!(one.wait_interrupt(Interrupt(1), deadline).unwrap(), 0);
    drop(segment);
}
