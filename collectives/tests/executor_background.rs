//! Operations that go on while their members do something else.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use svmio_collectives::executor::{Elementwise, Error, Group, GroupSettings, LentMemory};
use svmio_transport::{Fabric, Rank, SegmentId, shm};

const SPACE: u32 = 79;

/// Small slots, so that long data takes many exchanges.
const SETTINGS: fn() -> GroupSettings = || GroupSettings { slot: 512, ..GroupSettings::default() };

/// Runs `body` in so many members of a group, with their fabric.
fn in_members(size: u32, body: impl Fn(&Fabric, Group) + Sync) {
    let fabrics = shm::within_process(size);
    let members: Vec<Rank> = (0..size).map(Rank).collect();
    thread::scope(|scope| {
        for fabric in &fabrics {
            let (members, body) = (&members, &body);
            scope.spawn(move || {
                body(fabric, Group::join(fabric, members, SegmentId::new(SPACE, 0), SETTINGS()).unwrap());
            });
        }
    });
}

fn sum() -> Elementwise<u64, impl Fn(u64, u64) -> u64 + Copy> {
    Elementwise::commutative(u64::wrapping_add)
}

#[test]
fn operations_go_on_while_a_member_calls_nothing() {
    let (others_are_done, done) = mpsc::channel();
    let done = std::sync::Mutex::new(done);
    in_members(3, |_, mut group| {
        let data = vec![group.member() as u8 + 1; 100 << 10];
        let request = group.iallreduce(data, Elementwise::<u8, _>::commutative(u8::wrapping_add)).unwrap();
        let others_are_done = others_are_done.clone();
        // Two hundred exchanges, which the others cannot make without member 0.
        if group.member() == 0 {
            let done = done.lock().unwrap();
            (0..2).for_each(|_| done.recv().unwrap());
            assert!(request.wait().unwrap().iter().all(|byte| *byte == 6));
        } else {
            assert!(request.wait().unwrap().iter().all(|byte| *byte == 6));
            others_are_done.send(()).unwrap();
        }
    });
}

#[test]
fn operations_of_different_groups_wait_for_each_other_in_no_order() {
    let fabrics = shm::within_process(2);
    let members = [Rank(0), Rank(1)];
    thread::scope(|scope| {
        for fabric in &fabrics {
            scope.spawn(move || {
                let own = fabric.rank().0 as usize;
                let mut groups: Vec<Group> = (0..4)
                    .map(|id| Group::join(fabric, &members, SegmentId::new(SPACE, id), SETTINGS()).unwrap())
                    .collect();
                for round in 0..200_usize {
                    let order: Vec<usize> = if own == 0 { (0..4).collect() } else { (0..4).rev().collect() };
                    let mut requests: Vec<_> = order
                        .iter()
                        .map(|&at| (at, groups[at].iallreduce(vec![1; 8 * (1 + 100 * at)], sum()).unwrap()))
                        .collect();
                    // Blocking ones in between, in the order of that group.
                    groups[round % 4].barrier().unwrap();
                    if round % 2 == own {
                        requests.reverse();
                    }
                    for (at, request) in requests {
                        assert_eq!(request.wait().unwrap().len(), 8 * (1 + 100 * at));
                    }
                }
            });
        }
    });
}

#[test]
fn a_test_alone_completes_an_operation() {
    in_members(3, |_, mut group| {
        for number in 0..200_u64 {
            let request = group.iallreduce(number.to_ne_bytes().to_vec(), sum()).unwrap();
            while !request.test() {
                thread::yield_now();
            }
            assert_eq!(request.wait().unwrap(), (3 * number).to_ne_bytes());
        }
    });
}

#[test]
fn several_threads_may_wait_for_requests_of_one_group() {
    in_members(2, |_, mut group| {
        for _ in 0..50 {
            let requests: Vec<_> = (0..6_u64)
                .map(|number| group.iallreduce(vec![1; 8 * 200 * number as usize], sum()).unwrap())
                .collect();
            thread::scope(|scope| {
                for request in requests {
                    scope.spawn(move || request.wait().unwrap());
                }
            });
        }
    });
}

/// Bytes that tell when they are freed.
struct Watched {
    bytes: Vec<u8>,
    is_freed: Arc<AtomicBool>,
}

