//! Operations over networks that go on while their members do something else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};

use proptest::prelude::*;
use svmio_collectives::executor::network::{Background, Choices, Pending};
use svmio_collectives::executor::{Elementwise, Error, GroupSettings, NetworkGroup, TwoLevelGroup};
use svmio_transport::message::{MessageSettings, Messenger, Port};
use svmio_transport::{Error as FabricError, Rank, SegmentId, ofi, shm};

use crate::calls::{Call, MOST, choices, done, done_on_two_levels, expected, plan};
use crate::seats::{Seat, fresh_id, on_all, on_nodes};
use crate::{backwards, settings};

fn joined(seat: &Seat, members: &[Rank], id: SegmentId, choices: Choices) -> NetworkGroup {
    NetworkGroup::join(&seat.fabrics, &seat.messenger, members, id, settings(choices)).unwrap()
}

fn joined_on_two_levels(seat: &Seat, members: &[Rank], id: SegmentId, choices: Choices) -> TwoLevelGroup {
    let within = GroupSettings { slot: 512, ..GroupSettings::default() };
    TwoLevelGroup::join(&seat.fabrics, &seat.messenger, members, id, within, settings(choices)).unwrap()
}

/// A seat for operations in the background, at the side of another one.
fn beside(seat: &Seat) -> Seat {
    let settings = MessageSettings { asynchronous: false, ..MessageSettings::default() };
    let port = Port::new(1).unwrap();
    let messenger = Arc::new(Messenger::open(seat.fabrics.job(), port, &settings).unwrap());
    Seat { fabrics: seat.fabrics.clone(), messenger }
}

fn sum() -> Elementwise<u64, fn(u64, u64) -> u64> {
    Elementwise::commutative(u64::wrapping_add)
}

fn all_summed(background: &mut Background<NetworkGroup>, data: Vec<u8>) -> Pending<Vec<u8>> {
    background.start(data, |group, data| group.allreduce(data, &sum())).unwrap()
}

/// Waits for all that was begun, the last one first, and compares.
fn compare(requests: Vec<Pending<Vec<u8>>>, own: usize, size: usize, calls: &[Call]) {
    for (number, request) in requests.into_iter().enumerate().rev() {
        let found = request.wait().unwrap();
        let call = &calls[number];
        assert!(found == expected(own, size, call, number), "call {number}, member {own}: {call:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn all_begun_at_once_give_what_one_process_computes((size, calls) in plan(MOST), choices in choices()) {
        thread_local! {
            static SEATS: Vec<Seat> = Seat::of_jobs(shm::within_process(MOST as u32));
        }
        let (members, id) = (backwards(size), fresh_id());
        SEATS.with(|seats| on_all(seats, &members, |seat| {
            let group = joined(seat, &members, id, choices);
            let own = group.member();
            let mut background = Background::of(group).unwrap();
            let begin = |(number, call): (usize, &Call)| {
                let call = call.clone();
                let work = move |group: &mut NetworkGroup, found: &mut Vec<u8>| {
                    done(group, &call, number).map(|bytes| *found = bytes)
                };
                background.start(Vec::new(), work).unwrap()
            };
            compare(calls.iter().enumerate().map(begin).collect(), own, size, &calls);
        }));
    }

    #[test]
    fn the_same_on_two_levels((size, calls) in plan(MOST), choices in choices()) {
        thread_local! {
            static SEATS: Vec<Seat> = on_nodes(&["a", "a", "b", "c", "a", "c"]);
        }
        let (members, id) = (backwards(size), fresh_id());
        SEATS.with(|seats| on_all(seats, &members, |seat| {
            let group = joined_on_two_levels(seat, &members, id, choices);
            let own = group.member();
            let mut background = Background::of(group).unwrap();
            let begin = |(number, call): (usize, &Call)| {
                let call = call.clone();
                let work = move |group: &mut TwoLevelGroup, found: &mut Vec<u8>| {
                    done_on_two_levels(group, &call, number).map(|bytes| *found = bytes)
                };
                background.start(Vec::new(), work).unwrap()
            };
            compare(calls.iter().enumerate().map(begin).collect(), own, size, &calls);
        }));
    }
}

/// Runs `body` in three members, reached by sockets.
fn in_members(body: impl Fn(&Seat, NetworkGroup) + Sync) {
    let seats = Seat::of_jobs(ofi::within_process(3, "").unwrap());
    let (members, id) = (backwards(3), fresh_id());
    on_all(&seats, &members, |seat| body(seat, joined(seat, &members, id, Choices::default())));
}

#[test]
fn operations_go_on_while_a_member_calls_nothing() {
    let (others_are_done, done) = mpsc::channel();
    let done = Mutex::new(done);
    in_members(|_, group| {
        let own = group.member();
        let mut background = Background::of(group).unwrap();
        // Long enough to need all members again and again.
        let request = all_summed(&mut background, vec![own as u8; 1 << 20]);
        if own == 0 {
            let done = done.lock().unwrap();
            (0..2).for_each(|_| done.recv().unwrap());
        }
        assert!(request.wait().unwrap().iter().all(|byte| *byte == 3));
        if own != 0 {
            others_are_done.send(()).unwrap();
        }
    });
}

#[test]
fn a_test_alone_sees_an_operation_complete() {
    in_members(|_, group| {
        let mut background = Background::of(group).unwrap();
        for number in 0..100_u64 {
            let request = all_summed(&mut background, number.to_ne_bytes().to_vec());
            while !request.test() {
                std::thread::yield_now();
            }
            assert_eq!(request.wait().unwrap(), (3 * number).to_ne_bytes());
        }
    });
}

#[test]
fn what_is_to_be_done_meanwhile_is_done_by_who_waits() {
    thread_local! {
        static LET_GO: std::cell::RefCell<Option<mpsc::Sender<()>>> = const { std::cell::RefCell::new(None) };
    }
    in_members(|_, group| {
        let mut background = Background::of(group).unwrap();
        background.do_meanwhile(|| {
            LET_GO.take().into_iter().for_each(|let_go| let_go.send(()).unwrap());
        });
        let (let_go, held) = mpsc::channel();
        LET_GO.set(Some(let_go));
        // Never over before somebody waits and does something meanwhile.
        let work = move |group: &mut NetworkGroup, (): &mut ()| {
            held.recv().unwrap();
            group.barrier()
        };
        background.start((), work).unwrap().wait().unwrap();
    });
}

#[test]
fn operations_in_the_background_wait_for_no_others_of_the_same_members() {
    let seats = Seat::of_jobs(ofi::within_process(3, "").unwrap());
    let (members, ids) = (backwards(3), [fresh_id(), fresh_id()]);
    on_all(&seats, &members, |seat| {
        let mut group = joined(seat, &members, ids[0], Choices::default());
        let own = group.member();
        let behind = joined(&beside(seat), &members, ids[1], Choices::default());
        let mut background = Background::of(behind).unwrap();
        for round in 0..50_u64 {
            let begin = |background: &mut _| all_summed(background, round.to_ne_bytes().repeat(100));
            // In another order at each.
            let early = (round % 3 == own as u64).then(|| begin(&mut background));
            let mut data = [1; 8];
            group.allreduce(&mut data, &sum()).unwrap();
            assert_eq!(data, [3; 8]);
            let request = early.unwrap_or_else(|| begin(&mut background));
            group.barrier().unwrap();
            assert_eq!(request.wait().unwrap(), (3 * round).to_ne_bytes().repeat(100));
        }
    });
}

/// Bytes that tell when they are freed.
struct Watched {
    bytes: Vec<u8>,
    is_freed: Arc<AtomicBool>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.is_freed.store(true, Ordering::SeqCst);
    }
}

#[test]
fn what_is_dropped_goes_on_and_frees_its_buffers_afterwards() {
    let (is_dropped, all_are_through) = (Barrier::new(3), Barrier::new(3));
    in_members(|_, group| {
        let own = group.member();
        let mut background = Background::of(group).unwrap();
        let is_freed = Arc::new(AtomicBool::new(false));
        let mut begin = |own: usize| {
            let watched = Watched { bytes: vec![own as u8; 100 << 10], is_freed: Arc::clone(&is_freed) };
            let work =
                |group: &mut NetworkGroup, watched: &mut Watched| group.allreduce(&mut watched.bytes, &sum());
            background.start(watched, work).unwrap()
        };
        if own == 0 {
            drop(begin(own));
            drop(background);
            assert!(!is_freed.load(Ordering::SeqCst), "the others have not begun");
            is_dropped.wait();
        } else {
            is_dropped.wait();
            assert!(begin(own).wait().unwrap().bytes.iter().all(|byte| *byte == 3));
        }
        while own == 0 && !is_freed.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        all_are_through.wait();
    });
}

#[test]
fn a_lost_member_ends_every_request() {
    let seats = Seat::of_jobs(shm::within_process(3));
    let (members, id) = (backwards(3), fresh_id());
    let all_began = Barrier::new(3);
    on_all(&seats, &members, |seat| {
        seat.messenger.watch(&members);
        let mut background = Background::of(joined(seat, &members, id, Choices::default())).unwrap();
        if seat.fabrics.job().rank() == Rank(2) {
            all_began.wait();
            seats.iter().for_each(|seat| seat.fabrics.job().membership().declare_lost(Rank(2), "a test"));
            return;
        }
        let requests = [0; 3].map(|_| all_summed(&mut background, vec![0; 10 << 10]));
        all_began.wait();
        for request in requests {
            let error = request.wait().unwrap_err();
            assert!(matches!(error, Error::Fabric(FabricError::PeerLost { .. })), "{error}");
        }
        let late = all_summed(&mut background, vec![0; 8]).wait().unwrap_err();
        assert!(late.to_string().contains("rank 2"), "{late}");
    });
}

/// What a member does that the others have to hear of, and how its own request ends.
type Failing = (fn(&mut NetworkGroup) -> Result<(), Error>, fn(&Error) -> bool);

#[test]
fn the_others_hear_of_a_member_that_cannot_go_on() {
    let failing: [Failing; 2] = [
        (|group| group.allreduce(&mut [0; 9], &sum()), |error| matches!(error, Error::Length { .. })),
        (|_| panic!("the test says so"), |error| matches!(error, Error::Panicked)),
    ];
    for (work, is_expected) in failing {
        in_members(|_, group| {
            let own = group.member();
            let mut background = Background::of(group).unwrap();
            assert_eq!(all_summed(&mut background, vec![1; 8]).wait().unwrap(), [3; 8]);
            if own == 1 {
                let error = background.start((), move |group, ()| work(group)).unwrap().wait().unwrap_err();
                assert!(is_expected(&error), "{error}");
            }
            // Whom nobody has to wait for may be through, and find out later.
            let later = (0..40).map(|_| all_summed(&mut background, vec![0; 8]).wait());
            assert!(later.filter(Result::is_err).count() > 0, "member {own} has not heard of it");
            assert!(all_summed(&mut background, vec![0; 8]).wait().is_err());
        });
    }
}