impl AsMut<[u8]> for Watched {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.is_freed.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_request_that_is_dropped_goes_on_and_frees_its_buffers_afterwards() {
    let both_began = Barrier::new(2);
    in_members(2, |_, mut group| {
        let is_freed = Arc::new(AtomicBool::new(false));
        if group.member() == 0 {
            let watched = Watched { bytes: vec![7; 10 << 10], is_freed: Arc::clone(&is_freed) };
            drop(group.iallreduce(watched, Elementwise::<u8, _>::commutative(u8::wrapping_add)).unwrap());
            // The other one has not begun.
            assert!(!is_freed.load(Ordering::SeqCst));
            both_began.wait();
        } else {
            both_began.wait();
            let request =
                group.iallreduce(vec![1_u8; 10 << 10], Elementwise::<u8, _>::commutative(u8::wrapping_add));
            assert_eq!(request.unwrap().wait().unwrap(), vec![8; 10 << 10]);
        }
        // In order: who has this has ended all before.
        group.ibarrier().unwrap().wait().unwrap();
        assert_eq!(is_freed.load(Ordering::SeqCst), group.member() == 0);
    });
}

#[test]
fn operations_end_after_their_group_was_dropped() {
    let is_dropped = Barrier::new(2);
    in_members(2, |_, mut group| {
        let own = group.member();
        let request = (own == 0).then(|| group.iallreduce(vec![0; 10 << 10], sum()).unwrap());
        if own == 0 {
            drop(group);
            is_dropped.wait();
        } else {
            is_dropped.wait();
            group.iallreduce(vec![0; 10 << 10], sum()).unwrap().wait().unwrap();
        }
        if let Some(request) = request {
            assert_eq!(request.wait().unwrap().len(), 10 << 10);
        }
    });
}

#[test]
fn groups_that_are_dropped_at_once_leave_nothing_undone() {
    let fabrics = shm::within_process(2);
    thread::scope(|scope| {
        for fabric in &fabrics {
            scope.spawn(move || {
                for id in 0..100 {
                    let members = [Rank(0), Rank(1)];
                    let id = SegmentId::new(SPACE, id);
                    let mut group = Group::join(fabric, &members, id, SETTINGS()).unwrap();
                    let requests = [0; 3].map(|_| group.iallreduce(vec![1; 2000], sum()).unwrap());
                    drop(group);
                    for request in requests {
                        assert_eq!(request.wait().unwrap().len(), 2000);
                    }
                }
            });
        }
    });
}

#[test]
fn a_lost_member_ends_every_request() {
    for waits in [false, true] {
        let all_began = Barrier::new(3);
        in_members(3, |fabric, mut group| {
            if group.member() == 2 {
                all_began.wait();
                return;
            }
            let first = group.iallreduce(vec![0; 8000], sum()).unwrap();
            let others: Vec<_> = (0..5).map(|_| group.ibarrier().unwrap()).collect();
            all_began.wait();
            let lost = |error: Error| match error {
                Error::Fabric(error) => error.lost_peer(),
                _ => None,
            };
            thread::scope(|scope| {
                scope.spawn(|| fabric.membership().declare_lost(Rank(2), "it is told so"));
                // Whoever only tests hears of it, too.
                while !waits && !first.test() {
                    thread::yield_now();
                }
                assert_eq!(lost(first.wait().unwrap_err()), Some(Rank(2)));
                for other in others {
                    assert_eq!(lost(other.wait().unwrap_err()), Some(Rank(2)));
                }
            });
            let later = group.ibarrier().unwrap();
            // The group's thread may still have the engine, with nothing left to do.
            while !later.test() {
                thread::yield_now();
            }
            assert_eq!(lost(later.wait().unwrap_err()), Some(Rank(2)));
        });
    }
}

#[test]
fn a_function_that_panics_ends_its_request_and_those_behind_it() {
    in_members(2, |_, mut group| {
        let panics = Elementwise::<u64, _>::commutative(|_, _| panic!("on purpose"));
        let requests =
            [group.iallreduce(vec![0; 8], panics).unwrap(), group.iallreduce(vec![0; 8], sum()).unwrap()];
        for request in requests {
            assert!(matches!(request.wait(), Err(Error::Panicked)));
        }
        group.barrier().unwrap();
    });
}

#[test]
fn memory_is_lent_until_the_request_is_complete() {
    in_members(3, |_, mut group| {
        let own = group.member() as u64;
        let (mut sent, mut received) = ([own; 3], [0_u64; 3]);
        // SAFETY: both arrays stay, and nothing touches them until the request is complete.
        let [data, into] = [&mut sent, &mut received]
            .map(|array| unsafe { LentMemory::new(array.as_mut_ptr().cast(), size_of_val(array)) });
        let (_, into) = group.ialltoall(data, into).unwrap().wait().unwrap();
        assert_eq!(into.as_ref().len(), size_of_val(&received));
        assert_eq!((sent, received), ([own; 3], [0, 1, 2]));
        // SAFETY: there are no bytes.
        let nothing = unsafe { LentMemory::new(std::ptr::null_mut(), 0) };
        assert!(group.ibcast(1, nothing).unwrap().wait().unwrap().as_ref().is_empty());
    });
}

#[test]
fn what_does_not_fit_is_told_by_the_request() {
    in_members(1, |_, mut group| {
        let refused = group.iallgather(vec![1, 2], vec![0]).unwrap().wait();
        assert!(matches!(refused, Err(Error::Length { expected: 2, found: 1, .. })));
    });
}
